"""SSH: projections that agree with labels and keep variance, at once or one after the other."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils._param_validation import Interval, StrOptions

from hashlearn.fitting.frames.in_memory import Learned, LinearHasher, linear
from hashlearn.primitives import LabelProduct, labelled_rows, steps, top_eigenvectors
from hashlearn.typing import FloatArray


class SSH(LinearHasher):
    """Semi-supervised hashing: max tr(W' M W) / 2 for M = L'S L + eta X'X subject to W'W = I.

    X are all rows, centred, L the labelled ones, S is +1 for pairs with a shared label and -1 for others. Rows
    without labels take part through the variance X'X, which is what the method is for.

    "orthogonal" takes the top eigenvectors U of M; "non-orthogonal" takes T U for I + M / rho = T T' (Cholesky);
    "sequential" (S3PLH) takes one top eigenvector after the other, each time raising the weight of the pairs that the
    last one gets wrong and removing its direction from the rows.

    The paper was not at hand: this follows notes on it (``verified`` is False), with our own scales for eta, rho and
    the step. Past the number of features the bits are random mixtures of the directions. ``codes_`` are hashed.

    Parameters
    ----------
    n_bits : int, default=64
    variant : {"sequential", "orthogonal", "non-orthogonal"}, default="sequential"
    eta : float, default=1.0
        Weight of the variance; at 1 both parts of M have the same trace.
    step : float, default=1.0
        How much the worst pair is raised; "sequential" only.
    rho : float, default=1.0
        In largest eigenvalues of M, above the least admissible one; "non-orthogonal" only.
    n_samples : int, default=2000
        Labelled rows whose pairs "sequential" weighs one by one, drawn at random.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    eigenvalues_ : ndarray (min(n_bits, n_features),), of each direction when it was chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import SSH
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> SSH(n_bits=16, random_state=0).fit(X, np.arange(100) % 4).encode(X).shape
    (100, 2)
    """

    title: ClassVar[str] = "SSH"
    reference: ClassVar[str] = "Wang et al., Semi-Supervised Hashing for Large-Scale Search (TPAMI 2012)"
    year: ClassVar[int] = 2012
    kind: ClassVar[str] = "pairwise, spectral"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(n d^2 + m (d^3 + s^2 d)) for s sampled rows"
    verified: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearHasher._parameter_constraints,
        "variant": [StrOptions({"sequential", "orthogonal", "non-orthogonal"})],
        "eta": [Interval(numbers.Real, 0, None, closed="left")],
        "step": [Interval(numbers.Real, 0, None, closed="left")],
        "rho": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_samples": [Interval(numbers.Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        variant: str = "sequential",
        eta: float = 1.0,
        step: float = 1.0,
        rho: float = 1.0,
        n_samples: int = 2000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.variant = variant
        self.eta = eta
        self.step = step
        self.rho = rho
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(
        self, features: NDArray[np.float32], labels: sparse.csr_matrix | None, rng: np.random.RandomState
    ) -> Learned:
        assert labels is not None
        rows = labelled_rows(labels)
        if self.variant == "sequential":
            rows = np.sort(rng.permutation(rows)[: self.n_samples])
        everyone, known = features.astype(np.float64), features[rows].astype(np.float64)
        similarity = LabelProduct.of(labels[rows], relevance="binary", dissimilar=-1.0)
        fit, variance = similarity.quadratic(known), everyone.T @ everyone
        balance = abs(np.trace(fit)) / max(np.trace(variance), 1e-300)
        variance *= self.eta * (balance or 1.0)
        count = min(self.n_bits_, features.shape[1])
        if self.variant == "sequential":
            signs = similarity.similarity.table(*2 * [np.arange(similarity.n_groups)])
            pairs = signs[similarity.group][:, similarity.group]
            values, directions = sequential(known, pairs, variance, count, self.step)
        else:
            values, directions = top_eigenvectors(fit + variance, count)
            if self.variant == "non-orthogonal":
                directions = cholesky_factor(fit + variance, self.rho) @ directions
        if self.n_bits_ > count:
            mixtures = directions @ rng.standard_normal((count, self.n_bits_ - count))
            directions = np.concatenate([directions, mixtures], axis=1)
        return Learned(linear(directions), attributes={"eigenvalues_": values})


def sequential(
    known: FloatArray, pairs: FloatArray, variance: FloatArray, count: int, step: float
) -> tuple[FloatArray, FloatArray]:
    """One direction after the other: top eigenvector, raise the pairs it gets wrong, remove it from the rows."""
    known, pairs, variance = known.copy(), pairs.copy(), variance.copy()
    values, directions = np.zeros(count), np.zeros((known.shape[1], count))
    for k in steps(count, "bits"):
        matrix = known.T @ (pairs @ known) + variance
        # Removed directions have eigenvalue 0, which could be the largest one: push them far below.
        taken = directions[:, :k]
        top, vector = top_eigenvectors(matrix - 3 * (np.linalg.norm(matrix) + 1.0) * (taken @ taken.T), 1)
        w = vector[:, 0]
        values[k], directions[:, k] = top[0], w
        projected = known @ w
        agreement = np.outer(projected, projected) / max(float(np.abs(projected).max()) ** 2, 1e-300)
        pairs -= step * np.where(agreement * pairs < 0, agreement, 0.0)
        known -= np.outer(projected, w)
        half = variance - np.outer(w, w @ variance)
        variance = half - np.outer(half @ w, w)
    return values, directions


def cholesky_factor(matrix: FloatArray, rho: float) -> FloatArray:
    """Lower T with T T' = I + matrix / r, where r is rho top eigenvalues above the least one that has such a T."""
    values = linalg.eigvalsh(matrix)
    least = max(0.0, -float(values[0])) + rho * max(float(values[-1]), 1e-12)
    return linalg.cholesky(np.eye(len(matrix)) + matrix / least, lower=True)
