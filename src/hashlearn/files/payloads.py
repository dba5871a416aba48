"""Payload files (.parquet, .jsonl, .csv, .tsv) and id files, read one row at a time and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import FileError, check_there, one_line, open_part, read_whole, split_part
from hashlearn.files.columns import named_places
from hashlearn.files.read import shard_names
from hashlearn.files.tables import TABLES, open_parquet, table_labels, table_names
from hashlearn.files.text_tables import TextForm, text_lines, text_rows

SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".csv", ".tsv")
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,400})(?:\.\d{1,400})?", re.ASCII)
_BATCH_ROWS = 10_000


def payload_rows(name: str | Path) -> Iterator[dict[str, Any] | None]:
    """Yield one JSON object per row of a file, or of all files of a pattern. An empty line of .jsonl has no payload.

    A part picks columns of a table: ``t.csv:price,color`` those, ``t.csv:-e0,e1`` all but those.
    """
    names = shard_names(name)
    if names != [str(name)]:
        return chain.from_iterable(map(payload_rows, names))
    path, part = split_part(name)
    check_there(path)
    if path.suffix.lower() not in SUFFIXES:
        raise FileError(f"{path} holds no payload: its name must end in {', '.join(SUFFIXES)}.")
    if path.suffix.lower() == ".parquet":
        rows = _parquet_rows(path)
    elif path.suffix.lower() in (".csv", ".tsv"):
        rows = _table_rows(path)
    else:
        return _json_rows(path)
    return rows if part is None else _picked(path, rows, part)


def _picked(path: Path, rows: Iterator[dict[str, Any]], part: str) -> Iterator[dict[str, Any]]:
    names = table_names(path)
    if names is None:
        raise FileError(f"{path} has no header, so it has no column '{part}'.")
    chosen = {names[place] for place in named_places(path, names, part.removeprefix("-"))}
    keep = set(names) - chosen if part.startswith("-") and part not in names else chosen
    return ({name: value for name, value in row.items() if name in keep} for row in rows)


def count_payload_rows(name: str | Path) -> int:
    """Count the rows of a payload file, or of all files of a pattern: by the header, or by reading it once."""
    names = shard_names(name)
    if names != [str(name)]:
        return sum(map(count_payload_rows, names))
    path = split_part(name)[0]
    check_there(path)
    if path.suffix.lower() == ".parquet":
        return int(open_parquet(path).metadata.num_rows)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        with path.open("rb") as stream:
            return sum(1 for _ in stream)
    return sum(1 for _ in payload_rows(path))


def read_ids(name: str | Path) -> NDArray[np.int64]:
    """Read whole numbers of 64 bits: one per line of .txt, a column of a table, or an array; also of a pattern."""
    names = shard_names(name)
    if names != [str(name)]:
        return np.concatenate([read_ids(one) for one in names])
    values = _id_values(name)
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise FileError(
                f"{name} must hold ids: a 1-D array of whole numbers. It is {values.ndim}-D {values.dtype}."
            )
        return values.astype(np.int64)
    ids = np.empty(len(values), dtype=np.int64)
    for number, value in enumerate(values):
        try:
            ids[number] = int(str(value))  # text of digits: a float would lose the last ones
        except (ValueError, OverflowError):
            raise FileError(f"{name}: row {number} holds {value!r}, which is no id of 64 bits.") from None
    return ids


def read_text_ids(name: str | Path) -> list[str]:
    """Read ids that are texts: one per line of .txt, a column of a table, or an array of text; also of a pattern."""
    names = shard_names(name)
    if names != [str(name)]:
        return [text for one in names for text in read_text_ids(one)]
    if str(name).lower().endswith(".txt"):
        check_there(Path(name))
        values: Any = text_lines(Path(name))  # none of them is a header, because any text may be an id
    else:
        values = _id_values(name)
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in "iuU":
            raise FileError(f"{name} must hold ids: a 1-D array of text. It is {values.ndim}-D {values.dtype}.")
        values = values.tolist()
    missing = [number for number, value in enumerate(values) if value is None or value == ""]
    if missing:
        raise FileError(f"{name}: row {missing[0]} holds no id.")
    return [str(value) for value in values]


def _id_values(name: str | Path) -> Any:
    """Return the values of one file with ids: an array, or the only column of a table."""
    path, part = split_part(name)
    if path.suffix.lower() not in TABLES:
        return np.asarray(read_whole(open_part(name, "ids"), path))
    check_there(path)
    _, columns = table_labels(path, part, ids=True)
    if len(columns) != 1:
        raise FileError(f"{name} has {len(columns)} columns: name that of the ids, as in {path}:id.")
    return columns[0]


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    for batch in open_parquet(path).iter_batches(_BATCH_ROWS):
        yield from batch.to_pylist()


def _json_rows(path: Path) -> Iterator[dict[str, Any] | None]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream):
            if not line.strip():
                yield None
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FileError(f"{path}: row {number} is no JSON: {one_line(error)}") from error
            if row is not None and not isinstance(row, dict):
                raise FileError(f"{path}: row {number} must be a JSON object. Got {type(row).__name__} instead.")
            yield row


def _table_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield rows by their header: numbers where a field is one, nothing where it is empty, else text."""
    with text_rows(path) as (rows, form):
        names = next(rows, [])
        if len(set(names)) != len(names):
            raise FileError(f"{path} names a column twice in its header.")
        for row in rows:
            yield {name: _number_or_text(field, form) for name, field in zip(names, row, strict=True) if field}


def _number_or_text(field: str, form: TextForm) -> Any:
    """Plain numbers, "12.50" among them, if nothing of them is lost: "007", "1e5", "nan" and "1_000" stay text."""
    text = field.replace(",", ".") if form.decimal == "," else field
    if not _PLAIN_NUMBER.fullmatch(text):
        return field
    number = float(text) if "." in text else int(text)
    if str(number) != text and Decimal(str(number)) != Decimal(text):
        return field
    return number if abs(number) < 2**63 else field  # payloads hold whole numbers of 64 bits
