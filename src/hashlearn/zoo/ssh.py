"""SSH: projections that agree with labels and keep variance, learned together or one after the other."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.functions.linalg import top_eigenvectors
from hashlearn.hashers.in_memory import InMemoryHasher, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import NON_NEGATIVE, POSITIVE, Interval, Options, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.bases.primitives import LabelProduct, labeled_rows, with_mixtures


class SSH(InMemoryHasher):
    """Semi-supervised hashing: max tr(W' M W) / 2 for M = L'S L + eta X'X subject to W'W = I.

    X are all rows, centered, L the labeled ones, S is +1 for pairs with a shared label and -1 for others. Rows without
    labels matter through the variance X'X, which is the purpose of the method.

    "orthogonal" takes the top eigenvectors U of M; "non-orthogonal" takes T U for I + M / rho = T T' (Cholesky);
    "sequential" (S3PLH) takes one top eigenvector after the other, each time raising the weight of the pairs that the
    last one gets wrong and removing its direction from the rows.

    We did not have the paper; this follows notes on it (``verified`` is False), with our own scales for eta, rho and
    the step. Bits beyond the number of features are random mixtures of the directions. Training codes are hashed.
    """

    info = MethodInfo(
        name="ssh",
        reference="Wang et al., Semi-Supervised Hashing for Large-Scale Search (TPAMI 2012)",
        kind="pairwise, spectral",
        cost="O(n d^2 + m (d^3 + s^2 d)) for s sampled rows",
        slow=True,
    )

    variant: str = parameter(
        Options("sequential", "orthogonal", "non-orthogonal"),
        "How directions are found; see above.",
        default="sequential",
    )
    eta: float = parameter(
        NON_NEGATIVE, "Weight of the variance; at 1 both parts of M have the same trace.", default=1.0
    )
    step: float = parameter(
        NON_NEGATIVE, "How much the weight of the worst pair is raised; 'sequential' only.", default=1.0
    )
    rho: float = parameter(
        POSITIVE,
        "rho above its least admissible value, in units of the largest eigenvalue of M; 'non-orthogonal' only.",
        default=1.0,
    )
    n_samples: int = parameter(
        Interval(int, 2), "Labeled rows whose pairs 'sequential' weights one by one, drawn at random.", default=2000
    )

    eigenvalues_: FloatArray = fitted("(min(n_bits, n_features),) Eigenvalue of each direction when it was chosen.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        rows = labeled_rows(labels)
        if self.variant == "sequential":
            rows = np.sort(rng.permutation(rows)[: self.n_samples])
        everyone, known = features.astype(np.float64), features[rows].astype(np.float64)
        similarity = LabelProduct.from_labels(labels[rows], relevance="binary", dissimilar=-1.0)
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
        directions = with_mixtures(directions, self.n_bits_, rng)
        return Learned(linear(directions), eigenvalues_=values)


def sequential(
    known: FloatArray, pairs: FloatArray, variance: FloatArray, count: int, step: float
) -> tuple[FloatArray, FloatArray]:
    """Return one direction after the other: top eigenvector, raise the pairs it gets wrong, remove it from the rows."""
    known, pairs, variance = known.copy(), pairs.copy(), variance.copy()
    values, directions = np.zeros(count), np.zeros((known.shape[1], count))
    for k in steps(count, "bits"):
        matrix = known.T @ (pairs @ known) + variance
        # Removed directions have eigenvalue 0, which could be the largest one, so they are pushed far below.
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
