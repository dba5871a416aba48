"""Who is similar to whom: what a fit knows before it learns, and the anchors as the small problem of the solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from hashlearn.kernel import FeatureMap
from hashlearn.rows.groups import Groups
from hashlearn.rows.source import AnySource, CalibrationSample, Source
from hashlearn.similarity import Similarity
from hashlearn.typing import FloatArray, IntArray, Matrix

LEAST_ANCHORS, ANCHORS_PER_CLASS, ANCHORS_OF_SETS = 1000, 2, 3000
GROUP_BLOCK = 4096


@dataclass
class Supervision:
    """The rows of a fit and what is known about them.

    Attributes
    ----------
    rows : the rows to learn from, and ``groups`` the group of each of them, -1 if nothing is known about the row.
    features : the map from rows to features; its ``center_`` is not set yet.
    similarity : between groups of rows. The anchors are its rows ``places``.
    anchors : row numbers of the anchors, and ``anchor_rows`` the rows themselves.
    sample : rows for the calibration of the bits.
    names : the classes or tags in the columns of the similarity's labels; None if labels have no names.
    """

    rows: AnySource
    groups: Groups
    n_unlabeled: int
    features: FeatureMap
    similarity: Similarity
    places: IntArray
    anchors: IntArray
    anchor_rows: Matrix
    sample: CalibrationSample
    names: list[Any] | None = None

    @classmethod
    def from_array(
        cls,
        X: Matrix,
        features: FeatureMap,
        similarity: Similarity,
        anchors: IntArray,
        names: list[Any] | None = None,
    ) -> Supervision:
        """Return the supervision of rows in memory, each of which has a group in ``similarity``."""
        groups = similarity.group
        sample = CalibrationSample.from_array(X, groups >= 0)
        n_unlabeled = int(np.count_nonzero(groups < 0))
        return cls(Source(X), groups, n_unlabeled, features, similarity, anchors, anchors, X[anchors], sample, names)


def anchor_count(n_anchors: int | str, n_groups: int, sets: sparse.csr_matrix | None) -> int:
    """Return the number of anchors for ``n_groups`` groups of rows with the label sets ``sets`` (None for classes).

    "auto" is two per class, so that every class takes part in learning, and at least 1,000; 3,000 for label sets.
    """
    if not isinstance(n_anchors, str):
        return n_anchors
    if sets is not None and np.any(np.diff(sets.indptr) > 1):
        return ANCHORS_OF_SETS
    return max(LEAST_ANCHORS, ANCHORS_PER_CLASS * n_groups)


@dataclass(frozen=True)
class ClassTable:
    """The table S of plain classes as two numbers. Row kind k and column kind k are the same class.

    A product with the table needs only the sum of each class and the sum of all, so ten thousand classes need no table.
    """

    within: float
    between: float
    shape: tuple[int, int]

    def __matmul__(self, sums: FloatArray) -> FloatArray:
        """Multiply by sums over column kinds, (n_columns,) or (n_columns, k)."""
        result = np.empty((self.shape[0], *sums.shape[1:]))
        result[:] = self.between * sums.sum(axis=0)
        result[: self.shape[1]] += (self.within - self.between) * sums
        return result


Table = FloatArray | ClassTable


def mapped(table: Table, function: Callable[[FloatArray], FloatArray]) -> Table:
    """Apply a function to every entry of a table."""
    if not isinstance(table, ClassTable):
        return np.ascontiguousarray(function(table), dtype=np.float64)
    within, between = function(np.array([table.within, table.between]))
    return ClassTable(float(within), float(between), table.shape)


@dataclass
class AnchorProblem:
    """What a solver needs to know about the anchors, which it learns jointly. Other rows influence no row.

    Attributes
    ----------
    table : Table
        S between row kinds and column kinds. All anchors of one row kind have the same similarities to all anchors, and
        all anchors have the same similarities to anchors of one column kind.
    row_kind, column_kind : IntArray
        The kinds of every anchor.
    scale : float
        The paper's lambda = n_bits / r_max.
    graded : bool
        Whether the similarity has more values than similar and dissimilar, as that of label sets has.
    """

    table: Table
    row_kind: IntArray
    column_kind: IntArray
    scale: float
    graded: bool = False

    @classmethod
    def from_similarity(cls, similarity: Similarity, anchors: IntArray, n_bits: int) -> AnchorProblem:
        """Return the problem of ``anchors``, which are rows of ``similarity``."""
        groups, row_kind = np.unique(similarity.group[anchors], return_inverse=True)
        columns, column_kind = np.unique(similarity.columns(anchors), return_inverse=True)
        if similarity.classes is None:
            table: Table = similarity.table(groups, columns)
        else:
            table = ClassTable(*similarity.classes, (len(groups), len(columns)))
        scale = n_bits / similarity.largest
        kinds = row_kind.ravel().astype(np.intp), column_kind.ravel().astype(np.intp)
        return cls(table, *kinds, scale, similarity.graded)

    def dense_table(self) -> FloatArray:
        """Return the table as an array, for losses that need every entry."""
        if not isinstance(self.table, ClassTable):
            return self.table
        table = np.full(self.table.shape, self.table.between)
        np.fill_diagonal(table, self.table.within)
        return table

    def column_sums(self, values: FloatArray) -> FloatArray:
        """Sum values of the anchors, such as their codes, by column kind."""
        return sums_by_kind(self.column_kind, values, self.table.shape[1])

    def objective(self, target: Table, scale: float, codes: FloatArray, pull: FloatArray, gram: FloatArray) -> float:
        """Return the sum of (scale f(S) - u)^2 over pairs of anchors, computed from sums; ``target`` is f(table)."""
        weights = np.bincount(self.column_kind, minlength=target.shape[1]).astype(np.float64)
        squares = (mapped(target, np.square) @ weights)[self.row_kind].sum()
        cross = float(np.sum(codes * pull[self.row_kind]))
        return float(scale**2 * squares - 2 * scale * cross + np.sum((codes.T @ codes) * gram))


def group_pull(
    similarity: Similarity,
    anchors: IntArray,
    anchor_codes: FloatArray,
    target: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Compute f(S) H_A per group (n_groups, n_bits), unscaled, in blocks, so that S is never stored as a whole."""
    if similarity.classes is not None:
        sums = sums_by_kind(similarity.group[anchors], anchor_codes, similarity.n_groups)
        shape = similarity.n_groups, similarity.n_groups
        return mapped(ClassTable(*similarity.classes, shape), target) @ sums
    columns, kind = np.unique(similarity.columns(anchors), return_inverse=True)
    sums = sums_by_kind(kind.ravel(), anchor_codes, len(columns))
    pull = np.empty((similarity.n_groups, anchor_codes.shape[1]))
    for start in range(0, similarity.n_groups, GROUP_BLOCK):
        groups = np.arange(start, min(start + GROUP_BLOCK, similarity.n_groups))
        pull[groups] = target(similarity.table(groups, columns)) @ sums
    return pull


def sums_by_kind(kind: IntArray, values: FloatArray, n_kinds: int) -> FloatArray:
    """Sum the rows of ``values`` by kind, in row order (like ``np.add.at``, in a tenth of its time)."""
    # This builds the indicator matrix (kind, row) in CSR form directly. Converting it from coordinates takes as long
    # as the product itself.
    order = np.argsort(kind, kind="stable")
    ends = np.cumsum(np.bincount(kind, minlength=n_kinds))
    members = sparse.csr_matrix((np.ones(len(kind)), order, np.append(0, ends)), (n_kinds, len(kind)))
    return np.asarray(members @ values)
