"""SDH_P: all bits of a batch at once.

With H_A fixed, H (gamma I - M) majorizes the quadratic term for gamma >= lambda_max(M), so each inner step
H <- sgn(scale f(S) H_A + H (gamma I - M)) never lowers tr(H' scale f(S) H_A) + tr(H (gamma I - M) H') / 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hashlearn.pairwise.losses import Loss, QuadraticLoss
from hashlearn.pairwise.solver import AnchorState, PairwiseSolver, QuadraticRows, RowCoder, quadratic_sums
from hashlearn.pairwise.supervision import AnchorProblem, sums_by_kind
from hashlearn.parallel import one_blas_thread
from hashlearn.similarity import Similarity
from hashlearn.typing import Float32Array, FloatArray, IntArray


class Symmetric(PairwiseSolver):
    """Solver of SDH_P: all bits of a batch at once, ``SDHP(solver=Symmetric(beta=5.0))``.

    Examples
    --------
    >>> from hashlearn import SDHP, Symmetric
    >>> SDHP(16, solver=Symmetric(max_iter=5)).get_params()["solver__max_iter"]
    5
    """

    def begin(self, problem: AnchorProblem, start: FloatArray, loss: Loss) -> AnchorState:
        return SymmetricAnchors(self, problem, start)

    def row_coder(self, similarity: Similarity, anchors: IntArray, anchor_codes: FloatArray, loss: Loss) -> RowCoder:
        assert isinstance(loss, QuadraticLoss)
        sums = quadratic_sums(similarity, anchors, anchor_codes, loss)
        # H (gamma I - M) contains bit j gamma - M_jj times, and M_jj is the number of anchors.
        weight = gamma(sums[1], self.beta)
        return SymmetricRows(*sums, weight - len(anchors), weight, self.max_iter, self.inner_iter)


class SymmetricAnchors(AnchorState):
    """The anchors while they are learned, with the pull of every row kind and H_A' H_A."""

    def __init__(self, solver: Symmetric, problem: AnchorProblem, start: FloatArray) -> None:
        self.solver, self.problem = solver, problem
        self.codes = np.array(start, dtype=np.float64)
        self.pull = problem.table @ problem.column_sums(self.codes)
        self.gram = self.codes.T @ self.codes

    def update(self, batch: IntArray) -> None:
        problem, old = self.problem, self.codes[batch]
        pull = problem.scale * self.pull[problem.row_kind[batch]]
        new = moved_codes(pull, old, self.gram, gamma(self.gram, self.solver.beta), self.solver.inner_iter)
        self.codes[batch] = new
        changed = (new != old).any(axis=1)
        if changed.any():
            self.gram += new[changed].T @ new[changed] - old[changed].T @ old[changed]
            steps = new[changed] - old[changed]
            columns = problem.column_kind[batch[changed]]
            self.pull += problem.table @ sums_by_kind(columns, steps, problem.table.shape[1])

    def objective(self) -> float:
        return self.problem.objective(self.problem.table, self.problem.scale, self.codes, self.pull, self.gram)


@dataclass
class SymmetricRows(QuadraticRows):
    """Codes rows that are not anchors by the same steps, until they change nothing."""

    weight: float
    max_iter: int
    inner_iter: int

    def code(self, group: IntArray, start: Float32Array) -> Float32Array:
        codes = np.array(start, dtype=np.float32)
        active = np.arange(len(codes))
        for _ in range(self.max_iter):
            old = codes[active].astype(np.float64)
            new = moved_codes(self.scale * self.pull[group[active]], old, self.gram, self.weight, self.inner_iter)
            codes[active] = new
            active = active[(new != old).any(axis=1)]
            if not len(active):
                break
        return codes


def gamma(gram: FloatArray, beta: float) -> float:
    """Return lambda_max(M) + beta."""
    with one_blas_thread():
        return float(np.linalg.eigvalsh(gram)[-1]) + beta


def moved_codes(pull: FloatArray, codes: FloatArray, gram: FloatArray, weight: float, steps: int) -> FloatArray:
    """Take up to ``steps`` inner steps on rows while the anchors stay fixed, and return the new codes."""
    for _ in range(steps):
        moved = np.where(pull + weight * codes - codes @ gram >= 0, 1.0, -1.0)
        if np.array_equal(moved, codes):
            break
        codes = moved
    return codes
