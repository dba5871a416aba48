"""CCA-ITQ: directions that correlate with the labels, rotated towards their signs."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from scipy import linalg
from sklearn.utils._param_validation import Interval

from hashlearn.fitting.frames.gram import GramHasher, GramSums, LearnedFunction, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.job import Job
from hashlearn.primitives import itq_rotation, top_generalised
from hashlearn.typing import FloatArray


class CCAITQ(GramHasher):
    """Canonical correlations of features and labels, scaled by correlation, then ITQ's rotation.

    c labels give at most c - 1 useful directions (c for label sets); further bits are rotations of those. Bits are the
    signs after the last rotation; the authors' code keeps training codes from half a step earlier. Correlations that
    rounding makes negative count as 0, where the authors' code takes their square root.

    Database protocol: hashed. ``codes_`` are those of ``encode``.

    Parameters
    ----------
    n_bits : int, default=64
    kernel : {"rbf", "rbf-fixed"} or None, default=None
        None for the features as they are, as in the paper; "rbf" retrieves better.
    n_landmarks : int, default=1000
    ridge : float, default=1e-4
        Added to the variances of features and labels.
    n_iter : int, default=50
        Rounds of ITQ.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    correlations_ : ndarray, canonical correlations of the directions used, descending.
    losses_ : ndarray (n_iter,), ITQ's loss after every round; never rises.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import CCAITQ
    >>> X, y = load_digits(return_X_y=True)
    >>> CCAITQ(n_bits=16, random_state=0).fit(X, y).encode(X).shape
    (1797, 2)
    """

    title: ClassVar[str] = "CCA-ITQ"
    reference: ClassVar[str] = "Gong and Lazebnik, Iterative Quantization: A Procrustean Approach (CVPR 2011)"
    year: ClassVar[int] = 2011
    kind: ClassVar[str] = "quantisation"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(n (d + c)^2 + d^3 + n m^2)"
    verified: ClassVar[bool] = True
    passes: ClassVar[str | None] = "3"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GramHasher._parameter_constraints,
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        kernel: str | None = None,
        n_landmarks: int = 1000,
        ridge: float = 1e-4,
        n_iter: int = 50,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.ridge = ridge
        self.n_iter = n_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        mean = sums.x / sums.count
        directions, correlations = canonical_directions(sums, self.ridge, self.n_bits_)
        # Spread over all bits: ITQ rotates the zero columns among the others.
        scaled = np.pad(directions * correlations, ((0, 0), (0, self.n_bits_ - len(correlations))))
        rotation, losses = itq_rotation(self._sample(training, scaled, job) - mean @ scaled, rng, self.n_iter)
        weights = scaled @ rotation
        return LearnedFunction(
            linear(weights, -mean @ weights),
            attributes={"correlations_": correlations, "losses_": np.asarray(losses)},
        )


def canonical_directions(sums: GramSums, ridge: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Directions w with C_xy C_yy^-1 C_yx w = rho^2 C_xx w, and rho, the ``count`` largest ones or all there are."""
    n, width = sums.count, len(sums.x)
    share = 1 / max(n - 1, 1)
    C_yy = share * (sums.yy - np.outer(sums.y, sums.y) / n) + ridge * np.eye(len(sums.y))
    C_xx = share * (sums.xx - np.outer(sums.x, sums.x) / n) + ridge * np.eye(width)
    C_yx = share * (sums.xy - np.outer(sums.x, sums.y) / n).T
    explained = C_yx.T @ linalg.solve(C_yy, C_yx, assume_a="pos")
    squares, directions = top_generalised(explained, C_xx, min(count, width), ridge=0.0)
    return directions, np.sqrt(np.maximum(squares, 0.0))
