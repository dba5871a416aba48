"""hashlearn: fit labeled features, get compact binary codes, search them, trust the numbers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hashlearn.deprecation import renamed_attribute

if TYPE_CHECKING:
    from hashlearn import codes as codes
    from hashlearn import data as data
    from hashlearn import deep as deep
    from hashlearn import files as files
    from hashlearn import fitting as fitting
    from hashlearn import functions as functions
    from hashlearn import hashers as hashers
    from hashlearn import metrics as metrics
    from hashlearn.collection import Collection as Collection
    from hashlearn.exporting import ExportError as ExportError
    from hashlearn.exporting import export as export
    from hashlearn.fitting.advice import FitAdvice as FitAdvice
    from hashlearn.hashers import *  # noqa: F403 - every method in the table, under its class name
    from hashlearn.hashers.migrated import migrate as migrate
    from hashlearn.index import Index as Index
    from hashlearn.kernel import AnchorKernel as AnchorKernel
    from hashlearn.models import ModelFileError as ModelFileError
    from hashlearn.models import load as load
    from hashlearn.models import save as save
    from hashlearn.primitives import keep_partial as keep_partial
    from hashlearn.solvers.solver import Greedy as Greedy
    from hashlearn.solvers.solver import Symmetric as Symmetric

__version__ = "0.3.0"

# Names and modules come when they are first asked for: scikit-learn alone takes a second to import, and deep hashing
# needs an extra.
_MODULES = ("codes", "data", "deep", "files", "fitting", "functions", "hashers", "metrics")
_HOMES = {
    "AnchorKernel": "hashlearn.kernel",
    "Collection": "hashlearn.collection",
    "ExportError": "hashlearn.exporting",
    "FitAdvice": "hashlearn.fitting.advice",
    "Greedy": "hashlearn.solvers.solver",
    "Index": "hashlearn.index",
    "ModelFileError": "hashlearn.models",
    "Symmetric": "hashlearn.solvers.solver",
    "export": "hashlearn.exporting",
    "migrate": "hashlearn.hashers.migrated",
    "keep_partial": "hashlearn.primitives",
    "load": "hashlearn.models",
    "save": "hashlearn.models",
}
_RENAMED_IN_0_3 = {"Union": "hashlearn.hashers.JoinedHasher", "chunks": "hashlearn.fitting"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = import_module(f"hashlearn.{name}")
        if name == "deep":
            module.require_torch()
        return module
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _RENAMED_IN_0_3:
        return renamed_attribute(__name__, name, _RENAMED_IN_0_3, since="0.3")
    if not name.startswith("_") or name == "__all__":
        methods = import_module("hashlearn.hashers")
        if name == "__all__":  # deep is left out: it may not be installed
            return sorted({"__version__", *_MODULES, *_HOMES, *methods.__all__} - {"deep"})
        if name in methods.__all__:
            return getattr(methods, name)
    raise AttributeError(f"module 'hashlearn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *__getattr__("__all__")})
