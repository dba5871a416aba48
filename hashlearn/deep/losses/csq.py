"""CSQ: every class has a centre in Hamming space, every row a target made of the centres of its labels."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg, sparse
from torch import Tensor
from torch.nn import functional

from hashlearn import codes
from hashlearn.deep.losses.pairs import Loss

MOST_DRAWS = 200


class CSQLoss(Loss):
    """Cross-entropy of (tanh u + 1) / 2 and (T + 1) / 2, plus quantization * mean((|tanh u| - 1)^2).

    T = sgn(Y C): the majority of the centres, ties decided by one fixed random vector.
    """

    targets: Tensor

    def __init__(
        self, n_bits: int, labels: sparse.csr_matrix, rng: np.random.RandomState, *, quantization: float = 0.05
    ) -> None:
        super().__init__()
        self.quantization = quantization
        centers = hash_centers(labels.shape[1], n_bits, rng)
        votes = np.asarray(labels @ centers.astype(np.float64))
        ties = np.where(rng.random_sample(n_bits) < 0.5, 1.0, -1.0)
        targets = np.where(votes == 0, ties, votes) > 0
        self.register_buffer("targets", torch.from_numpy(targets).float(), persistent=False)

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        # sigmoid(2 u) = (tanh u + 1) / 2, without the overflow of a logarithm of it.
        fit = functional.binary_cross_entropy_with_logits(2.0 * u, self.targets[idx].to(u.dtype))
        return fit + self.quantization * ((torch.tanh(u).abs() - 1.0) ** 2).mean()


def hash_centers(n_labels: int, n_bits: int, rng: np.random.RandomState) -> NDArray[np.int8]:
    """Centres (n_labels, n_bits) in {-1, +1}, far from each other.

    Rows of a Hadamard matrix and its negative where there are enough of them, with columns shuffled and flipped: the
    first one would be constant otherwise, a bit wasted. Else random halves of +1, drawn until the least distance is
    above n_bits / 4 and the mean at least n_bits / 2; after 200 draws, the draw with the largest least distance.
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
    """The least and the mean distance between two centres."""
    if len(centers) < 2:
        return np.inf, np.inf
    packed = codes.pack(centers)
    distances = codes.hamming_distances(packed, packed)[np.triu_indices(len(centers), 1)]
    return float(distances.min()), float(distances.mean())
