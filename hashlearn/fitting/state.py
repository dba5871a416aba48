"""Dataclasses as plain arrays and back: what a checkpoint stores. No pickles, so loading one cannot run code."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from hashlearn.fitting.parts import stack
from hashlearn.typing import Arrays

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
    """The type of a field that may be None."""
    if get_origin(hint) in (types.UnionType, Union):
        return next(kind for kind in get_args(hint) if kind is not type(None))
    return hint
