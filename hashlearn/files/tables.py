"""Tables: .csv, .tsv and .parquet, by column; features are their numbers, labels may be text."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import EXTRA, FileError, one_line

TEXT = (".csv", ".tsv", ".txt")
TABLES = (*TEXT, ".parquet")
LABEL_NAMES = {"label", "labels", "class", "classes", "y", "target"}
_CHUNK = 4096


def table_features(path: Path, part: str | None) -> NDArray[np.float64] | NDArray[np.float32]:
    """The numeric columns of a table, or those that ``part`` picks (``-name`` leaves one out)."""
    return _parquet_features(path, part) if path.suffix.lower() == ".parquet" else _text_features(path, part)


def table_labels(path: Path, part: str | None) -> list[list[Any]]:
    """The columns of a label table, or the one that ``part`` picks; missing values are None."""
    return _parquet_labels(path, part) if path.suffix.lower() == ".parquet" else _text_labels(path, part)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@contextmanager
def text_rows(path: Path) -> Iterator[Iterator[list[str]]]:
    """Rows of a delimited file as strings, all of one length; blank lines do not count."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            first = stream.readline()
            delimiter = "," if path.suffix.lower() == ".csv" else "\t"
            if delimiter == "," and "," not in first and ";" in first:
                delimiter = ";"
            stream.seek(0)
            yield _even_rows(path, csv.reader(stream, delimiter=delimiter))
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not text in UTF-8.") from error
    except csv.Error as error:
        raise FileError(f"{path} cannot be read: {one_line(error)}") from error


def _even_rows(path: Path, reader: Any) -> Iterator[list[str]]:
    width = 0
    for row in reader:
        if not row:
            continue
        width = width or len(row)
        if len(row) != width:
            raise FileError(f"{path}: line {reader.line_num} has {len(row)} columns, the first has {width}.")
        yield row


def _text_features(path: Path, part: str | None) -> NDArray[np.float64]:
    with text_rows(path) as rows:
        first = next(rows, None)
        if first is None:
            raise FileError(f"{path} has no rows.")
        names = None if any(is_number(field) for field in first) else first
        row = next(rows, None) if names else first
        if row is None:
            raise FileError(f"{path} has a header but no rows.")
        keep = _numeric_columns(path, names, row, part)
        chunks, chunk, done = [], [row], 0
        for row in rows:
            chunk.append(row)
            if len(chunk) == _CHUNK:
                chunks.append(_numbers(path, chunk, keep, done))
                chunk, done = [], done + _CHUNK
        if chunk:
            chunks.append(_numbers(path, chunk, keep, done))
    return np.concatenate(chunks)


def _numeric_columns(path: Path, names: list[str] | None, row: list[str], part: str | None) -> list[int]:
    if part is not None and names is None:
        raise FileError(f"{path} has no header, so it has no column '{part}'.")
    if part is not None and names is not None and not part.startswith("-"):
        return _places(path, names, part)
    dropped = _places(path, names, part[1:]) if part and names else []
    # A first column without a name is the index that pandas writes.
    if names and names[0] == "" and len(names) > 1:
        dropped.append(0)
    keep = [place for place in range(len(row)) if place not in dropped]
    # An empty field is a missing number, which is reported with its row; other text makes a text column.
    text = [place for place in keep if row[place].strip() and not is_number(row[place])]
    if text:
        _warn_left_out(path, [names[place] if names else str(place + 1) for place in text])
    keep = [place for place in keep if place not in text]
    if not keep:
        raise FileError(f"{path} has no column of numbers.")
    return keep


def _warn_left_out(path: Path, names: list[str]) -> None:
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    warnings.warn(f"{path}: columns that are not numbers are left out: {shown}.", stacklevel=2)


def _places(path: Path, names: list[str], part: str) -> list[int]:
    wanted = [part] if part in names else part.split(",")
    for name in wanted:
        if name not in names:
            raise FileError(f"{path} has no column '{name}'; it has {', '.join(names[:8])}.")
    return [names.index(name) for name in wanted]


def _numbers(path: Path, rows: list[list[str]], keep: list[int], first_row: int) -> NDArray[np.float64]:
    try:
        return np.array([[row[place] for place in keep] for row in rows], dtype=np.float64)
    except ValueError:
        for number, row in enumerate(rows, first_row):
            for place in keep:
                if not is_number(row[place]):
                    found = f"'{row[place]}' is not a number" if row[place].strip() else "a value is missing"
                    raise FileError(f"{path}: {found} in row {number}, column {place + 1}.") from None
        raise


def _text_labels(path: Path, part: str | None) -> list[list[Any]]:
    if path.suffix.lower() == ".txt":
        if part is not None:
            raise FileError(f"{path} has no columns, so it has no part '{part}'.")
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise FileError(f"{path} is not text in UTF-8.") from error
        return [[line.strip() or None for line in lines]]
    with text_rows(path) as rows:
        table = list(rows)
    if not table:
        raise FileError(f"{path} has no rows.")
    names = table[0]
    if part is not None:
        place = _places(path, names, part)
        return [[row[where].strip() or None for row in table[1:]] for where in place]
    # Text over text cannot be told apart, so only the usual names count as a header there.
    text = not any(is_number(field) for field in names)
    over_numbers = len(table) > 1 and all(is_number(field) or not field.strip() for field in table[1])
    header = text and (over_numbers or {name.strip().lower() for name in names} <= LABEL_NAMES)
    return [[value.strip() or None for value in column] for column in zip(*table[header:], strict=True)]


