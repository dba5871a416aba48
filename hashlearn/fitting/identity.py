"""What a parameter is, by content: the same text in every process, and another one for another value.

A checkpoint compares such texts. ``repr`` will not do: it shows the memory address of a function and parts of an array.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from hashlearn.files.arrays import one_line

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, np.ufunc, functools.partial)


def content(value: Any) -> str:
    """A text that is equal for equal values. TypeError, in one sentence, where nobody can tell.

    A function is known by its module, name and bytecode with all that it holds on to (defaults, closure), not by what
    it calls in turn. Bytecode changes with the version of Python.

    >>> content({"beta": 3, "alpha": [0.5, None]})
    "{'alpha': [0.5, None], 'beta': 3}"
    """
    return _content(value, ())


def _content(value: Any, outer: tuple[int, ...]) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return repr(value)
    if id(value) in outer:
        raise TypeError(f"it refers to itself: {type(value).__name__}")
    inside = (*outer, id(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(_content(item, inside) for item in value)}]"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(_content(item, inside) for item in value))}}}"
    if isinstance(value, dict):
        pairs = sorted(f"{_content(key, inside)}: {_content(item, inside)}" for key, item in value.items())
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
        parts = [_content(part, outer) for part in (rows.data, rows.indices.astype(np.int64), rows.indptr)]
        return f"{kind}{value.shape}({_digest(*parts)})"
    if value.dtype.hasobject:
        return f"{kind}{value.shape}({_digest(_content(value.tolist(), outer))})"
    return f"{kind}{value.shape}({value.dtype.str}, {_digest(np.ascontiguousarray(value).tobytes())})"


def _function(value: Any, outer: tuple[int, ...]) -> str:
    if isinstance(value, functools.partial):
        return f"partial({', '.join(_content(part, outer) for part in (value.func, value.args, value.keywords))})"
    if isinstance(value, types.MethodType):
        return f"{_content(value.__func__, outer)} of {_content(value.__self__, outer)}"
    if isinstance(value, np.ufunc):
        return f"numpy.{value.__name__}"
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        # The owner of len is the module builtins, that of [].append is the list.
        home = "" if owner is None or isinstance(owner, types.ModuleType) else f" of {_content(owner, outer)}"
        return f"{value.__module__ or builtins.__name__}.{value.__qualname__}{home}"
    cells = [_cell(cell, outer) for cell in value.__closure__ or ()]
    defaults = _content([value.__defaults__, value.__kwdefaults__], outer)
    return f"{value.__module__}.{value.__qualname__}({_digest(_code(value.__code__, outer), defaults, *cells)})"


def _cell(cell: types.CellType, outer: tuple[int, ...]) -> str:
    try:
        value = cell.cell_contents
    except ValueError:  # a variable that is not set yet
        return "empty"
    # A function that calls itself holds itself.
    return "itself" if id(value) in outer else _content(value, outer)


def _code(code: types.CodeType, outer: tuple[int, ...]) -> str:
    """Bytecode and all that it uses, without file names and line numbers."""
    constants = [
        _code(part, outer) if isinstance(part, types.CodeType) else _content(part, outer) for part in code.co_consts
    ]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
    return _digest(code.co_code, repr(names), *constants)


def _object(value: Any, outer: tuple[int, ...]) -> str:
    """An object by its class and what it holds: an estimator's parameters, else what a pickle of it would hold."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
        return f"{name} around {_content(value.__wrapped__, outer)}"
    if isinstance(value, BaseEstimator):
        return f"{name}({_content(value.get_params(deep=False), outer)})"
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:  # whatever the object's own method raises
        raise TypeError(f"its content cannot be seen: {one_line(error)}") from error
    if isinstance(reduced, str):
        return f"{name} {reduced}"
    parts = [list(part) if isinstance(part, Iterator) else part for part in reduced]
    own_call = vars(kind).get("__call__")
    return f"{name}({_digest(_content(parts, outer), _content(own_call, outer))})"


def _digest(*parts: str | bytes) -> str:
    result = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        result.update(len(data).to_bytes(8, "little") + data)
    return result.hexdigest()[:32]
