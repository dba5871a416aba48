"""Pools from files of plain arrays, and from a folder or zip of images whose folders are their classes."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn import files
from hashlearn.data.pool import TEST, TRAIN, DatasetMissing, Pool, joined_parts
from hashlearn.files.arrays import FileError
from hashlearn.files.images import ENDINGS, Scaling, decode, opened_image, upright
from hashlearn.files.tree import Tree, open_tree
from hashlearn.labels import LabelSets, as_labels
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.progress import report


def arrays(features: str | Path, labels: str | Path, *, name: str | None = None) -> Pool:
    """Read a pool from files of features and labels that ``hashlearn.files`` can read.

    Classes of any kind become numbers 0, 1, … in sorted order; their old values become the label names. Rows without a
    label (see ``labeled_pool``) get the number -1.

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
    y = files.read_labels(labels, missing=True, n_rows=X.shape[0])
    if X.shape[0] != y.shape[0]:
        raise FileError(f"{features} has {X.shape[0]} rows, {labels} has {y.shape[0]}.")
    return labeled_pool(name or str(features), X, y)


def labeled_pool(name: str, X: Any, y: Any, **more: Any) -> Pool:
    """Return a pool of rows with classes, 0/1 matrices or lists of tags, of which some classes may be missing.

    None, NaN and blank strings say that a row has no label. So does the number -1 beside two or more classes that are
    not negative, as in scikit-learn; beside one class, -1 is the other class.
    """
    unlabeled = None
    if not sparse.issparse(y) and y.ndim == 1 and y.dtype.kind in "OU":
        y = y.astype(object)
        y[[isinstance(value, str) and not value.strip() for value in y]] = None
    elif not sparse.issparse(y) and y.ndim == 1 and y.dtype.kind in "if":
        others = np.unique(y[(y != -1) & (y == y)])
        unlabeled = -1 if len(others) > 1 and others[0] >= 0 else None
    labels = as_labels(y, unlabeled)
    if isinstance(labels, LabelSets):
        return Pool(name, X, labels.sets.toarray().astype(np.uint8), tuple(map(str, labels.names or ())), **more)
    if not labels.names:
        raise FileError(f"{name} has no label in any row.")
    return Pool(name, X, labels.numbers.astype(np.int64), tuple(map(str, labels.names)), **more)


def file_there(path: Path, name: str, title: str) -> Path:
    """Return the file of that name, in a folder or given itself; DatasetMissing if it is not there."""
    file = path / name if path.is_dir() else path
    if not file.is_file() or file.name != name:
        raise DatasetMissing(f"{title} is not in {path}: put {name} there.")
    return file


def cifar10_gist_file(path: Path) -> Pool:
    """CIFAR-10 as 512-d GIST from ``cifar10_gist512.npz`` (X_train, y_train, X_test, y_test, classes)."""
    with np.load(file_there(path, "cifar10_gist512.npz", "CIFAR-10 as GIST"), allow_pickle=False) as archive:
        parts: list[tuple[Any, NDArray[Any]]] = [
            (archive[f"X_{part}"].astype(np.float32), archive[f"y_{part}"].astype(np.int64))
            for part in ("train", "test")
        ]
        return joined_parts("CIFAR-10 GIST", parts, tuple(map(str, archive["classes"])))


def cifar10_lite2(path: Path) -> Pool:
    """CIFAR-10 as EfficientNet-Lite2 features at 160 pixels, as ``hashlearn data features`` writes it, in one part."""
    title = "CIFAR-10 as EfficientNet-Lite2 features"
    files_of = [file_there(path, f"cifar10_lite2_{part}.npy", title) for part in ("X", "y")]
    return arrays(*files_of, name="CIFAR-10 EfficientNet-Lite2")


def coco18(path: Path) -> Pool:
    """Return a cut of COCO: 30,000 images, 18 categories, EfficientNet-Lite0 features (``coco18_efflite0.npz``)."""
    with np.load(file_there(path, "coco18_efflite0.npz", "COCO-18"), allow_pickle=False) as archive:
        X = (archive["feat_q"].astype(np.float32) / 255) ** 2 * archive["feat_scale"]
        names = tuple(map(str, archive["label_names"]))
        return Pool("COCO-18", X.astype(np.float32), archive["Y"].astype(np.uint8), names)


