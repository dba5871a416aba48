"""Similarity S between rows, without a matrix of all pairs of rows.

Rows with the same label set form a *group*. S between groups is a small table, computed in blocks when it is needed.
For pairs and given matrices every row is its own group. The group -1 marks rows about which nothing is known; they take
no part in learning.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from hashlearn.labels import NO_LABELS, UNKNOWN, LabelMatrix, group_rows, label_matrix
from hashlearn.typing import Float32Array, FloatArray, IntArray

RelevanceName = Literal["count", "jaccard", "binary"]
RelevanceFunction = Callable[[Any, Any], ArrayLike]
RelevanceRule = RelevanceName | RelevanceFunction
RELEVANCES: tuple[str, ...] = get_args(RelevanceName)


def check_relevance(relevance: Any) -> None:
    """Raise ValueError unless ``relevance`` is a known name or a function."""
    if not callable(relevance) and relevance not in RELEVANCES:
        raise ValueError(f"relevance must be one of {RELEVANCES} or a function. Got {relevance!r} instead.")


def named_relevance(left: Any, right: Any, name: RelevanceName) -> FloatArray:
    """Return the relevance (a, b) between label sets (a, c) and (b, c), both CSR of 0/1.

    "count" is the number of shared labels (the paper), "binary" is 1 if there is any, and "jaccard" is the number of
    shared labels divided by the number of labels that either row has.
    """
    shared = (left @ right.T).toarray()
    if name == "binary":
        return (shared > 0).astype(np.float64)
    if name == "jaccard":
        united = set_sizes(left)[:, None] + set_sizes(right)[None, :] - shared
        return np.divide(shared, united, out=np.zeros_like(shared), where=united > 0)
    return shared


def called_relevance(function: RelevanceFunction, left: Any, right: Any) -> FloatArray:
    """Return the relevances of a user's function as a dense array; raise ValueError unless they are finite (a, b)."""
    result: Any = function(left, right)
    table = np.array(result.toarray() if sparse.issparse(result) else result, dtype=np.float64)
    expected = (left.shape[0], right.shape[0])
    if table.shape != expected:
        raise ValueError(f"The relevance function must return an array of shape {expected}. Got {table.shape}.")
    if not np.isfinite(table).all():
        raise ValueError("The relevance function must return finite numbers.")
    return table


def set_sizes(sets: Any) -> FloatArray:
    """Return the number of labels of each row."""
    return np.asarray(sets.sum(axis=1), dtype=np.float64).ravel()


class Similarity(Protocol):
    """What a solver needs: the group of every row, and S between groups and anchors."""

    group: IntArray
    largest: float
    graded: bool
    """Whether similarity has degrees (label sets), rather than pairs being only similar or dissimilar."""
    classes: tuple[float, float] | None
    """S within a class and S between classes if every group is one class, otherwise None."""

    n_groups: int

    def columns(self, anchors: IntArray) -> IntArray:
        """Return a column number for each anchor row; anchors with equal similarities may share a column."""
        ...

    def table(self, groups: IntArray, columns: IntArray) -> FloatArray:
        """Return S between groups and columns."""
        ...


