"""Heads: from a backbone's features, or a row's own, to one real number per bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

HEADS = ("linear", "mlp", "three-layer", "divide", "batchnorm")
MLP_WIDTH = 1024
BLOCK = 50
"""Channels that a bit gets from the trunk in the divide-and-encode head."""


def build_head(kind: str | Sequence[int], n_features: int, n_outputs: int) -> nn.Module:
    """A head by name, or an MLP by its hidden widths.

    "linear"; "mlp" (one hidden layer of 1024); "three-layer" (CSQ: two hidden layers as wide as the features, at most
    1024); "divide" (DNNH: 50 channels a bit, each bit from its own); "batchnorm" (OrthoHash: linear without bias, then
    batch normalization).
    """
    if isinstance(kind, str):
        if kind == "linear":
            return hash_layer(n_features, n_outputs)
        if kind == "mlp":
            return mlp(n_features, [MLP_WIDTH], n_outputs)
        if kind == "three-layer":
            return mlp(n_features, [min(n_features, MLP_WIDTH)] * 2, n_outputs)
        if kind == "divide":
            return DivideAndEncode(n_features, n_outputs)
        if kind == "batchnorm":
            return nn.Sequential(hash_layer(n_features, n_outputs, bias=False), nn.BatchNorm1d(n_outputs))
        raise ValueError(f"head must be one of {', '.join(HEADS)}, or a list of hidden widths. Got {kind!r} instead.")
    widths = [int(width) for width in kind]
    if any(width < 1 for width in widths):
        raise ValueError(f"The hidden widths of a head must be at least 1. Got {list(kind)!r} instead.")
    return mlp(n_features, widths, n_outputs)


def hash_layer(n_features: int, n_outputs: int, bias: bool = True) -> nn.Linear:
    """A linear layer that is initialized as in the AlexNet recipes: weights N(0, 0.01^2), biases 0."""
    layer = nn.Linear(n_features, n_outputs, bias=bias)
    nn.init.normal_(layer.weight, std=0.01)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def mlp(n_features: int, widths: Sequence[int], n_outputs: int) -> nn.Sequential:
    """Hidden layers with ReLU, then a hash layer."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(n_features, width), nn.ReLU()]
        n_features = width
    return nn.Sequential(*layers, hash_layer(n_features, n_outputs))


class DivideAndEncode(nn.Module):
    """A hidden layer of 50 channels per bit; each bit is a linear function of its own 50.

    A block-diagonal linear layer, which keeps bits from being copies of each other.
    """

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.n_outputs = n_outputs
        self.channels = nn.Linear(n_features, BLOCK * n_outputs)
        self.weight = nn.Parameter(torch.empty(n_outputs, BLOCK).normal_(std=0.1))
        self.bias = nn.Parameter(torch.zeros(n_outputs))

    def forward(self, features: Tensor) -> Tensor:
        blocks = torch.relu(self.channels(features)).reshape(-1, self.n_outputs, BLOCK)
        return torch.einsum("bmk,mk->bm", blocks, self.weight) + self.bias


class Standardize(nn.Module):
    """Rows minus their training mean, divided by one number, so that learning does not depend on the units of X."""

    center: Tensor
    scale: Tensor

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(()))

    def set(self, center: NDArray[Any], scale: float) -> None:
        self.center.copy_(torch.from_numpy(np.asarray(center)))
        self.scale.fill_(scale)

    def forward(self, rows: Tensor) -> Tensor:
        return (rows - self.center).div_(self.scale)
