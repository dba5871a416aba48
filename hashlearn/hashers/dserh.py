"""DSeRH: codes whose inner products follow a ranking of classes, by adaptive discrete minimisation."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from sklearn.utils._param_validation import Interval

from hashlearn.codes import sign
from hashlearn.hashers.linear import Learned, LinearHasher, linear
from hashlearn.labels import group_rows
from hashlearn.primitives import RidgeSolver, keep_sign, labelled_rows, rank_weights, steps, top_eigenvectors

FloatArray = NDArray[np.float64]


class DSeRH(LinearHasher):
    """Discrete semantic ranking hashing: min -tr(H' Theta H) / m + mu (|H - X W|^2 + ridge |W|^2), H in {-1, +1}.

    Theta_qi = 2 (#rows less - #rows more relevant to q than i is), made symmetric and scaled to spectral norm 1;
    it is kept between label sets, never between rows. A step is H <- sgn(H - eta grad) with W fitted by ridge
    regression in between. Steps start large and shrink whenever the objective would rise.

    Only the paper's abstract was at hand: the formula is our reconstruction. The paper ranks classes by word
    embeddings of their names; pass the similarities of such embeddings as ``class_relevance``. Without it, plain
    classes give Theta the low rank that limits RSH too. ``codes_`` are learned for the rows learned from, and
    hashed for the others.

    Parameters
    ----------
    n_bits : int, default=64
    class_relevance : array-like (c, c) or None, default=None
        How relevant class b is to class a, classes in sorted order; a pair of label sets gets the sum over its
        pairs of labels. None for the number of shared labels.
    mu : float, default=0.01
        Weight of the hash function's fit. Many bits need a small one: at 0.1 the fit to the first codes outweighs
        the ranking from 64 bits on.
    ridge : float, default=1e-3
    n_iter : int, default=50
        Rounds of the alternation; it ends earlier when no bit changes.
    n_samples : int or None, default=10000
        Rows to learn from, drawn at random; None for all. The table between their label sets is held in memory.
    kernel : {"rbf", "rbf-fixed"} or None, default=None
        None for the centred rows.
    n_landmarks : int, default=1000
        Landmarks of the kernel.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    objective_ : ndarray, the objective at the start and after every step of H and of W; never rises.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import DSeRH
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=100)
    >>> X = rng.normal(size=(100, 20)) + y[:, None]
    >>> near = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.1], [0.0, 0.1, 1.0]])
    >>> DSeRH(n_bits=16, class_relevance=near, random_state=0).fit(X, y).encode(X).shape
    (100, 2)
    """

    title: ClassVar[str] = "DSeRH"
    reference: ClassVar[str] = "Liu et al., Discretely Coding Semantic Rank Orders for Image Hashing (CVPR 2017)"
    year: ClassVar[int] = 2017
    kind: ClassVar[str] = "ranking, discrete"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(n d^2 + G^3 + T (n d m + G^2 m)), G label sets"
    verified: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearHasher._parameter_constraints,
        "class_relevance": ["array-like", None],
        "mu": [Interval(numbers.Real, 0, None, closed="neither")],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_samples": [None, Interval(numbers.Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        class_relevance: ArrayLike | None = None,
        mu: float = 0.01,
        ridge: float = 1e-3,
        n_iter: int = 50,
        n_samples: int | None = 10000,
        kernel: str | None = None,
        n_landmarks: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.class_relevance = class_relevance
        self.mu = mu
        self.ridge = ridge
        self.n_iter = n_iter
        self.n_samples = n_samples
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, features: NDArray[np.float32], labels: sparse.csr_matrix, rng: np.random.RandomState) -> Learned:
        known = labelled_rows(labels)
        if self.n_samples is not None and len(known) > self.n_samples:
            known = np.sort(rng.choice(known, self.n_samples, replace=False))
        rows, n_bits, mu = features[known], self.n_bits_, self.mu
        order = RankOrder(labels[known], self._relevance(labels.shape[1]))
        solver = RidgeSolver(rows, self.ridge)
        codes = sign(rows @ self._directions(rows, order, rng)).astype(np.float64)
        weights = solver.solve(codes)
        # The share of the old code in a step, 1 / eta: ``safe`` makes each step minimise a majoriser.
        safe = 2 * max(0.0, -order.lowest) / n_bits
        inertia = safe / 10

        def objective(codes: FloatArray, weights: FloatArray) -> float:
            misfit = ((codes - rows @ weights) ** 2).sum() + self.ridge * (weights**2).sum()
            return float(mu * misfit - order.agreement(codes) / n_bits)

        trace = [objective(codes, weights)]
        for _ in steps(self.n_iter, "DSeRH"):
            pull = 2 / n_bits * (order @ codes) + 2 * mu * (rows @ weights)
            while True:
                new = keep_sign(inertia * codes + pull, codes)
                value = objective(new, weights)
                if value <= trace[-1] or inertia >= safe:
                    break
                inertia = min(2 * inertia, safe)
            unchanged = np.array_equal(new, codes)
            codes, weights = new, solver.solve(new)
            trace += [value, objective(codes, weights)]
            if unchanged:
                break
        learned = sign(features @ weights)
        learned[known] = codes
        return Learned(linear(weights), learned, {"objective_": np.asarray(trace)})

    def _directions(self, rows: NDArray[np.float32], order: RankOrder, rng: np.random.RandomState) -> FloatArray:
        """Top eigenvectors of X' Theta X; bits past the number of features start as random mixtures of them."""
        sums = order.sums(rows)
        top = top_eigenvectors(sums.T @ order.table @ sums, self.n_bits_)[1]
        return np.hstack([top, top @ rng.standard_normal((top.shape[1], self.n_bits_ - top.shape[1]))])

    def _relevance(self, n_classes: int) -> FloatArray:
        if self.class_relevance is None:
            return np.eye(n_classes)
        relevance = np.asarray(self.class_relevance, dtype=np.float64)
        if relevance.shape != (n_classes, n_classes):
            raise ValueError(
                f"class_relevance must have one row and one column a class: ({n_classes}, {n_classes}). "
                f"Got {relevance.shape} instead."
            )
        return relevance


