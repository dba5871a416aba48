"""One name for several files: a pattern such as ``x*.npy``, or a folder. Rows follow each other in the order of names.

Readers of one file call ``shard_names`` first and, if there are several, join what they read from each.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hashlearn.files.arrays import FileError, split_part


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
        return join_rows(found) if found else self._parts[0][:0]


def join_rows(parts: Sequence[Any]) -> Any:
    """Stack arrays; sparse if any of them is."""
    if len(parts) == 1:
        return parts[0]
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)
