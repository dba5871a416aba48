"""Deep methods that learn from pairs of rows, each with its loss: DHN, HashNet, DCH, DPSH and DSH."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import (
    logcosh,
    logistic,
    off_diagonal,
    shared_labels,
    similar_share,
    similarity,
    squared_distances,
    unit_rows,
)
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import FLAG, NON_NEGATIVE, POSITIVE, Options, parameter
from hashlearn.typing import Rng

COSINE_SCALE = 10.0


class DHN(DeepHasher):
    """Deep hashing network: pairwise logistic loss on inner products of tanh outputs, and a quantization loss."""

    info = MethodInfo(
        name="dhn",
        title="DHN",
        reference="Zhu et al., Deep Hashing Network for Efficient Similarity Retrieval (AAAI 2016)",
        kind="deep, pairwise",
        cost="O(T n (F + b m)), T epochs, F a pass of the network, b rows per batch",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 2e-5,
        "weight_decay": 5e-4,
        "batch_size": 64,
    }

    form: str = parameter(
        Options("paper", "code", "tensorflow"),
        "The printed loss; the authors' Caffe code, whose quantization weighs n_bits times more; or their later port, "
        "with cosines.",
        default="paper",
    )
    alpha: float | None = parameter(
        [None, POSITIVE],
        "Scale of inner products; None is 10 / n_bits. The paper has 1, which saturates from about 32 bits on.",
        default=None,
    )
    quantization: float | None = parameter(
        [None, NON_NEGATIVE], "Weight of the quantization loss; None is 0.2, and 0 for the port.", default=None
    )

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Mean over pairs of softplus(theta) - s theta, theta = alpha t_i . t_j, t = tanh u, plus a quantization loss.

        ``form="paper"`` adds quantization * mean(logcosh(|t| - 1)). "code" is the authors' Caffe code, which divides
        the gradient of that term by b and not by b m, so its weight is m times larger. "tensorflow" is their later
        port: cosine times 10, similar pairs weighted by N / N_1, quantization * mean((|t| - 1)^2).
        """
        form, strength = self.form, self.quantization
        if strength is None:
            strength = 0.0 if form == "tensorflow" else 0.2
        t = torch.tanh(u)
        similar = similarity(Y)
        pairs = off_diagonal(len(u), u)
        if form == "tensorflow":
            unit = unit_rows(t)
            cost = logistic(COSINE_SCALE * (unit @ unit.T), similar)
            n_similar = (similar * pairs).sum().clamp(min=1.0)
            weight = 1.0 + similar * (pairs.sum() / n_similar - 1.0)
            quantization = ((t.abs() - 1.0) ** 2).mean()
        else:
            cost = logistic((self.alpha or 10.0 / self.n_bits) * (t @ t.T), similar)
            weight = torch.ones_like(similar)
            quantization = logcosh(t.abs() - 1.0).mean()
            strength = strength * self.n_bits if form == "code" else strength
        return (cost * weight * pairs).sum() / pairs.sum() + strength * quantization


