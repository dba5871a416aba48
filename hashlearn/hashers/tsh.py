"""TSH: infer all bits from pairs first, then learn to hash them."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from functools import reduce
from operator import iadd
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.utils._param_validation import Interval, StrOptions

from hashlearn import codes
from hashlearn.fitting.frames.two_step import CodedRows, CodedRowsPlan, GroupNumbers, TwoStepHasher
from hashlearn.fitting.passes import AdditiveSums
from hashlearn.fitting.sources import RowRange
from hashlearn.parallel import row_blocks
from hashlearn.primitives import keep_sign, steps
from hashlearn.primitives.partners import PAIR_LOSSES, Pairs, draw_partners, pair_matrix
from hashlearn.progress import report
from hashlearn.typing import Arrays, Float32Array, FloatArray, PackedCodes

PAIRED_ROWS = 20_000
"""Rows whose bits are inferred from pairs, at most: pairs take some 25 kB a row."""
GROUP_BLOCK = 64


class TSH(TwoStepHasher):
    """Two-step hashing: bits that minimise a pairwise loss of Hamming distances, then one classifier a bit.

    With the bits so far fixed, a bit z costs sum a_ij z_i z_j over the pairs (see FastH for the losses). It starts from
    the signs of the smallest eigenvector and is improved in the box [-1, 1] by L-BFGS-B, rounded, and kept if lower.

    The authors' package was not at hand: this follows notes on the paper and on the inference routine inside FastHash
    (``verified`` is False), with the gradient corrected. The classifiers are support vector machines with squared
    hinge on kernel features, all bits at once by repeated ridge regression, in place of one exact kernel machine a
    bit. Partners are drawn with replacement, repeats dropped. ``codes_`` are the inferred (learned) bits.

    Of more than 20,000 labelled rows that many are drawn and paired with each other. The other rows of a label set
    share one code: bit by bit what is cheapest with partners among the drawn.

    Parameters
    ----------
    n_bits : int, default=64
    loss : {"ksh", "bre", "hinge"}, default="ksh"
    n_partners : int, default=100
        Similar and as many dissimilar partners drawn for every row, at most.
    box_iter : int, default=30
        Steps of L-BFGS-B a bit.
    ridge : float, default=0.01
        Of the classifiers: 1 / (2 C) of a support vector machine.
    kernel : {"rbf", "rbf-fixed"} or None, default="rbf"
    n_landmarks : int, default=1000
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    energy_ : ndarray (n_bits, 2), sum a_ij z_i z_j of each bit from the eigenvector and at the end; never rises.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import TSH
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> TSH(n_bits=16, random_state=0).fit(X, np.arange(100) % 4).encode(X).shape
    (100, 2)
    """

    title: ClassVar[str] = "TSH"
    reference: ClassVar[str] = "Lin et al., A General Two-Step Approach to Learning-Based Hashing (ICCV 2013)"
    year: ClassVar[int] = 2013
    kind: ClassVar[str] = "two-step, spectral"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(m pairs + n p^2 + n p m)"
    verified: ClassVar[bool] = False
    passes: ClassVar[str | None] = "2 + rounds"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TwoStepHasher._parameter_constraints,
        "loss": [StrOptions(set(PAIR_LOSSES))],
        "n_partners": [Interval(numbers.Integral, 1, None, closed="left")],
        "box_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        loss: str = "ksh",
        n_partners: int = 100,
        box_iter: int = 30,
        ridge: float = 0.01,
        kernel: str | None = "rbf",
        n_landmarks: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.loss = loss
        self.n_partners = n_partners
        self.box_iter = box_iter
        self.ridge = ridge
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_codes(
        self, group: GroupNumbers, labels: sparse.csr_matrix, rng: np.random.RandomState
    ) -> tuple[PackedCodes, Arrays]:
        rows = np.arange(len(group))
        if len(rows) > PAIRED_ROWS:
            rows = np.sort(rng.choice(len(rows), PAIRED_ROWS, replace=False))
        bits, energy = self._infer_all(labels[group[rows]], rng)
        packed = codes.pack(bits)
        if len(rows) < len(group):
            own = packed
            packed = codes.pack(self._follow(labels, group[rows], bits, rng))[group]
            packed[rows] = own
        return packed, {"energy_": energy}

    def _infer_all(self, labels: sparse.csr_matrix, rng: np.random.RandomState) -> tuple[NDArray[np.int8], FloatArray]:
        """Bits of rows from pairs among them, one bit after the other, and what each costs."""
        pairs = draw_partners(labels, self.n_partners, rng)
        places = pair_matrix(pairs, np.ones(len(pairs.left), dtype=bool))
        distance = np.zeros(len(pairs.left), dtype=np.int64)
        bits, energy = np.ones((labels.shape[0], self.n_bits_), dtype=np.int8), []
        for k in steps(self.n_bits_, "bits"):
            gain = pairs.gain(self.loss, distance, self.n_bits_).astype(np.float64)
            matrix = sparse.csr_matrix((gain[places.data], places.indices, places.indptr), shape=places.shape)
            bit, trace = infer(matrix, self.box_iter, rng)
            energy.append(trace)
            bits[:, k] = bit
            distance += bit[pairs.left] != bit[pairs.right]
        return bits, np.asarray(energy)

    def _follow(
        self, labels: sparse.csr_matrix, group: GroupNumbers, bits: NDArray[np.int8], rng: np.random.RandomState
    ) -> NDArray[np.int8]:
        """Bits of one more row of every group: each as cheap as it can be with partners among rows that have bits."""
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


def draw_followers(
    labels: sparse.csr_matrix, block: slice, group: GroupNumbers, count: int, rng: np.random.RandomState
) -> Pairs:
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


def infer(matrix: sparse.csr_matrix, box_iter: int, rng: np.random.RandomState) -> tuple[FloatArray, list[float]]:
    """Signs that make z' A z / 2 small for a symmetric A, and that sum at the start and at the end."""

    def value(z: FloatArray) -> tuple[float, FloatArray]:
        slope = matrix @ z / len(z)
        return 0.5 * float(z @ slope), slope

    start = np.where(smallest_eigenvector(matrix, rng) >= 0, 1.0, -1.0)
    bounds = optimize.Bounds(-1.0, 1.0)
    answer = optimize.minimize(
        value, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": box_iter}
    ).x
    rounded = keep_sign(answer, start)
    before, after = (0.5 * float(z @ (matrix @ z)) for z in (start, rounded))
    return (rounded, [before, after]) if after < before else (start, [before, before])


