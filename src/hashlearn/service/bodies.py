"""Bodies of requests, checked: JSON by its schema, .npy files that can hold only numbers, codes and vectors."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from fastapi import Request
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import ValidationError

from hashlearn.codes import check_codes, n_bytes
from hashlearn.collection.encoder import checked_vectors
from hashlearn.messages import one_line
from hashlearn.service.errors import ApiError, bad, validation_error
from hashlearn.service.schemas import RequestModel
from hashlearn.service.settings import Limits
from hashlearn.typing import Float32Array, PackedCodes

JSON_TYPE = "application/json"
NPY_TYPE = "application/x-npy"
_MAX_NPY_HEADER = 4096
_NPY_DTYPES = (np.dtype("f4"), np.dtype("f8"), np.dtype("u1"))

Model = TypeVar("Model", bound=RequestModel)


async def read_body(request: Request, *types: str) -> bytes:
    """Return the body of a request, which must be of one of these types."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in types:
        raise ApiError(415, "wrong_type", f"The body must be {' or '.join(types)}. Got {kind[:60]!r} instead.")
    return await request.body()


def parse_request(model: type[Model], body: bytes, limits: Limits) -> Model:
    """Return a JSON body as its schema describes it."""
    try:
        return model.model_validate(read_json_object(body, max(limits.queries, limits.rows), limits.element_chars))
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False)) from None


def read_json_object(body: bytes, max_items: int, max_chars: int) -> dict[str, Any]:
    """Return the JSON object in ``body``, which must be UTF-8 and without NaN.

    Parameters
    ----------
    body : bytes
    max_items : int
        How many elements an array directly in the object may have.
    max_chars : int
        How many bytes of JSON one element of such an array, or any other value in the object, may have.
    """
    try:
        value = msgspec.json.decode(body)
    except UnicodeDecodeError:
        raise bad("bad_json", "The JSON is not UTF-8.") from None
    except RecursionError:
        raise bad("bad_json", "The JSON is nested too deep.") from None
    except (msgspec.MsgspecError, ValueError) as error:
        why = one_line(error).removeprefix("JSON is malformed: ")
        raise bad("bad_json", f"The body is no JSON: {why}.") from None
    if not isinstance(value, dict):
        raise bad("bad_json", "The body must be a JSON object.")
    for name, member in value.items():
        if isinstance(member, list) and len(member) > max_items:
            raise ApiError(413, "too_many", f"{name[:60]!r} may have at most {max_items:,} elements.")
        if len(body) > max_chars:
            _check_sizes(name, member if isinstance(member, list) else [member], max_chars)
    return value


def _check_sizes(name: str, parts: list[Any], max_chars: int) -> None:
    for number, part in enumerate(parts):
        if len(msgspec.json.encode(part)) > max_chars:
            raise ApiError(
                413,
                "too_large",
                f"A vector, a payload or a filter may have at most {max_chars:,} bytes of JSON; number {number} of "
                f"{name[:60]!r} has more.",
            )


def parse_npy(body: bytes, max_rows: int) -> NDArray[Any]:
    """Return a 2-D array of floats or bytes from a .npy file. Nothing is unpickled, and the size must fit."""
    stream = io.BytesIO(body)
    try:
        version = npy.read_magic(stream)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran_order, dtype = read_header(stream, max_header_size=_MAX_NPY_HEADER)
    # A header is Python text that NumPy parses: hostile ones fail in many ways.
    except Exception as error:
        raise bad("bad_npy", "The body is no .npy file of version 1 or 2.") from error
    if dtype.hasobject or dtype.newbyteorder("=") not in _NPY_DTYPES:
        raise bad("bad_npy", f"The array must be float32, float64 or uint8. Got {str(dtype)[:60]} instead.")
    if len(shape) != 2 or min(shape) < 1:
        raise bad("bad_npy", f"The array must have the shape (rows, columns). Got {str(shape)[:60]} instead.")
    if shape[0] > max_rows:
        raise ApiError(413, "too_many", f"At most {max_rows:,} rows are taken at once. Got {shape[0]:,}.")
    start = stream.tell()
    if shape[0] * shape[1] * dtype.itemsize != len(body) - start:
        raise bad("bad_npy", f"The array says {shape[0]}×{shape[1]} and its bytes do not fit that.")
    values = np.frombuffer(body, dtype=dtype, offset=start)
    array = values.reshape(shape, order="F" if fortran_order else "C")
    return np.ascontiguousarray(array, dtype=dtype.newbyteorder("="))


def float_rows(rows: NDArray[Any], n_features: int) -> Float32Array:
    """Return finite float32 rows with ``n_features`` columns."""
    try:
        return checked_vectors(rows, n_features, "vectors")
    except ValueError as error:
        raise bad("bad_vector", one_line(error)) from None


def decode_codes(texts: Sequence[str], n_bits: int) -> PackedCodes:
    """Return packed codes from hex or base64.

    Their lengths tell them apart. For two and four bytes these are equal, and base64 then ends in "=".
    """
    size = n_bytes(n_bits)
    rows = []
    for number, text in enumerate(texts):
        try:
            is_hex = len(text) == 2 * size and not text.endswith("=")
            row = bytes.fromhex(text) if is_hex else base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            row = b""
        if len(row) != size:
            message = f"codes must be hex or base64 of {size} bytes ({n_bits} bits); number {number} is not."
            raise bad("bad_code", message)
        rows.append(row)
    return packed_codes(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), size), n_bits)


def packed_codes(codes: NDArray[np.uint8], n_bits: int) -> PackedCodes:
    """Return codes of the right width whose padding bits are zero."""
    try:
        return check_codes(codes, n_bits)
    except ValueError as error:
        raise bad("bad_code", one_line(error)) from None