class RankOrder:
    """Theta between rows, held as a table between their label sets.

    Attributes
    ----------
    table : (G, G), Theta between label sets.
    lowest : the smallest eigenvalue of Theta between rows.
    """

    def __init__(self, labels: sparse.csr_matrix, class_relevance: FloatArray) -> None:
        self.group, first = group_rows(labels)
        self._members = sparse.csr_matrix((np.ones(len(self.group)), (self.group, np.arange(len(self.group)))))
        sets, sizes = labels[first].toarray(), np.bincount(self.group).astype(np.float64)
        weights = 2 * rank_weights(sets @ class_relevance @ sets.T, sizes)
        self.table = (weights + weights.T) / 2
        # Rows of one label set are alike, so Theta has the spectrum of the table scaled by the sets' sizes, and zeros.
        root = np.sqrt(sizes)
        spectrum = linalg.eigvalsh(root[:, None] * self.table * root)
        norm = float(np.abs(spectrum).max())
        if norm == 0:
            raise ValueError("DSeRH has nothing to rank: every row is equally relevant to every other.")
        self.table /= norm
        self.lowest = float(min(spectrum[0], 0.0)) / norm

    def sums(self, values: NDArray[np.floating]) -> FloatArray:
        """Sums over the rows of each label set (G, k)."""
        return np.asarray(self._members @ values.astype(np.float64))

    def __matmul__(self, codes: FloatArray) -> FloatArray:
        """Theta H (n, m)."""
        return (self.table @ self.sums(codes))[self.group]

    def agreement(self, codes: FloatArray) -> float:
        """tr(H' Theta H)."""
        sums = self.sums(codes)
        return float((sums * (self.table @ sums)).sum())
