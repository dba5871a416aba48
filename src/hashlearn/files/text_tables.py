"""Text tables (.csv, .tsv, .txt): how they are written, and their features and labels by column.

The form of a file is what separates its fields, and whether numbers have a decimal point or a comma.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import FileError, but_is, one_line
from hashlearn.files.columns import LABEL_NAMES, SAMPLE_ROWS, Column, feature_places, label_places, looks_like_id

# The usual separator of each kind of file comes first.
_SEPARATORS = {".csv": ",;\t|", ".tsv": "\t,;|", ".txt": "\t,;|"}
# The first line of a file that Excel is to read may tell the separator.
_TOLD_SEPARATOR = re.compile(r"sep=([,;\t|])\r?\n")
_SAMPLE_CHARACTERS = 2**16
_COMMA_NUMBER = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*")
_POINT_NUMBER = re.compile(r"\s*[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class TextForm:
    """The separator of fields and the mark before decimals, which may be a comma where that separates nothing."""

    separator: str
    decimal: str = "."

    def is_number(self, field: str) -> bool:
        return is_number(field.replace(",", ".") if self.decimal == "," else field)


def has_decimal_comma(field: str) -> bool:
    """Return whether this looks like a number with a decimal comma."""
    return _COMMA_NUMBER.fullmatch(field) is not None


def is_number(text: str) -> bool:
    """Return whether this is a number with a decimal point; "1_000", which Python takes for one, is text."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def not_text(path: Path) -> FileError:
    """Return the error about a file that should be text and is not, though its beginning may be."""
    what = but_is(path, "text") or ": save it as UTF-8, in Excel as 'CSV UTF-8'"
    return FileError(f"{path} is not text in UTF-8{what}.")


def text_lines(path: Path) -> list[str]:
    """Return all lines of a file."""
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise not_text(path) from error


