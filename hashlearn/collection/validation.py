"""Rows, codes and vectors as callers give them, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from hashlearn.codes import BitOrder, check_codes, swap_bit_order
from hashlearn.collection.store import Vectors
from hashlearn.collection.where import split_path
from hashlearn.typing import PackedCodes


def one_of_rows_and_codes(X: Any, codes: ArrayLike | None) -> Any:
    """Return X or codes, whichever was given, as something with a shape that can be sliced by rows."""
    if (X is None) == (codes is None):
        raise ValueError("Give X or codes=, not both and not neither.")
    chosen = codes if X is None else X
    shape = getattr(chosen, "shape", None)
    # A series of pandas or polars is a single row, but it cannot be indexed like an array.
    rows: Any = chosen if shape is not None and (len(shape) > 1 or sparse.issparse(chosen)) else np.asarray(chosen)
    if getattr(getattr(rows, "dtype", None), "kind", None) in ("U", "S") and rows.size:
        raise ValueError(
            f"Rows and queries are numbers. Got the text {rows.ravel()[0].item()!r} instead: embed texts first, for "
            "example by hashlearn.data.embed.embed_texts."
        )
    return rows


def checked_indexed(fields: Any) -> tuple[str, ...]:
    """Return the names of payload fields, each once, as filters write them."""
    if isinstance(fields, str) or not isinstance(fields, Sequence):
        raise ValueError(f"indexed must be a list of fields of the payload. Got {fields!r} instead.")
    for name in fields:
        if not isinstance(name, str) or name.startswith("$"):
            raise ValueError(f"indexed must hold names of fields of the payload. Got {name!r} instead.")
        split_path(name)
    if len(set(map(split_path, fields))) < len(fields):
        raise ValueError(f"indexed may name a field only once. Got {list(fields)} instead.")
    return tuple(fields)


def row_count(array: Any) -> int:
    if not array.shape:
        raise ValueError("Rows must be a 2-D array (rows, features). Got a single number instead.")
    return int(array.shape[0])


def refuse_missing_numbers(rows: Any) -> None:
    """Raise ValueError for the first row of a dense array of floats that holds NaN or infinity."""
    array = None if sparse.issparse(rows) else np.asarray(rows)
    if array is None or array.dtype.kind != "f" or array.ndim != 2:
        return
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise ValueError(f"Rows and queries are finite numbers. Row {bad[0]} holds NaN or infinity.") from None


def checked_codes(codes: ArrayLike, n_bits: int, bit_order: BitOrder) -> PackedCodes:
    """Return packed codes with bit 0 in the most significant place; the padding bits must be zero."""
    array = np.ascontiguousarray(check_codes(codes, n_bits, bit_order))
    return swap_bit_order(array) if bit_order == "little" else array


def checked_vectors(values: Any, size: int, name: str) -> Vectors:
    """Return the values as finite float32 rows of ``size`` numbers."""
    if sparse.issparse(values):
        values = values.toarray()
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(values, dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != size:
        raise ValueError(f"{name} must have the shape (rows, {size}). Got {array.shape} instead.")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise ValueError(f"{name} must be finite float32 numbers: row {bad[0]} is not.")
    return array
