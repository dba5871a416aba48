"""Pools from files of plain arrays, and the two multi-label sets that replace NUS-WIDE and COCO if those are absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn import files
from hashlearn.data.embedded import DatasetMissing
from hashlearn.data.pool import Pool, joined_parts
from hashlearn.files.arrays import FileError, open_part


def arrays(features: str | Path, labels: str | Path, *, name: str | None = None) -> Pool:
    """Read a pool from files of features and labels that ``hashlearn.files`` can read.

    Classes of any kind become numbers 0, 1, … in sorted order; their old values become the label names.

    Parameters
    ----------
    features, labels : str or Path
        Files, or parts of files such as ``data.npz:X`` and ``data.npz:y``.
    name : str, optional
        Name of the pool; by default the name of the feature file.

    Returns
    -------
    Pool

    Raises
    ------
    FileError
        If the two files have different numbers of rows.
    """
    X = files.read_features(features)
    y = files.read_labels(labels, n_rows=X.shape[0])
    if X.shape[0] != y.shape[0]:
        raise FileError(f"{features} has {X.shape[0]} rows, {labels} has {y.shape[0]}.")
    if y.ndim == 1:
        values, numbers = np.unique(y, return_inverse=True)
        return Pool(name or str(features), X, numbers.astype(np.int64), tuple(map(str, values.tolist())))
    dense = y.toarray() if sparse.issparse(y) else y
    return Pool(name or str(features), X, np.asarray(dense).astype(np.uint8))


def cifar10_gist_file(path: Path) -> Pool:
    """CIFAR-10 as 512-d GIST from ``cifar10_gist512.npz`` (X_train, y_train, X_test, y_test, classes)."""
    file = file_there(path, "cifar10_gist512.npz", "CIFAR-10 as GIST")
    parts: list[tuple[Any, NDArray[Any]]] = []
    for part in ("train", "test"):
        X = np.asarray(open_part(f"{file}:X_{part}", "X"), dtype=np.float32)
        parts.append((X, np.asarray(open_part(f"{file}:y_{part}", "y")).astype(np.int64)))
    names = tuple(map(str, open_part(f"{file}:classes", "classes")))
    return joined_parts("CIFAR-10 GIST", parts, names)


def cifar10_lite2(path: Path) -> Pool:
    """CIFAR-10 as EfficientNet-Lite2 features at 160 pixels, as ``hashlearn data features`` writes it, in one part."""
    title = "CIFAR-10 as EfficientNet-Lite2 features"
    files_of = [file_there(path, f"cifar10_lite2_{part}.npy", title) for part in ("X", "y")]
    return arrays(*files_of, name="CIFAR-10 EfficientNet-Lite2")


def coco18(path: Path) -> Pool:
    """A cut of COCO: 30,000 images, 18 categories, 1280-d EfficientNet-Lite0 features (``coco18_efflite0.npz``)."""
    file = file_there(path, "coco18_efflite0.npz", "COCO-18")
    with np.load(file, allow_pickle=False) as archive:
        X = (archive["feat_q"].astype(np.float32) / 255) ** 2 * archive["feat_scale"]
        names = tuple(map(str, archive["label_names"]))
        return Pool("COCO-18", X.astype(np.float32), archive["Y"].astype(np.uint8), names)


def coco18_without_person(path: Path) -> Pool:
    """COCO-18 without the label ``person``, which three of four rows have, and without rows that have no other."""
    pool = coco18(path)
    kept = [name != "person" for name in pool.label_names]
    labels = pool.y[:, kept]
    labeled = labels.any(axis=1)
    names = tuple(name for name in pool.label_names if name != "person")
    return Pool("COCO-18 without person", pool.X[labeled], labels[labeled], names)


def corel16k(path: Path) -> Pool:
    """Corel images: 13,766 bags of 500 visual words (0/1), 153 labels (``corel16k001.npz``)."""
    file = file_there(path, "corel16k001.npz", "Corel16k")
    with np.load(file, allow_pickle=False) as archive:
        return Pool("Corel16k", archive["X"], archive["Y"].astype(np.uint8))


def file_there(path: Path, name: str, title: str) -> Path:
    file = path / name if path.is_dir() else path
    if not file.is_file() or file.name != name:
        raise DatasetMissing(f"{title} is not in {path}: put {name} there.")
    return file