@contextmanager
def open_text(path: Path) -> Iterator[tuple[IO[str], TextForm]]:
    """Yield the stream of a text table, at its start, and the form it is written in."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            sample = stream.read(_SAMPLE_CHARACTERS)
            told = _TOLD_SEPARATOR.match(sample)
            form = _form_of(sample[told.end() :] if told else sample, path.suffix.lower(), told and told[1])
            stream.seek(0)
            if told:
                stream.readline()
            yield stream, form
    except UnicodeDecodeError as error:
        raise not_text(path) from error
    except csv.Error as error:
        raise FileError(f"{path} cannot be read: {one_line(error)}") from error


@contextmanager
def text_rows(path: Path) -> Iterator[tuple[Iterator[list[str]], TextForm]]:
    """Yield rows of a text table as strings, all of one length, and its form; blank lines do not count."""
    with open_text(path) as (stream, form):
        yield even_rows(path, csv.reader(stream, delimiter=form.separator)), form


def even_rows(path: Path, reader: Any) -> Iterator[list[str]]:
    """Yield the rows of a reader, which must all have as many fields as the first."""
    width = 0
    for row in reader:
        if not row:
            continue
        width = width or len(row)
        if len(row) != width:
            raise FileError(f"{path}: line {reader.line_num} has {len(row)} columns, the first has {width}.")
        yield row


def _form_of(sample: str, suffix: str, told: str | None) -> TextForm:
    if len(sample) == _SAMPLE_CHARACTERS:  # the last line may be cut
        sample = sample[: sample.rfind("\n") + 1] or sample
    best: tuple[float, float] = (0.0, 0.0)
    form = TextForm(told or _SEPARATORS[suffix][0])
    for separator in told or _SEPARATORS[suffix]:
        rows = _sample_rows(sample, separator)
        if not rows or len(rows[0]) == 1:
            continue
        candidate = TextForm(separator, "," if separator != "," and _has_decimal_commas(rows) else ".")
        fields = [field for row in rows[1:] or rows for field in row]
        # A comma between digits splits numbers at a place that differs from row to row, and leaves odd pieces.
        even = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
        numbers = sum(map(candidate.is_number, fields)) / len(fields)
        if (even, numbers) > best:
            best, form = (even, numbers), candidate
    return form


def _sample_rows(sample: str, separator: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO(sample, newline=""), delimiter=separator)
    try:
        return list(islice(filter(None, rows), SAMPLE_ROWS))
    except csv.Error:  # the reader of the whole file says what is wrong
        return []


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    """Return whether some numbers have a decimal comma and none has a point."""
    fields = [field for row in rows for field in row]
    return any(map(has_decimal_comma, fields)) and not any(map(_POINT_NUMBER.fullmatch, fields))


_FRACTION = re.compile(r"\s*[+-]?\d*[.,]\d.*")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
LabelColumns = tuple[list[str] | None, list[list[Any]]]


def text_features(path: Path, part: str | None, *, ids: bool = False) -> NDArray[np.float64]:
    """Return the numeric columns, or those that ``part`` picks; with ``ids`` also those that look like ids."""
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
    """Return the header if there is one, the first row, and the lines from that row on."""
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
    """Return whether the numbers in a row are 0, 1, 2 … or 1, 2, 3 …, as pandas names columns that have no names.

    Two such numbers are too few to tell: features may well be 0 and 1.
    """
    numbers = [field for field in row if is_number(field)]
    return len(numbers) > 2 and any(numbers == list(map(str, range(k, k + len(numbers)))) for k in (0, 1))


def _holds_fractions(names: list[str], row: list[str], form: TextForm) -> bool:
    """Return whether a row holds numbers under names that are whole numbers, some of which are not whole themselves.

    Without this, a first row of features such as 0, 1, 2 would be taken for names.
    """
    below = [field for name, field in zip(names, row, strict=True) if _WHOLE.fullmatch(name)]
    return all(map(form.is_number, below)) and any(map(_FRACTION.fullmatch, below))


def text_names(path: Path) -> list[str] | None:
    """Return the header, if there is one."""
    with open_text(path) as (stream, form):
        return _head(path, stream, form)[0]


def text_feature_names(path: Path, part: str | None) -> list[str] | None:
    """Return the names of the columns that are features, if there is a header."""
    with open_text(path) as (stream, form):
        names, row, _ = _head(path, stream, form)
        return names and [names[place] for place in _feature_places(path, names, row, part, form, ids=False)]


def _feature_places(
    path: Path, names: list[str] | None, row: list[str], part: str | None, form: TextForm, ids: bool
) -> list[int]:
    if part is not None and names is None:
        raise FileError(f"{path} has no header, so it has no column '{part}'.")

    def kind(field: str) -> Literal["number", "whole", "text"]:
        # An empty field is a missing number, which is reported with its row; other text makes a text column.
        if field.strip() and not form.is_number(field):
            return "text"
        return "whole" if _WHOLE.fullmatch(field) else "number"

    def values(places: list[int]) -> list[list[str]]:
        with text_rows(path) as (rows, _):
            sample = list(islice(rows, 1 if names else 0, SAMPLE_ROWS))
        return [[some[place] for some in sample] for place in places]

    shown = names or [str(place + 1) for place in range(len(row))]
    columns = [Column(name, kind(field)) for name, field in zip(shown, row, strict=True)]
    commas = next(filter(has_decimal_comma, row), None)
    hint = f": commas separate its columns, so {commas!r} is no number; save it with semicolons" if commas else ""
    return feature_places(path, columns, part, ids, values, hint)


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
    """Return what NumPy stumbled over, with its row: the file is read again, field by field."""
    with text_rows(path) as (rows, form):
        for number, row in enumerate(rows, -1 if header else 0):
            for place in keep if number >= 0 else ():
                if not form.is_number(row[place]):
                    found = f"'{row[place]}' is not a number" if row[place].strip() else "a value is missing"
                    return FileError(f"{path}: {found} in row {number}, column {place + 1}.")
    return None


def text_labels(path: Path, part: str | None, *, n_rows: int | None = None, ids: bool = False) -> LabelColumns:
    """Return the names of the label columns, where there is a header, and the columns; missing values are None.

    ``n_rows`` is the number of labels that are expected: one line more is a header.
    """
    table = _label_table(path, part)
    if not table:
        raise FileError(f"{path} has no rows.")
    names = table[0] if part is not None or _has_header(table, n_rows) else None
    body = table[1:] if names else table
    if not body:
        raise FileError(f"{path} has a header but no rows.")
    places = list(range(len(table[0]))) if names is None else label_places(path, names, part, ids)
    columns = [[row[place].strip() or None for row in body] for place in places]
    return names and [names[place] for place in places], columns


def _label_table(path: Path, part: str | None) -> list[list[str]]:
    if path.suffix.lower() != ".txt":
        with text_rows(path) as (rows, _):
            return list(rows)
    # A label a line, in which no character separates anything; an empty line is a row without a label.
    if part is not None:
        raise FileError(f"{path} has no columns, so it has no part '{part}'.")
    return [[line] for line in text_lines(path)]


def _has_header(table: list[list[str]], n_rows: int | None) -> bool:
    """Text over numbers is a header, and so are the usual names; other text over text only if it is a line too many."""
    first = table[0]
    if len(table) == 1 or any(map(is_number, first)) or not any(field.strip() for field in first):
        return False
    usual = all(name.strip().lower() in LABEL_NAMES or looks_like_id(name) for name in first)
    return usual or any(map(is_number, table[1])) or len(table) - 1 == n_rows
