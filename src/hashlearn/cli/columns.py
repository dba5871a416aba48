"""Columns of tables that commands choose by themselves: the labels of a table, and the features of a model."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from hashlearn.files import FileError
from hashlearn.files.arrays import SUFFIXES, split_part
from hashlearn.files.read import shard_names
from hashlearn.files.tables import TABLES, table_feature_names, table_names

_MOST_NAMES = 8


def file_or_column(features: str, given: str | None) -> str | None:
    """Return the file that ``--labels`` or ``--ids`` names; it may also name a column of the table of the features."""
    if given is None or glob.has_magic(given) or split_part(given)[0].exists():
        return given
    path = _table(features)
    if path is None or Path(given).suffix.lower() in SUFFIXES or split_part(given)[1] is not None:
        return given  # whoever reads it says that it does not exist
    names = table_names(path) or []
    if given in names or all(name in names for name in given.split(",")):
        return f"{path}:{given}"
    have = f"its columns are {_listed(names)}" if names else "it has no header"
    raise FileError(f"{given!r} is neither a file nor a column of {path}; {have}.")


def without_label(features: str, labels: str | None) -> str:
    """Exclude the label column from the features if both come from the same table."""
    path, part = split_part(features)
    picked = part is not None and not part.startswith("-")
    if labels is None or picked or path.suffix.lower() not in TABLES:
        return features
    label_path, column = split_part(labels)
    if not column or label_path.resolve() != path.resolve():
        return features
    return f"{features}:-{column}" if part is None else f"{features},{column}"


def feature_names(features: str) -> list[str] | None:
    """Return the names of the feature columns of a table with a header, if other commands can name them again."""
    path = _table(features)
    names = None if path is None else table_feature_names(path, split_part(features)[1])
    if names is None or len(set(names)) < len(names) or any("," in name or name.startswith("-") for name in names):
        return None
    return names


def with_columns(hasher: Any, features: str) -> str:
    """Pick the columns that the model was fitted on, if both come from tables and the user picks none."""
    wanted = getattr(hasher, "table_columns_", None)
    path = _table(features)
    if wanted is None or path is None or split_part(features)[1] is not None:
        return features
    names = table_names(path)
    if names is None:
        return features
    missing = [name for name in wanted if name not in names]
    if missing:
        raise FileError(
            f"{path} has no column {missing[0]!r}, which the model was fitted on; its columns are {_listed(names)}. To "
            f"use others, name all of them in the order of the model, as in {path}:{','.join(names[:2])},…"
        )
    return f"{features}:{','.join(wanted)}"


def text_hint(hasher: Any, features: str) -> str:
    """Return how to go on where a table may hold texts, for which the model has a text model."""
    named = getattr(hasher, "text_model_", None) is not None and _table(features) is not None
    return ", the embeddings of texts: name the column of texts with --text" if named else ""


def payload_without_features(hasher: Any, features: str, payload: str) -> str:
    """Leave the features out of the payload, if both come from one table and the user picks no columns."""
    path, (payload_path, part) = _table(features), split_part(payload)
    if hasher is None or path is None or part is not None or path.resolve() != payload_path.resolve():
        return payload
    names = feature_names(with_columns(hasher, features))
    return payload if not names else f"{payload}:-{','.join(names)}"


def _table(features: str) -> Path | None:
    """Return the table that a name stands for, or the first of a pattern; None if it is no table."""
    if not glob.has_magic(features) and not split_part(features)[0].is_file():
        return None  # whoever reads it says that it does not exist
    path = split_part(shard_names(features)[0])[0]
    return path if path.suffix.lower() in TABLES and path.is_file() else None


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (" …" if len(names) > _MOST_NAMES else "")
