"""Checks of the arguments of an index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hashlearn.typing import Ids

_LARGEST_ID = np.iinfo(np.int64).max


def checked_ids(ids: ArrayLike) -> Ids:
    """Return ids as int64. They must not be negative, because -1 marks an empty place in results."""
    array = np.asarray(ids)
    if array.size == 0 and array.ndim <= 1:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"ids must be a 1-D array of whole numbers. Got {array.ndim}-D {array.dtype} instead.")
    if array.min() < 0 or array.max() > _LARGEST_ID:
        bad = array.min() if array.min() < 0 else array.max()
        raise ValueError(f"ids must be between 0 and 2**63 - 1. Got {bad} instead.")
    return array.astype(np.int64)


def sorted_ids(ids: ArrayLike) -> Ids:
    """Ids in increasing order, each once. Those of a filter come so; sorting a hundred thousand took 30 ms."""
    numbers = checked_ids(ids)
    return numbers if (numbers[1:] > numbers[:-1]).all() else np.unique(numbers)


def new_ids(ids: ArrayLike | None, n_rows: int, next_id: int) -> Ids:
    """Return the ids of ``n_rows`` new rows: those given, or the next free ones."""
    if ids is None:
        if next_id + n_rows - 1 > _LARGEST_ID:
            raise ValueError(f"There are no {n_rows} ids after {next_id - 1}: give ids.")
        return next_id + np.arange(n_rows, dtype=np.int64)
    numbers = checked_ids(ids)
    if len(numbers) != n_rows:
        raise ValueError(f"There must be one id per code. Got {len(numbers)} ids and {n_rows} codes.")
    return numbers


def check_distinct(ids: Ids) -> None:
    """Raise ValueError if sorted ids repeat one, because it is not known which of its codes to keep."""
    repeated = np.flatnonzero(ids[1:] == ids[:-1])
    if len(repeated):
        raise ValueError(f"Each id may stand only once in a batch. Got {ids[repeated[0]]} twice.")


def checked_count(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number from {least}. Got {value!r} instead.")
    return int(value)


def checked_limit(radius: Any, least_score: Any, by_tables: bool, n_bits: int) -> float:
    """Return the limit of ``within``: a radius for packed codes, a least score for queries by tables."""
    if not by_tables:
        if least_score is not None:
            raise ValueError("least_score is for real-valued queries and ScoreTables: packed codes need radius=.")
        return min(checked_count(radius, "radius", 0), n_bits)
    if radius is not None:
        raise ValueError("radius is for packed codes: real-valued queries and ScoreTables need least_score=.")
    if not isinstance(least_score, (int, float, np.number)) or not np.isfinite(np.float32(least_score)):
        raise ValueError(f"least_score must be a finite number. Got {least_score!r} instead.")
    return float(least_score)
