"""The pairwise problem between rows and anchors, in the compact form that all solvers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.similarity import Similarity
from hashlearn.typing import FloatArray

GROUP_BLOCK = 4096
ROUNDING = 1e-12

Batches = Callable[[int], list[NDArray[np.intp]]]


@dataclass(frozen=True)
class ClassTable:
    """The table of plain classes, as two numbers. Row kind k and column kind k are the same class.

    A product with the table needs only the sum of each class and the sum of all: so many classes need no table at all.
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
    """What a solver needs to know about rows and anchors.

    Attributes
    ----------
    table : Table
        S between row kinds and column kinds. All rows of one kind have the same similarities.
    row_kind, column_kind : IntArray
        The kinds of every row; the column kind is -1 for a row that is not an anchor.
    scale : float
        The paper's lambda = n_bits / r_max.
    """

    table: Table
    row_kind: NDArray[np.intp]
    column_kind: NDArray[np.intp]
    scale: float

    @classmethod
    def of_anchors(cls, similarity: Similarity, anchors: NDArray[np.intp], n_bits: int) -> AnchorProblem:
        """The problem among the anchors only. Other rows influence no row, so only anchors are solved jointly."""
        return cls.of_rows(similarity, anchors, anchors, n_bits)

    @classmethod
    def of_rows(
        cls, similarity: Similarity, rows: NDArray[np.intp], anchors: NDArray[np.intp], n_bits: int
    ) -> AnchorProblem:
        """The problem over ``rows``, which include the anchors. The paper's interleaved order needs it."""
        groups, row_kind = np.unique(similarity.group[rows], return_inverse=True)
        columns, kind_of_anchor = np.unique(similarity.columns(anchors), return_inverse=True)
        place = np.full(int(max(rows.max(), anchors.max())) + 1, -1, dtype=np.intp)
        place[anchors] = kind_of_anchor.ravel()
        table: Table
        if similarity.classes is None:
            table = similarity.table(groups, columns)
        else:
            # Classes with anchors come first, so that kinds of rows and of columns have the same numbers.
            order = np.argsort(~np.isin(groups, columns), kind="stable")
            row_kind = np.argsort(order)[row_kind]
            table = ClassTable(*similarity.classes, (len(groups), len(columns)))
        return cls(table, row_kind.ravel().astype(np.intp), place[rows], n_bits / similarity.largest)

    @property
    def is_anchor(self) -> NDArray[np.bool_]:
        return self.column_kind >= 0

    def dense_table(self) -> FloatArray:
        """Return the table as an array, for losses that need every entry."""
        if not isinstance(self.table, ClassTable):
            return self.table
        table = np.full(self.table.shape, self.table.between)
        np.fill_diagonal(table, self.table.within)
        return table

    def column_sums(self, codes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the codes of the anchors by column kind."""
        kinds = self.column_kind
        if not self.is_anchor.all():
            codes, kinds = codes[self.is_anchor], kinds[self.is_anchor]
        return sums_by_kind(kinds, codes, self.table.shape[1])

    def objective(
        self,
        target: Table,
        scale: float,
        codes: NDArray[np.float64],
        pull: NDArray[np.float64],
        gram: NDArray[np.float64],
    ) -> float:
        """Return the sum of (scale f(S) - u)^2 over rows and anchors, computed from sums; ``target`` is f(table)."""
        weights = np.bincount(self.column_kind[self.is_anchor], minlength=target.shape[1]).astype(np.float64)
        squares = (mapped(target, np.square) @ weights)[self.row_kind].sum()
        cross = float(np.sum(codes * pull[self.row_kind]))
        return float(scale**2 * squares - 2 * scale * cross + np.sum((codes.T @ codes) * gram))


@dataclass
class Trace:
    """The result of an outer loop: the codes, and the objective and the number of changed bits per iteration."""

    codes: NDArray[np.float64]
    objective: list[float] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    converged: bool = False


def sums_by_kind(kind: NDArray[np.intp], values: NDArray[np.float64], n_kinds: int) -> NDArray[np.float64]:
    """Sum the rows of ``values`` by kind, in row order (like ``np.add.at``, in a tenth of its time)."""
    # This builds the indicator matrix (kind, row) in CSR form directly. Converting it from coordinates takes as long
    # as the product itself.
    order = np.argsort(kind, kind="stable")
    ends = np.cumsum(np.bincount(kind, minlength=n_kinds))
    members = sparse.csr_matrix((np.ones(len(kind)), order, np.append(0, ends)), (n_kinds, len(kind)))
    return np.asarray(members @ values)


def keeps_ground(step: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    """Tell whether step @ (before + after), the change of an objective, is at least 0 up to rounding.

    The tolerance makes sure that a change of exactly 0 does not depend on the order of additions.
    """
    size = np.abs(step) @ (np.abs(before) + np.abs(after))
    return bool(step @ (before + after) >= -ROUNDING * size)


def random_batches(rows: NDArray[np.intp], size: int, seed: int) -> Batches:
    """Return a function that draws new random batches per iteration. They include the short last batch."""

    def batches(iteration: int) -> list[NDArray[np.intp]]:
        order = np.random.default_rng([seed, iteration]).permutation(rows)
        return [order[start : start + size] for start in range(0, len(order), size)]

    return batches


def group_pull(
    similarity: Similarity,
    anchors: NDArray[np.intp],
    anchor_codes: NDArray[np.float64],
    transform: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Compute f(S) H_A per group (n_groups, n_bits), unscaled, in blocks, so that S is never stored as a whole."""
    if similarity.classes is not None:
        sums = sums_by_kind(similarity.group[anchors], anchor_codes, similarity.n_groups)
        shape = similarity.n_groups, similarity.n_groups
        return mapped(ClassTable(*similarity.classes, shape), transform) @ sums
    columns, kind = np.unique(similarity.columns(anchors), return_inverse=True)
    sums = sums_by_kind(kind.ravel(), anchor_codes, len(columns))
    pull = np.empty((similarity.n_groups, anchor_codes.shape[1]))
    for start in range(0, similarity.n_groups, GROUP_BLOCK):
        groups = np.arange(start, min(start + GROUP_BLOCK, similarity.n_groups))
        pull[groups] = transform(similarity.table(groups, columns)) @ sums
    return pull