class LabelSimilarity:
    """S from label sets: the relevance of a pair, or ``dissimilar`` where it is zero.

    Parameters
    ----------
    group : int array (n_rows,)
        Group of every row, -1 for unlabeled rows.
    labels : CSR matrix (n_groups, n_labels) of 0/1
        Label set of every group.
    relevance : {"count", "jaccard", "binary"} or callable, default="count"
        "count" is the number of shared labels (the paper). A callable takes two dense 0/1 arrays (a, c) and (b, c) and
        returns relevances (a, b), zero for unrelated pairs.
    dissimilar : float, "floor" or None, default=None
        S of an unrelated pair as a share of the largest relevance (the paper's alpha / r_max). None is -1 for classes
        and -1/2 for label sets; "floor" is -floor(r_max / 2) as in the released code.
    """

    def __init__(
        self,
        group: IntArray,
        labels: LabelMatrix,
        relevance: RelevanceRule = "count",
        dissimilar: float | str | None = None,
    ) -> None:
        self.group = group
        self.labels, self.n_groups = labels.astype(np.float64), int(labels.shape[0])
        self.sizes = set_sizes(self.labels)
        check_relevance(relevance)
        self.relevance = relevance
        self.largest = self._largest_relevance()
        if not self.largest > 0:
            raise ValueError(f"The largest relevance must be positive. Got {self.largest} instead.")
        self.graded = bool(np.any(self.sizes > 1))
        share = (-0.5 if self.graded else -1.0) if dissimilar is None else dissimilar
        self.alpha = -float(np.floor(self.largest / 2)) if share == "floor" else float(share) * self.largest
        # All named relevances of a class with itself are 1.
        self.classes = None if self.graded or callable(relevance) else (1.0, self.alpha)

    def columns(self, anchors: IntArray) -> IntArray:
        return self.group[anchors]

    def table(self, groups: IntArray, columns: IntArray) -> FloatArray:
        related = self._related(groups, columns)
        return np.where(related == 0, self.alpha, related)

    def _related(self, groups: IntArray, columns: IntArray) -> FloatArray:
        left, right = self.labels[groups], self.labels[columns]
        if callable(self.relevance):
            return called_relevance(self.relevance, left.toarray(), right.toarray())
        return named_relevance(left, right, self.relevance)

    def _largest_relevance(self) -> float:
        if self.relevance == "count":
            return float(self.sizes.max(initial=0.0))
        if not callable(self.relevance):
            return 1.0
        # A relevance is largest for a group with itself, and the blocks along the diagonal contain those pairs.
        blocks = np.array_split(np.arange(self.n_groups), max(1, self.n_groups // 256))
        return max(float(self._related(block, block).max(initial=0.0)) for block in blocks)


class MatrixSimilarity:
    """S as given by the user: one row per training row, one column per anchor, 0 where S is unknown."""

    graded = False
    classes: tuple[float, float] | None = None

    def __init__(self, matrix: Any, anchors: IntArray) -> None:
        self.matrix = sparse.csr_matrix(matrix, dtype=np.float64) if sparse.issparse(matrix) else matrix
        self.anchors, self.n_groups = anchors, int(self.matrix.shape[0])
        known = np.asarray((self.matrix != 0).sum(axis=1)).ravel() > 0
        self.group = np.where(known, np.arange(len(known)), UNKNOWN).astype(np.intp)
        self._position = np.full(len(known), -1, dtype=np.intp)
        self._position[anchors] = np.arange(len(anchors))
        self.largest = float(abs(self.matrix).max()) if self.matrix.shape[0] else 0.0
        if not self.largest > 0:
            raise ValueError("The similarity says nothing: every entry is 0 (unknown).")

    def columns(self, anchors: IntArray) -> IntArray:
        return self._position[anchors]

    def table(self, groups: IntArray, columns: IntArray) -> FloatArray:
        block = self.matrix[groups][:, columns]
        return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)


def from_labels(
    y: Any,
    *,
    relevance: RelevanceRule = "count",
    dissimilar: float | str | None = None,
    unlabeled: Hashable = None,
) -> LabelSimilarity:
    """Return the similarity from classes (n,) or label sets (n, c), in any form that ``hashlearn.labels`` reads.

    Unlabeled rows (None, NaN or ``unlabeled``) and rows with an empty label set get no group.
    """
    labels = label_matrix(y, unlabeled)
    group, representatives = group_rows(labels)
    if len(representatives) == 0:
        raise ValueError(NO_LABELS)
    return LabelSimilarity(group, labels[representatives], relevance, dissimilar)


def from_pairs(n_rows: int, similar: ArrayLike, dissimilar: ArrayLike) -> sparse.csr_matrix:
    """Return the symmetric sparse S of listed pairs: +1 or -1, and +1 on the diagonal for the rows in them."""
    pairs = [_index_pairs(similar, n_rows, "similar"), _index_pairs(dissimilar, n_rows, "dissimilar")]
    if not sum(map(len, pairs)):
        raise ValueError("At least one similar or dissimilar pair is needed.")
    seen = [np.unique(np.sort(pair, axis=1), axis=0) for pair in pairs]
    both = _in_both(*seen)
    if both is not None:
        raise ValueError(f"The pair {both} is listed both as similar and as dissimilar.")
    loops = seen[1][seen[1][:, 0] == seen[1][:, 1]]
    if len(loops):
        raise ValueError(f"Row {loops[0, 0]} is listed as dissimilar to itself.")
    named = np.unique(np.concatenate(seen))
    off_diagonal = [pair[pair[:, 0] != pair[:, 1]] for pair in seen]
    rows = np.concatenate([*(pair[:, 0] for pair in off_diagonal), *(pair[:, 1] for pair in off_diagonal), named])
    columns = np.concatenate([*(pair[:, 1] for pair in off_diagonal), *(pair[:, 0] for pair in off_diagonal), named])
    signs = np.concatenate([np.ones(len(off_diagonal[0])), -np.ones(len(off_diagonal[1]))])
    values = np.concatenate([signs, signs, np.ones(len(named))])
    return sparse.csr_matrix((values, (rows, columns)), shape=(n_rows, n_rows))


def check_similarity(S: Any, anchors: ArrayLike, n_rows: int) -> tuple[Any, IntArray]:
    """Check S (n_rows, p) between rows and anchors, and the row numbers of the anchors; return both.

    S is returned dense or as CSR. ValueError is raised if S and anchors do not match.
    """
    S = check_array(S, accept_sparse="csr", dtype=np.float64, input_name="S")
    places = np.asarray(anchors)
    if places.ndim != 1 or places.dtype.kind not in "iu" or len(np.unique(places)) != len(places):
        raise ValueError("anchors must be a 1-D array of distinct row numbers.")
    if S.shape != (n_rows, len(places)):
        raise ValueError(
            f"S must have one row per row of X and one column per anchor, {(n_rows, len(places))}. "
            f"Got {S.shape} instead."
        )
    if places.min(initial=0) < 0 or places.max(initial=0) >= n_rows:
        raise ValueError(f"anchors names rows outside 0..{n_rows - 1}.")
    between = S[places]
    if abs(between - between.T).max() > 1e-9 * max(abs(between).max(), 1e-300):
        raise ValueError("S between anchors must be symmetric: S[anchors[i], j] == S[anchors[j], i].")
    return S, places.astype(np.intp)


def neighbor_similarity(
    features: Float32Array, anchors: IntArray, n_neighbors: int, far_quantile: float
) -> NDArray[np.int8]:
    """Return S (n, p) from distances: +1 for the nearest anchors, -1 beyond a quantile of distances, 0 between.

    S between anchors is symmetric: two anchors are similar if either is among the nearest of the other.
    """
    if not 1 <= n_neighbors <= len(anchors):
        raise ValueError(f"n_neighbors must be between 1 and the {len(anchors)} anchors. Got {n_neighbors} instead.")
    if not 0 < far_quantile <= 1:
        raise ValueError(f"far_quantile must be in (0, 1]. Got {far_quantile} instead.")
    points = features[anchors]
    between_anchors = _squared_distances(points, points)[~np.eye(len(points), dtype=bool)]
    far = np.quantile(between_anchors, far_quantile) if len(between_anchors) else np.inf
    result = np.empty((len(features), len(anchors)), dtype=np.int8)
    for start in range(0, len(features), 2048):
        distance = _squared_distances(features[start : start + 2048], points)
        block = np.where(distance > far, np.int8(-1), np.int8(0))
        nearest = np.argpartition(distance, n_neighbors - 1, axis=1)[:, :n_neighbors]
        np.put_along_axis(block, nearest, np.int8(1), axis=1)
        result[start : start + 2048] = block
    between = result[anchors]
    near = (between == 1) | (between.T == 1)
    result[anchors] = np.where(near, 1, np.minimum(between, between.T))
    return result


def _squared_distances(a: Float32Array, b: Float32Array) -> Float32Array:
    return np.maximum((a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2 * (a @ b.T), 0)


def _index_pairs(pairs: ArrayLike, n_rows: int, name: str) -> IntArray:
    array = np.asarray(pairs)
    if array.size == 0:
        return np.empty((0, 2), dtype=np.intp)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be an integer array of shape (k, 2). Got {array.dtype} {array.shape} instead.")
    if array.min() < 0 or array.max() >= n_rows:
        raise ValueError(f"{name} names rows outside 0..{n_rows - 1}.")
    return array.astype(np.intp)


def _in_both(first: IntArray, second: IntArray) -> tuple[int, int] | None:
    shared = set(map(tuple, first.tolist())) & set(map(tuple, second.tolist()))
    return min(shared) if shared else None
