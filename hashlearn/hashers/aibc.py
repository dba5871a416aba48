"""AIBC: two hash functions, one for queries and one for the database, whose codes' inner products fit S."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from hashlearn import codes
from hashlearn.functions.linear import LinearFunction
from hashlearn.hashers.linear import Learned, LinearHasher, linear
from hashlearn.kernel import Rows
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.primitives import LabelProduct, RidgeSolver, column_sweep, labelled_rows, steps

FloatArray = NDArray[np.float64]


class AIBC(LinearHasher):
    """Asymmetric inner-product binary coding: min |B Z' - m S|^2 + nu (|B - XW|^2 + |Z - XR|^2 + ridge terms).

    B and Z in {-1, +1} are two different codes of the same rows: B as queries, Z as database, each with a linear
    hash function of its own. S is the similarity of labels (graded for label sets, shifted to mean 0) or of features
    (inner products, the paper's search for the largest ones). In turn, B and Z are updated bit by bit, exactly for each
    bit, and W and R by ridge regression; S is never formed.

    Our reconstruction: neither the paper's text nor its code was at hand. ``encode`` gives the codes of queries,
    ``codes_`` are the learned database codes Z, and ``encode_database`` hashes further database rows.

    Parameters
    ----------
    n_bits : int, default=64
    similarity : {"labels", "features"}, default="labels"
        What S is made of; "features" needs no y.
    nu : float, default=1e-2
        Weight of the hash functions' fit, as a share of rows times bits.
    ridge : float, default=1e-2
    n_iter : int, default=20
        Rounds of the alternation; it ends earlier when no bit changes.
    inner_iter : int, default=3
        Sweeps over the bits in an update of B or Z.
    kernel : {"rbf", "rbf-fixed"} or None, default="rbf"
        None for the centred rows, as in the paper.
    n_landmarks : int, default=1000
        Landmarks of the kernel.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    objective_ : ndarray, the objective less the constant |m S|^2 at the start and after every update; never rises.
    database_function_ : the hash function of database rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import AIBC
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=100)
    >>> X = rng.normal(size=(100, 20)) + y[:, None]
    >>> hasher = AIBC(n_bits=16, random_state=0).fit(X, y)
    >>> hasher.encode(X).shape, hasher.encode_database(X).shape
    ((100, 2), (100, 2))
    """

    title: ClassVar[str] = "AIBC"
    reference: ClassVar[str] = "Shen et al., Learning Binary Codes for Maximum Inner Product Search (ICCV 2015)"
    year: ClassVar[int] = 2015
    kind: ClassVar[str] = "pairwise, asymmetric, discrete"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(n p^2 + T n m (p + m))"
    verified: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearHasher._parameter_constraints,
        "similarity": [StrOptions({"labels", "features"})],
        "nu": [Interval(numbers.Real, 0, None, closed="neither")],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "inner_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    database_function_: LinearFunction

    def __init__(
        self,
        n_bits: int = 64,
        *,
        similarity: str = "labels",
        nu: float = 1e-2,
        ridge: float = 1e-2,
        n_iter: int = 20,
        inner_iter: int = 3,
        kernel: str | None = "rbf",
        n_landmarks: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.similarity = similarity
        self.nu = nu
        self.ridge = ridge
        self.n_iter = n_iter
        self.inner_iter = inner_iter
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.similarity == "labels"
        return tags

    def encode_database(self, X: Rows) -> NDArray[np.uint8]:
        """Packed codes of database rows, to be searched with the codes that ``encode`` gives."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)

        def hashed(block: slice) -> NDArray[np.uint8]:
            return self._hash(self.features_.map_block(X[block]) - self.features_.center_)

        return np.concatenate(list(ordered_map(hashed, row_blocks(X.shape[0]), self.n_jobs)))

    def _learn(self, features: NDArray[np.float32], labels: sparse.csr_matrix, rng: np.random.RandomState) -> Learned:
        rows = labelled_rows(labels) if self.similarity == "labels" else np.arange(len(features))
        X, n_bits = features[rows], self.n_bits_
        S = CentredLabels(labels[rows]) if self.similarity == "labels" else InnerProducts(X)
        nu = self.nu * n_bits * len(X)
        solver = RidgeSolver(X, self.ridge)
        B, Z = (codes.sign(X @ rng.standard_normal((X.shape[1], n_bits))).astype(np.float64) for _ in range(2))
        W, R = solver.solve(B), solver.solve(Z)

        def misfit(signs: FloatArray, weights: FloatArray) -> float:
            return float(((signs - X @ weights) ** 2).sum() + self.ridge * (weights**2).sum())

        def objective() -> float:
            pairs = ((B.T @ B) * (Z.T @ Z)).sum() - 2 * n_bits * (B * (S @ Z)).sum()
            return float(pairs + nu * (misfit(B, W) + misfit(Z, R)))

        trace = [objective()]
        for _ in steps(self.n_iter, "AIBC"):
            before = B.copy(), Z.copy()
            column_sweep(B, n_bits * (S @ Z) + nu * (X @ W), Z.T @ Z, self.inner_iter)
            trace.append(objective())
            W = solver.solve(B)
            trace.append(objective())
            column_sweep(Z, n_bits * (S @ B) + nu * (X @ R), B.T @ B, self.inner_iter)
            trace.append(objective())
            R = solver.solve(Z)
            trace.append(objective())
            if np.array_equal(before, (B, Z)):
                break
        learned = np.zeros((len(features), n_bits))
        learned[rows] = Z
        attributes = {"objective_": np.asarray(trace), "database_function_": linear(R)}
        return Learned(linear(W), learned, attributes)

    def _hash(self, features: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Database codes: what the frame gives training rows without labels."""
        return codes.pack(self.database_function_.project(features) >= 0)

    def _validate_labels(self, X: Rows, y: Any) -> Any:
        if self.similarity == "features":
            return np.zeros(X.shape[0], dtype=int)
        return super()._validate_labels(X, y)


class CentredLabels:
    """S of labels, shifted to mean 0 and scaled to a largest entry of 1, as products only.

    Uncentred, nearly all entries are -1 and bits that are +1 in all of B and -1 in all of Z would serve best.
    """

    def __init__(self, labels: sparse.csr_matrix) -> None:
        self._product = LabelProduct.of(labels)
        ones = np.ones((labels.shape[0], 1))
        self._mean = float((self._product @ ones).mean()) / len(ones)
        # With one class only S is constant; then the shift is left out.
        self._scale = self._product.similarity.largest - self._mean
        if self._scale <= 1e-12:
            self._mean, self._scale = 0.0, self._product.similarity.largest

    def __matmul__(self, Z: FloatArray) -> FloatArray:
        return (self._product @ Z - self._mean * Z.sum(axis=0)) / self._scale


class InnerProducts:
    """S = X X' over the mean squared length of a row, as products only."""

    def __init__(self, features: NDArray[np.float32]) -> None:
        self._features = features
        self._scale = float((features.astype(np.float64) ** 2).sum()) / len(features) or 1.0

    def __matmul__(self, Z: FloatArray) -> FloatArray:
        return self._features @ (self._features.T @ Z) / self._scale
