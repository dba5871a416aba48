"""NUS-WIDE as its authors publish it: bag-of-words features ``BoW_*.dat`` and one label file per concept."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.data.pool import DatasetMissing, Pool
from hashlearn.files.arrays import FileError, one_line
from hashlearn.files.tree import Tree, open_tree
from hashlearn.progress import report

HOMEPAGE = "https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html"
_LABEL_FILE = re.compile(r"(?:^|/)Labels_([A-Za-z0-9]+?)(?:_(Train|Test))?\.txt$")
# Row 78,371 of the published Labels_lake_Train.txt has this value, the only one in 81 files that is neither 0 nor 1.
_KNOWN_SLIP = ("lake", -1130179)


def nuswide(path: Path, n_concepts: int = 21) -> Pool:
    """NUS-WIDE: 269,648 Flickr images, 500-d bag of words, label sets of the ``n_concepts`` most frequent concepts.

    ``path`` is a folder that holds, at any depth, either ``BoW_int.dat`` and ``AllLabels/Labels_<concept>.txt``, or
    ``BoW_Train_int.dat``, ``BoW_Test_int.dat`` and ``TrainTestLabels/Labels_<concept>_Train.txt`` and ``_Test.txt``
    (the official split, which is then kept as ``part``). Rows without any of the concepts are dropped; ``ids`` are the
    row numbers in the files. Frequencies are counted over all rows.
    """
    if not path.exists():
        raise DatasetMissing(_missing(path))
    with open_tree(path) as tree:
        labels = _label_files(tree)
        names = [("BoW_int.dat", "")]
        if not (tree.find("BoW_int.dat") and "" in labels):
            names = [(f"BoW_{part}_int.dat", part) for part in ("Train", "Test")]
        found = [(tree.find(name), labels.get(part)) for name, part in names]
        if not all(words and concepts for words, concepts in found):
            raise DatasetMissing(_missing(path))
        parts = [
            (_table(tree, str(words), np.uint16), _label_matrix(tree, concepts or {})) for words, concepts in found
        ]
    for X, Y in parts:
        if len(X) != len(Y):
            raise FileError(f"{path} has {len(X)} rows of words but {len(Y)} rows of labels.")
    if parts[0][0].shape[1] != parts[-1][0].shape[1]:
        raise FileError(f"{path}: training rows have {parts[0][0].shape[1]} words, test rows {parts[1][0].shape[1]}.")
    X, Y = (np.concatenate(both) for both in zip(*parts, strict=True))
    part = np.repeat(np.arange(2, dtype=np.uint8), [len(rows) for rows, _ in parts]) if len(parts) == 2 else None
    # Columns are sorted by name and the sort is stable, so equal counts give the same choice on every machine.
    columns = np.sort(np.argsort(-Y.sum(axis=0, dtype=np.int64), kind="stable")[:n_concepts])
    rows = np.flatnonzero(Y[:, columns].any(axis=1))
    concepts = sorted(labels[names[0][1]])
    return Pool(
        "NUS-WIDE",
        X[rows],
        np.ascontiguousarray(Y[rows][:, columns]),
        tuple(concepts[column] for column in columns),
        part=None if part is None else part[rows],
        ids=rows,
    )


def _missing(path: Path) -> str:
    return (
        f"NUS-WIDE is not in {path}: put BoW_int.dat with AllLabels/Labels_*.txt from {HOMEPAGE} there, or "
        "BoW_Train_int.dat and BoW_Test_int.dat with TrainTestLabels/Labels_*_Train.txt and _Test.txt."
    )


def _label_files(tree: Tree) -> dict[str, dict[str, str]]:
    """Return label files by part ("" for all rows, "Train", "Test") and by concept."""
    found: dict[str, dict[str, str]] = {}
    for name in tree.names():
        match = _LABEL_FILE.search(name)
        if match:
            found.setdefault(match[2] or "", {})[match[1]] = name
    if {"Train", "Test"} <= set(found) and found["Train"].keys() != found["Test"].keys():
        odd = sorted(found["Train"].keys() ^ found["Test"].keys())[0]
        raise FileError(f"{tree.path} has labels of {odd} for training or for test only.")
    return found


def _label_matrix(tree: Tree, files: dict[str, str]) -> NDArray[np.uint8]:
    columns: list[NDArray[np.uint8]] = []
    for number, concept in enumerate(sorted(files)):
        values = _table(tree, files[concept], np.int64)[:, 0]
        bad = np.flatnonzero((values != 0) & (values != 1))
        if len(bad) == 1 and (concept, int(values[bad[0]])) == _KNOWN_SLIP:
            warnings.warn(f"{files[concept]}: row {bad[0]} is {_KNOWN_SLIP[1]} as published; taken as 0.", stacklevel=3)
            values[bad] = 0
        elif len(bad):
            raise FileError(f"{tree.path}: {files[concept]} has {values[bad[0]]} in row {bad[0]}, not 0 or 1.")
        columns.append(values.astype(np.uint8))
        if len(columns[-1]) != len(columns[0]):
            raise FileError(
                f"{tree.path}: {files[concept]} has {len(columns[-1])} rows, the first file has {len(columns[0])}."
            )
        report("reading labels", number + 1, len(files))
    return np.column_stack(columns)


def _table(tree: Tree, name: str, dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """Read a text file of whole numbers with as many in every line."""
    raw = tree.read(name)
    if not raw.strip():
        raise FileError(f"{tree.path}: {name} is empty.")
    try:
        return np.loadtxt(io.BytesIO(raw), dtype=dtype, comments=None, ndmin=2)
    except ValueError as error:
        numbers = "counts" if dtype is np.uint16 else "whole numbers"
        raise FileError(f"{tree.path}: {name} is no table of {numbers}: {one_line(error)}") from error
