"""How a fit is carried out: who runs its tasks, where its checkpoint is, and where the codes of the rows go."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import functools
import hashlib
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
from scipy import sparse
from sklearn.base import BaseEstimator

from hashlearn.files.arrays import FileError, one_line
from hashlearn.files.output import written_whole
from hashlearn.rows.source import stack
from hashlearn.typing import Arrays

SAVE_SECONDS = 10.0
"""A pass saves at most this often. A crash costs the work since then; an error or Ctrl-C costs nothing finished."""


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
        if self.path.exists() and not self.path.is_dir():
            raise FileError(f"{self.path} is a file; checkpoint must be a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        about = self.path / "checkpoint.json"
        if about.exists():
            self.seed = self._check(about, identity)
            return
        if any(self.path.iterdir()):
            raise FileError(f"{self.path} is not empty and holds no checkpoint: give another folder.")
        self.seed = int.from_bytes(os.urandom(4), "little") >> 1
        with written_whole(about) as stream:
            stream.write(json.dumps({**identity, "seed": self.seed}, indent=1).encode())

    def _check(self, about: Path, identity: dict[str, Any]) -> int:
        """Return the seed of the fit that the folder belongs to."""
        try:
            known = json.loads(about.read_bytes())
            seed = int(known.pop("seed"))
        except (ValueError, KeyError, AttributeError) as error:
            raise FileError(f"{about} is damaged: delete the folder {self.path} to start over.") from error
        wanted = json.loads(json.dumps(identity))
        different = [name for name in wanted if known.get(name) != wanted[name]]
        if different:
            raise FileError(
                f"The checkpoint {self.path} belongs to another fit ({', '.join(different)} differ): give another "
                "folder, or delete it to start over."
            )
        return seed

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
            held = stack(held) if held else None
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


_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, np.ufunc, functools.partial)


def stable_repr(value: Any) -> str:
    """Return a text that is equal for equal values. TypeError, in one sentence, where nobody can tell.

    A function is known by its module, name and bytecode with all that it holds on to (defaults, closure), not by what
    it calls in turn. Bytecode changes with the version of Python.

    >>> stable_repr({"beta": 3, "alpha": [0.5, None]})
    "{'alpha': [0.5, None], 'beta': 3}"
    """
    return _repr_of(value, ())


def _repr_of(value: Any, outer: tuple[int, ...]) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return repr(value)
    if id(value) in outer:
        raise TypeError(f"it refers to itself: {type(value).__name__}")
    inside = (*outer, id(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(_repr_of(item, inside) for item in value)}]"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(_repr_of(item, inside) for item in value))}}}"
    if isinstance(value, dict):
        pairs = sorted(f"{_repr_of(key, inside)}: {_repr_of(item, inside)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return _array(value, inside)
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if isinstance(value, _FUNCTIONS):
        return _function(value, inside)
    return _object(value, inside)


def _array(value: Any, outer: tuple[int, ...]) -> str:
    kind = type(value).__name__
    if sparse.issparse(value):
        rows = sparse.csr_matrix(value)
        rows.sort_indices()
        parts = [_repr_of(part, outer) for part in (rows.data, rows.indices.astype(np.int64), rows.indptr)]
        return f"{kind}{value.shape}({_digest(*parts)})"
    if value.dtype.hasobject:
        return f"{kind}{value.shape}({_digest(_repr_of(value.tolist(), outer))})"
    return f"{kind}{value.shape}({value.dtype.str}, {_digest(np.ascontiguousarray(value).tobytes())})"


def _function(value: Any, outer: tuple[int, ...]) -> str:
    if isinstance(value, functools.partial):
        return f"partial({', '.join(_repr_of(part, outer) for part in (value.func, value.args, value.keywords))})"
    if isinstance(value, types.MethodType):
        return f"{_repr_of(value.__func__, outer)} of {_repr_of(value.__self__, outer)}"
    if isinstance(value, np.ufunc):
        return f"numpy.{value.__name__}"
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        # The owner of len is the module builtins, that of [].append is the list.
        home = "" if owner is None or isinstance(owner, types.ModuleType) else f" of {_repr_of(owner, outer)}"
        return f"{value.__module__ or builtins.__name__}.{value.__qualname__}{home}"
    cells = [_cell(cell, outer) for cell in value.__closure__ or ()]
    defaults = _repr_of([value.__defaults__, value.__kwdefaults__], outer)
    return f"{value.__module__}.{value.__qualname__}({_digest(_code(value.__code__, outer), defaults, *cells)})"


def _cell(cell: types.CellType, outer: tuple[int, ...]) -> str:
    try:
        value = cell.cell_contents
    except ValueError:  # a variable that is not set yet
        return "empty"
    # A function that calls itself holds itself.
    return "itself" if id(value) in outer else _repr_of(value, outer)


def _code(code: types.CodeType, outer: tuple[int, ...]) -> str:
    """Bytecode and all that it uses, without file names and line numbers."""
    constants = [
        _code(part, outer) if isinstance(part, types.CodeType) else _repr_of(part, outer) for part in code.co_consts
    ]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
    return _digest(code.co_code, repr(names), *constants)


def _object(value: Any, outer: tuple[int, ...]) -> str:
    """Describe an object by its class and contents: the parameters of an estimator, else what a pickle would hold."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
        return f"{name} around {_repr_of(value.__wrapped__, outer)}"
    if isinstance(value, BaseEstimator):
        return f"{name}({_repr_of(value.get_params(deep=False), outer)})"
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:  # whatever the object's own method raises
        raise TypeError(f"its content cannot be seen: {one_line(error)}") from error
    if isinstance(reduced, str):
        return f"{name} {reduced}"
    parts = [list(part) if isinstance(part, Iterator) else part for part in reduced]
    own_call = vars(kind).get("__call__")
    return f"{name}({_digest(_repr_of(parts, outer), _repr_of(own_call, outer))})"


def _digest(*parts: str | bytes) -> str:
    result = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        result.update(len(data).to_bytes(8, "little") + data)
    return result.hexdigest()[:32]
