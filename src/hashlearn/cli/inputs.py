"""What commands read: columns of tables that they choose by themselves, and rows, texts, codes, ids and labels."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn import files
from hashlearn.cli.shell import say
from hashlearn.codes import BitOrder
from hashlearn.collection import Collection
from hashlearn.collection.ids import ids_of_kind
from hashlearn.data.embed import named_model
from hashlearn.data.texts import read_texts
from hashlearn.files import FileError
from hashlearn.files.arrays import SUFFIXES, listed, split_part
from hashlearn.files.codes import FLOAT_FORMATS
from hashlearn.files.read import check_rows, row_chunks, shard_names
from hashlearn.files.tables import TABLES, table_feature_names, table_names
from hashlearn.parallel import BLOCK_ROWS, row_blocks
from hashlearn.typing import Float32Array

_MOST_ROWS = 64 * BLOCK_ROWS
TEXT_ROWS = 2048
"""Texts that are embedded and stored together: after a kill, at most this number is embedded again."""


def is_many(name: str) -> bool:
    """Return whether a name stands for several files or a folder, which are read in chunks."""
    path = split_part(name)[0]
    head = name.rpartition(":")[0]
    return not path.is_file() and (glob.has_magic(name) or path.is_dir() or bool(head and Path(head).is_dir()))


def takes_images(hasher: Any, features: str) -> bool:
    """Return whether the method has a backbone and the path is a folder or a zip."""
    path = Path(features)
    return getattr(hasher, "backbone", None) is not None and (path.is_dir() or path.suffix.lower() == ".zip")


def load_model(model: str, jobs: int | None) -> Any:
    """Load a model file, for a number of threads."""
    from hashlearn.models import load

    hasher: Any = load(model)
    if jobs is not None:
        hasher.n_jobs = jobs
    return hasher


# ---- columns of tables ----


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
    have = f"its columns are {listed(names)}" if names else "it has no header"
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
            f"{path} has no column {missing[0]!r}, which the model was fitted on; its columns are {listed(names)}. To "
            f"use others, name all of them in the order of the model, as in {path}:{','.join(names[:2])},…"
        )
    return f"{features}:{','.join(wanted)}"


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


# ---- rows, texts, codes, ids and labels ----


def open_features(hasher: Any, model: str, features: str) -> Any:
    """Open the feature rows, and check that they have as many features as the model."""
    rows = files.open_features(with_columns(hasher, features))
    check_width(hasher, model, features, rows.shape[1])
    return rows


def check_width(hasher: Any, model: str, features: str, width: int) -> None:
    """FileError if rows have more or fewer features than the model was fitted on."""
    if width == hasher.n_features_in_:
        return
    hint = ""
    if getattr(hasher, "text_model_", None) is not None and _table(features) is not None:
        hint = ", the embeddings of texts: name the column of texts with --text"
    raise FileError(f"{features} has {width} features, {model} was fitted on {hasher.n_features_in_}{hint}.")


def embedded_texts(hasher: Any, model: str, file: str, text: str) -> Float32Array:
    """Return the embeddings of a column of texts, by the text model that the hasher names."""
    return named_model(hasher, model).rows(read_texts(file, text).texts)


def read_labels_of(features: str, labels: str, n_rows: int) -> Any:
    """Read the labels of the rows of a file. The number of rows shows whether the first line is a header."""
    y = files.read_labels(labels, missing=True, n_rows=n_rows)
    if y.shape[0] != n_rows:
        raise FileError(f"{labels} has {y.shape[0]} labels, {features} has {n_rows} rows.")
    return y


class Rows(NamedTuple):
    """Rows for the methods of a collection, which call them by their ``kind``: X, codes, texts or vectors."""

    kind: str
    name: str
    values: Any

    @property
    def n_rows(self) -> int:
        return len(self.values) if self.kind == "texts" else int(self.values.shape[0])

    def batches(self) -> list[slice]:
        """Return slices that fit into memory and are small enough that little work is repeated after a kill."""
        if self.kind == "texts":
            return row_blocks(self.n_rows, TEXT_ROWS)
        chunks = row_chunks(self.values)
        return row_blocks(self.n_rows, min(chunks[0].stop, _MOST_ROWS)) if chunks else []

    def read(self, batch: slice) -> dict[str, Any]:
        """Read and check some rows, and return them as an argument of a collection's methods."""
        rows = self.values[batch]
        if self.kind in ("X", "vectors"):
            check_rows(rows, self.name, batch.start)
        return {self.kind: rows}


def open_rows(collection: Collection, name: str, text: str | None, coded: bool, bit_order: BitOrder) -> Rows:
    """Open a file of codes, texts or features, and check that the collection takes them."""
    hasher = collection.hasher
    if text is not None:
        named_model(hasher, collection.uri)  # says what is missing before the texts are read
        return Rows("texts", name, read_texts(name, text).texts)
    if coded:
        found = files.read_codes(name, collection.n_bits, bit_order)
        if found.info.format in FLOAT_FORMATS or found.info.bits != collection.n_bits:
            what = "floats" if found.info.format in FLOAT_FORMATS else f"codes of {found.info.bits} bits"
            raise FileError(f"{name} holds {what}, {collection.uri} holds codes of {collection.n_bits} bits.")
        return Rows("codes", name, found.codes)
    if hasher is None:
        raise FileError(f"{collection.uri} has no model to encode {name}: give --codes.")
    return Rows("X", name, open_features(hasher, f"the model of {collection.uri}", name))


def read_ids(collection: Collection, name: str) -> NDArray[Any]:
    """Read the ids in a file, which must be of the kind that the collection has."""
    if collection.id_kind == "int":
        return files.read_ids(name)
    try:
        return ids_of_kind(collection.id_kind).array(files.read_text_ids(name))
    except ValueError as error:
        raise FileError(f"{name}: {error}") from error


def listed_ids(collection: Collection, text: str) -> Any:
    """Return the ids of a file, or those that are listed. A text is the name of a file where there is such a file."""
    parts = [part.strip() for part in text.split(",")]
    if collection.id_kind == "int":
        return [int(part) for part in parts] if all(part.isdigit() for part in parts) else read_ids(collection, text)
    path = split_part(text)[0]
    if path.is_file():
        return read_ids(collection, text)
    if path.suffix.lower() in SUFFIXES:
        say(f"there is no file {path}, so this is taken for the id of a row.")
    return parts


def as_array(rows: Any) -> NDArray[Any]:
    """Return open feature rows as an array."""
    return np.asarray(rows[:])
