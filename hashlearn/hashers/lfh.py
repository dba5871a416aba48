"""LFH: real factors whose inner products explain who is similar, then their signs."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.special import expit
from sklearn.utils._param_validation import Interval

from hashlearn.codes import sign
from hashlearn.hashers.linear import FloatArray, Learned, LinearHasher, linear
from hashlearn.primitives import RidgeSolver, labelled_rows, steps, top_eigenvectors


class LFH(LinearHasher):
    """Latent factor hashing: max sum over pairs of s t - log(1 + e^t), t = u.u' / 2, minus |U|^2 / (2 beta').

    s is 1 if two rows share a label, else 0. A round samples m rows and moves all others by one Newton-like step with
    a bound on the curvature, so what they score against the sample never falls; the score over all pairs may. Codes
    are the signs of U and the hash function regresses U itself. Features are scaled to unit variance on the training
    rows alone. With more bits than features, the factors past the principal components start as random projections;
    the authors' code repeats features, but equal columns would stay equal for ever.

    Database protocol: learned. ``codes_`` are the signs of U, which derive from the labels; ``encode(X)`` hashes the
    database.

    Parameters
    ----------
    n_bits : int, default=64
        Also the number of rows sampled a round.
    kernel : {"rbf", "rbf-fixed"} or None, default=None
        None for the features as they are, as the authors' code; "rbf" retrieves better.
    n_landmarks : int, default=1000
    beta : float, default=30.0
        Spread of the factors: beta' = beta / n_bits.
    ridge : float, default=1.0
        Ridge of the hash function as a multiple of rows / features.
    n_iter : int, default=50
        Rounds.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    objective_ : ndarray (n_iter, 2), the score of the rows outside the sample before and after each round.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import LFH
    >>> X, y = load_digits(return_X_y=True)
    >>> LFH(n_bits=16, random_state=0).fit(X, y).encode(X).shape
    (1797, 2)
    """

    title: ClassVar[str] = "LFH"
    reference: ClassVar[str] = "Zhang, Zhang, Li and Guo, Supervised Hashing with Latent Factor Models (SIGIR 2014)"
    year: ClassVar[int] = 2014
    kind: ClassVar[str] = "pairwise"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(T n m^2 + n d^2), T rounds"
    verified: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearHasher._parameter_constraints,
        "beta": [Interval(numbers.Real, 0, None, closed="neither")],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        kernel: str | None = None,
        n_landmarks: int = 1000,
        beta: float = 30.0,
        ridge: float = 1.0,
        n_iter: int = 50,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.beta = beta
        self.ridge = ridge
        self.n_iter = n_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(
        self, features: NDArray[np.float32], labels: sparse.csr_matrix | None, rng: np.random.RandomState
    ) -> Learned:
        assert labels is not None
        rows = labelled_rows(labels)
        n, width = len(rows), features.shape[1]
        spread = features.std(axis=0, dtype=np.float64)
        spread[spread == 0] = 1.0
        X, Y = (features[rows] / spread).astype(np.float32), labels[rows]
        regression = RidgeSolver(X, self.ridge * n / width)
        _, components = top_eigenvectors(regression.gram, min(self.n_bits_, width))
        extra = rng.standard_normal((width, self.n_bits_ - components.shape[1])) / np.sqrt(width)
        U = (X @ np.hstack([components, extra]).astype(np.float32)).astype(np.float64)
        prior, objective = self.n_bits_ / self.beta, []
        for _ in steps(self.n_iter, "rounds"):
            sample = rng.choice(n, min(self.n_bits_, n), replace=False)
            others = np.setdiff1d(np.arange(n), sample)
            similar = (Y[others] @ Y[sample].T).toarray() > 0
            before = score(U[others], U[sample], similar, prior)
            U[others] = ascend(U[others], U[sample], similar, prior)
            objective.append((before, score(U[others], U[sample], similar, prior)))
        return Learned(linear(regression.solve(U) / spread[:, None]), sign(U), {"objective_": np.asarray(objective)})


def score(U: FloatArray, V: FloatArray, similar: NDArray[np.bool_], prior: float) -> float:
    """Log posterior of the rows U given the rows V; each pair counts twice, once from either side."""
    theta = U @ V.T / 2
    return float(2 * (similar * theta - np.logaddexp(0, theta)).sum() - prior / 2 * (U**2).sum())


def ascend(U: FloatArray, V: FloatArray, similar: NDArray[np.bool_], prior: float) -> FloatArray:
    """Every row of U moved up its score. V'V / 8 + prior I bounds the curvature, since a logistic's is at most 1/4."""
    gradient = (similar - expit(U @ V.T / 2)) @ V - prior * U
    curvature = V.T @ V / 8 + prior * np.eye(V.shape[1])
    return U + linalg.solve(curvature, gradient.T, assume_a="pos").T
