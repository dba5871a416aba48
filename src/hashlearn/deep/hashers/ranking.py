"""Deep methods that learn from the order of triplets of rows, each with its loss: DNNH and DSRH."""

from __future__ import annotations

from typing import Any, ClassVar

from hashlearn.deep.extra import torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import off_diagonal, shared_labels
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, Interval, parameter
from hashlearn.typing import Rng


class DNNH(DeepHasher):
    """Triplet ranking loss on sigmoid outputs; each bit has its own channels (divide and encode).

    This follows a re-implementation, not the authors' code; the published figures are not claimed.
    """

    info = MethodInfo(
        name="dnnh",
        title="DNNH",
        reference="Lai et al., Simultaneous Feature Learning and Hash Coding with Deep Neural Networks (CVPR 2015)",
        kind="deep, triplets",
        cost="O(T n (F + t (b + m))), T epochs, F a pass of the network, t triplets per row",
    )
    head_of_method: ClassVar[str] = "divide"
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 1e-3,
        "weight_decay": 5e-4,
        "batch_size": 100,
        "schedule": [(0.6, 0.1), (0.7, 0.1)],
    }

    margin: float | None = parameter(
        [None, POSITIVE],
        "In bits; None is n_bits / 4. The paper has 1, a released network of 12 bits has 2.",
        default=None,
    )
    per_anchor: int = parameter(COUNT, "Triplets drawn for each row of a batch.", default=10)
    band: float | None = parameter(
        [None, Interval(float, 0, 0.5, closed="both")],
        "Outputs farther than this from 0.5 count as 0 or 1, the paper's piecewise threshold; None leaves it out.",
        default=None,
    )

    def _kept(self, labels: LabelMatrix, rng: Rng) -> dict[str, Any]:
        return {"seed": int(rng.randint(2**31))}

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Mean over triplets of max(0, margin + |f_a - f_p|^2 - |f_a - f_n|^2), f = sigmoid(u).

        Where f is 0 or 1 the squared distance is the Hamming distance, so ``margin`` is in bits.
        Triplets are drawn from every batch, ``per_anchor`` for each row: p shares a label with the anchor, n shares
        fewer than p does. The first author's released structure has no ``band``.
        """
        f, band = torch.sigmoid(u), self.band
        if band is not None:
            f = torch.where(f < 0.5 - band, 0.0, torch.where(f > 0.5 + band, 1.0, f))
        anchor, positive, negative = self.triplets(Y, kept.seed, step)
        if len(anchor) == 0:
            # Without a triplet the loss is zero, but it must have a gradient.
            return (u * 0.0).sum()
        near = ((f[anchor] - f[positive]) ** 2).sum(dim=1)
        far = ((f[anchor] - f[negative]) ** 2).sum(dim=1)
        return ((self.margin or self.n_bits / 4.0) + near - far).clamp(min=0.0).mean()

    def triplets(self, Y: torch.Tensor, seed: int, step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Places (a, p, n) in the batch, the same for the same step; rows without a possible triplet have none."""
        draws = torch.Generator().manual_seed((seed * 1_000_003 + step) % 2**63)
        shared = shared_labels(Y).cpu()
        size = len(shared)
        anchor = torch.arange(size).repeat_interleave(self.per_anchor)
        mine = shared[anchor]
        candidate = (mine > 0) & (anchor[:, None] != torch.arange(size))
        positive, found = _one_of(candidate, draws)
        candidate = mine < mine.gather(1, positive[:, None])
        negative, found_too = _one_of(candidate, draws)
        good = found & found_too
        return tuple(part[good].to(Y.device) for part in (anchor, positive, negative))  # type: ignore[return-value]


def _one_of(mask: torch.Tensor, draws: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a random True place of every row, and whether the row has one."""
    value, place = (torch.rand(mask.shape, generator=draws) * mask).max(dim=1)
    return place, value > 0


class DSRH(DeepHasher):
    """Deep semantic ranking: rows that share more labels with a query come first, and wrong pairs cost as in NDCG.

    A query of the batch and two rows with r_i > r_j shared labels cost (2^r_i - 2^r_j) / Z [d_i - d_j + margin]_+,
    where Z is the ideal DCG of the batch for that query and d the distance of the bits tanh(u).

    We know the method from notes (``verified`` is False). The paper feeds two layers of its network to the hash layer;
    here that is up to ``backbone`` and ``head``. Its weight decay is ``weight_decay``.
    """

    info = MethodInfo(
        name="dsrh",
        title="DSRH",
        reference="Zhao, Huang, Wang and Tan, Deep Semantic Ranking Based Hashing for Multi-Label Image Retrieval "
        "(CVPR 2015)",
        kind="deep, ranking",
        cost="O(T n (F + q b)), T epochs, F a pass of the network, q queries per batch of b rows",
    )

    margin: float | None = parameter([None, POSITIVE], "In bits; None is n_bits / 4.", default=None)
    balance: float = parameter(NON_NEGATIVE, "Weight of the mean square of a bit's mean over the batch.", default=0.1)
    n_queries: int = parameter(COUNT, "Rows of a batch that are queries, the first ones.", default=32)

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Mean over triplets (q, i, j) with r_i > r_j of (2^r_i - 2^r_j) / Z [d_i - d_j + margin]_+, plus balance."""
        b, queries = torch.tanh(u), slice(0, self.n_queries)
        distance = (u.shape[1] - b[queries] @ b.T) / 2.0
        # A query has no place in its own list: without a gain it would be less relevant than others.
        other = off_diagonal(len(u), u)[queries]
        gain = (2.0 ** shared_labels(Y[queries], Y) - 1.0) * other
        discount = torch.log2(torch.arange(len(u), dtype=u.dtype, device=u.device) + 2.0)
        ideal = (gain.sort(dim=1, descending=True).values / discount).sum(dim=1)
        weight = (gain[:, :, None] - gain[:, None, :]).clamp(min=0.0) * other[:, None, :]
        weight = weight / ideal.clamp(min=1.0)[:, None, None]
        margin = self.margin or self.n_bits / 4.0
        hinge = (distance[:, :, None] - distance[:, None, :] + margin).clamp(min=0.0)
        n_triplets = (weight > 0).sum().clamp(min=1)
        return (weight * hinge).sum() / n_triplets + self.balance * (b.mean(dim=0) ** 2).mean()
