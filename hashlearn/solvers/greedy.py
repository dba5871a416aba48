"""GSDH_P for quadratic losses: one bit of a batch at a time.

Bit j of row i moves to sgn(g_i + beta h_ij), where g = (R h_A)_i and R is what the other bits leave of
the target inner products. Of the anchors only two small sums matter: ``pull`` = f(S) H_A per row kind and
``gram`` = H_A' H_A, both kept up to date by rank-one steps. All of it is whole numbers times ``scale``, so
the result equals the plain loops of ``reproduction/loops.py`` bit for bit.

When several anchors of a batch flip together they also change each other's g, and the objective h' R h
may fall. Then only the half with the largest |g| flips, and so on, so that no step lowers the objective.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled_part
from hashlearn.progress import report
from hashlearn.solvers.losses import QuadraticLoss
from hashlearn.solvers.problem import AnchorProblem, Batches, ClassTable, Trace, keeps_ground, mapped
from hashlearn.typing import FloatArray

_flips = compiled_part("hashlearn.solvers._flips")

RESIDUALS = ("full", "stagewise")
EXACT = 2**24  # whole numbers below this, and their sums, are exact in float32


def learn(
    problem: AnchorProblem,
    start: FloatArray,
    batches: Batches,
    loss: QuadraticLoss,
    *,
    beta: float,
    residual: str = "full",
    max_iter: int = 20,
    inner_iter: int = 3,
) -> Trace:
    """Learn the codes of the problem's rows from ``start`` in {-1, +1}, batch by batch, until no bit changes."""
    state = _State(problem, start, loss, residual)
    trace = Trace(state.codes)
    for iteration in range(max_iter):
        report("learn anchors", iteration + 1, max_iter)
        before = state.codes.copy()
        for batch in batches(iteration):
            state.update(batch, beta, inner_iter)
        trace.objective.append(state.objective())
        trace.changes.append(int(np.count_nonzero(state.codes != before)))
        if trace.changes[-1] == 0:
            trace.converged = True
            break
    return trace


class _State:
    """Codes and the two sums over anchors. ``gram`` has a zero diagonal, because bit j does not act on itself.

    Of plain classes ``sums`` holds the sum of every class and, in its last column, that of all anchors. Their pull
    follows from those two numbers, so a flip changes one class only, whatever the number of classes. Otherwise ``sums``
    is the pull of every row kind.
    """

    def __init__(self, problem: AnchorProblem, start: FloatArray, loss: QuadraticLoss, residual: str) -> None:
        self.problem = problem
        self.codes = np.array(start, dtype=np.float64)
        n_bits = self.codes.shape[1]
        self.scale = loss.scale(problem.scale, n_bits)
        self.table = mapped(problem.table, loss.target)
        self.stagewise = residual == "stagewise"
        by_column = problem.column_sums(self.codes)
        if isinstance(self.table, ClassTable):
            self.values = np.array([self.table.within, self.table.between])
            self.sums = np.zeros((n_bits, self.table.shape[0] + 1))
            self.sums[:, : len(by_column)] = by_column.T
            self.sums[:, -1] = by_column.sum(axis=0)
        else:
            self.values = self.table
            self.sums = np.ascontiguousarray((self.table @ by_column).T)
        anchors = self.codes[problem.is_anchor]
        self.gram = anchors.T @ anchors
        np.fill_diagonal(self.gram, 0.0)
        self.compiled = _flips is not None and len(anchors) * n_bits < EXACT

    def update(self, batch: NDArray[np.intp], beta: float, inner_iter: int) -> None:
        kinds = self.problem.row_kind[batch]
        columns = self.problem.column_kind[batch]
        if self.compiled:
            single = np.ascontiguousarray(self.codes[batch].T, dtype=np.float32)
            sums = (self.values, self.sums, self.gram)
            options = (self.scale, beta, self.stagewise, inner_iter, isinstance(self.table, ClassTable))
            if _flips.update_batch(single, kinds, columns, *sums, *options):
                self.codes[batch] = single.T
            return
        bits = np.ascontiguousarray(self.codes[batch].T)
        first = self._first_to_flip(bits, kinds, beta)
        if first is None:
            return
        for j in range(first, len(bits)):
            rest = j if self.stagewise else len(bits)
            self._update_bit(bits, kinds, columns, j, rest, beta, inner_iter)
        self.codes[batch] = bits.T

    def _first_to_flip(self, bits: FloatArray, kinds: NDArray[np.intp], beta: float) -> int | None:
        """Find the first bit that some row would flip, or None if no bit of the batch would flip.

        Bits before it need no visit, and in the last iterations most batches do not change at all.
        """
        others = np.tril(self.gram, -1) if self.stagewise else self.gram
        gains = self.scale * self._pull(self.sums, kinds) - others @ bits
        flips = ((gains + beta * bits >= 0) != (bits > 0)).any(axis=1)
        return int(flips.argmax()) if flips.any() else None

    def _update_bit(
        self,
        bits: FloatArray,
        kinds: NDArray[np.intp],
        columns: NDArray[np.intp],
        j: int,
        rest: int,
        beta: float,
        inner_iter: int,
    ) -> None:
        others = bits[:rest]
        gain = self.scale * self._pull(self.sums[j], kinds) - self.gram[j, :rest] @ others
        for _ in range(inner_iter):
            flips = np.flatnonzero((gain + beta * bits[j] >= 0) != (bits[j] > 0))
            if not len(flips):
                return
            anchors = flips[columns[flips] >= 0]
            bits[j, flips[columns[flips] < 0]] *= -1
            while len(anchors):
                step = -2 * bits[j, anchors]
                sums = self._moved(self.sums[j], columns[anchors], step)
                gram = self.gram[j] + bits[:, anchors] @ step
                gram[j] = 0.0
                moved = self.scale * self._pull(sums, kinds) - gram[:rest] @ others
                if keeps_ground(step, gain[anchors], moved[anchors]):
                    self.sums[j], self.gram[j], self.gram[:, j] = sums, gram, gram
                    bits[j, anchors] += step
                    gain = moved
                    break
                anchors = strongest_half(anchors, gain)
            else:
                return

    def _pull(self, sums: FloatArray, kinds: NDArray[np.intp]) -> FloatArray:
        """Return the pull of rows of these kinds, from the sums of one bit or of all bits."""
        if not isinstance(self.table, ClassTable):
            return sums[..., kinds]
        within, between = self.values
        return (within - between) * sums[..., kinds] + between * sums[..., -1:]

    def _moved(self, sums: FloatArray, columns: NDArray[np.intp], step: FloatArray) -> FloatArray:
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
        gram = self.gram + np.eye(len(self.gram)) * np.count_nonzero(self.problem.is_anchor)
        return self.problem.objective(self.table, self.scale, self.codes, pull, gram)