def open_parquet(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise FileError(f"Reading {path} needs pyarrow: {EXTRA}.") from error
    try:
        return parquet.ParquetFile(path)
    except Exception as error:  # pyarrow has its own exception classes, and not all have a common base
        raise FileError(f"{path} is not a Parquet file, or it is damaged.") from error


def _parquet_features(path: Path, part: str | None) -> NDArray[Any]:
    file = open_parquet(path)
    names = _feature_columns(path, file, part)
    return _feature_rows(path, file.read(columns=names), 0)


def _feature_columns(path: Path, file: Any, part: str | None) -> list[str]:
    """The columns that are features: those that ``part`` picks, the only list column, or all numbers."""
    fields = {field.name: field.type for field in file.schema_arrow}
    if part is not None and not part.startswith("-"):
        names = [list(fields)[place] for place in _places(path, list(fields), part)]
    else:
        dropped = {list(fields)[place] for place in _places(path, list(fields), part[1:])} if part else set()
        left = {name: kind for name, kind in fields.items() if name not in dropped and not _is_index(name)}
        lists = [name for name, kind in left.items() if _is_list(kind)]
        numeric = [name for name, kind in left.items() if _is_numeric(kind)]
        if len(lists) > 1:
            raise FileError(f"{path} has several list columns ({', '.join(lists)}); choose one: {path}:{lists[0]}.")
        names = lists or numeric
        text = [name for name in left if name not in numeric and name not in lists]
        if text and names:
            _warn_left_out(path, text)
    if not names:
        raise FileError(f"{path} has no column of numbers.")
    for name in names:
        if not (_is_numeric(fields[name]) or (_is_list(fields[name]) and len(names) == 1)):
            raise FileError(f"{path}: column '{name}' does not hold numbers but {fields[name]}.")
    return names


def _feature_rows(path: Path, table: Any, first_row: int) -> NDArray[Any]:
    """Rows of feature columns; ``first_row`` is the number of the table's first row in the file."""
    import pyarrow as pa

    for name in table.column_names:
        column = table[name]
        if column.null_count:
            row = first_row + int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise FileError(f"{path}: a value is missing in row {row}, column '{name}'.")
    if _is_list(table.schema.types[0]):
        return _list_column(path, table.column(0).combine_chunks(), first_row)
    kind = np.float32 if all(kind == pa.float32() for kind in table.schema.types) else np.float64
    return np.column_stack([np.asarray(column.to_numpy(), dtype=kind) for column in table.columns])


def _list_column(path: Path, column: Any, first_row: int) -> NDArray[Any]:
    import pyarrow.compute as compute

    lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
    width = int(lengths[0]) if len(lengths) else 0
    if np.any(lengths != width):
        row = int(np.flatnonzero(lengths != width)[0])
        raise FileError(f"{path}: row {first_row + row} has {lengths[row]} values, the first has {width}.")
    flat = column.flatten()
    if flat.null_count:
        row = first_row + int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0]) // width
        raise FileError(f"{path}: a value is missing in row {row}.")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(lengths), width)


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(listed and _is_numeric(kind.value_type))


def _is_numeric(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _is_index(name: str) -> bool:
    return name.startswith("__index_level_")


def _parquet_labels(path: Path, part: str | None) -> list[list[Any]]:
    file = open_parquet(path)
    table = file.read(columns=_label_columns(path, file, part))
    return [column.to_pylist() for column in table.columns]


def _label_columns(path: Path, file: Any, part: str | None) -> list[str]:
    names = [name for name in file.schema_arrow.names if not _is_index(name)]
    return names if part is None else [names[place] for place in _places(path, names, part)]


class ParquetRows:
    """Rows of a Parquet file's feature or label columns, decoded a batch at a time.

    Slices read in order go on where the last one ended; another one starts again at its row group.
    """

    def __init__(self, path: Path, part: str | None, labels: bool) -> None:
        self._path, self._labels, self._file = path, labels, open_parquet(path)
        self._names = (_label_columns if labels else _feature_columns)(path, self._file, part)
        sizes = [self._file.metadata.row_group(k).num_rows for k in range(self._file.metadata.num_row_groups)]
        self._begins = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self.n_rows = int(self._begins[-1])
        self._batches: Iterator[Any] = iter(())
        self._held: list[Any] = []
        self._start = self._end = -1

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        import pyarrow as pa

        first, last = rows.start, min(rows.stop, self.n_rows)
        if not self._start <= first <= self._end:
            group = int(np.searchsorted(self._begins, first, side="right")) - 1
            groups = list(range(group, len(self._begins) - 1))
            self._batches = self._file.iter_batches(_CHUNK, row_groups=groups, columns=self._names, use_threads=False)
            self._held, self._start, self._end = [], int(self._begins[group]), int(self._begins[group])
        while self._end < last:
            self._held.append(next(self._batches))
            self._end += len(self._held[-1])
            self._forget(first)
        self._forget(first)
        table = pa.Table.from_batches(self._held).slice(first - self._start, last - first)
        if not self._labels:
            return _feature_rows(self._path, table.select(self._names), first)
        columns = [column.to_numpy() for column in table.columns]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def _forget(self, first: int) -> None:
        while self._held and self._start + len(self._held[0]) <= first:
            self._start += len(self._held.pop(0))
