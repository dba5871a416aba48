"""The pairwise problem on its anchors, in the small form that all solvers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.similarity import Similarity

GROUP_BLOCK = 4096
ROUNDING = 1e-12

Batches = Callable[[int], list[NDArray[np.intp]]]


@dataclass
class AnchorProblem:
    """Everything a solver may ask about rows and anchors.

    Attributes
    ----------
    table : S between row kinds and column kinds (rows of a kind are alike).
    row_kind, column_kind : the kinds of every row, column kind -1 for a row that is no anchor.
    scale : the paper's lambda = n_bits / r_max.
    """

    table: NDArray[np.float64]
    row_kind: NDArray[np.intp]
    column_kind: NDArray[np.intp]
    scale: float

    @classmethod
    def of_anchors(cls, similarity: Similarity, anchors: NDArray[np.intp], n_bits: int) -> AnchorProblem:
        """The problem among the anchors alone, which is all that has to be solved jointly."""
        return cls.of_rows(similarity, anchors, anchors, n_bits)

    @classmethod
    def of_rows(
        cls, similarity: Similarity, rows: NDArray[np.intp], anchors: NDArray[np.intp], n_bits: int
    ) -> AnchorProblem:
        """The problem over ``rows`` (the anchors among them), as the paper's interleaved order needs it."""
        groups, row_kind = np.unique(similarity.group[rows], return_inverse=True)
        columns, kind_of_anchor = np.unique(similarity.columns(anchors), return_inverse=True)
        place = np.full(int(max(rows.max(), anchors.max())) + 1, -1, dtype=np.intp)
        place[anchors] = kind_of_anchor.ravel()
        table = similarity.table(groups, columns)
        return cls(table, row_kind.ravel().astype(np.intp), place[rows], n_bits / similarity.largest)

    @property
    def is_anchor(self) -> NDArray[np.bool_]:
        return self.column_kind >= 0

    def column_sums(self, codes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Codes of the anchors summed by column kind."""
        kinds = self.column_kind
        if not self.is_anchor.all():
            codes, kinds = codes[self.is_anchor], kinds[self.is_anchor]
        return sums_by_kind(kinds, codes, self.table.shape[1])

    def objective(
        self,
        target: NDArray[np.float64],
        scale: float,
        codes: NDArray[np.float64],
        pull: NDArray[np.float64],
        gram: NDArray[np.float64],
    ) -> float:
        """Sum over rows and anchors of (scale f(S) - u)^2, from the sums alone; ``target`` is f(table)."""
        weights = np.bincount(self.column_kind[self.is_anchor], minlength=target.shape[1])
        squares = ((target**2) @ weights)[self.row_kind].sum()
        cross = float(np.sum(codes * pull[self.row_kind]))
        return float(scale**2 * squares - 2 * scale * cross + np.sum((codes.T @ codes) * gram))


@dataclass
class Trace:
    """What an outer loop did: codes, and one entry an iteration of objective and changed bits."""

    codes: NDArray[np.float64]
    objective: list[float] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    converged: bool = False


def sums_by_kind(kind: NDArray[np.intp], values: NDArray[np.float64], n_kinds: int) -> NDArray[np.float64]:
    """Rows of ``values`` added up by kind, one after the other (as ``np.add.at`` does, in a tenth of its time)."""
    # The matrix of a one at (kind, row), written down as it is kept: to have it sorted out would take as long again.
    order = np.argsort(kind, kind="stable")
    ends = np.cumsum(np.bincount(kind, minlength=n_kinds))
    members = sparse.csr_matrix((np.ones(len(kind)), order, np.append(0, ends)), (n_kinds, len(kind)))
    return np.asarray(members @ values)


def keeps_ground(step: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    """Whether step @ (before + after) >= 0, the change of an objective.

    Up to rounding: a change of exactly 0 must not hang on the order in which somebody adds.
    """
    size = np.abs(step) @ (np.abs(before) + np.abs(after))
    return bool(step @ (before + after) >= -ROUNDING * size)


def random_batches(rows: NDArray[np.intp], size: int, seed: int) -> Batches:
    """Fresh random batches for every iteration, the short last one included; the same for the same seed."""

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
    """f(S) H_A of every group (n_groups, n_bits), unscaled; made in blocks, so S is never whole."""
    columns, kind = np.unique(similarity.columns(anchors), return_inverse=True)
    sums = sums_by_kind(kind.ravel(), anchor_codes, len(columns))
    pull = np.empty((similarity.n_groups, anchor_codes.shape[1]))
    for start in range(0, similarity.n_groups, GROUP_BLOCK):
        groups = np.arange(start, min(start + GROUP_BLOCK, similarity.n_groups))
        pull[groups] = transform(similarity.table(groups, columns)) @ sums
    return pull
