"""TSH: infer all bits from pairs first, then learn to hash them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import iadd

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from hashlearn import codes
from hashlearn.hashers.in_memory import KernelParameters
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parallel import row_blocks
from hashlearn.parameters import COUNT, POSITIVE, Options, fitted, parameter
from hashlearn.progress import report, steps
from hashlearn.rows.reduce import AdditiveSums
from hashlearn.rows.source import RowRange
from hashlearn.typing import Arrays, Float32Array, FloatArray, PackedCodes, Rng
from hashlearn.zoo.bases.pairs import PAIR_LOSSES, Pairs, draw_partners, pair_matrix
from hashlearn.zoo.bases.primitives import keep_sign
from hashlearn.zoo.bases.two_step import CodedRows, CodedRowsPlan, GroupNumbers, TwoStepHasher

PAIRED_ROWS = 20_000
"""Rows whose bits are inferred from pairs, at most, because pairs take about 25 kB per row."""
GROUP_BLOCK = 64


class TSH(KernelParameters, TwoStepHasher):
    """Two-step hashing: bits that minimize a pairwise loss of Hamming distances, then one classifier per bit.

    With the earlier bits fixed, a bit z costs sum a_ij z_i z_j over the pairs (see FastH for the losses). It starts
    from the signs of the smallest eigenvector, is improved in the box [-1, 1] by L-BFGS-B, rounded, and kept if the
    cost is lower.

    We did not have the authors' package; this follows notes on the paper and on the inference routine inside FastHash
    (``verified`` is False), with the gradient corrected. The classifiers are support vector machines with squared hinge
    loss on kernel features, all bits at once by repeated ridge regression, in place of one exact kernel machine per
    bit. Partners are drawn with replacement and repeats are dropped. ``codes_`` are the inferred (learned) bits.

    If there are more than 20,000 labeled rows, that many are drawn and paired with each other. The other rows of a
    label set share one code, in which each bit is the cheapest one with partners among the drawn rows.
    """

    info = MethodInfo(
        name="tsh",
        reference="Lin et al., A General Two-Step Approach to Learning-Based Hashing (ICCV 2013)",
        kind="two-step, spectral",
        cost="O(m pairs + n p^2 + n p m)",
        passes=2,
        rounds=True,
        database="learned",
        slow=True,
        remark="unconfirmed source",
    )

    loss: str = parameter(Options(*PAIR_LOSSES), "What a pair costs.", default="ksh")
    n_partners: int = parameter(
        COUNT, "Similar partners, and as many dissimilar ones, drawn for every row at most.", default=100
    )
    max_iter: int = parameter(COUNT, "Steps of L-BFGS-B per bit at most.", default=30)
    ridge: float = parameter(POSITIVE, "Ridge of the classifiers, 1 / (2 C) of a support vector machine.", default=0.01)

    energy_: FloatArray = fitted(
        "(n_bits, 2) sum a_ij z_i z_j of each bit at the eigenvector and at the end; it never rises."
    )

    n_iter_: int = fitted("Steps of L-BFGS-B made, the most of any bit, and at least 1.")

    def _learn_codes(self, group: GroupNumbers, labels: LabelMatrix, rng: Rng) -> tuple[PackedCodes, Arrays]:
        rows = np.arange(len(group))
        if len(rows) > PAIRED_ROWS:
            rows = np.sort(rng.choice(len(rows), PAIRED_ROWS, replace=False))
        bits, attributes = self._infer_all(labels[group[rows]], rng)
        packed = codes.pack(bits)
        if len(rows) < len(group):
            own = packed
            packed = codes.pack(self._follow(labels, group[rows], bits, rng))[group]
            packed[rows] = own
        return packed, attributes

    def _infer_all(self, labels: LabelMatrix, rng: Rng) -> tuple[NDArray[np.int8], Arrays]:
        """Bits of rows from pairs among them, one bit after the other, and fitted attributes."""
        pairs = draw_partners(labels, self.n_partners, rng)
        places = pair_matrix(pairs, np.ones(len(pairs.left), dtype=bool))
        distance = np.zeros(len(pairs.left), dtype=np.int64)
        bits, energy, n_iter = np.ones((labels.shape[0], self.n_bits_), dtype=np.int8), [], 1
        for k in steps(self.n_bits_, "bits"):
            gain = pairs.gain(self.loss, distance, self.n_bits_).astype(np.float64)
            matrix = sparse.csr_matrix((gain[places.data], places.indices, places.indptr), shape=places.shape)
            bit, trace, made = infer(matrix, self.max_iter, rng)
            energy.append(trace)
            n_iter = max(n_iter, made)
            bits[:, k] = bit
            distance += bit[pairs.left] != bit[pairs.right]
        return bits, {"energy_": np.asarray(energy), "n_iter_": np.array(n_iter)}

    def _follow(self, labels: LabelMatrix, group: GroupNumbers, bits: NDArray[np.int8], rng: Rng) -> NDArray[np.int8]:
        """Bits of one more row of every group: each is the cheapest with partners among rows that have bits."""
        result = np.empty((labels.shape[0], self.n_bits_), dtype=np.int8)
        for block in row_blocks(labels.shape[0], GROUP_BLOCK):
            pairs = draw_followers(labels, block, group, self.n_partners, rng)
            distance = np.zeros(len(pairs.left), dtype=np.int64)
            for k in range(self.n_bits_):
                gain, theirs = pairs.gain(self.loss, distance, self.n_bits_), bits[pairs.right, k]
                bit = np.where(np.bincount(pairs.left, gain * theirs, pairs.n_rows) > 0, -1, 1)
                result[block, k] = bit
                distance += bit[pairs.left] != theirs
            report("bits of other rows", block.stop, labels.shape[0])
        return result

    def _learn_weights(self, rows: CodedRows) -> FloatArray:
        return squared_hinge(rows, self.ridge)


def draw_followers(labels: LabelMatrix, block: slice, group: GroupNumbers, count: int, rng: Rng) -> Pairs:
    """Up to ``count`` similar and as many dissimilar partners of each group in a block, among rows of given groups."""
    shared = (labels[block] @ labels.T).toarray() > 0
    left, right, similar = [], [], []
    for place, row in enumerate(shared):
        related = row[group]
        for wanted in (True, False):
            choice = np.flatnonzero(related == wanted)
            chosen = choice if len(choice) <= count else choice[rng.randint(len(choice), size=count)]
            left.append(np.full(len(chosen), place))
            right.append(chosen)
            similar.append(np.full(len(chosen), wanted))
    return Pairs(np.concatenate(left), np.concatenate(right), np.concatenate(similar), len(shared))


def infer(matrix: sparse.csr_matrix, max_iter: int, rng: Rng) -> tuple[FloatArray, list[float], int]:
    """Signs z that make z' A z / 2 small for a symmetric A, that sum at the start and the end, and the steps made."""

    def value(z: FloatArray) -> tuple[float, FloatArray]:
        slope = matrix @ z / len(z)
        return 0.5 * float(z @ slope), slope

    start = np.where(smallest_eigenvector(matrix, rng) >= 0, 1.0, -1.0)
    bounds = optimize.Bounds(-1.0, 1.0)
    answer = optimize.minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": max_iter})
    rounded = keep_sign(answer.x, start)
    before, after = (0.5 * float(z @ (matrix @ z)) for z in (start, rounded))
    if after < before:
        return rounded, [before, after], int(answer.nit)
    return start, [before, before], int(answer.nit)


