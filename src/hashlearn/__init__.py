"""hashlearn: fit labeled features, get compact binary codes, search them, trust the numbers."""

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hashlearn import codes as codes
    from hashlearn import data as data
    from hashlearn import deep as deep
    from hashlearn import files as files
    from hashlearn import functions as functions
    from hashlearn import methods as methods
    from hashlearn import metrics as metrics
    from hashlearn import rows as rows
    from hashlearn.collection import AsyncCollection as AsyncCollection
    from hashlearn.collection import Collection as Collection
    from hashlearn.collection import collections as collections
    from hashlearn.hashers.migrated import migrate as migrate
    from hashlearn.index import Index as Index
    from hashlearn.index.near_duplicates import near_duplicates as near_duplicates
    from hashlearn.kernel import LandmarkKernel as LandmarkKernel
    from hashlearn.methods import *  # noqa: F403 - every method in the table, under its class name
    from hashlearn.models import ModelFileError as ModelFileError
    from hashlearn.models import load as load
    from hashlearn.models import save as save
    from hashlearn.models.export import ExportError as ExportError
    from hashlearn.models.export import export as export
    from hashlearn.pairwise.greedy import Greedy as Greedy
    from hashlearn.pairwise.symmetric import Symmetric as Symmetric
    from hashlearn.progress import keep_partial as keep_partial
    from hashlearn.rows.advice import FitAdvice as FitAdvice

__version__ = "0.4.0"

# Names and modules come when they are first asked for: scikit-learn alone takes a second to import, and deep hashing
# needs an extra.
_MODULES = ("codes", "data", "deep", "files", "functions", "methods", "metrics", "rows")
_HOMES = {
    "LandmarkKernel": "hashlearn.kernel",
    "AsyncCollection": "hashlearn.collection",
    "Collection": "hashlearn.collection",
    "collections": "hashlearn.collection",
    "ExportError": "hashlearn.models.export",
    "FitAdvice": "hashlearn.rows.advice",
    "Greedy": "hashlearn.pairwise.greedy",
    "Index": "hashlearn.index",
    "ModelFileError": "hashlearn.models",
    "Symmetric": "hashlearn.pairwise.symmetric",
    "export": "hashlearn.models.export",
    "migrate": "hashlearn.hashers.migrated",
    "near_duplicates": "hashlearn.index.near_duplicates",
    "keep_partial": "hashlearn.progress",
    "load": "hashlearn.models",
    "save": "hashlearn.models",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = import_module(f"hashlearn.{name}")
        if name == "deep":
            module.require_torch()
        return module
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if not name.startswith("_") or name == "__all__":
        methods = import_module("hashlearn.methods")
        if name == "__all__":  # deep is left out: it may not be installed
            return sorted({"__version__", *_MODULES, *_HOMES, *methods.__all__} - {"deep"})
        if name in methods.__all__:
            return getattr(methods, name)
    close = [] if name.startswith("_") else get_close_matches(name, __getattr__("__all__"), 1)
    raise AttributeError(f"module 'hashlearn' has no attribute {name!r}" + (f": use {close[0]}" if close else ""))


def __dir__() -> list[str]:
    special = (name for name in globals() if name.startswith("__") and name.endswith("__"))
    return sorted({*special, *_MODULES, *__getattr__("__all__")})
