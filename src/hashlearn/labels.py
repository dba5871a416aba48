"""Labels of any accepted kind in one form: a class per row, or a set of labels per row.

Only ``as_labels`` decides what a user's labels mean. Learning, scores and fits in chunks all read labels through it, so
the same labels mean the same everywhere:

=====================================================  ===============================================================
what the user gives                                    what it means
=====================================================  ===============================================================
one value per row: array, list, pandas or polars       classes
series, strings, numbers, a categorical column
None, NaN, pandas' NA, or the value of ``unlabeled``   an unlabeled row: nothing is known about it
an (n, c) matrix of 0 and 1, dense or sparse           label sets, one column per label
a list, set or array of tags per row, of any length    label sets
zeros only, or an empty list of tags                   an empty label set: the row has none of the labels
=====================================================  ===============================================================

Nested lists of numbers that are all 0 or 1 and equally long are a 0/1 matrix. A tuple is one value, so one class.
"""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.typing import IntArray

LabelMatrix: TypeAlias = sparse.csr_matrix
"""Label sets of rows, (n, c) of 0 and 1; a row without labels is empty."""

UNKNOWN = -1
NO_LABELS = "No row has a label: at least one labeled row is needed to learn from labels."
_ONE_VALUE = (str, bytes, tuple, Mapping)
"""Types that can be iterated over but are one value, not a list of tags."""


