"""Labels in one form: a sparse 0/1 matrix of label sets, and groups of rows with equal sets."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

UNKNOWN = -1


def label_matrix(y: Any, unlabeled: Hashable = None) -> sparse.csr_matrix:
    """Label sets as a CSR matrix (n, c) of 0/1; an unlabelled row is all zero."""
    if sparse.issparse(y):
        matrix = sparse.csr_matrix(y, dtype=np.float64, copy=True)
        matrix.eliminate_zeros()
        if np.any(matrix.data != 1):
            raise ValueError("Label sets must hold only 0 and 1.")
        return matrix
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.ndim == 2:
        if not np.isin(array, (0, 1)).all():
            raise ValueError("Label sets must be a 0/1 matrix, one column a label. Got other values.")
        return sparse.csr_matrix(array.astype(np.float64))
    if array.ndim != 1:
        raise ValueError(f"y must be classes (n,) or label sets (n, c). Got {array.ndim} dimensions instead.")
    return one_hot(encode_classes(array, unlabeled)[0])


def encode_classes(y: NDArray[Any], unlabeled: Hashable = None) -> tuple[NDArray[np.intp], list[Any]]:
    """Class numbers (-1 = unlabelled) and the classes, for any hashable values."""
    if y.dtype.kind in "biuSU" and unlabeled is None:
        classes, codes = np.unique(y, return_inverse=True)
        return codes.astype(np.intp), classes.tolist()
    values: Sequence[Any] = y.tolist()
    known = [v for v in values if not _is_missing(v, unlabeled)]
    try:
        ordered = sorted(set(known))
    except TypeError:
        ordered = list(dict.fromkeys(known))
    number = {value: k for k, value in enumerate(ordered)}
    numbers = [UNKNOWN if _is_missing(v, unlabeled) else number[v] for v in values]
    return np.asarray(numbers, dtype=np.intp), ordered


def group_rows(labels: sparse.csr_matrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Group number of every row (-1 for empty rows) and one row of each group.

    Rows are keyed by a random 64-bit sum of their labels and every row is then compared with its group's
    first row, so a collision cannot go unnoticed; it only costs another draw.
    """
    filled = np.diff(labels.indptr) > 0
    rows = np.flatnonzero(filled)
    for seed in range(16):
        rng = np.random.default_rng(seed)
        weights = rng.integers(0, 2**64, size=labels.shape[1], dtype=np.uint64)
        running = np.concatenate([[np.uint64(0)], np.cumsum(weights[labels.indices], dtype=np.uint64)])
        sums = running[labels.indptr[1:]] - running[labels.indptr[:-1]]
        _, first, member = np.unique(sums[rows], return_index=True, return_inverse=True)
        # Numbering groups by first appearance keeps the result independent of the random keys.
        rank = np.empty(len(first), dtype=np.intp)
        rank[np.argsort(first)] = np.arange(len(first))
        representatives = rows[np.sort(first)]
        group = np.full(labels.shape[0], UNKNOWN, dtype=np.intp)
        group[rows] = rank[member.ravel()]
        if (labels[rows] != labels[representatives[group[rows]]]).nnz == 0:
            return group, representatives
    raise RuntimeError("Grouping label sets failed: hash collisions in 16 draws.")


def one_hot(codes: NDArray[np.intp]) -> sparse.csr_matrix:
    """Class numbers as label sets of one label; -1 as an empty one."""
    rows = np.flatnonzero(codes >= 0)
    width = int(codes.max(initial=-1)) + 1
    return sparse.csr_matrix((np.ones(len(rows)), (rows, codes[rows])), shape=(len(codes), max(width, 1)))


def _is_missing(value: Any, unlabeled: Hashable) -> bool:
    return value is None or value != value or (unlabeled is not None and value == unlabeled)