def smallest_eigenvector(matrix: sparse.csr_matrix, rng: Rng) -> FloatArray:
    """Return an approximation, because only its signs are used, as a start."""
    if matrix.shape[0] < 64:
        return linalg.eigh(matrix.toarray())[1][:, 0]
    start = rng.standard_normal(matrix.shape[0])
    try:
        return eigsh(matrix, k=1, which="SA", v0=start, tol=1e-2, maxiter=200)[1][:, 0]
    except ArpackNoConvergence:
        return start


def squared_hinge(rows: CodedRows, ridge: float, max_iter: int = 100, tol: float = 1e-4) -> FloatArray:
    """Weights that minimize sum max(0, 1 - z f)^2 + ridge |w|^2 for every bit z.

    Each round is a pass over the rows: ridge regression on targets that are moved to f where the margin is met, which
    lowers this sum.
    """
    sums = rows.centered()
    factor = linalg.cho_factor(sums.xx + ridge * np.eye(len(sums.xx)), lower=True)
    cross, last = sums.xt, np.inf
    for k in range(max_iter):
        weights = linalg.cho_solve(factor, cross)
        margins = rows.reduce_rows(sum_margins, weights.astype(np.float32), f"margins {k + 1}", MarginSums)
        loss = float(margins.loss.sum() + ridge * (weights**2).sum())
        if last - loss <= tol * loss:
            break
        cross, last = margins.xt, loss
    return weights


@dataclass
class MarginSums(AdditiveSums):
    """Sums of the squared hinge loss of each bit, and of products of features and moved targets."""

    loss: FloatArray
    xt: FloatArray


def sum_margins(
    plan: tuple[CodedRowsPlan, Float32Array], task: tuple[RowRange, PackedCodes]
) -> tuple[MarginSums, slice, None]:
    """Run one task of a round of ``squared_hinge``."""
    coded, weights = plan

    def sums(x: Float32Array, labeled: NDArray[np.bool_], B: FloatArray) -> MarginSums:
        own = x[labeled]
        margins = B * (own @ weights)
        loss = np.square(np.maximum(1 - margins, 0)).sum(axis=0)
        return MarginSums(loss, own.astype(np.float64).T @ (B * np.maximum(margins, 1)))

    return reduce(iadd, (sums(*block) for block in coded.blocks(task))), slice(task[0].start, task[0].stop), None
