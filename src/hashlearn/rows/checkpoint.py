"""Checkpoints: a folder that holds what a fit has done so far, and the identity of the fit that it belongs to."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import os
import shutil
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from joblib.hashing import NumpyHasher
from scipy import sparse
from sklearn.base import BaseEstimator

from hashlearn.files.arrays import FileError, one_line
from hashlearn.files.output import written_whole
from hashlearn.files.read import stack_rows
from hashlearn.typing import Arrays

SAVE_SECONDS = 10.0
"""A pass saves at most this often. A crash costs the work since then; an error or Ctrl-C costs nothing finished."""


def claim_folder(
    folder: Path, name: str, identity: dict[str, Any], what: str, new: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make a folder whose file ``name`` says whose work it holds, or return what an earlier run has written there.

    ``what`` names the work in errors. ``new`` is written beside the identity of a new folder and returned from an old
    one.

    Raises
    ------
    FileError
        If the folder belongs to a run of another identity, is damaged, or holds other files.
    """
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file, and {what} needs a folder: give another name.")
    folder.mkdir(parents=True, exist_ok=True)
    file, facts = folder / name, {**identity, **(new or {})}
    if not file.exists():
        if any(folder.iterdir()):
            raise FileError(f"{folder} is not empty, and not with {what}: give another folder.")
        with written_whole(file) as stream:
            stream.write(json.dumps(facts, indent=1).encode() + b"\n")
        return facts
    try:
        known = json.loads(file.read_bytes())
        whole = known.keys() >= (new or {}).keys()
    except (ValueError, AttributeError):
        whole = False
    if not whole:
        raise FileError(f"{file} is damaged: delete the folder {folder} to start over.")
    different = [key for key, value in json.loads(json.dumps(identity)).items() if known.get(key) != value]
    if different:
        raise FileError(
            f"{folder} holds {what} of another run ({', '.join(different)} differ): give another folder, or delete it "
            "to start over."
        )
    return known


class Checkpoint:
    """A folder that holds what a fit has done so far, so that it can be resumed after a crash.

    It contains a JSON file that identifies the fit, and one .npz file per pass.

    Parameters
    ----------
    path : folder
    identity : dict
        What must be the same for a fit to be resumed.

    Raises
    ------
    FileError
        If the folder belongs to another fit, is damaged, or holds other files.
    """

    def __init__(self, path: str | Path, identity: dict[str, Any]) -> None:
        self.path = Path(path)
        new = {"seed": int.from_bytes(os.urandom(4), "little") >> 1}
        self.seed = int(claim_folder(self.path, "checkpoint.json", identity, "a checkpoint", new)["seed"])

    def has(self, name: str) -> bool:
        """Tell whether arrays were saved under this name."""
        return (self.path / f"{name}.npz").exists()

    def load(self, name: str) -> Arrays | None:
        """Load the arrays that were saved under this name; None if there are none."""
        if not self.has(name):
            return None
        file = self.path / f"{name}.npz"
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except Exception as error:  # errors of the zip file, of the header and of the values
            raise FileError(f"{file} is damaged ({one_line(error)}) Delete it to do its pass again.") from error

    def save(self, name: str, arrays: Arrays) -> None:
        """Save arrays; the file appears whole or not at all."""
        with written_whole(self.path / f"{name}.npz") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]

    @contextmanager
    def saving(self, name: str, state: Callable[[], Arrays]) -> Iterator[Callable[[], None]]:
        """Give a function to call after every step: it saves ``state()`` from time to time.

        The end of the context and any error in it save, too.
        """
        last, changed = time.monotonic(), False

        def step() -> None:
            nonlocal last, changed
            changed = True
            if time.monotonic() - last >= SAVE_SECONDS:
                self.save(name, state())
                last, changed = time.monotonic(), False

        try:
            yield step
        finally:
            if changed:
                self.save(name, state())

    def part(self, name: str) -> Checkpoint:
        """Return the checkpoint of a fit that is part of this fit, in a folder inside this one."""
        part = copy.copy(self)
        part.path = self.path / name
        part.path.mkdir(exist_ok=True)
        return part

    def remove(self) -> None:
        """Remove the folder, after the fit is finished."""
        shutil.rmtree(self.path, ignore_errors=True)


Kind = TypeVar("Kind")


