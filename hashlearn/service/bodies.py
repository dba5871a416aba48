"""Bodies that come in: JSON read strictly, and .npy arrays that can be nothing but numbers."""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
from fastapi import Request, Response
from fastapi.routing import APIRoute
from numpy.lib import format as npy
from numpy.typing import NDArray

from hashlearn.codes import n_bytes
from hashlearn.service.errors import ApiError, bad

NPY_TYPE = "application/x-npy"
_HEADER = 4096


class StrictRequest(Request):
    """JSON as the standard has it: UTF-8, no NaN, no name twice in an object."""

    async def json(self) -> Any:
        return parse_json(await self.body())


class StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        wants_json = self.body_field is not None

        async def strict(request: Request) -> Response:
            if wants_json:
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != "application/json":
                    message = f"The body must be application/json. Got {kind[:60]!r} instead."
                    raise ApiError(415, "wrong_type", message)
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def parse_json(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant)
    except RecursionError:
        raise bad("bad_json", "The JSON is nested too deep.") from None
    except UnicodeDecodeError:
        raise bad("bad_json", "The JSON is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise bad("bad_json", f"The body is no JSON: {error.msg} at character {error.pos}.") from None
    except ValueError as error:  # a number of thousands of digits
        raise bad("bad_json", f"The JSON cannot be read: {str(error).partition(':')[0]}.") from None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise bad("bad_json", f"The JSON has {twice[:60]!r} twice in one object.")
    return result


def _constant(name: str) -> Any:
    raise bad("bad_json", f"JSON has no {name}.")


def parse_npy(body: bytes, most_rows: int) -> NDArray[Any]:
    """A 2-D array of floats or bytes from a .npy file. Nothing is unpickled, and the size must be what it says."""
    stream = io.BytesIO(body)
    try:
        version = npy.read_magic(stream)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(stream, max_header_size=_HEADER)
    # A header is Python text that NumPy parses: hostile ones fail in many ways.
    except Exception as error:
        raise bad("bad_npy", "The body is no .npy file of version 1 or 2.") from error
    if dtype.hasobject or dtype.newbyteorder("=") not in (np.dtype("f4"), np.dtype("f8"), np.dtype("u1")):
        raise bad("bad_npy", f"The array must be float32, float64 or uint8. Got {str(dtype)[:60]} instead.")
    if len(shape) != 2 or min(shape) < 1:
        raise bad("bad_npy", f"The array must have the shape (rows, columns). Got {str(shape)[:60]} instead.")
    if shape[0] > most_rows:
        raise ApiError(413, "too_many", f"At most {most_rows:,} rows are taken at once. Got {shape[0]:,}.")
    start = stream.tell()
    if shape[0] * shape[1] * dtype.itemsize != len(body) - start:
        raise bad("bad_npy", f"The array says {shape[0]}×{shape[1]} and its bytes do not fit that.")
    values = np.frombuffer(body, dtype=dtype, offset=start)
    array = values.reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(array, dtype=dtype.newbyteorder("="))


def float_rows(rows: Any, n_features: int | None, name: str = "vectors") -> NDArray[np.float32]:
    """Finite float32 rows of the width that is needed (None for any)."""
    if not isinstance(rows, np.ndarray):
        widths = {len(row) for row in rows}
        if len(widths) > 1:
            raise bad("bad_vector", f"{name} must have one length. Got {', '.join(map(str, sorted(widths)[:5]))}.")
    with np.errstate(over="ignore"):
        try:
            array = np.asarray(rows, dtype=np.float32)
        except OverflowError:
            raise bad("bad_vector", f"{name} must be finite float32 numbers.") from None
    if n_features is not None and array.shape[1] != n_features:
        raise bad("bad_vector", f"{name} must have {n_features} numbers each. Got {array.shape[1]} instead.")
    wrong = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(wrong):
        raise bad("bad_vector", f"{name} must be finite float32 numbers: row {wrong[0]} is not.")
    return array


def packed_codes(texts: Sequence[str], n_bits: int) -> NDArray[np.uint8]:
    """Codes from hex or base64. They never have one length, save for 2 bytes, where base64 ends in "="."""
    size = n_bytes(n_bits)
    rows = []
    for number, text in enumerate(texts):
        try:
            if len(text) == 2 * size and not text.endswith("="):
                row = bytes.fromhex(text)
            else:
                row = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            row = b""
        if len(row) != size:
            message = f"codes must be hex or base64 of {size} bytes ({n_bits} bits); number {number} is not."
            raise bad("bad_code", message)
        rows.append(row)
    return checked_codes(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), size), n_bits)


def checked_codes(codes: NDArray[np.uint8], n_bits: int) -> NDArray[np.uint8]:
    """Codes of the right width whose bits after the last are zero."""
    if codes.shape[1] != n_bytes(n_bits):
        raise bad(
            "bad_code", f"codes of {n_bits} bits have {n_bytes(n_bits)} bytes each. Got {codes.shape[1]} instead."
        )
    spare = -n_bits % 8
    if spare and (codes[:, -1] & np.uint8((1 << spare) - 1)).any():
        raise bad("bad_code", f"codes of {n_bits} bits must end in {spare} zero bits.")
    return codes
