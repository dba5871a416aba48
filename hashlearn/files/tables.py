"""Tables (.csv, .tsv, .txt and .parquet), by column: features are their numbers, labels may be text."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hashlearn.files.parquet import ParquetRows as ParquetRows
from hashlearn.files.parquet import parquet_feature_names, parquet_features, parquet_labels, parquet_names
from hashlearn.files.text_tables import LabelColumns, text_feature_names, text_features, text_labels, text_names

TABLES = (".csv", ".tsv", ".txt", ".parquet")


def table_features(path: Path, part: str | None, *, ids: bool = False) -> NDArray[Any]:
    """The numeric columns of a table, or those that ``part`` picks (``-name`` leaves one out).

    Columns that look like ids are left out with a warning unless ``part`` names them or ``ids`` is true.
    """
    return parquet_features(path, part, ids=ids) if _is_parquet(path) else text_features(path, part, ids=ids)


def table_labels(path: Path, part: str | None, *, n_rows: int | None = None, ids: bool = False) -> LabelColumns:
    """The names of a label table's columns where it has them, and the columns; missing values are None.

    ``part`` picks columns, else those that look like ids are left out with a warning, unless ``ids`` is true.
    ``n_rows``, the number of labels that are expected, tells a header from a first label.
    """
    return parquet_labels(path, part, ids=ids) if _is_parquet(path) else text_labels(path, part, n_rows=n_rows, ids=ids)


def table_names(path: Path) -> list[str] | None:
    """The names of the columns of a table; None if it has no header."""
    return parquet_names(path) if _is_parquet(path) else text_names(path)


def table_feature_names(path: Path, part: str | None) -> list[str] | None:
    """The names of the columns that ``table_features`` reads; None if the table has no header."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reading of the features warns of what is left out
        return parquet_feature_names(path, part) if _is_parquet(path) else text_feature_names(path, part)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"
