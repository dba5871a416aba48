"""Checkpoints of a training: one file with everything that a resumed training needs to end with the same weights."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hashlearn.deep.network import from_arrays, load_arrays, to_arrays
from hashlearn.modelfile import ModelFileError, from_bytes, read, to_bytes, write
from hashlearn.typing import Arrays


class TrainingCheckpoint:
    """A file that holds the state after the last whole epoch.

    ``identity`` describes by name what is trained. A file with another identity is not overwritten and not resumed.
    """

    def __init__(self, path: str | os.PathLike[str], identity: dict[str, Any]) -> None:
        self.path = os.fspath(path)
        self.identity = {name: str(value) for name, value in identity.items()}

    def save(
        self, facts: dict[str, Any], parts: dict[str, dict[str, Tensor]], optimizer: torch.optim.Optimizer
    ) -> None:
        """Write the file. ``facts`` are plain values, ``parts`` are state dicts by name."""
        arrays = {f"{part}/{name}": array for part, state in parts.items() for name, array in to_arrays(state).items()}
        for number, state in optimizer.state_dict()["state"].items():
            tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
            arrays |= {f"optimizer/{number}/{name}": array for name, array in to_arrays(tensors).items()}
        document = {"identity": self.identity, "facts": facts, "parts": sorted(parts)}
        write(to_bytes({"training": document}, arrays), self.path)

    def load(self) -> tuple[dict[str, Any], Arrays] | None:
        """The facts and arrays of the file; None if there is no file yet."""
        try:
            document, arrays = from_bytes(read(self.path), self.path)
        except FileNotFoundError:
            return None
        if "training" not in document:
            raise ModelFileError(f"{self.path} is a model and no checkpoint: give checkpoint= another name.")
        content = document["training"]
        for name, value in self.identity.items():
            there = content["identity"].get(name)
            if there != value:
                raise ValueError(
                    f"The checkpoint {self.path} belongs to another training ({name} is {there} there and {value} "
                    "here): delete it, or give checkpoint= another name."
                )
        return content["facts"], arrays


def part(arrays: Arrays, name: str) -> Arrays:
    """The arrays of one part under their own names."""
    return {key.removeprefix(name + "/"): array for key, array in arrays.items() if key.startswith(name + "/")}


def restore(module: nn.Module, arrays: Arrays, name: str) -> None:
    load_arrays(module, part(arrays, name))


def restore_optimizer(optimizer: torch.optim.Optimizer, arrays: Arrays) -> None:
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in from_arrays(part(arrays, "optimizer")).items():
        number, name = key.split("/")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def digest(*arrays: Any) -> str:
    """A short fingerprint of arrays: shapes, and the bytes of at most 64 rows of each."""
    result = hashlib.sha256()
    for array in arrays:
        rows = np.linspace(0, array.shape[0] - 1, min(64, array.shape[0])).astype(np.intp)
        sample = array[rows]
        sample = sample.toarray() if hasattr(sample, "toarray") else np.asarray(sample)
        result.update(repr((array.shape, str(array.dtype))).encode())
        result.update(np.ascontiguousarray(sample).tobytes())
    return result.hexdigest()[:16]
