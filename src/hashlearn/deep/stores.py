"""Where images come from: a folder, a zip, a list of files, or an array of pixels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import FileError, one_line
from hashlearn.files.images import ENDINGS, MAX_BYTES, Pixels, Scaling, decode, scaled
from hashlearn.files.tree import tree_at


class ImageStore:
    """Images by row number, with their names."""

    names: list[str]
    # Whether an image can turn out to be damaged when it is read.
    can_fail = True

    def pixels(self, row: int, scaling: Scaling) -> Pixels:
        """Return the square pixels of an image, or raise a FileError with its name. Threads may call this together."""
        raise NotImplementedError

    def stamp(self) -> str:
        """Return a hash that changes when the images do."""
        raise NotImplementedError

    def close(self) -> None:
        """Close files."""


class TreeStore(ImageStore):
    """All images in a folder, however deep, or in a zip, in the sorted order of their paths."""

    def __init__(self, path: Path) -> None:
        if path.exists() and not path.is_dir() and path.suffix.lower() != ".zip":
            raise FileError(f"{path} is neither a folder nor a zip of images; unpack other archives first.")
        self.path = path
        self._tree = tree_at(path)
        self.names = [name for name in self._tree.names() if name.lower().endswith(ENDINGS)]
        if not self.names:
            self.close()
            raise FileError(f"{path} holds no images ({', '.join(ENDINGS)}).")

    def pixels(self, row: int, scaling: Scaling) -> Pixels:
        name = self.names[row]
        title = f"{self.path}: {name}"
        try:
            _check_size(title, self._tree.stamp(name)[0])
            data = self._tree.read(name)
        except FileError:
            raise
        # A zip member may be damaged, encrypted, or packed by a method that Python does not have.
        except Exception as error:
            raise FileError(f"{title} cannot be read: {one_line(error)}") from error
        return decode(data, title, scaling)

    def stamp(self) -> str:
        return _hash((name, *self._tree.stamp(name)) for name in self.names)

    def close(self) -> None:
        self._tree.close()


class FileStore(ImageStore):
    """A list of image files, in its own order."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._paths = [Path(path) for path in paths]
        self.names = [str(path) for path in paths]
        if not self.names:
            raise FileError("The list of image files is empty.")

    def pixels(self, row: int, scaling: Scaling) -> Pixels:
        path = self._paths[row]
        try:
            _check_size(str(path), path.stat().st_size)
            data = path.read_bytes()
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror}.") from error
        return decode(data, str(path), scaling)

    def stamp(self) -> str:
        facts = []
        for name, path in zip(self.names, self._paths, strict=True):
            there = path.stat() if path.exists() else None
            facts.append((name, there.st_size, there.st_mtime_ns) if there else (name,))
        return _hash(facts)


class ArrayStore(ImageStore):
    """Bytes (n, height, width, 3), (n, 3, height, width) in torch's order, or gray (n, height, width[, 1])."""

    can_fail = False

    def __init__(self, images: NDArray[Any]) -> None:
        if images.dtype != np.uint8:
            raise ValueError(f"Arrays of images must hold bytes (uint8) 0..255. Got {images.dtype} instead.")
        if images.ndim == 3:
            images = images[..., None]
        if images.ndim == 4 and images.shape[3] not in (1, 3) and images.shape[1] in (1, 3):
            images = images.transpose(0, 2, 3, 1)
        if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape:
            raise ValueError(
                "Arrays of images must have the shape (n, height, width, 3), (n, 3, height, width) or (n, height, "
                f"width). Got {images.shape} instead."
            )
        self._images = np.broadcast_to(images, (*images.shape[:3], 3))
        self.names = [str(row) for row in range(len(images))]

    def ready(self, side: int) -> NDArray[np.uint8] | None:
        """Return all images at once, if they already have that size."""
        return self._images if self._images.shape[1:3] == (side, side) else None

    def pixels(self, row: int, scaling: Scaling) -> Pixels:
        return scaled(np.ascontiguousarray(self._images[row]), scaling)

    def stamp(self) -> str:
        digest = hashlib.sha256(repr(self._images.shape).encode())
        for start in range(0, len(self._images), 1024):
            digest.update(np.ascontiguousarray(self._images[start : start + 1024]).data)
        return digest.hexdigest()


def open_store(images: Any) -> ImageStore:
    """Return the store for images as a user gives them."""
    if isinstance(images, ImageStore):
        return images
    if isinstance(images, (str, Path)):
        return TreeStore(Path(images))
    if hasattr(images, "detach"):
        images = images.detach().cpu().numpy()
    if isinstance(images, np.ndarray) and images.dtype.kind not in "USO":
        return ArrayStore(images)
    listed = list(images)
    strange = next((item for item in listed if not isinstance(item, (str, Path))), None)
    if strange is not None:
        raise ValueError(
            "Images must be a folder, a zip, a list of files or an array of bytes. Got a list with "
            f"{type(strange).__name__} in it instead."
        )
    return FileStore(listed)


def folder_classes(names: Sequence[str]) -> list[str]:
    """Return the name of the folder of each image; FileError if an image is in no folder.

    >>> folder_classes(["train/cat/1.jpg", "train/dog/2.jpg"])
    ['cat', 'dog']
    """
    classes = [PurePosixPath(name).parent.name for name in names]
    for name, found in zip(names, classes, strict=True):
        if not found:
            raise FileError(f"{name} lies in no folder that could name its class.")
    return classes


def _check_size(name: str, n_bytes: int) -> None:
    if n_bytes > MAX_BYTES:
        raise FileError(f"{name} has {n_bytes:,} bytes, more than the {MAX_BYTES:,} that are read for one image.")


def _hash(facts: Any) -> str:
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(repr(fact).encode())
    return digest.hexdigest()
