"""Deep hashing: networks as hash functions, on features or on images. Needs the extra ``hashlearn[deep]`` (PyTorch).

The classes can be looked at without PyTorch; fitting and encoding need it.
"""

from importlib import import_module
from typing import Any

from hashlearn.deep.extra import TorchMissing, require_torch
from hashlearn.deep.hashers import (
    CNNH,
    CSQ,
    DCH,
    DHN,
    DNNH,
    DPSH,
    DSH,
    DeepHasher,
    GSDHPStar,
    HashNet,
    OrthoHash,
)
from hashlearn.functions.network import Network

# Rooms that import torch, opened when asked for.
_ROOMS = ("backbones", "heads", "images", "losses", "trainer")

__all__ = [
    "CNNH",
    "CSQ",
    "DCH",
    "DHN",
    "DNNH",
    "DPSH",
    "DSH",
    "DeepHasher",
    "GSDHPStar",
    "HashNet",
    "Network",
    "OrthoHash",
    "TorchMissing",
    "require_torch",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        require_torch()
        return import_module(f"hashlearn.deep.{name}")
    raise AttributeError(f"module 'hashlearn.deep' has no attribute {name!r}")