@dataclass(frozen=True)
class Classes:
    """One class per row: a number into ``names``, or -1 for an unlabeled row."""

    numbers: IntArray
    names: list[Any]
    form = "1-D"

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows are labeled."""
        return self.numbers >= 0

    @property
    def sets(self) -> sparse.csr_matrix:
        """The classes as label sets of one label (n, n_classes); unlabeled rows are empty."""
        rows = np.flatnonzero(self.known)
        shape = (len(self.numbers), max(len(self.names), 1))
        return sparse.csr_matrix((np.ones(len(rows)), (rows, self.numbers[rows])), shape=shape)


@dataclass(frozen=True)
class LabelSets:
    """A set of labels per row, CSR (n, c) of 0/1. ``names`` are the tags; the columns of a 0/1 matrix have no names."""

    sets: sparse.csr_matrix
    known: NDArray[np.bool_]
    names: list[Any] | None = None

    @property
    def form(self) -> str:
        return "2-D" if self.names is None else "lists of tags"


def as_labels(y: Any, unlabeled: Hashable = None, name: str = "y") -> Classes | LabelSets:
    """Return labels of any accepted kind as classes or label sets.

    Parameters
    ----------
    y : array-like of classes (n,), 0/1 matrix (n, c), dense or sparse, or a list or set of tags per row
    unlabeled : hashable, default=None
        Value that marks a row without a label, besides None, NaN and pandas' NA.
    name : str, default="y"
        What error messages call y.

    Returns
    -------
    Classes or LabelSets

    Raises
    ------
    ValueError
        If values are of several kinds, look continuous or cannot be hashed, or a matrix holds values besides 0 and 1.

    Examples
    --------
    >>> as_labels(["cat", None, "dog", "cat"]).numbers
    array([ 0, -1,  1,  0])
    >>> tags = as_labels([["red", "car"], {"car"}, []])
    >>> tags.names, tags.sets.toarray().astype(int).tolist()
    (['car', 'red'], [[1, 1], [1, 0], [0, 0]])
    """
    if sparse.issparse(y):
        return _matrix_sets(y, name)
    array = label_array(y, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.ndim == 2:
        return _matrix_sets(array, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D classes or 2-D label sets. Got {array.ndim}-D instead.")
    if array.dtype.kind in "biufSU":
        found, place = np.unique(array, return_inverse=True)
        return _numbered(found.tolist(), place.astype(np.intp), unlabeled, name)
    values = list(array)
    return (_tag_sets if _any_tags(values) else _object_classes)(values, unlabeled, name)


def label_matrix(y: Any, unlabeled: Hashable = None) -> sparse.csr_matrix:
    """Return label sets as a CSR matrix (n, c) of 0/1; an unlabeled row is all zero."""
    return as_labels(y, unlabeled).sets


def label_array(y: Any, name: str = "y") -> NDArray[Any]:
    """Return labels as an array without changing values; from a list, NumPy would turn 3 into "3" next to a string."""
    refuse_masked(y, name)
    return _array_of_list(y) if isinstance(y, (list, tuple)) else np.asarray(y)


def refuse_masked(values: Any, name: str = "X") -> None:
    """Raise a ValueError for masked entries, because NumPy would take the numbers behind the mask."""
    parts = values if isinstance(values, (list, tuple)) else (values,)
    n_masked = sum(int(np.ma.count_masked(part)) for part in parts if isinstance(part, np.ma.MaskedArray))
    if n_masked:
        raise ValueError(
            f"{name} has {n_masked} masked entries, which have no value to use: fill them ({name}.filled(0)) or leave "
            "these rows out."
        )


def sliceable_labels(y: Any) -> Any:
    """Return labels as rows that can be split into chunks: classes as an array, label sets as an array or CSR matrix.

    Tags become columns before the split, because each chunk alone would number the tags differently.
    """
    if sparse.issparse(y):
        return y.tocsr()
    array = label_array(y)
    return as_labels(array).sets if array.dtype == object and _any_tags(array.flat) else array


def sets_by_name(
    labels: Classes | LabelSets, known: Sequence[Any], sides: tuple[str, str]
) -> tuple[sparse.csr_matrix, list[Any]]:
    """Return the label sets of rows with a column for each known name, and after them for each new one, and all names.

    ``sides`` says in an error what holds the labels, and what holds the known names.
    """
    check_same_kind(labels.names or [], list(known), sides)
    places = _places(known, labels.names or [])
    return _moved(labels, places).sets, list(places)


def match_labels(
    first: Classes | LabelSets, second: Classes | LabelSets, names: tuple[str, str]
) -> tuple[Classes, Classes] | tuple[LabelSets, LabelSets]:
    """Return both sides with the same numbering of classes or labels; raise ValueError if they cannot be compared."""
    if first.names is None or second.names is None:
        if first.form != second.form:
            raise ValueError(
                f"{names[0]} and {names[1]} must both be classes (1-D) or both be label sets (2-D). "
                f"Got {first.form} and {second.form}."
            )
        assert isinstance(first, LabelSets)
        assert isinstance(second, LabelSets)
        if first.sets.shape[1] != second.sets.shape[1]:
            raise ValueError(
                f"{names[0]} and {names[1]} must have the same number of labels. "
                f"Got {first.sets.shape[1]} and {second.sets.shape[1]}."
            )
        return first, second
    check_same_kind(first.names, second.names, names)
    places = _places(first.names, second.names)
    as_sets = not (isinstance(first, Classes) and isinstance(second, Classes))
    return _moved(first, places, as_sets), _moved(second, places, as_sets)


def check_variety(n_distinct: int) -> None:
    """Raise ValueError unless labeled rows have at least two different classes or label sets."""
    if n_distinct == 0:
        raise ValueError(NO_LABELS)
    if n_distinct == 1:
        raise ValueError(
            "All labeled rows have the same label, so there is nothing to tell apart: at least two classes or label "
            "sets are needed to learn from labels."
        )


EQUAL_KEYS = "Two label sets have the same key of 64 bits. This should not happen: please report it."


def set_keys(sets: LabelMatrix) -> NDArray[np.uint64]:
    """Return a key for every label set: the sum of random 64-bit weights of its labels."""
    weights = np.random.default_rng(0).integers(0, 2**64, size=sets.shape[1], dtype=np.uint64)
    running = np.concatenate([[np.uint64(0)], np.cumsum(weights[sets.indices], dtype=np.uint64)])
    return running[sets.indptr[1:]] - running[sets.indptr[:-1]]


def group_rows(labels: LabelMatrix) -> tuple[IntArray, IntArray]:
    """Return the group number of every row (-1 for empty rows) and one row of each group.

    Rows are grouped by keys, and every row is compared with the first row of its group.
    """
    rows = np.flatnonzero(np.diff(labels.indptr))
    _, first, member = np.unique(set_keys(labels)[rows], return_index=True, return_inverse=True)
    # Groups are numbered by first appearance, so the result does not depend on the random keys.
    group = np.full(labels.shape[0], UNKNOWN, dtype=np.intp)
    group[rows] = np.argsort(np.argsort(first))[member]
    representatives = rows[np.sort(first)]
    if (labels[rows] != labels[representatives[group[rows]]]).nnz:
        raise RuntimeError(EQUAL_KEYS)
    return group, representatives


def _array_of_list(values: Sequence[Any]) -> NDArray[Any]:
    kinds = set(map(type, values))
    for plain in ((str,), (bytes,), (numbers.Number, np.bool_)):
        if all(issubclass(kind, plain) for kind in kinds):
            return np.asarray(values)
    if all(issubclass(kind, (list, tuple, np.ndarray)) for kind in kinds):
        try:
            table = np.asarray(values)
        except ValueError:  # rows of several lengths are not a matrix, but may be tags
            table = np.empty(0)
        if table.ndim > 2 or (table.ndim == 2 and table.dtype.kind in "biuf" and np.isin(table, (0, 1)).all()):
            return table
    return np.fromiter(values, dtype=object, count=len(values))


def _any_tags(values: Iterable[Any]) -> bool:
    return any(map(_holds_tags, set(map(type, values))))


def _holds_tags(kind: type) -> bool:
    return issubclass(kind, Iterable) and not issubclass(kind, _ONE_VALUE)


def _matrix_sets(matrix: Any, name: str) -> LabelSets:
    """Return a 0/1 matrix as label sets, without changing the matrix."""
    if not sparse.issparse(matrix) and matrix.dtype.kind not in "biuf":
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must hold only 0 and 1 when it is 2-D. Got '{matrix.flat[0]}'.") from None
    sets = sparse.csr_matrix(matrix, dtype=np.float64, copy=True)
    sets.sum_duplicates()
    sets.eliminate_zeros()
    other = sets.data[sets.data != 1]
    if len(other):
        raise ValueError(
            f"{name} must hold only 0 and 1 when it is 2-D: it is then a 0/1 matrix, one column per label. "
            f"Got {other[0]:g}."
        )
    return LabelSets(sets, np.ones(sets.shape[0], dtype=bool))


def _numbered(found: list[Any], place: IntArray, unlabeled: Hashable, name: str) -> Classes:
    """Return classes from the sorted distinct values and each row's place among them."""
    kept = [not (_is_missing(value) or (unlabeled is not None and value == unlabeled)) for value in found]
    names = [value for value, keep in zip(found, kept, strict=True) if keep]
    _check_names(names, name)
    if all(kept):
        return Classes(place, names)
    number = np.where(kept, np.cumsum(kept) - 1, UNKNOWN).astype(np.intp)
    return Classes(number[place], names)


