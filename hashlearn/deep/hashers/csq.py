"""CSQ: central similarity quantization, where every class has a center in Hamming space."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from hashlearn import codes
from hashlearn.constraints import NON_NEGATIVE
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.typing import Matrix

MOST_DRAWS = 200


class CSQ(DeepHasher):
    """Central similarity quantization: the target of a row is the majority of the centers of its labels.

    Centers are rows of a Hadamard matrix if n_bits is a power of two and there are at most 2 n_bits labels, otherwise
    they are drawn at random.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.CSQ(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="csq",
        title="CSQ",
        reference="Yuan et al., Central Similarity Quantization for Efficient Image and Video Retrieval (CVPR 2020)",
        year=2020,
        kind="deep, class codes",
        supervision=("classes", "label sets"),
        cost="O(T n F), T epochs, F a pass of the network",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {
        "head": "three-layer",
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "trunk_rate": 0.01,
        "batch_size": 64,
        "n_epochs": 90,
        "schedule": [(k / 9, 0.7) for k in range(1, 9)],
    }

    quantization: float = parameter(NON_NEGATIVE, "Weight of the quantization loss.", default=0.05)

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        return CSQLoss(self.n_bits_, labels, rng, quantization=self.quantization)


class CSQLoss(Loss):
    """Cross-entropy of (tanh u + 1) / 2 and (T + 1) / 2, plus quantization * mean((|tanh u| - 1)^2).

    T = sgn(Y C) is the majority of the centers; one fixed random vector decides ties.
    """

    def __init__(
        self, n_bits: int, labels: sparse.csr_matrix, rng: np.random.RandomState, *, quantization: float = 0.05
    ) -> None:
        self.quantization = quantization
        centers = hash_centers(labels.shape[1], n_bits, rng)
        votes = np.asarray(labels @ centers.astype(np.float64))
        ties = np.where(rng.random_sample(n_bits) < 0.5, 1.0, -1.0)
        self.targets = torch.from_numpy(np.where(votes == 0, ties, votes) > 0).float()

    def forward(self, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        # sigmoid(2 u) = (tanh u + 1) / 2, whose logarithm does not overflow in this form.
        fit = torch.nn.functional.binary_cross_entropy_with_logits(2.0 * u, self.targets[idx].to(u.dtype))
        return fit + self.quantization * ((torch.tanh(u).abs() - 1.0) ** 2).mean()


def hash_centers(n_labels: int, n_bits: int, rng: np.random.RandomState) -> NDArray[np.int8]:
    """Centers (n_labels, n_bits) in {-1, +1}, far from each other.

    If there are enough of them, rows of a Hadamard matrix and its negative, with columns shuffled and flipped, because
    the first column would otherwise be constant and its bit useless. Otherwise random codes with half of the bits +1,
    drawn until the least distance is above n_bits / 4 and the mean at least n_bits / 2; after 200 draws, the draw with
    the largest least distance.
    """
    if n_bits & (n_bits - 1) == 0 and n_labels <= 2 * n_bits:
        hadamard = linalg.hadamard(n_bits)
        rows = np.concatenate([hadamard, -hadamard])[:n_labels]
        flips = np.where(rng.random_sample(n_bits) < 0.5, 1, -1)
        return (rows[:, rng.permutation(n_bits)] * flips).astype(np.int8)
    half = np.where(np.arange(n_bits) < n_bits // 2, 1, -1).astype(np.int8)
    best: tuple[float, NDArray[np.int8]] | None = None
    for _ in range(MOST_DRAWS):
        drawn = np.stack([rng.permutation(half) for _ in range(n_labels)])
        least, mean = _distances(drawn)
        if least > n_bits / 4 and mean >= n_bits / 2:
            return drawn
        if best is None or least > best[0]:
            best = least, drawn
    assert best is not None
    return best[1]


def _distances(centers: NDArray[np.int8]) -> tuple[float, float]:
    """The least and the mean distance between two centers."""
    if len(centers) < 2:
        return np.inf, np.inf
    packed = codes.pack(centers)
    distances = codes.hamming_distances(packed, packed)[np.triu_indices(len(centers), 1)]
    return float(distances.min()), float(distances.mean())
