"""Texts with labels from CSV, JSONL and Parquet files; BANKING77 and CLINC150, as texts and as embeddings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.data.embed import MINILM, embed_texts
from hashlearn.data.gist import writable_folder
from hashlearn.data.plain import file_there, labeled_pool
from hashlearn.data.pool import TEST, TRAIN, DatasetMissing, Pool
from hashlearn.files.arrays import FileError
from hashlearn.files.payloads import payload_rows


@dataclass(frozen=True)
class Texts:
    """Texts, the class of each (None without labels), and the official part of each (None if there are no parts)."""

    texts: list[str]
    labels: NDArray[Any] | None = None
    part: NDArray[np.uint8] | None = None


def read_texts(path: str | Path, text: str, labels: str | None = None, missing: bool = False) -> Texts:
    """Read a column of texts, and one of classes, from a .csv, .tsv, .jsonl or .parquet file.

    Parameters
    ----------
    path : str or Path
    text : str
        The column of the texts.
    labels : str, optional
        The column of the classes.
    missing : bool
        Whether rows may have no class; it is None then.

    Raises
    ------
    FileError
        If a column is missing, or a row has no text or no class.
    """
    found: list[str] = []
    classes: list[Any] = []
    for number, row in enumerate(payload_rows(path)):
        row = row or {}
        columns = f"its columns are {', '.join(row)}"
        if row.get(text) is None or not str(row[text]).strip():
            raise FileError(f"{path}: row {number} has no text in column '{text}'; {columns}.")
        # A reader of CSV files makes numbers of fields that look like numbers; str gives them back, but for last zeros.
        found.append(str(row[text]))
        if labels is not None:
            classes.append(row.get(labels))
            if classes[-1] is None and not missing:
                raise FileError(f"{path}: row {number} has nothing in column '{labels}'; {columns}.")
    if not found:
        raise FileError(f"{path} has no rows.")
    if labels is None:
        return Texts(found)
    if all(one is None for one in classes):
        raise FileError(f"{path} has no label in any row: column '{labels}' is empty or missing.")
    return Texts(found, np.array(classes, dtype=object if None in classes else None))


def embedded_pool(name: str, texts: Texts, file: Path, model: str = MINILM) -> Pool:
    """Return a pool of embedded texts, which are kept in the file, or in the cache if its folder is read-only."""
    folder = writable_folder(file.parent)
    folder.mkdir(parents=True, exist_ok=True)
    X = embed_texts(texts.texts, model, folder / file.name)
    return labeled_pool(name, X, np.asarray(texts.labels), part=texts.part)


def banking77(path: Path) -> Pool:
    """BANKING77 as its authors publish it: ``train.csv`` and ``test.csv`` with the columns text and category.

    The texts become embeddings of all-MiniLM-L6-v2, computed at the first call.
    """
    if not all((path / name).is_file() for name in ("train.csv", "test.csv")):
        raise DatasetMissing(f"BANKING77 is not in {path}: put train.csv and test.csv there.")
    parts = [read_texts(path / name, "text", "category") for name in ("train.csv", "test.csv")]
    return _embedded_parts("BANKING77", [(part.texts, part.labels) for part in parts], path / "banking77-minilm.npy")


def clinc150(path: Path) -> Pool:
    """CLINC150 as its authors publish it (``data_full.json``), without the texts out of scope.

    The official validation rows count as training rows. The texts become embeddings of all-MiniLM-L6-v2, computed at
    the first call.
    """
    file = file_there(path, "data_full.json", "CLINC150")
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        pairs = [[*table["train"], *table["val"]], table["test"]]
        known = [[(str(text), str(label)) for text, label in side if label != "oos"] for side in pairs]
    except (ValueError, TypeError, KeyError) as error:
        raise FileError(f"{file} is not the data_full.json of CLINC150.") from error
    parts = [([text for text, _ in side], [label for _, label in side]) for side in known]
    return _embedded_parts("CLINC150", parts, file.parent / "clinc150-minilm.npy")


def _embedded_parts(name: str, parts: list[tuple[list[str], Any]], file: Path) -> Pool:
    part = np.repeat(np.array([TRAIN, TEST], dtype=np.uint8), [len(texts) for texts, _ in parts])
    labels = np.concatenate([np.asarray(y) for _, y in parts])
    return embedded_pool(name, Texts([text for texts, _ in parts for text in texts], labels, part), file)


def banking77_minilm(path: Path) -> Pool:
    """BANKING77 from ``banking77_minilm.npz`` (X, y, part)."""
    return _embedding_file(file_there(path, "banking77_minilm.npz", "BANKING77"), "BANKING77")


def clinc150_minilm(path: Path) -> Pool:
    """CLINC150 from ``clinc150_minilm.npz`` (X, y, part), without the rows out of scope."""
    return _embedding_file(file_there(path, "clinc150_minilm.npz", "CLINC150"), "CLINC150")


def _embedding_file(file: Path, name: str) -> Pool:
    with np.load(file, allow_pickle=False) as archive:
        part = archive["part"]
        known = ~np.char.startswith(part, "oos")
        values, numbers = np.unique(archive["y"][known], return_inverse=True)
        X = archive["X"][known].astype(np.float32)
    official = np.where(part[known] == "test", TEST, TRAIN).astype(np.uint8)
    return Pool(f"{name} MiniLM", X, numbers.astype(np.int64), tuple(map(str, values)), part=official)
