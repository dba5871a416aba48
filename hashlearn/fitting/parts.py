"""Parts of a data source that are in memory or made by functions, and lists of parts.

A part can be sent to another process. It travels as a path and row numbers where that is possible (``file_parts``).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.files.arrays import FileError, one_line
from hashlearn.labels import label_array


class SourcePart(Protocol):
    """Rows, or labels of rows, that can be read here or in another process."""

    @property
    def name(self) -> str:
        """What error messages call the part."""
        ...

    @property
    def n_rows(self) -> int: ...

    @property
    def cheap(self) -> bool:
        """Whether single rows can be read without reading much else."""
        ...

    def read(self, start: int, stop: int) -> Any:
        """Read rows start..stop-1 of this part."""
        ...

    def slice(self, start: int, stop: int) -> SourcePart:
        """Return the part of these rows alone. One task reads it from its start to its end."""
        ...


class ArrayPart:
    """An array or sparse matrix in memory, or any object that can be sliced by rows.

    Only the slice that a task needs is sent to its process.
    """

    def __init__(self, array: Any, name: str = "the array") -> None:
        self.array, self.name, self.cheap = array, name, True
        self.n_rows = int(array.shape[0])

    def read(self, start: int, stop: int) -> Any:
        return self.array[start:stop]

    def take(self, rows: NDArray[np.integer]) -> Any:
        """Read single rows by number."""
        if isinstance(self.array, np.ndarray) or sparse.issparse(self.array):
            return self.array[rows]
        # Other objects that can be sliced by rows need not accept row numbers.
        return stack([np.array(self.read(int(row), int(row) + 1)) for row in rows])

    def slice(self, start: int, stop: int) -> ArrayPart:
        return ArrayPart(self.array[start:stop], self.name)


class PartList:
    """Parts one after the other, as one part."""

    name = "the chunks"

    def __init__(self, parts: Sequence[SourcePart]) -> None:
        self.parts = list(parts)
        self.starts = [0]
        for part in self.parts:
            self.starts.append(self.starts[-1] + part.n_rows)

    @property
    def n_rows(self) -> int:
        return self.starts[-1]

    @property
    def cheap(self) -> bool:
        return all(part.cheap for part in self.parts)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[SourcePart, int, int]]:
        """Yield the parts that hold rows start..stop-1, each with the row numbers inside it."""
        place = bisect_right(self.starts, start) - 1
        while start < stop:
            first, end = self.starts[place], min(self.starts[place + 1], stop)
            if end > start:
                yield self.parts[place], start - first, end - first
            start, place = max(start, end), place + 1

    def read(self, start: int, stop: int) -> Any:
        pieces = list(self.pieces(start, stop))
        blocks = [part.read(a, b) for part, a, b in pieces]
        if len({block.shape[1:] for block in blocks}) > 1:
            names = ", ".join(
                f"{part.name} {block.shape[1:]}" for (part, *_), block in zip(pieces, blocks, strict=True)
            )
            raise FileError(f"Chunks must have rows of one width. Got {names}.")
        return stack(blocks)

    def take(self, rows: NDArray[np.integer]) -> Any:
        """Read single rows by number, in ascending order, from parts that are cheap."""
        found: list[Any] = []
        for part, first in zip(self.parts, self.starts, strict=False):
            inside = rows[(rows >= first) & (rows < first + part.n_rows)] - first
            if len(inside):
                found.append(part.take(inside))  # type: ignore[attr-defined]  # all cheap parts can
        return stack(found)

    def slice(self, start: int, stop: int) -> PartList:
        return PartList([part.slice(a, b) for part, a, b in self.pieces(start, stop)])


def joined_parts(parts: Sequence[SourcePart]) -> SourcePart:
    """Return one part that holds the rows of all of them."""
    return parts[0] if len(parts) == 1 else PartList(parts)


def stack(blocks: Sequence[Any]) -> Any:
    """Join blocks of rows or labels, dense or sparse, into one."""
    if len(blocks) == 1:
        return blocks[0]
    if any(sparse.issparse(block) for block in blocks):
        return sparse.vstack(blocks, format="csr")
    arrays = [np.asarray(block) for block in blocks]
    kinds = {array.dtype.kind for array in arrays}
    if "U" in kinds and kinds & set("biuf"):
        # NumPy would turn the numbers into names.
        raise ValueError("Labels must be of one kind in all chunks. Got numbers in one and names in another.")
    return np.concatenate(arrays)


@dataclass
class FunctionPart:
    """Rows (column 0) or labels (column 1) of what a function returns."""

    function: Callable[[], Any]
    column: int
    name: str
    first: int
    n_rows: int
    cheap = False

    def slice(self, start: int, stop: int) -> FunctionPart:
        return FunctionPart(self.function, self.column, self.name, self.first + start, stop - start)

    def read(self, start: int, stop: int) -> Any:
        pair = call_for_rows(self.function, self.name)
        return pair[self.column][self.first + start : self.first + stop]


# The last results of functions, by name: a task that has read the rows of a chunk asks for its labels next.
_RECENT: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
_RECENT_LOCK = threading.Lock()
_RECENT_SIZE = 4


def call_for_rows(function: Callable[[], Any], name: str) -> tuple[Any, Any]:
    """Call a function that returns rows, or rows and labels, unless its result is among the last ones.

    Returns
    -------
    rows, labels or None
    """
    with _RECENT_LOCK:
        if name in _RECENT:
            _RECENT.move_to_end(name)
            return _RECENT[name]
    try:
        pair = as_pair(function())
    except Exception as error:
        raise FileError(f"{name} cannot be read: {one_line(error)}") from error
    with _RECENT_LOCK:
        _RECENT[name] = pair
        while len(_RECENT) > _RECENT_SIZE:
            _RECENT.popitem(last=False)
    return pair


def as_pair(chunk: Any) -> tuple[Any, Any]:
    """Check a chunk and return it as (rows, labels or None)."""
    rows, labels = chunk if isinstance(chunk, (tuple, list)) and len(chunk) == 2 else (chunk, None)
    if not hasattr(rows, "shape"):
        rows = np.asarray(rows)
    if labels is not None and not hasattr(labels, "shape"):
        labels = label_array(labels)
    if len(rows.shape) != 2:
        raise FileError(f"A chunk must be rows (n, features), or such rows and their labels. Got shape {rows.shape}.")
    if labels is not None and labels.shape[0] != rows.shape[0]:
        raise FileError(f"A chunk has {rows.shape[0]} rows and {labels.shape[0]} labels.")
    return rows, labels
