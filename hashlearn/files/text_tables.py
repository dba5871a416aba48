"""Features and labels from .csv, .tsv and .txt.

NumPy reads the numbers. pyarrow would take a third of the time, but it has 170 MB, and a second reader for those who do
not install it would have to agree with it on every odd file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import FileError, one_line
from hashlearn.files.columns import LABEL_NAMES, looks_like_id, named_places, warn_left_out, without_ids
from hashlearn.files.text_form import TextForm, even_rows, has_decimal_comma, is_number, not_text, open_text, text_rows

_FRACTION = re.compile(r"\s*[+-]?\d*[.,]\d.*")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
LabelColumns = tuple[list[str] | None, list[list[Any]]]


def text_features(path: Path, part: str | None, *, ids: bool = False) -> NDArray[np.float64]:
    """The numeric columns, or those that ``part`` picks; with ``ids`` also those that look like ids."""
    with open_text(path) as (stream, form):
        names, row, lines = _head(path, stream, form)
        keep = _feature_places(path, names, row, part, form, ids)
        try:
            return _numbers(lines, form, len(row), keep)
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            raise _fault(path, keep, bool(names)) or FileError(f"{path} cannot be read: {one_line(error)}") from error


def _head(path: Path, stream: IO[str], form: TextForm) -> tuple[list[str] | None, list[str], Iterator[str]]:
    """The header if there is one, the first row, and the lines from that row on."""
    held: list[str] = []

    def held_lines() -> Iterator[str]:
        for line in stream:
            held.append(line)
            yield line

    rows = even_rows(path, csv.reader(held_lines(), delimiter=form.separator))
    row = next(rows, None)
    if row is None:
        raise FileError(f"{path} has no rows.")
    names = None
    if not any(map(form.is_number, row)):
        names = row
        held.clear()
        row = next(rows, None)
        if row is None:
            raise FileError(f"{path} has a header but no rows.")
    elif _counts_columns(row):
        first_lines = len(held)
        second = next(rows, None)
        if second is not None and _holds_fractions(row, second, form):
            names, row = row, second
            del held[:first_lines]
    return names, row, chain(held, stream)


def _counts_columns(row: list[str]) -> bool:
    """Whether the numbers in a row are 0, 1, 2 … or 1, 2, 3 …, as pandas names columns that have no names.

    Two such numbers are too few to tell: features may well be 0 and 1.
    """
    numbers = [field for field in row if is_number(field)]
    return len(numbers) > 2 and any(numbers == list(map(str, range(k, k + len(numbers)))) for k in (0, 1))


def _holds_fractions(names: list[str], row: list[str], form: TextForm) -> bool:
    """Whether a row holds numbers under names that are whole numbers, some of which are not whole themselves.

    Without this, a first row of features such as 0, 1, 2 would be taken for names.
    """
    below = [field for name, field in zip(names, row, strict=True) if _WHOLE.fullmatch(name)]
    return all(map(form.is_number, below)) and any(map(_FRACTION.fullmatch, below))


def text_names(path: Path) -> list[str] | None:
    """The header, if there is one."""
    with open_text(path) as (stream, form):
        return _head(path, stream, form)[0]


def text_feature_names(path: Path, part: str | None) -> list[str] | None:
    """The names of the columns that are features, if there is a header."""
    with open_text(path) as (stream, form):
        names, row, _ = _head(path, stream, form)
        return names and [names[place] for place in _feature_places(path, names, row, part, form, ids=False)]


def _feature_places(
    path: Path, names: list[str] | None, row: list[str], part: str | None, form: TextForm, ids: bool
) -> list[int]:
    if part is not None and names is None:
        raise FileError(f"{path} has no header, so it has no column '{part}'.")
    if part is not None and names is not None and not part.startswith("-"):
        return named_places(path, names, part)
    dropped = named_places(path, names, part[1:]) if part and names else []
    dropped += _pandas_index(names)
    keep = [place for place in range(len(row)) if place not in dropped]
    # An empty field is a missing number, which is reported with its row; other text makes a text column.
    text = [place for place in keep if row[place].strip() and not form.is_number(row[place])]
    if text:
        warn_left_out(path, "are not numbers", [names[place] if names else str(place + 1) for place in text])
    keep = [place for place in keep if place not in text]
    if not keep:
        commas = [row[place] for place in text if has_decimal_comma(row[place])]
        hint = (
            f": commas separate its columns, so {commas[0]!r} is no number; save it with semicolons" if commas else ""
        )
        raise FileError(f"{path} has no column of numbers{hint}.")
    if names is None or ids:
        return keep
    numbering = [names[k] for k in keep if looks_like_id(names[k]) and _WHOLE.fullmatch(row[k])]
    left = without_ids(path, [names[k] for k in keep], numbering)
    return [place for place in keep if names[place] in left]


def _pandas_index(names: Sequence[str] | None) -> list[int]:
    """A first column without a name is the index that pandas writes."""
    return [0] if names and names[0] == "" and len(names) > 1 else []


def _numbers(lines: Iterator[str], form: TextForm, width: int, keep: list[int]) -> NDArray[np.float64]:
    if form.decimal == ",":
        lines = (line.replace(",", ".") for line in lines)
    options: dict[str, Any] = {"delimiter": form.separator, "quotechar": '"', "comments": None}
    if keep == list(range(width)):
        return np.loadtxt(lines, ndmin=2, **options)
    # Columns that are not kept are read too, as a letter of text each: rows must still have all of them.
    kinds = [(str(place), "f8" if place in keep else "U1") for place in range(width)]
    table = np.loadtxt(lines, dtype=kinds, ndmin=1, **options)
    return np.stack([table[str(place)] for place in keep], axis=1)


def _fault(path: Path, keep: list[int], header: bool) -> FileError | None:
    """What NumPy stumbled over, with its row: the file is read again, field by field."""
    with text_rows(path) as (rows, form):
        for number, row in enumerate(rows, -1 if header else 0):
            for place in keep if number >= 0 else ():
                if not form.is_number(row[place]):
                    found = f"'{row[place]}' is not a number" if row[place].strip() else "a value is missing"
                    return FileError(f"{path}: {found} in row {number}, column {place + 1}.")
    return None


def text_labels(path: Path, part: str | None, *, n_rows: int | None = None, ids: bool = False) -> LabelColumns:
    """The names of the label columns, where there is a header, and the columns; missing values are None.

    ``n_rows`` is the number of labels that are expected: one line more is a header.
    """
    table = _label_table(path, part)
    if not table:
        raise FileError(f"{path} has no rows.")
    names = table[0] if part is not None or _has_header(table, n_rows) else None
    body = table[1:] if names else table
    if not body:
        raise FileError(f"{path} has a header but no rows.")
    if part is not None:
        places = named_places(path, table[0], part)
    else:
        places = [place for place in range(len(table[0])) if place not in _pandas_index(names)]
        if names and not ids and len(places) > 1:
            numbering = [names[place] for place in places if looks_like_id(names[place])]
            left = without_ids(path, [names[place] for place in places], numbering)
            places = [place for place in places if names[place] in left]
    columns = [[row[place].strip() or None for row in body] for place in places]
    return names and [names[place] for place in places], columns


def _label_table(path: Path, part: str | None) -> list[list[str]]:
    if path.suffix.lower() != ".txt":
        with text_rows(path) as (rows, _):
            return list(rows)
    # A label a line, in which no character separates anything; an empty line is a row without a label.
    if part is not None:
        raise FileError(f"{path} has no columns, so it has no part '{part}'.")
    try:
        return [[line] for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise not_text(path) from error


def _has_header(table: list[list[str]], n_rows: int | None) -> bool:
    """Text over numbers is a header, and so are the usual names; other text over text only if it is a line too many."""
    first = table[0]
    if len(table) == 1 or any(map(is_number, first)) or not any(field.strip() for field in first):
        return False
    usual = all(name.strip().lower() in LABEL_NAMES or looks_like_id(name) for name in first)
    return usual or any(map(is_number, table[1])) or len(table) - 1 == n_rows