def strongest_half(flips: NDArray[np.intp], gain: FloatArray, count: FloatArray | None = None) -> NDArray[np.intp]:
    """Return those of ``flips`` whose |gain| is above the median; none if all are equal.

    ``count`` says how many equal rows each row stands for in the median.
    """
    strength = np.abs(gain[flips])
    each = strength if count is None else np.repeat(strength, count[flips].astype(np.intp))
    return flips[strength > np.median(each)]


def code_rows(
    pull: FloatArray,
    gram: FloatArray,
    group: NDArray[np.intp],
    start: NDArray[np.float32],
    *,
    scale: float,
    beta: float,
    residual: str = "full",
    max_iter: int = 20,
) -> NDArray[np.float32]:
    """Code rows that are not anchors. They do not influence each other, so one pass over them suffices.

    ``pull`` (n_groups, n_bits) and ``gram`` come from the learned anchors. A row that a sweep does not change
    is finished; the other rows are swept again, up to ``max_iter`` times.
    """
    codes = np.array(start, dtype=np.float32)
    n_bits = codes.shape[1]
    # Single precision halves the memory traffic and is exact for such numbers.
    exact = np.abs(gram).sum(axis=0).max(initial=0.0) < EXACT
    hollow = (gram - np.diag(np.diag(gram))).astype(np.float32 if exact else np.float64)
    scaled = scale * pull
    if exact and _flips is not None:
        groups = np.ascontiguousarray(group, dtype=np.int64)
        _flips.code_rows(codes, groups, np.ascontiguousarray(scaled), hollow, beta, residual == "stagewise", max_iter)
        return codes
    weight = np.float64(beta)  # NumPy would round a plain float to the float32 of the bits
    active = np.arange(len(codes))
    for _ in range(max_iter):
        bits = np.ascontiguousarray(codes[active].T, dtype=hollow.dtype)
        groups = group[active]
        changed = np.zeros(len(active), dtype=bool)
        for j in range(n_bits):
            rest = j if residual == "stagewise" else n_bits
            gain = scaled[groups, j] - hollow[j, :rest] @ bits[:rest]
            flip = (gain + weight * bits[j] >= 0) != (bits[j] > 0)
            bits[j, flip] *= -1
            changed |= flip
        codes[active] = bits.T
        active = active[changed]
        if not len(active):
            break
    return codes
