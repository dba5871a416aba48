"""hashlearn: fit labelled features, get compact binary codes, search them, trust the numbers."""

from hashlearn import codes, functions, hashers, metrics
from hashlearn.hashers import *  # noqa: F403 - every method in the table, under its class name
from hashlearn.index import Index
from hashlearn.kernel import AnchorKernel
from hashlearn.models import ModelFileError, load, save

__version__ = "0.1.0"

__all__ = [
    "AnchorKernel",
    "Index",
    "ModelFileError",
    "__version__",
    "codes",
    "functions",
    "hashers",
    "load",
    "metrics",
    "save",
    *hashers.__all__,
]