class HashNet(DeepHasher):
    """Hashing by continuation: weighted logistic loss on tanh(beta u), whose beta grows until tanh is nearly a sign."""

    info = MethodInfo(
        name="hashnet",
        title="HashNet",
        reference="Cao et al., HashNet: Deep Learning to Hash by Continuation (ICCV 2017)",
        kind="deep, pairwise",
        cost="O(T n (F + b m)), T epochs, F a pass of the network, b rows per batch",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 5e-5,
        "weight_decay": 5e-4,
        "batch_size": 72,
        "pairs": "halves",
        "schedule": [(0.2, 0.5), (0.4, 0.5), (0.6, 0.5), (0.8, 0.5)],
    }

    form: str = parameter(
        Options("code", "paper"),
        "Weights of pairs: N / N_1 for similar ones and 1 for others (the authors' code), or N / N_1 and N / N_0 (the "
        "paper), counted in the training set.",
        default="code",
    )
    alpha: float | None = parameter(
        [None, POSITIVE], "Scale of inner products; None is 10 / n_bits, the authors' value.", default=None
    )
    class_num: float | None = parameter(
        [None, POSITIVE], "The weight of similar pairs, in place of the count.", default=None
    )
    overlap: bool = parameter(FLAG, "Weigh similar pairs of label sets by how much they share.", default=False)
    pairs: str = parameter(
        Options("all", "halves"),
        "All pairs of a batch, or its first half against the second, as the authors do.",
        default="all",
    )

    def _kept(self, labels: LabelMatrix, rng: Rng) -> dict[str, Any]:
        # A training set may have no similar pair at all, or no dissimilar one: then the other weight decides alone.
        share = similar_share(labels)
        similar = self.class_num or (1.0 / share if share > 0 else 1.0)
        other = 1.0 if self.form == "code" or share >= 1 else 1.0 / (1.0 - share)
        return {"similar_weight": similar, "other_weight": other}

    @staticmethod
    def beta(step: int) -> float:
        return math.sqrt(1.0 + 0.005 * (step // 200 * 200))

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """sum w [softplus(theta) - s theta] / sum w, theta = alpha t_i . t_j, t = tanh(beta u).

        Weights w count the pairs of the training set, not of the batch. Similar pairs of label sets are weighted by
        4 r_ij^2 / (r_ii r_jj) in the code (there on the gradient alone), by the Jaccard index in the paper.
        beta = sqrt(1 + 0.005 k) is updated every 200 batches.
        """
        t = torch.tanh(self.beta(step) * u)
        if self.pairs == "halves":
            half = len(u) // 2
            rows, others = slice(0, half), slice(half, None)
            known: torch.Tensor | float = 1.0
        else:
            rows = others = slice(None)
            known = off_diagonal(len(u), u)
        shared = shared_labels(Y[rows], Y[others])
        similar = (shared > 0).to(u.dtype)
        weight = known * (similar * kept.similar_weight + (1.0 - similar) * kept.other_weight)
        if self.overlap:
            weight = weight * torch.where(shared > 0, self._overlap(shared, Y[rows], Y[others]), 1.0)
        cost = logistic((self.alpha or 10.0 / self.n_bits) * (t[rows] @ t[others].T), similar)
        return (weight * cost).sum() / weight.sum()

    def _overlap(self, shared: torch.Tensor, Y: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        sizes, other_sizes = Y.sum(dim=1)[:, None], others.sum(dim=1)[None, :]
        if self.form == "paper":
            return shared / (sizes + other_sizes - shared).clamp(min=1.0)
        return 4.0 * shared**2 / (sizes * other_sizes).clamp(min=1.0)


LEAST_DISTANCE = {"code": 1e-3, "paper": 1e-6}


class DCH(DeepHasher):
    """Deep Cauchy hashing: a pair is similar with probability gamma / (gamma + d), so small distances cost most.

    It was made for search within a small Hamming radius.
    """

    info = MethodInfo(
        name="dch",
        title="DCH",
        reference="Cao et al., Deep Cauchy Hashing for Hamming Space Retrieval (CVPR 2018)",
        kind="deep, pairwise",
        cost="O(T n (F + b m)), T epochs, F a pass of the network, b rows per batch",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 5e-3,
        "weight_decay": 0.0,
        "batch_size": 128,
    }

    form: str = parameter(
        Options("code", "paper"),
        "'code' is the authors' released loss (squared distances of tanh outputs), 'paper' the printed one (cosine "
        "distance). They differ in more than details; the code scores higher.",
        default="code",
    )
    gamma: float = parameter(POSITIVE, "Scale of the Cauchy distribution.", default=20.0)
    quantization: float | None = parameter(
        [None, NON_NEGATIVE],
        "Weight of the quantization loss; None is 0 for the code (as released) and 0.1 for the paper form.",
        default=None,
    )

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Mean over pairs of w [log(1 + d / gamma) + (1 - s) log(gamma / d)], plus a quantization loss.

        ``form="paper"`` has d = (m/2)(1 - cos(u_i, u_j)), weights N / N_1 and N / N_0 and
        quantization * mean log(1 + d(|u|, 1) / gamma). "code" is the authors' released one: d = |t_i - t_j|^2 + 0.001
        with t = tanh u, similar pairs weighted by N / N_1 and others by 1, quantization * mean((|t| - 1)^2).
        N, N_1, N_0 count pairs of the batch; the code also counts each row with itself.
        """
        form, gamma, strength = self.form, float(self.gamma), self.quantization
        if strength is None:
            strength = 0.0 if form == "code" else 0.1
        similar = similarity(Y)
        pairs = off_diagonal(len(u), u)
        if form == "code":
            t = torch.tanh(u)
            distance = squared_distances(t) + LEAST_DISTANCE["code"]
            weight = 1.0 + similar * (similar.numel() / similar.sum().clamp(min=1.0) - 1.0)
            quantization = ((t.abs() - 1.0) ** 2).mean()
        else:
            distance = self._half_cosine(u, u)
            total, n_similar = pairs.sum(), (similar * pairs).sum()
            weight = similar * (total / n_similar.clamp(min=1.0))
            weight = weight + (1.0 - similar) * (total / (total - n_similar).clamp(min=1.0))
            to_corner = self._half_cosine(u.abs(), torch.ones_like(u[:1]))
            quantization = torch.log1p(to_corner / gamma).mean()
        cost = torch.log1p(distance / gamma) + (1.0 - similar) * (math.log(gamma) - distance.log())
        return (cost * weight * pairs).sum() / pairs.sum() + strength * quantization

    def _half_cosine(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """(m/2)(1 - cos), which is the Hamming distance of codes."""
        cosine = unit_rows(u) @ unit_rows(v).T
        return (self.n_bits / 2.0 * (1.0 - cosine)).clamp(min=LEAST_DISTANCE["paper"])


class DPSH(DeepHasher):
    """Deep pairwise-supervised hashing: logistic loss of a batch against the last outputs of all training rows.

    It keeps the outputs (n, n_bits) and the dense label sets (n, c) of all training rows in memory.
    """

    learned_by_loss = ("outputs",)
    info = MethodInfo(
        name="dpsh",
        title="DPSH",
        reference="Li, Wang and Kang, Feature Learning based Deep Supervised Hashing with Pairwise Labels (IJCAI 2016)",
        kind="deep, pairwise",
        cost="O(T n (F + n m)), T epochs, F a pass of the network",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "weight_decay": 1e-5,
        "batch_size": 128,
        "n_epochs": 150,
        "schedule": [(1 / 3, 0.1), (2 / 3, 0.1)],
    }

    quantization: float = parameter(
        NON_NEGATIVE, "Weight of |u - sgn u|^2; both terms are divided by the number of pairs.", default=50.0
    )

    def _kept(self, labels: LabelMatrix, rng: Rng) -> dict[str, Any]:
        return {
            "outputs": torch.zeros(labels.shape[0], self.n_bits),
            "labels": torch.from_numpy(labels.toarray()).float(),
        }

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Sum over (batch, training set) of softplus(theta) - s theta with theta = u_i . u_j / 2, plus quantization.

        The latter is quantization * |u - sgn u|^2; both are divided by b n. The outputs of rows that no batch has
        reached yet are zeros: they add a constant and no gradient, so the losses of the first epoch say little.
        """
        if kept.training:
            kept.outputs[idx] = u.detach().to(kept.outputs.dtype)
        similar = similarity(Y, kept.labels.to(Y.dtype))
        theta = 0.5 * (u @ kept.outputs.to(u.dtype).T)
        signs = torch.where(u.detach() >= 0, 1.0, -1.0)
        return logistic(theta, similar).mean() + self.quantization * ((u - signs) ** 2).sum() / theta.numel()


class DSH(DeepHasher):
    """Deep supervised hashing: contrastive loss on squared distances, with outputs held near +1 and -1."""

    info = MethodInfo(
        name="dsh",
        title="DSH",
        reference="Liu, Wang, Shan and Chen, Deep Supervised Hashing for Fast Image Retrieval (CVPR 2016)",
        kind="deep, pairwise",
        cost="O(T n (F + b m)), T epochs, F a pass of the network, b rows per batch",
        verified=True,
    )
    authors: ClassVar[dict[str, Any]] = {"optimizer": "sgd", "learning_rate": 1e-3, "weight_decay": 0.004}

    margin: float | None = parameter(
        [None, POSITIVE],
        "Squared distance beyond which dissimilar pairs cost nothing; None is 2 n_bits, that is n_bits / 2 differing "
        "bits.",
        default=None,
    )
    quantization: float = parameter(NON_NEGATIVE, "Weight of the distance of outputs to +1 or -1.", default=0.01)

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Mean over pairs of s d / 2 + (1 - s) max(0, margin - d) / 2, d = |u_i - u_j|^2, plus a quantization loss.

        The latter is quantization * the mean over rows of sum_k ||u_k| - 1|. Codes have d = 4 Hamming distances.
        """
        similar = similarity(Y)
        pairs = off_diagonal(len(u), u)
        distance = squared_distances(u)
        beyond = ((self.margin or 2.0 * self.n_bits) - distance).clamp(min=0.0)
        cost = 0.5 * similar * distance + 0.5 * (1.0 - similar) * beyond
        return (cost * pairs).sum() / pairs.sum() + self.quantization * (u.abs() - 1.0).abs().sum(dim=1).mean()
