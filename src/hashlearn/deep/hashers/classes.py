"""Deep methods that learn from the labels of each row alone, each with its loss: CSQ, OrthoHash, DLBHC and DSCH."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn import codes
from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import classified, label_shares, new_classifier, unit_rows
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import NON_NEGATIVE, POSITIVE, parameter
from hashlearn.typing import Rng

MOST_DRAWS = 200


class CSQ(DeepHasher):
    """Central similarity quantization: the target of a row is the majority of the centers of its labels.

    Centers are rows of a Hadamard matrix if n_bits is a power of two and there are at most 2 n_bits labels, otherwise
    they are drawn at random.
    """

    info = MethodInfo(
        name="csq",
        title="CSQ",
        reference="Yuan et al., Central Similarity Quantization for Efficient Image and Video Retrieval (CVPR 2020)",
        kind="deep, class codes",
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

    def _kept(self, labels: LabelMatrix, rng: Rng) -> dict[str, Any]:
        centers = hash_centers(labels.shape[1], self.n_bits, rng)
        votes = np.asarray(labels @ centers.astype(np.float64))
        ties = np.where(rng.random_sample(self.n_bits) < 0.5, 1.0, -1.0)
        return {"targets": torch.from_numpy(np.where(votes == 0, ties, votes) > 0).float()}

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of (tanh u + 1) / 2 and (T + 1) / 2, plus quantization * mean((|tanh u| - 1)^2).

        T = sgn(Y C) is the majority of the centers; one fixed random vector decides ties.
        """
        # sigmoid(2 u) = (tanh u + 1) / 2, whose logarithm does not overflow in this form.
        fit = torch.nn.functional.binary_cross_entropy_with_logits(2.0 * u, kept.targets[idx].to(u.dtype))
        return fit + self.quantization * ((torch.tanh(u).abs() - 1.0) ** 2).mean()


def hash_centers(n_labels: int, n_bits: int, rng: Rng) -> NDArray[np.int8]:
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
    """Return the least and the mean distance between two centers."""
    if len(centers) < 2:
        return np.inf, np.inf
    packed = codes.pack(centers)
    distances = codes.hamming_distances(packed, packed)[np.triu_indices(len(centers), 1)]
    return float(distances.min()), float(distances.mean())


class OrthoHash(DeepHasher):
    """Cosine softmax towards random binary centers, with a margin; batch normalization balances the bits."""

    info = MethodInfo(
        name="orthohash",
        title="OrthoHash",
        reference="Hoe et al., One Loss for All: Deep Hashing with a Single Cosine Similarity (NeurIPS 2021)",
        kind="deep, class codes",
        cost="O(T n F), T epochs, F a pass of the network",
        verified=True,
    )
    head_of_method: ClassVar[str] = "batchnorm"
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "adam",
        "learning_rate": 1e-4,
        "trunk_rate": 0.1,
        "weight_decay": 5e-4,
        "batch_size": 256,
        "n_epochs": 100,
        "schedule": [(0.8, 0.1)],
    }

    scale: float = parameter(POSITIVE, "Scale of the cosines in the softmax.", default=8.0)
    margin: float = parameter(NON_NEGATIVE, "What is subtracted from the cosines of a row's own labels.", default=0.2)

    def _kept(self, labels: LabelMatrix, rng: Rng) -> dict[str, Any]:
        centers = np.where(rng.random_sample((labels.shape[1], self.n_bits)) < 0.5, 1.0, -1.0)
        # Scaled to length 1, so that a cosine is one product.
        return {"centers": torch.from_numpy(centers / np.sqrt(self.n_bits)).float()}

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Softmax cross-entropy of scale (cos(u, C) - margin Y) and Y / |Y|; C are random ±1 centers, one per label."""
        cosine = unit_rows(u) @ kept.centers.to(u.dtype).T
        scores = self.scale * (cosine - self.margin * Y)
        return torch.nn.functional.cross_entropy(scores, label_shares(Y))


class DLBHC(DeepHasher):
    """Deep learning of binary hash codes: a classifier reads the labels from sigmoid outputs, whose bits are at 0.5.

    Nothing but the classifier says what bits should be. With label sets the targets of the softmax are shared equally
    by a row's labels. We know the method from notes (``verified`` is False); the paper also rescores by the features of
    the network, which is not a matter of codes.
    """

    learned_by_loss = ("classifier", "intercept")
    info = MethodInfo(
        name="dlbhc",
        title="DLBHC",
        reference="Lin, Yang, Hsiao and Chen, Deep Learning of Binary Hash Codes for Fast Image Retrieval (CVPRW 2015)",
        kind="deep, classification",
        cost="O(T n (F + m c)), T epochs, F a pass of the network",
    )

    def _kept(self, labels: LabelMatrix, rng: Rng) -> dict[str, Any]:
        return new_classifier(labels, self.n_bits, rng)

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Softmax cross-entropy of a linear classifier of sigmoid(u)."""
        return classified(kept, torch.sigmoid(u), Y)


class DSCH(DeepHasher):
    """Deep supervised convolutional hashing: softmax of the bits tanh(u), with penalties for quantization and balance.

    We know the method from notes (``verified`` is False); the authors' weights are not known, so both are parameters.
    """

    learned_by_loss = ("classifier", "intercept")
    info = MethodInfo(
        name="dsch",
        title="DSCH",
        reference="Sapkota and Bhanu, Deep Supervised Convolutional Hashing (2018)",
        kind="deep, classification",
        cost="O(T n (F + m c)), T epochs, F a pass of the network",
    )

    quantization: float = parameter(NON_NEGATIVE, "Weight of the mean of (|b| - 1)^2.", default=0.1)
    balance: float = parameter(NON_NEGATIVE, "Weight of the mean square of a bit's mean over the batch.", default=0.1)

    def _kept(self, labels: LabelMatrix, rng: Rng) -> dict[str, Any]:
        return new_classifier(labels, self.n_bits, rng)

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Softmax cross-entropy of a linear classifier of b = tanh(u), plus quantization and balance of b."""
        b = torch.tanh(u)
        undecided, unbalanced = ((b.abs() - 1.0) ** 2).mean(), (b.mean(dim=0) ** 2).mean()
        return classified(kept, b, Y) + self.quantization * undecided + self.balance * unbalanced
