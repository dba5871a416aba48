"""Model files: the bytes, the checks, saving and loading; and hashers for other runtimes."""

from hashlearn.models.saving import COMPONENTS as COMPONENTS
from hashlearn.models.saving import ModelFileError, NotSaved, dumps, fingerprint, load, loads, save
from hashlearn.models.saving import as_hasher as as_hasher

__all__ = ["ModelFileError", "NotSaved", "dumps", "fingerprint", "load", "loads", "save"]
