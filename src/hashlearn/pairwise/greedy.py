"""GSDH_P for quadratic losses: one bit of a batch at a time.

Bit j of anchor i moves to sgn(g_i + beta h_ij), where g = (R h_A)_i and R is what the other bits leave of the target
inner products. The anchors enter only through two small sums, ``pull`` = f(S) H_A per row kind and ``gram`` = H_A' H_A,
both kept up to date by rank-one steps. All of it is whole numbers times ``scale``, so the codes equal those of the
plain loops of ``tests/paper_loops.py`` bit for bit.

When several anchors of a batch flip together, they also change each other's g, and the objective h' R h may fall. Then
only the half with the largest |g| flips, and so on, so that no step lowers the objective.

The inner loops are compiled (``_flips.c``). The NumPy code beside them does the same where they cannot be built.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hashlearn.compiled import compiled_part
from hashlearn.pairwise.general import GeneralAnchors, GeneralRows
from hashlearn.pairwise.losses import Loss, QuadraticLoss
from hashlearn.pairwise.solver import (
    AnchorState,
    PairwiseSolver,
    QuadraticRows,
    RowCoder,
    keeps_ground,
    quadratic_sums,
    strongest_half,
)
from hashlearn.pairwise.supervision import AnchorProblem, ClassTable, mapped
from hashlearn.parameters import Options, parameter
from hashlearn.similarity import Similarity
from hashlearn.typing import Float32Array, FloatArray, IntArray

_flips = compiled_part("hashlearn.pairwise._flips")

RESIDUALS = ("full", "stagewise")
EXACT = 2**24  # whole numbers below this, and their sums, are exact in float32


class Greedy(PairwiseSolver):
    """Solver of GSDH_P: one bit of a batch at a time, ``GSDHP(solver=Greedy(beta=5.0))``.

    Examples
    --------
    >>> from hashlearn import GSDHP, Greedy
    >>> GSDHP(16, solver=Greedy(max_iter=5)).get_params()["solver__max_iter"]
    5
    """

    batch_size: int = 200
    n_starts: int | str = "auto"
    start: str = "discriminant"
    residual: str = parameter(
        Options("auto", *RESIDUALS),
        "What a bit responds to: all other bits ('full', the paper) or those before it ('stagewise', the released "
        "code). 'auto' is full for classes and stagewise for label sets, because each ranks best there.",
        default="auto",
    )

    def begin(self, problem: AnchorProblem, start: FloatArray, loss: Loss) -> AnchorState:
        stagewise = self._is_stagewise(problem.graded)
        if isinstance(loss, QuadraticLoss):
            return GreedyAnchors(self, stagewise, problem, start, loss)
        return GeneralAnchors(self, stagewise, problem, start, loss)

    def row_coder(self, similarity: Similarity, anchors: IntArray, anchor_codes: FloatArray, loss: Loss) -> RowCoder:
        stagewise = self._is_stagewise(similarity.graded)
        if isinstance(loss, QuadraticLoss):
            sums = quadratic_sums(similarity, anchors, anchor_codes, loss)
            return GreedyRows(*sums, self.beta, stagewise, self.max_iter)
        return GeneralRows(self, stagewise, similarity, anchors, anchor_codes, loss)

    def _is_stagewise(self, graded: bool) -> bool:
        return graded if self.residual == "auto" else self.residual == "stagewise"


class GreedyAnchors(AnchorState):
    """The anchors while they are learned. ``gram`` has a zero diagonal, because bit j does not act on itself.

    For plain classes ``sums`` holds the sum of every class and, in its last column, that of all anchors. Their pull
    follows from those two numbers, so a flip changes one class only, whatever the number of classes. Otherwise ``sums``
    is the pull of every row kind.
    """

    def __init__(
        self, solver: Greedy, stagewise: bool, problem: AnchorProblem, start: FloatArray, loss: QuadraticLoss
    ) -> None:
        self.solver, self.stagewise, self.problem = solver, stagewise, problem
        self.codes = np.array(start, dtype=np.float64)
        n_bits = self.codes.shape[1]
        self.scale = loss.scale(problem.scale, n_bits)
        self.table = mapped(problem.table, loss.target)
        by_column = problem.column_sums(self.codes)
        if isinstance(self.table, ClassTable):
            self.values = np.array([self.table.within, self.table.between])
            self.sums = np.zeros((n_bits, self.table.shape[0] + 1))
            self.sums[:, : len(by_column)] = by_column.T
            self.sums[:, -1] = by_column.sum(axis=0)
        else:
            self.values = self.table
            self.sums = np.ascontiguousarray((self.table @ by_column).T)
        self.gram = self.codes.T @ self.codes
        np.fill_diagonal(self.gram, 0.0)
        self.compiled = _flips is not None and self.codes.size < EXACT

    def update(self, batch: IntArray) -> None:
        """Update all bits of the anchors of a batch, one after the other."""
        kinds, columns = self.problem.row_kind[batch], self.problem.column_kind[batch]
        beta, inner_iter = self.solver.beta, self.solver.inner_iter
        if self.compiled:
            single = np.ascontiguousarray(self.codes[batch].T, dtype=np.float32)
            options = (self.scale, beta, self.stagewise, inner_iter, isinstance(self.table, ClassTable))
            if _flips.update_batch(single, kinds, columns, self.values, self.sums, self.gram, *options):
                self.codes[batch] = single.T
            return
        bits = np.ascontiguousarray(self.codes[batch].T)
        first = self._first_to_flip(bits, kinds)
        if first is None:
            return
        for j in range(first, len(bits)):
            self._update_bit(bits, kinds, columns, j)
        self.codes[batch] = bits.T

    def _first_to_flip(self, bits: FloatArray, kinds: IntArray) -> int | None:
        """Find the first bit that some anchor would flip, or None if no bit of the batch would flip.

        Bits before it need no visit, and in the last rounds most batches do not change at all.
        """
        others = np.tril(self.gram, -1) if self.stagewise else self.gram
        gains = self.scale * self._pull(self.sums, kinds) - others @ bits
        flips = ((gains + self.solver.beta * bits >= 0) != (bits > 0)).any(axis=1)
        return int(flips.argmax()) if flips.any() else None

    def _update_bit(self, bits: FloatArray, kinds: IntArray, columns: IntArray, j: int) -> None:
        """Take up to ``inner_iter`` steps of bit j."""
        rest = j if self.stagewise else len(bits)
        others = bits[:rest]
        gain = self.scale * self._pull(self.sums[j], kinds) - self.gram[j, :rest] @ others
        for _ in range(self.solver.inner_iter):
            flips = np.flatnonzero((gain + self.solver.beta * bits[j] >= 0) != (bits[j] > 0))
            while len(flips):
                step = -2 * bits[j, flips]
                sums = self._moved(self.sums[j], columns[flips], step)
                gram = self.gram[j] + bits[:, flips] @ step
                gram[j] = 0.0
                moved = self.scale * self._pull(sums, kinds) - gram[:rest] @ others
                if keeps_ground(step, gain[flips], moved[flips]):
                    self.sums[j], self.gram[j], self.gram[:, j] = sums, gram, gram
                    bits[j, flips] += step
                    gain = moved
                    break
                flips = strongest_half(flips, gain)
            else:
                return

    def _pull(self, sums: FloatArray, kinds: IntArray) -> FloatArray:
        """Return the pull of anchors of these kinds, from the sums of one bit or of all bits."""
        if not isinstance(self.table, ClassTable):
            return sums[..., kinds]
        within, between = self.values
        return (within - between) * sums[..., kinds] + between * sums[..., -1:]

    def _moved(self, sums: FloatArray, columns: IntArray, step: FloatArray) -> FloatArray:
        """Return the sums of one bit after the anchors in these columns have moved by ``step``."""
        by_column = np.bincount(columns, weights=step, minlength=self.table.shape[1])
        if not isinstance(self.table, ClassTable):
            return sums + self.table @ by_column
        result = sums.copy()
        result[: len(by_column)] += by_column
        result[-1] += by_column.sum()
        return result

    def objective(self) -> float:
        pull = self._pull(self.sums, np.arange(self.table.shape[0])).T
        gram = self.gram + np.eye(len(self.gram)) * len(self.codes)
        return self.problem.objective(self.table, self.scale, self.codes, pull, gram)


@dataclass
class GreedyRows(QuadraticRows):
    """Codes rows that are not anchors by sweeps over their bits, until a sweep changes nothing."""

    stagewise: bool
    max_iter: int

    def code(self, group: IntArray, start: Float32Array) -> Float32Array:
        codes = np.array(start, dtype=np.float32)
        n_bits = codes.shape[1]
        # Single precision halves the memory traffic and is exact for such numbers.
        exact = np.abs(self.gram).sum(axis=0).max(initial=0.0) < EXACT
        hollow = (self.gram - np.diag(np.diag(self.gram))).astype(np.float32 if exact else np.float64)
        scaled = self.scale * self.pull
        if exact and _flips is not None:
            groups = np.ascontiguousarray(group, dtype=np.int64)
            pull = np.ascontiguousarray(scaled)
            _flips.code_rows(codes, groups, pull, hollow, self.code_weight, self.stagewise, self.max_iter)
            return codes
        weight = np.float64(self.code_weight)  # NumPy would round a plain float to the float32 of the bits
        active = np.arange(len(codes))
        for _ in range(self.max_iter):
            bits = np.ascontiguousarray(codes[active].T, dtype=hollow.dtype)
            groups = group[active]
            changed = np.zeros(len(active), dtype=bool)
            for j in range(n_bits):
                rest = j if self.stagewise else n_bits
                gain = scaled[groups, j] - hollow[j, :rest] @ bits[:rest]
                flip = (gain + weight * bits[j] >= 0) != (bits[j] > 0)
                bits[j, flip] *= -1
                changed |= flip
            codes[active] = bits.T
            active = active[changed]
            if not len(active):
                break
        return codes
