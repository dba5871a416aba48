"""Rows, codes, texts and vectors as callers give them, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hashlearn.codes import BitOrder, check_codes, swap_bit_order
from hashlearn.collection.store import Vectors
from hashlearn.collection.where import listed, split_path
from hashlearn.typing import PackedCodes


def given_rows(X: Any, codes: ArrayLike | None, texts: Any) -> tuple[Any, bool]:
    """Return what was given as something with a shape that can be sliced by rows, and whether it is a single row.

    Texts are an array of objects, without dimensions if there is a single one.
    """
    if sum(given is not None for given in (X, codes, texts)) != 1:
        raise ValueError("Give X, codes= or texts=: one of the three.")
    if texts is not None:
        array = _checked_texts(texts)
        return array, not array.shape
    rows = _as_rows(codes if X is None else X)
    return rows, len(rows.shape) == 1


def _as_rows(chosen: Any) -> Any:
    shape = getattr(chosen, "shape", None)
    # A series of pandas or polars is a single row, but it cannot be indexed like an array.
    rows: Any = chosen if shape is not None and (len(shape) > 1 or sparse.issparse(chosen)) else np.asarray(chosen)
    if getattr(getattr(rows, "dtype", None), "kind", None) in ("U", "S") and rows.size:
        raise ValueError(
            f"Rows and queries are numbers. Got the text {rows.ravel()[0].item()!r} instead: give texts as texts=, to "
            "a collection that knows its text model."
        )
    return rows


def _checked_texts(texts: Any) -> NDArray[Any]:
    values = listed(texts)
    single = isinstance(values, str)
    if not single and (isinstance(values, (bytes, Mapping)) or not isinstance(values, Sequence)):
        raise ValueError(f"texts must be one text or a list of texts. Got {type(texts).__name__} instead.")
    for number, text in enumerate([values] if single else values):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"Each of texts must be a text that is not empty. Got {text!r} at place {number}.")
    return np.array(values, dtype=object)


def refuse_filter(ids: Any) -> None:
    """Raise ValueError for a filter in the place of ids."""
    if isinstance(ids, Mapping):
        raise ValueError(f"ids must be one id or a list of ids. Got {ids!r} instead: give a filter as where=.")


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
