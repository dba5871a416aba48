"""Rows with fields as a table: for pandas, for Arrow, and for a notebook."""

from __future__ import annotations

import base64
import html
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hashlearn.files.images import ENDINGS, as_png, opened_image, shrink_on_load, upright

SHOWN_LINES, PRINTED_LINES = 50, 10
SHOWN_CHARACTERS, PRINTED_CHARACTERS = 200, 60
THUMBNAIL = 96  # pixels of the longer side
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


class Table(ABC):
    """Base of what can be shown as a table: one line per row found, with the fields of its payload as columns."""

    columns: ClassVar[tuple[str, ...]]
    """The columns that are there even if no row was found."""

    @abstractmethod
    def lines(self) -> list[dict[str, Any]]:
        """Return the lines. A field of a payload with the name of another column becomes ``payload.NAME``."""

    def to_pandas(self) -> Any:
        """Return a data frame of pandas with one line per row: id, distance and the fields of payloads."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas.") from error
        lines = self.lines()
        return pd.DataFrame(lines, columns=self._names(lines))

    def to_arrow(self) -> Any:
        """Return a table of PyArrow with the columns of ``to_pandas``. UUIDs are text in it.

        Polars, DuckDB and others take it as it is. ValueError for a field that holds values of different kinds.
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("to_arrow needs pyarrow: pip install '.[files]'.") from error
        lines, arrays = self.lines(), {}
        for name in self._names(lines):
            values = [line.get(name) for line in lines]
            try:
                arrays[name] = pa.array([str(value) if isinstance(value, uuid.UUID) else value for value in values])
            except pa.ArrowException as error:
                raise ValueError(
                    f"The field {name!r} holds values of different kinds, which a column of Arrow cannot hold: use "
                    "to_pandas or to_list."
                ) from error
        return pa.table(arrays)

    def _as_text(self) -> str:
        """Return the first lines as text, for ``repr``."""
        lines = self.lines()
        shown = lines[:PRINTED_LINES]
        names = self._names(shown)
        table = [names, *([_printed(line.get(name, "")) for name in names] for line in shown)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        texts = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join(texts + ([f"and {len(lines) - len(shown):,} more"] if len(lines) > len(shown) else []))

    def _repr_html_(self) -> str:
        """Return the first lines; long values are cut, and names of picture files become thumbnails."""
        lines = self.lines()
        names = self._names(lines)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(line[name]) if name in line else ''}</td>" for name in names) + "</tr>"
            for line in lines[:SHOWN_LINES]
        )
        rest = f"<p>and {len(lines) - SHOWN_LINES:,} more</p>" if len(lines) > SHOWN_LINES else ""
        return f"<table><tr>{head}</tr>{body}</table>{rest}"

    def _names(self, lines: list[dict[str, Any]]) -> list[str]:
        """Return the columns that are always there, then the other fields in the order in which they first occur."""
        return list(dict.fromkeys([*self.columns, *(name for line in lines for name in line)]))


def fields_as_columns(payload: Mapping[str, Any] | None, taken: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a payload under names that are not among the ``taken`` ones."""
    return {f"payload.{name}" if name in taken else name: value for name, value in (payload or {}).items()}


def _printed(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _cut(" ".join(str(value).split()), PRINTED_CHARACTERS)


def _cell(value: Any) -> str:
    text = html.escape(_cut(str(value), SHOWN_CHARACTERS))
    picture = _thumbnail(value) if isinstance(value, str) and value.lower().endswith(ENDINGS) else None
    return text if picture is None else f'<img src="data:image/png;base64,{picture}" alt="{text}" title="{text}">'


def _thumbnail(path: str) -> str | None:
    """Return the picture in a file as the base64 of a small PNG; None if there is none that can be read."""
    try:
        with opened_image(Path(path).read_bytes(), path, formats=_FORMATS) as image:
            shrink_on_load(image, THUMBNAIL)
            small = upright(image)
            small.thumbnail((THUMBNAIL, THUMBNAIL))
            return base64.b64encode(as_png(small)).decode()
    except (OSError, ValueError):
        return None


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
