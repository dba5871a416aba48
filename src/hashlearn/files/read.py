"""Features, labels and pairs from any file, checked so that an error names the file and the row.

One name may stand for several files: a pattern such as ``x*.npy``, or a folder. Rows follow each other in the order of
the names. Readers of one file call ``shard_names`` first and, if there are several, join what they read from each.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.files.arrays import FileError, check_there, open_part, read_whole, split_part
from hashlearn.files.columns import LABEL_NAMES
from hashlearn.files.tables import TABLES, table_features, table_labels
from hashlearn.files.text_tables import is_number
from hashlearn.parallel import BLOCK_ROWS


def shard_names(name: str | Path, suffixes: Sequence[str] | None = None) -> list[str]:
    """Return the names of the files that a name stands for. A part after a colon is that of every file.

    A folder stands for its files with one of ``suffixes``; without ``suffixes``, only patterns stand for several files.

    Raises
    ------
    FileError
        If a pattern or a folder has no files.
    """
    text = str(name)
    if os.path.isdir(text) and suffixes is not None:
        found = sorted(str(path) for path in Path(text).iterdir() if path.suffix.lower() in suffixes)
        if not found:
            raise FileError(f"{text} is a folder without files that end in {', '.join(suffixes)}.")
        return found
    if not glob.has_magic(text) or os.path.exists(text) or split_part(text)[0].exists():
        return [text]
    pattern, colon, part = text.partition(":")
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        raise FileError(f"No file matches {text}.")
    return [f"{file}{colon}{part}" for file in found]


class ShardedRows:
    """Rows of several arrays, one after the other, that can be sliced like one array.

    Parameters
    ----------
    names : of the files, for errors
    parts : 2-D arrays, memory maps, sparse matrices or HDF5 data sets of one width
    """

    def __init__(self, names: Sequence[str], parts: Sequence[Any]) -> None:
        for name, part in zip(names, parts, strict=True):
            if part.shape[1] != parts[0].shape[1]:
                raise FileError(
                    f"{name} has {part.shape[1]} columns, but {names[0]} has {parts[0].shape[1]}: rows of one set have "
                    "one width."
                )
        self._parts = list(parts)
        self._ends = np.cumsum([part.shape[0] for part in parts])
        self.shape = (int(self._ends[-1]), int(parts[0].shape[1]))
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __getitem__(self, rows: Any) -> Any:
        """Read the rows of a slice with step 1, or all rows for ``...``."""
        start, stop, _ = (slice(None) if rows is Ellipsis else rows).indices(self.shape[0])
        found = []
        for part, end in zip(self._parts, self._ends, strict=True):
            first = int(end) - part.shape[0]
            if first < stop and end > start:
                found.append(part[max(start - first, 0) : min(stop, int(end)) - first])
        return stack_rows(found) if found else self._parts[0][:0]


def stack_rows(blocks: Sequence[Any]) -> Any:
    """Join blocks of rows or labels, one after the other; the result is sparse if any of them is."""
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


_CHUNK_BYTES = 64 * 2**20


def open_features(name: str | Path, *, ids: bool = False) -> Any:
    """Open feature rows that can be sliced, 2-D and numeric: on disk where the format allows, else in memory.

    A pattern such as ``x*.npy`` stands for the rows of all its files, in the order of their names.
    Columns of a table that look like ids are left out with a warning unless the name picks them or ``ids`` is true.
    """
    names = shard_names(name)
    if names != [str(name)]:
        return ShardedRows(names, [open_features(one, ids=ids) for one in names])
    path, part = split_part(name)
    if path.suffix.lower() in TABLES:
        check_there(path)
        rows: Any = table_features(path, part, ids=ids)
    else:
        rows = open_part(name, "X")
    if len(rows.shape) != 2:
        raise FileError(f"{name} must hold a 2-D array (rows, features); it is {len(rows.shape)}-D.")
    if rows.dtype.kind not in "fiub":
        raise FileError(f"{name} must hold numbers; its type is {rows.dtype}.")
    if not all(rows.shape):
        raise FileError(f"{name} holds no rows or no features: its shape is {tuple(rows.shape)}.")
    return rows


def read_features(name: str | Path) -> Any:
    """Return feature rows for training: a memmap, an array or a CSR matrix, with every value checked."""
    rows = open_features(name)
    rows = read_whole(rows, Path(name))
    for _ in checked_chunks(rows, name):
        pass
    return rows


def checked_chunks(rows: Any, name: str | Path) -> Iterator[tuple[slice, Any]]:
    """Yield checked chunks of feature rows, one in memory at a time."""
    for chunk in row_chunks(rows):
        block = rows[chunk]
        check_rows(block, name, chunk.start)
        yield chunk, block


def row_chunks(rows: Any) -> list[slice]:
    """Row slices of about 64 MB as float32, whole blocks of the hashers so that codes do not depend on them."""
    blocks = max(1, _CHUNK_BYTES // (4 * rows.shape[1] * BLOCK_ROWS))
    step = blocks * BLOCK_ROWS
    return [slice(start, min(start + step, rows.shape[0])) for start in range(0, rows.shape[0], step)]


def check_rows(block: Any, name: str | Path, first_row: int) -> None:
    """FileError that names the first row with NaN or infinity; ``first_row`` is the number of the block's first."""
    bad = bad_row(block)
    if bad is not None:
        raise FileError(f"{name}: row {first_row + bad} holds NaN or infinity.")


