"""Any folder or zip of images whose folders are their classes."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.data.pool import TEST, TRAIN, Pool
from hashlearn.files.arrays import FileError
from hashlearn.files.images import ENDINGS, Scaling, opened_image, square, upright
from hashlearn.files.tree import Tree, open_tree
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.progress import report

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
    """All images in one array; blocks of them are decoded in threads, which Pillow lets run beside each other."""
    first = _pixels(tree, paths[0], size)
    images = np.empty((len(paths), *first.shape), dtype=np.uint8)

    def decode(rows: slice) -> int:
        for row in range(rows.start, rows.stop):
            pixels = _pixels(tree, paths[row], size)
            if pixels.shape != first.shape:
                sizes = f"{paths[row]} is {_by(pixels)} pixels, {paths[0]} is {_by(first)}"
                raise FileError(f"{tree.path}: {sizes}; give one size for all.")
            images[row] = pixels
        return rows.stop

    for done in ordered_map(decode, row_blocks(len(paths), _BLOCK), n_jobs):
        report("decoding images", done, len(paths))
    return images


def _by(pixels: NDArray[Any]) -> str:
    return f"{pixels.shape[1]}×{pixels.shape[0]}"


def _pixels(tree: Tree, entry: str, size: int | None) -> NDArray[np.uint8]:
    # Without a reduced size on loading: pixels would differ from those of data sets made before.
    with opened_image(tree.read(entry), f"{tree.path}: {entry}") as image:
        color = upright(image)
        return np.asarray(color) if size is None else square(color, Scaling(size, resample="bilinear"))