def to_arrays(value: Any) -> Arrays:
    """Return the fields of a dataclass as arrays by name.

    Fields are numbers, text, arrays, sparse matrices, lists of blocks of rows, dataclasses or None. The fields of a
    nested dataclass have dotted names. A sparse matrix is stored as three arrays and its shape, a list of blocks as one
    block. None and empty lists are left out.
    """
    arrays: Arrays = {}
    for field in dataclasses.fields(value):
        held = getattr(value, field.name)
        if isinstance(held, list):
            held = stack_rows(held) if held else None
        if held is None:
            continue
        if dataclasses.is_dataclass(held):
            arrays |= {f"{field.name}.{name}": array for name, array in to_arrays(held).items()}
        elif sparse.issparse(held):
            parts = {"data": held.data, "indices": held.indices, "indptr": held.indptr, "shape": np.array(held.shape)}
            arrays |= {f"{field.name}.{name}": array for name, array in parts.items()}
        else:
            arrays[field.name] = np.asarray(held)
    return arrays


def from_arrays(kind: type[Kind], arrays: Arrays) -> Kind:
    """Return the dataclass that ``to_arrays`` made ``arrays`` of."""
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        value = _field_value(arrays, field.name, _without_none(hints[field.name]))
        if get_origin(hints[field.name]) is list:
            value = [] if value is None else [value]
        values[field.name] = value
    return kind(**values)


def _field_value(arrays: Arrays, name: str, kind: Any) -> Any:
    own = under(arrays, f"{name}.")
    if own and dataclasses.is_dataclass(kind):
        return from_arrays(kind, own)  # type: ignore[arg-type]
    if own:
        return sparse.csr_matrix((own["data"], own["indices"], own["indptr"]), shape=tuple(own["shape"]))
    if name not in arrays:
        return None
    return kind(arrays[name][()]) if kind in (int, float, str) else arrays[name]


def under(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _without_none(hint: Any) -> Any:
    """Return the type of a field that may be None."""
    if get_origin(hint) is types.UnionType:
        return next(kind for kind in get_args(hint) if kind is not type(None))
    return hint


def content_hash(value: Any) -> str:
    """Return a text that is equal for equal values, in any process. TypeError, in one sentence, where nobody can tell.

    A function is known by its module, name and bytecode with all that it holds on to (defaults, closure), not by what
    it calls in turn. Bytecode changes with the version of Python.

    >>> content_hash({"beta": 3, "alpha": [0.5, None]}) == content_hash({"alpha": [0.5, None], "beta": 3})
    True
    """
    try:
        return str(_ContentHasher("sha1").hash(value))
    except RecursionError as error:
        raise TypeError(f"it refers to itself: {type(value).__name__}") from error
    except Exception as error:  # whatever an object's own method raises
        raise TypeError(f"its content cannot be seen: {one_line(error)}") from error


class _ContentHasher(NumpyHasher):
    """The hash of joblib, which knows arrays and sorts sets, for functions and estimators too."""

    def __init__(self, hash_name: str) -> None:
        super().__init__(hash_name)
        self.fast = True  # without memo: whether two equal parts are one object does not count
        self._outer: list[Any] = []  # functions whose content is being hashed

    def save(self, obj: Any) -> None:
        call = vars(type(obj)).get("__call__")
        if isinstance(call, types.FunctionType):
            self.save(call)
        if not isinstance(obj, types.FunctionType):
            super().save(_content(obj))
        elif any(obj is outer for outer in self._outer):  # a function that calls itself holds itself
            super().save("itself")
        else:
            self._outer.append(obj)
            cells = inspect.getclosurevars(obj).nonlocals
            name = f"{obj.__module__}.{obj.__qualname__}"
            super().save((name, obj.__code__, obj.__defaults__, obj.__kwdefaults__, cells))
            self._outer.pop()


def _content(value: Any) -> Any:
    """Return what a value is made of, if a pickle would name it, depend on its history, or leave its order open."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ufunc):
        return ("ufunc", value.__name__)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return np.ascontiguousarray(value)
    if sparse.issparse(value):
        rows = sparse.csr_matrix(value)
        rows.sort_indices()
        return (type(value), value.shape, rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64))
    if isinstance(value, frozenset):
        return ("frozenset", set(value))
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if isinstance(value, types.MethodType):
        return (value.__func__, value.__self__)
    if isinstance(value, types.CodeType):  # without file names and line numbers
        names = (value.co_names, value.co_varnames, value.co_freevars)
        counts = (value.co_argcount, value.co_kwonlyargcount, value.co_flags)
        return (value.co_code, value.co_consts, names, counts)
    if isinstance(value, BaseEstimator):
        return (type(value), value.get_params(deep=False))
    if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
        return (type(value), value.__wrapped__)
    return value
