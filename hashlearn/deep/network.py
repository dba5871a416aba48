"""The whole network, a trunk and a head, and how to build it again from its description."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hashlearn.deep.heads import Standardize, build_head
from hashlearn.deep.inputs import moments
from hashlearn.parallel import thread_count

# Multiplications per step below which threads cost more time than they save.
THREADED_WORK = 50_000_000

Spec = dict[str, Any]
"""What a model file keeps of a network besides its tensors: ``backbone`` (None, or its name and settings and how it
takes images), ``head``, ``n_features``, ``n_outputs``."""


class HashNetwork(nn.Module):
    """Rows or images to outputs (b, n_outputs) before any activation."""

    def __init__(self, trunk: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = head

    def forward(self, batch: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.trunk(batch))
        return outputs


def build_network(spec: Spec, trunk: nn.Module | None = None) -> HashNetwork:
    """A network with fresh weights; ``trunk`` is needed if the description does not suffice."""
    if trunk is None:
        trunk = Standardize(spec["n_features"]) if spec["backbone"] is None else _named_trunk(spec["backbone"])
    return HashNetwork(trunk, build_head(spec["head"], spec["n_features"], spec["n_outputs"]))


def new_network(spec: Spec, seed: int = 0, rows: Any = None, trunk: nn.Module | None = None) -> HashNetwork:
    """A network with random weights that depend on the seed alone; ``rows`` set the scale of features."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = build_network(spec, trunk)
    if rows is not None and isinstance(module.trunk, Standardize):
        module.trunk.set(*moments(rows))
    return module


def _named_trunk(backbone: dict[str, Any]) -> nn.Module:
    if backbone["name"] == "module":
        kind = backbone["settings"]["module"]
        raise ValueError(
            f"This model was trained on your own module {kind}, of which the file holds the weights alone: "
            f"give a {kind} again with set_params(backbone=...)."
        )
    from hashlearn.deep import backbones

    module: nn.Module = backbones.build(backbone["name"], **backbone["settings"]).module
    return module


def to_arrays(state: dict[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Tensors as arrays of their own. NumPy has no bfloat16: float32 holds its values exactly."""
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
            wanted = {name: tuple(tensor.shape) for name, tensor in build_network(spec, trunk).state_dict().items()}
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
    """The device of that name; "auto" is the first GPU, or the CPU if there is none."""
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
    """Limit torch to so many threads, and restore the old number at the end.

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
    """One thread for a small network on features, where starting a second takes longer than a step; else ``n_jobs``.

    Results of small networks then do not depend on the number of threads either.
    """
    on_features = isinstance(getattr(module, "trunk", None), Standardize)
    work = batch_size * sum(parameter.numel() for parameter in module.parameters())
    return 1 if on_features and work < THREADED_WORK else thread_count(n_jobs)
