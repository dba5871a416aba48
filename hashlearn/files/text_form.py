"""How a text table is written: what separates its fields, and whether numbers have a decimal point or a comma."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hashlearn.files.arrays import FileError, but_is, one_line

# The usual separator of each kind of file comes first.
_SEPARATORS = {".csv": ",;\t|", ".tsv": "\t,;|", ".txt": "\t,;|"}
# The first line of a file that Excel is to read may tell the separator.
_TOLD_SEPARATOR = re.compile(r"sep=([,;\t|])\r?\n")
_SAMPLE_CHARACTERS = 2**16
_SAMPLE_ROWS = 200
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
    """Whether this looks like a number with a decimal comma."""
    return _COMMA_NUMBER.fullmatch(field) is not None


def is_number(text: str) -> bool:
    """Whether this is a number with a decimal point; "1_000", which Python takes for one, is text."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def not_text(path: Path) -> FileError:
    """The error about a file that should be text and is not, though its beginning may be."""
    what = but_is(path, "text") or ": save it as UTF-8, in Excel as 'CSV UTF-8'"
    return FileError(f"{path} is not text in UTF-8{what}.")


@contextmanager
def open_text(path: Path) -> Iterator[tuple[IO[str], TextForm]]:
    """The stream of a text table, at its start, and the form it is written in."""
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
    """Rows of a text table as strings, all of one length, and its form; blank lines do not count."""
    with open_text(path) as (stream, form):
        yield even_rows(path, csv.reader(stream, delimiter=form.separator)), form


def even_rows(path: Path, reader: Any) -> Iterator[list[str]]:
    """The rows of a reader, which must all have as many fields as the first."""
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
    rows = []
    try:
        for row in csv.reader(io.StringIO(sample, newline=""), delimiter=separator):
            if row:
                rows.append(row)
            if len(rows) == _SAMPLE_ROWS:
                break
    except csv.Error:  # the reader of the whole file says what is wrong
        return []
    return rows


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    """Whether some numbers have a decimal comma and none has a point."""
    fields = [field for row in rows for field in row]
    return any(map(has_decimal_comma, fields)) and not any(map(_POINT_NUMBER.fullmatch, fields))