def bad_row(block: Any) -> int | None:
    """Return the number of the first row with NaN or infinity; None if all are finite."""
    values = block.data if sparse.issparse(block) else block
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return None
    if sparse.issparse(block):
        return int(np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))[~np.isfinite(values)][0])
    return int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])


def read_labels(name: str | Path, *, missing: bool = False, n_rows: int | None = None) -> Any:
    """Read classes (n,), label sets (n, c) of 0 and 1, or a column of lists of tags (n,).

    Parameters
    ----------
    name : file, part of one, or a pattern that stands for several files
    missing : bool, default=False
        Whether rows may have no class (None or NaN); otherwise that is an error.
    n_rows : int or None, default=None
        How many labels are expected. A text file with one line more begins with a header. Without
        this number only text over numbers and the usual names (``label``, ``class``, …) are known as a header.
    """
    names = shard_names(name)
    if names != [str(name)]:
        return _joined_labels(names, [read_labels(one, missing=missing) for one in names])
    path, part = split_part(name)
    if path.suffix.lower() in TABLES:
        check_there(path)
        labels: Any = _from_columns(name, *table_labels(path, part, n_rows=n_rows))
    else:
        labels = read_whole(open_part(name, "y"), path)
        labels = labels if sparse.issparse(labels) else np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1 and not sparse.issparse(labels):
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or labels.shape[0] == 0:
        raise FileError(f"{name} must hold classes (n,) or label sets (n, c); its shape is {tuple(labels.shape)}.")
    if labels.ndim == 2:
        values = labels.data if sparse.issparse(labels) else labels
        if not np.isin(values, (0, 1)).all():
            raise FileError(f"{name} has {labels.shape[1]} columns but not only 0 and 1, so they are no label sets.")
    elif not missing:
        _check_complete(name, labels)
    return labels


def _joined_labels(names: list[str], parts: list[Any]) -> Any:
    """Stack labels of several files, which must be all classes or all label sets of the same labels."""
    for name, part in zip(names, parts, strict=True):
        if part.shape[1:] != parts[0].shape[1:]:
            raise FileError(f"{name} holds labels of shape {part.shape}, but {names[0]} of shape {parts[0].shape}.")
    return stack_rows(parts)


def _check_complete(name: str | Path, labels: NDArray[Any]) -> None:
    gone = np.array([v is None or v != v for v in labels.tolist()]) if labels.dtype.kind in "fO" else np.zeros(1, bool)
    if gone.any():
        raise FileError(f"{name}: row {int(np.flatnonzero(gone)[0])} has no label.")


def _from_columns(name: str | Path, names: list[str] | None, columns: list[list[Any]]) -> NDArray[Any]:
    if len(columns) == 1:
        return _classes(name, columns[0])
    try:
        table = np.array(columns, dtype=np.float64).T
    except (TypeError, ValueError):
        table = np.full((1, 1), np.nan)
    if not np.isin(table, (0, 1)).all():
        advice = "give a file of labels alone"
        if names:
            likely = next((column for column in names if column.strip().lower() in LABEL_NAMES), names[-1])
            advice = f"name the label column, as in {name}:{likely}"
        raise FileError(f"{name} has {len(columns)} columns that are not all 0 and 1; {advice}.")
    return table.astype(np.int8)


def _classes(name: str | Path, values: list[Any]) -> NDArray[Any]:
    """Integers where all are, else numbers, else strings. None stays None and lists of tags stay lists, as objects."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, dict) for value in known):
        raise FileError(f"{name} holds structures; labels must be one value or a list of tags per row, or 0/1 columns.")
    if any(isinstance(value, list) for value in known):
        return np.fromiter(values, dtype=object, count=len(values))
    if all(isinstance(value, str) for value in known) and all(map(is_number, known)):
        values = [None if value is None else float(value) for value in values]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, float) and value.is_integer() for value in known):
        values = [None if value is None else int(value) for value in values]
    if len(known) == len(values):
        return np.array(values)
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def read_pairs(name: str | Path) -> NDArray[np.intp]:
    """Return pairs of row numbers (k, 2), counted from 0."""
    pairs = np.asarray(read_whole(open_features(name, ids=True), Path(name)))
    if pairs.shape[1] != 2 or np.any(pairs != np.floor(pairs)) or np.any(pairs < 0):
        raise FileError(f"{name} must hold pairs of row numbers in two columns, counted from 0.")
    return pairs.astype(np.intp)
