"""Tables (.csv, .tsv, .txt and .parquet) by column: features are their numbers, labels may be text.

Parquet files are read by pyarrow, whole or a batch of rows at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import EXTRA, FileError, but_is, check_memory
from hashlearn.files.columns import SAMPLE_ROWS, Column, feature_places, label_places
from hashlearn.files.text_tables import LabelColumns, text_feature_names, text_features, text_labels, text_names

_CHUNK = 4096


def open_parquet(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise FileError(f"Reading {path} needs pyarrow: {EXTRA}.") from error
    try:
        return parquet.ParquetFile(path)
    except Exception as error:  # pyarrow has its own exception classes, and not all have a common base
        what = but_is(path, "Parquet") or ", or it is damaged"
        raise FileError(f"{path} is not a Parquet file{what}.") from error


def _read_columns(path: Path, file: Any, names: list[str]) -> Any:
    """Read columns, unless 8 bytes for each of their values are more than the free memory."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    begins = tuple(f"{name}." for name in names)  # the values of a list column are a column inside it
    n_values = sum(column.num_values for column in columns if f"{column.path_in_schema}.".startswith(begins))
    check_memory(path, 8 * n_values)
    return file.read(columns=names)


def _feature_columns(path: Path, file: Any, part: str | None, ids: bool = False) -> list[str]:
    """Return the names of the columns that are features."""
    fields = list(file.schema_arrow)
    columns = [Column(field.name, _kind(field.type)) for field in fields]

    def values(places: list[int]) -> list[list[Any]]:
        sample = next(file.iter_batches(SAMPLE_ROWS, columns=[fields[place].name for place in places]), None)
        return [[] if sample is None else sample.column(fields[place].name).to_pylist() for place in places]

    places = feature_places(path, columns, part, ids, values)
    for place in places:
        if columns[place].kind == "text" or (columns[place].kind == "list" and len(places) > 1):
            raise FileError(f"{path}: column '{fields[place].name}' does not hold numbers but {fields[place].type}.")
    return [fields[place].name for place in places]


def _kind(kind: Any) -> Literal["number", "whole", "list", "text"]:
    import pyarrow.types as types

    if types.is_integer(kind):
        return "whole"
    if types.is_floating(kind) or types.is_boolean(kind):
        return "number"
    listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return "list" if listed and _kind(kind.value_type) in ("number", "whole") else "text"


def _feature_rows(path: Path, table: Any, first_row: int) -> NDArray[Any]:
    """Return rows of feature columns; ``first_row`` is the number of the table's first row in the file."""
    import pyarrow as pa

    for name in table.column_names:
        column = table[name]
        if column.null_count:
            row = first_row + int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise FileError(f"{path}: a value is missing in row {row}, column '{name}'.")
    if _kind(table.schema.types[0]) == "list":
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


def _label_columns(path: Path, file: Any, part: str | None, ids: bool = False) -> list[str]:
    names = file.schema_arrow.names
    return [names[place] for place in label_places(path, names, part, ids)]


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


TABLES = (".csv", ".tsv", ".txt", ".parquet")


def table_features(path: Path, part: str | None, *, ids: bool = False) -> NDArray[Any]:
    """Return the numeric columns of a table, or those that ``part`` picks (``-name`` leaves one out).

    Columns that look like ids are left out with a warning unless ``part`` names them or ``ids`` is true.
    """
    if not _is_parquet(path):
        return text_features(path, part, ids=ids)
    file = open_parquet(path)
    return _feature_rows(path, _read_columns(path, file, _feature_columns(path, file, part, ids)), 0)


def table_labels(path: Path, part: str | None, *, n_rows: int | None = None, ids: bool = False) -> LabelColumns:
    """Return the names of a label table's columns where it has them, and the columns; missing values are None.

    ``part`` picks columns, else those that look like ids are left out with a warning, unless ``ids`` is true.
    ``n_rows``, the number of labels that are expected, tells a header from a first label.
    """
    if not _is_parquet(path):
        return text_labels(path, part, n_rows=n_rows, ids=ids)
    file = open_parquet(path)
    names = _label_columns(path, file, part, ids)
    return names, [column.to_pylist() for column in _read_columns(path, file, names).columns]


def table_names(path: Path) -> list[str] | None:
    """Return the names of the columns of a table; None if it has no header."""
    return list(open_parquet(path).schema_arrow.names) if _is_parquet(path) else text_names(path)


def table_feature_names(path: Path, part: str | None) -> list[str] | None:
    """Return the names of the columns that ``table_features`` reads; None if the table has no header."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reading of the features warns of what is left out
        if _is_parquet(path):
            return _feature_columns(path, open_parquet(path), part)
        return text_feature_names(path, part)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"
