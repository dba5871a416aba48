"""TSH: infer all bits from pairs first, then learn to hash them."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.utils._param_validation import Interval, StrOptions

from hashlearn.hashers.linear import FloatArray, Learned, LinearHasher, linear
from hashlearn.primitives import RidgeSolver, keep_sign, labelled_rows, steps
from hashlearn.primitives.partners import PAIR_LOSSES, draw_partners, pair_matrix


class TSH(LinearHasher):
    """Two-step hashing: bits that minimise a pairwise loss of Hamming distances, then one classifier a bit.

    With the bits so far fixed, a bit z costs sum a_ij z_i z_j over the pairs (see FastH for the losses). It starts from
    the signs of the smallest eigenvector and is improved in the box [-1, 1] by L-BFGS-B, rounded, and kept if lower.

    The authors' package was not at hand: this follows notes on the paper and on the inference routine inside FastHash
    (``verified`` is False), with the gradient corrected. The classifiers are support vector machines with squared
    hinge on kernel features, all bits at once by repeated ridge regression, in place of one exact kernel machine a
    bit. Partners are drawn with replacement, repeats dropped. ``codes_`` are the inferred (learned) bits.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearHasher._parameter_constraints,
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

    def _learn(
        self, features: NDArray[np.float32], labels: sparse.csr_matrix | None, rng: np.random.RandomState
    ) -> Learned:
        assert labels is not None
        rows = labelled_rows(labels)
        pairs = draw_partners(labels[rows], self.n_partners, rng)
        places = pair_matrix(pairs, np.ones(len(pairs.left), dtype=bool))
        distance = np.zeros(len(pairs.left), dtype=np.int64)
        codes, energy = np.ones((len(features), self.n_bits_)), []
        for k in steps(self.n_bits_, "bits"):
            gain = pairs.gain(self.loss, distance, self.n_bits_).astype(np.float64)
            matrix = sparse.csr_matrix((gain[places.data], places.indices, places.indptr), shape=places.shape)
            bit, trace = infer(matrix, self.box_iter, rng)
            energy.append(trace)
            codes[rows, k] = bit
            distance += bit[pairs.left] != bit[pairs.right]
        weights = squared_hinge(features[rows], codes[rows], self.ridge)
        return Learned(linear(weights), codes=codes, attributes={"energy_": np.asarray(energy)})


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


def squared_hinge(
    features: NDArray[np.float32], codes: FloatArray, ridge: float, max_iter: int = 100, tol: float = 1e-4
) -> FloatArray:
    """Weights that minimise sum max(0, 1 - z f)^2 + ridge |w|^2 for every bit.

    Ridge regression on targets that are moved to f where the margin is met lowers this sum in every round.
    """
    solver, targets, last = RidgeSolver(features, ridge), codes, np.inf
    for _ in range(max_iter):
        weights = solver.solve(targets)
        margins = codes * (features @ weights.astype(np.float32))
        loss = float((np.maximum(1 - margins, 0) ** 2).sum() + ridge * (weights**2).sum())
        if last - loss <= tol * loss:
            break
        targets, last = codes * np.maximum(margins, 1), loss
    return weights
