"""Deep hashing: networks as hash functions, on features or on images. Needs the extra ``hashlearn[deep]`` (PyTorch).

The methods are those of ``hashlearn.methods.DEEP_METHODS``. Their classes can be inspected without PyTorch; fitting and
encoding need it.
"""

from importlib import import_module
from pkgutil import resolve_name
from typing import Any

from hashlearn.deep.extra import TorchMissing, require_torch
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.functions.network import Network
from hashlearn.methods import DEEP_METHODS

# Modules that import torch or need it. They are imported at their first use.
_MODULES = ("backbones", "images", "losses", "network", "trainer")
_METHODS = {place.partition(":")[2]: place for place in DEEP_METHODS.values()}

__all__ = ["DeepHasher", "Network", "TorchMissing", "require_torch", *_METHODS]


def __getattr__(name: str) -> Any:
    if name in _METHODS:
        return resolve_name(_METHODS[name])
    if name in _MODULES:
        require_torch()
        return import_module(f"hashlearn.deep.{name}")
    raise AttributeError(f"module 'hashlearn.deep' has no attribute {name!r}")