def smallest_eigenvector(matrix: sparse.csr_matrix, rng: np.random.RandomState) -> FloatArray:
    """Roughly: only its signs are used, as a start."""
    if matrix.shape[0] < 64:
        return linalg.eigh(matrix.toarray())[1][:, 0]
    start = rng.standard_normal(matrix.shape[0])
    try:
        return eigsh(matrix, k=1, which="SA", v0=start, tol=1e-2, maxiter=200)[1][:, 0]
    except ArpackNoConvergence:
        return start


def squared_hinge(rows: CodedRows, ridge: float, max_iter: int = 100, tol: float = 1e-4) -> FloatArray:
    """Weights that minimise sum max(0, 1 - z f)^2 + ridge |w|^2 for every bit z.

    Ridge regression on targets that are moved to f where the margin is met lowers this sum in every round, a pass each.
    """
    sums = rows.centered()
    factor = linalg.cho_factor(sums.xx + ridge * np.eye(len(sums.xx)), lower=True)
    cross, last = sums.xt, np.inf
    for k in range(max_iter):
        weights = linalg.cho_solve(factor, cross)
        margins = rows.add_up(sum_margins, weights.astype(np.float32), f"margins {k + 1}", MarginSums)
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
    """One task of a round of ``squared_hinge``."""
    coded, weights = plan

    def sums(x: Float32Array, labeled: NDArray[np.bool_], B: FloatArray) -> MarginSums:
        own = x[labeled]
        margins = B * (own @ weights)
        loss = np.square(np.maximum(1 - margins, 0)).sum(axis=0)
        return MarginSums(loss, own.astype(np.float64).T @ (B * np.maximum(margins, 1)))

    return reduce(iadd, (sums(*block) for block in coded.blocks(task))), slice(task[0].start, task[0].stop), None
