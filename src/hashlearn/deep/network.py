"""The whole network, a trunk and a head, the heads by name, and how to build a network again from its description."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from hashlearn.deep import backbones
from hashlearn.parallel import row_blocks, thread_count
from hashlearn.typing import FloatArray

HEADS = ("linear", "mlp", "three-layer", "divide", "batchnorm")
MLP_WIDTH = 1024
BLOCK = 50
"""Channels that a bit gets from the trunk in the divide-and-encode head."""


def build_head(kind: str | Sequence[int], n_features: int, n_outputs: int) -> nn.Module:
    """Return a head by name, or an MLP by its hidden widths.

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
    """Return a linear layer that is initialized as in the AlexNet recipes: weights N(0, 0.01^2), biases 0."""
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
    """A hidden layer of 50 channels per bit; each bit is a linear function of 50 of them.

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

    @classmethod
    def of_rows(cls, rows: Any) -> Standardize:
        """Return the layer for training rows, dense or sparse."""
        center, scale = moments(rows)
        layer = cls(rows.shape[1])
        layer.center.copy_(torch.from_numpy(center))
        layer.scale.fill_(scale)
        return layer

    def forward(self, rows: Tensor) -> Tensor:
        return (rows - self.center).div_(self.scale)


def moments(rows: Any) -> tuple[FloatArray, float]:
    """Mean of the rows, and the root mean square of the features around it; 1 if they are constant."""
    n_rows, width = rows.shape
    total, squares = np.zeros(width), np.zeros(width)
    for block in row_blocks(n_rows):
        part = rows[block]
        part = np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=np.float64)
        total += part.sum(axis=0)
        squares += np.einsum("ij,ij->j", part, part)
    mean = total / n_rows
    spread = float(np.maximum(squares / n_rows - mean**2, 0.0).mean())
    return mean, float(np.sqrt(spread)) if spread > 1e-12 * max(float((mean**2).mean()), 1e-300) else 1.0


# Multiplications per step below which threads cost more time than they save.
THREADED_WORK = 50_000_000

Spec = dict[str, Any]
"""What a model file keeps of a network besides its tensors: ``backbone`` (None, or its name and settings and how it
takes images), ``head``, ``n_features``, ``n_outputs``."""


class HashNetwork(nn.Sequential):
    """Rows or images to outputs (b, n_outputs) before any activation."""

    trunk: nn.Module
    head: nn.Module

    def __init__(self, trunk: nn.Module, head: nn.Module) -> None:
        super().__init__(OrderedDict(trunk=trunk, head=head))


def new_network(spec: Spec, seed: int = 0, trunk: nn.Module | None = None) -> HashNetwork:
    """Return a network with fresh weights that depend on the seed alone; ``trunk`` is its own if the spec lacks it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if trunk is None:
            trunk = Standardize(spec["n_features"]) if spec["backbone"] is None else _named_trunk(**spec["backbone"])
        return HashNetwork(trunk, build_head(spec["head"], spec["n_features"], spec["n_outputs"]))


def _named_trunk(name: str, settings: dict[str, Any], images: object) -> nn.Module:
    if name == "module":
        kind = settings["module"]
        raise ValueError(
            f"This model was trained on your own module {kind}, of which the file holds the weights alone: "
            f"give a {kind} again with set_params(backbone=...)."
        )
    return backbones.build(name, **settings).module


def to_arrays(state: dict[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return copies of tensors as arrays. NumPy has no bfloat16: float32 holds its values exactly."""
    return {
        name: np.array((tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().cpu().numpy())
        for name, tensor in state.items()
    }


def from_arrays(arrays: dict[str, NDArray[Any]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


def check_arrays(spec: Spec, arrays: dict[str, NDArray[Any]], trunk: nn.Module | None = None) -> None:
    """Raise ValueError if the arrays are not those of the described network.

    The network is built without memory for this. So a description that promises more than its arrays hold is refused
    before anybody asks for that much.
    """
    try:
        with torch.device("meta"):
            wanted = {name: tuple(tensor.shape) for name, tensor in new_network(spec, trunk=trunk).state_dict().items()}
    except (RuntimeError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"The saved network cannot be built: {' '.join(str(error).split())[:200]}") from error
    found = {name: array.shape for name, array in arrays.items()}
    if wanted != found:
        name = next(name for name in [*wanted, *found] if wanted.get(name) != found.get(name))
        raise ValueError(
            f"The saved weights do not fit this network: {name} should have the shape {wanted.get(name)} and has "
            f"{found.get(name)}."
        )


def load_arrays(module: nn.Module, arrays: dict[str, NDArray[Any]]) -> None:
    """Put arrays into a module; an error in one sentence if they do not belong to it."""
    try:
        module.load_state_dict(from_arrays(arrays))
    except RuntimeError as error:
        raise ValueError(f"The saved weights do not fit this network: {' '.join(str(error).split())}") from error


def pick_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is the first GPU, or the CPU if there is none."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"The device {name!r} cannot be used here: {reason} Try device='auto'.") from error
    return device


_holding = threading.Lock()
_holders = 0
_before = 0
_own = threading.local()


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Limit torch to ``count`` threads, and restore the old number at the end.

    Threads may hold it at the same time. A new thread starts with the number that was set last, in any thread, so all
    of them give back what the first one found: their own may be that of a hold. A hold inside a hold of the same thread
    gives back the outer one's number.
    """
    global _holders, _before
    outer = getattr(_own, "count", None)
    with _holding:
        if _holders == 0:
            _before = torch.get_num_threads()
        _holders += 1
        _own.count = count
        torch.set_num_threads(count)
    try:
        yield
    finally:
        with _holding:
            _holders -= 1
            _own.count = outer
            torch.set_num_threads(_before if outer is None else outer)


def useful_threads(module: nn.Module, batch_size: int, n_jobs: int | None) -> int:
    """Return 1 for a small network on features, where starting a thread takes longer than a step; else ``n_jobs``.

    Results of small networks then do not depend on the number of threads either.
    """
    on_features = isinstance(getattr(module, "trunk", None), Standardize)
    work = batch_size * sum(parameter.numel() for parameter in module.parameters())
    return 1 if on_features and work < THREADED_WORK else thread_count(n_jobs)