def _object_classes(values: list[Any], unlabeled: Hashable, name: str) -> Classes:
    known = [None if _is_missing(value) else value for value in values]
    try:
        distinct = dict.fromkeys(known)
    except TypeError as error:
        raise ValueError(f"Classes must be hashable: {error}.") from error
    found = _ordered([value for value in distinct if value is not None]) + [None]
    number = {value: place for place, value in enumerate(found)}
    return _numbered(found, np.array([number[value] for value in known], dtype=np.intp), unlabeled, name)


def _tag_sets(values: list[Any], unlabeled: Hashable, name: str) -> LabelSets:
    known = np.array([_holds_tags(type(value)) for value in values])
    for value in (value for value, tagged in zip(values, known, strict=True) if not tagged):
        if not (_is_missing(value) or (unlabeled is not None and value == unlabeled)):
            raise ValueError(f"{name} mixes lists of tags and single values. Got {value!r}: write it as [{value!r}].")
    try:
        rows = [
            {tag for tag in value if not _is_missing(tag)} if tagged else set()
            for value, tagged in zip(values, known, strict=True)
        ]
    except TypeError as error:
        raise ValueError(f"The tags of a row must be a flat list of values: {error}.") from error
    names = _ordered(list(set().union(*rows)))
    _check_names(names, name)
    number = {tag: place for place, tag in enumerate(names)}
    indices = np.array([number[tag] for row in rows for tag in row], dtype=np.intp)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    sets = sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(len(rows), max(len(names), 1)))
    sets.sort_indices()
    return LabelSets(sets, known, names)


def _ordered(values: list[Any]) -> list[Any]:
    """Sort the values, or keep their order if they cannot be compared; values of several kinds are refused later."""
    try:
        return sorted(values)
    except TypeError:
        return values


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA, whose comparisons are neither true nor false."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return not isinstance(value, Iterable) and bool(value != value)


def _kind(value: Any) -> str:
    """Return the kind of a class value; only values of the same kind can be equal."""
    if isinstance(value, (numbers.Number, np.bool_)):
        return "numbers"
    return "strings" if isinstance(value, str) else type(value).__name__


def _check_names(names: list[Any], name: str) -> None:
    """Raise ValueError for classes of several kinds, and for numbers that look like measurements."""
    kinds = {_kind(value): value for value in names}
    if len(kinds) > 1:
        (first, one), (second, other) = sorted(kinds.items())[:2]
        raise ValueError(
            f"{name} mixes {first} ({one!r}) and {second} ({other!r}): give labels of one kind, say all as strings."
        )
    measured = [value for value in names if isinstance(value, (float, np.floating)) and not value.is_integer()]
    if measured:
        raise ValueError(
            f"{name} holds numbers that are not whole ({measured[0]!r}), so the labels look continuous: give classes, "
            "or strings if these numbers are names of classes."
        )


def check_same_kind(first: list[Any], second: list[Any], names: tuple[str, str]) -> None:
    """Raise ValueError if the classes or tags of two sides are of different kinds, so that none can be equal."""
    if first and second and _kind(first[0]) != _kind(second[0]):
        raise ValueError(
            f"{names[0]} holds {_kind(first[0])} ({first[0]!r}) and {names[1]} {_kind(second[0])} ({second[0]!r}), so "
            "no label of one side can equal one of the other: give both sides labels of one kind."
        )


def _places(first: Sequence[Any], second: Sequence[Any]) -> dict[Any, int]:
    """Return the number of every name of two sides."""
    return {name: place for place, name in enumerate(dict.fromkeys([*first, *second]))}


def _moved(side: Classes | LabelSets, places: dict[Any, int], as_sets: bool = True) -> Any:
    """Return the labels numbered by the ``places`` of their names, as label sets if asked to."""
    columns = np.array([places[name] for name in side.names or []], dtype=np.intp)
    if isinstance(side, Classes) and not as_sets:
        return Classes(np.append(columns, UNKNOWN)[side.numbers], list(places))
    sets = side.sets
    indices = columns[sets.indices] if len(columns) else sets.indices
    moved = sparse.csr_matrix((sets.data, indices, sets.indptr), shape=(sets.shape[0], max(len(places), 1)))
    moved.sort_indices()
    return LabelSets(moved, side.known, list(places))