def coco18_without_person(path: Path) -> Pool:
    """COCO-18 without the label ``person``, which three of four rows have, and without rows that have no other."""
    pool = coco18(path)
    kept = [column for column, name in enumerate(pool.label_names) if name != "person"]
    labels = pool.y[:, kept]
    rows = labels.any(axis=1)
    return Pool("COCO-18 without person", pool.X[rows], labels[rows], tuple(pool.label_names[k] for k in kept))


def corel16k(path: Path) -> Pool:
    """Corel images: 13,766 bags of 500 visual words (0/1), 153 labels (``corel16k001.npz``)."""
    with np.load(file_there(path, "corel16k001.npz", "Corel16k"), allow_pickle=False) as archive:
        return Pool("Corel16k", archive["X"], archive["Y"].astype(np.uint8))


_PARTS = {"train": TRAIN, "test": TEST, "val": TEST, "valid": TEST, "validation": TEST}
_BLOCK = 256


def image_folder(path: Path, *, size: int | None = None, name: str | None = None, n_jobs: int | None = None) -> Pool:
    """Color images of a folder or zip, the class of each being the folder it lies in.

    ``train/<class>/x.jpg`` and ``test/<class>/y.jpg`` (or ``val``) also give the official part, training rows first;
    plain ``<class>/x.jpg`` has none. Rows are in sorted order of their paths, which are the ``ids``. With ``size``
    images are scaled and cropped to that many pixels square; without it all must have one size.
    """
    with open_tree(path) as tree:
        paths = [entry for entry in tree.names() if entry.lower().endswith(ENDINGS) and "/" in entry]
        if not paths:
            raise FileError(f"{path} holds no images in folders of their classes ({', '.join(ENDINGS)}).")
        marks = [_mark(entry) for entry in paths]
        part = None
        if all(mark is not None for mark in marks):
            order = np.argsort(np.array(marks, dtype=np.uint8), kind="stable")
            paths = [paths[row] for row in order]
            part = np.array(marks, dtype=np.uint8)[order]
        images = _decoded(tree, paths, size, n_jobs)
    classes = [PurePosixPath(entry).parent.name for entry in paths]
    names, y = np.unique(classes, return_inverse=True)
    return Pool(
        name or path.name,
        images.reshape(len(paths), -1),
        y.astype(np.int64),
        tuple(map(str, names)),
        part=part,
        ids=np.array(paths),
        image_shape=(images.shape[1], images.shape[2], images.shape[3]),
    )


def _mark(entry: str) -> int | None:
    folders = PurePosixPath(entry).parent.parts
    return _PARTS.get(folders[-2].lower()) if len(folders) > 1 else None


def _decoded(tree: Tree, paths: list[str], size: int | None, n_jobs: int | None) -> NDArray[np.uint8]:
    """Return all images in one array. Threads decode blocks of them; Pillow lets threads run beside each other."""

    def decode_block(rows: slice) -> list[NDArray[np.uint8]]:
        return [_pixels(tree, entry, size) for entry in paths[rows]]

    images = np.empty(0, dtype=np.uint8)
    row = 0
    for block in ordered_map(decode_block, row_blocks(len(paths), _BLOCK), n_jobs):
        for pixels in block:
            if row == 0:
                images = np.empty((len(paths), *pixels.shape), dtype=np.uint8)
            if pixels.shape != images.shape[1:]:
                found, first = (f"{shape[1]}×{shape[0]}" for shape in (pixels.shape, images.shape[1:]))
                raise FileError(
                    f"{tree.path}: {paths[row]} is {found} pixels, {paths[0]} is {first}; give one size for all."
                )
            images[row] = pixels
            row += 1
        report("decoding images", row, len(paths))
    return images


def _pixels(tree: Tree, entry: str, size: int | None) -> NDArray[np.uint8]:
    data, title = tree.read(entry), f"{tree.path}: {entry}"
    if size is not None:
        return decode(data, title, Scaling(size, resample="bilinear"))
    with opened_image(data, title) as image:
        return np.asarray(upright(image))
