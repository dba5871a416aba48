"""CIFAR-10 and CIFAR-100 from the official archives, python or binary version, or from a folder or zip of images."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.data.plain import image_folder
from hashlearn.data.pool import DatasetMissing, Pool, joined_parts
from hashlearn.files.arrays import FileError
from hashlearn.files.tree import Tree, is_archive, open_tree

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SHAPE = (32, 32, 3)
_PIXELS = 32 * 32 * 3
_BATCHES10 = ([f"data_batch_{number}" for number in range(1, 6)], ["test_batch"])
# What the python version calls the labels, and how many there are.
_LABELS10 = {"labels": 10}
_LABELS100 = {"fine_labels": 100, "coarse_labels": 20}
_DTYPES = ("u1", "i1", "b", "B", "i4", "i8")
Labeled = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Pixels, and a column of labels for each kind."""


def cifar10(path: Path) -> Pool:
    """CIFAR-10: 60,000 color images of 32×32, 10 classes; 50,000 for training, 10,000 for test.

    ``path`` is an archive (``cifar-10-python.tar.gz``, ``cifar-10-binary.tar.gz``), a zip or folder of images
    ``train/<class>/*.jpg`` and ``test/<class>/*.jpg``, or a folder that holds any of these, unpacked or not.
    """
    for place in _places(path, ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz", "cifar10-images.zip")):
        with open_tree(place) as tree:
            if tree.find("data_batch_1"):
                parts = [_pickled(tree, names, _LABELS10) for names in _BATCHES10]
            elif tree.find("data_batch_1.bin"):
                parts = [_recorded(tree, [f"{name}.bin" for name in names], _LABELS10) for names in _BATCHES10]
            elif any("/airplane/" in "/" + name for name in tree.names()):
                return _from_images(place)
            else:
                continue
            flat = [(pixels, labels[:, 0]) for pixels, labels in parts]
            return joined_parts("CIFAR-10", flat, CLASSES, image_shape=_SHAPE)
    raise DatasetMissing(
        f"CIFAR-10 is not in {path}: put cifar-10-python.tar.gz, cifar-10-binary.tar.gz or a zip of images there."
    )


def cifar100(path: Path) -> Pool:
    """CIFAR-100: 60,000 color images of 32×32 whose label set is a fine class (100) and a coarse class (20).

    Two images share both labels, the coarse one only, or none: relevance 2, 1 or 0.
    """
    for place in _places(path, ("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz")):
        with open_tree(place) as tree:
            meta = tree.find("cifar-100-python/meta", "meta")
            if meta:
                facts = _unpickled(tree, meta)
                names = [_text(name) for kind in ("fine", "coarse") for name in facts[f"{kind}_label_names"]]
                files = [tree.find(f"cifar-100-python/{part}") or part for part in ("train", "test")]
                parts = [_pickled(tree, [file], _LABELS100) for file in files]
            elif tree.find("fine_label_names.txt"):
                lists = [_member(tree, f"{kind}_label_names.txt").decode() for kind in ("fine", "coarse")]
                names = [line.strip() for text in lists for line in text.splitlines() if line.strip()]
                parts = [_recorded(tree, [part], _LABELS100) for part in ("train.bin", "test.bin")]
            else:
                continue
            fine, coarse = (np.eye(count, dtype=np.uint8) for count in _LABELS100.values())
            labeled = [(pixels, np.hstack([fine[labels[:, 0]], coarse[labels[:, 1]]])) for pixels, labels in parts]
            return joined_parts("CIFAR-100", labeled, tuple(names), image_shape=_SHAPE)
    raise DatasetMissing(f"CIFAR-100 is not in {path}: put cifar-100-python.tar.gz or cifar-100-binary.tar.gz there.")


def _places(path: Path, archives: tuple[str, ...]) -> list[Path]:
    """Return the path itself and, if it is a folder, its archives. Unpacked files come first: they are read faster."""
    if not path.exists():
        return []
    return [path] if is_archive(path) else [path, *(path / name for name in archives if (path / name).exists())]


def _from_images(path: Path) -> Pool:
    pool = image_folder(path, name="CIFAR-10")
    if pool.label_names != CLASSES or pool.part is None or pool.image_shape != _SHAPE:
        raise FileError(
            f"{path} is not CIFAR-10: it must hold train/<class> and test/<class> of its 10 classes, 32×32 pixels."
        )
    return pool


def _recorded(tree: Tree, names: Iterable[str], kinds: dict[str, int]) -> Labeled:
    """Read the binary version: records of a byte per label, the coarse one first, and a plane of bytes per color."""
    width = len(kinds) + _PIXELS
    parts = []
    for name in names:
        raw = np.frombuffer(_member(tree, name), dtype=np.uint8)
        if not raw.size or raw.size % width:
            raise FileError(f"{tree.path}: {name} has {raw.size} bytes, not whole records of {width}.")
        parts.append(raw.reshape(-1, width))
    records = np.concatenate(parts)
    labels = records[:, : len(kinds)][:, ::-1].astype(np.int64)
    return _interleaved(records[:, len(kinds) :]), _in_range(labels, kinds, tree)


def _pickled(tree: Tree, names: Iterable[str], kinds: dict[str, int]) -> Labeled:
    """Read the python version: dictionaries that were pickled by Python 2."""
    pixels, labels = [], []
    for name in names:
        batch = _unpickled(tree, name)
        data = batch.get("data")
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != _PIXELS:
            raise FileError(f"{tree.path}: a batch does not hold rows of {_PIXELS} bytes.")
        columns = [batch.get(kind) for kind in kinds]
        for kind, values in zip(kinds, columns, strict=True):
            if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
                raise FileError(f"{tree.path}: a batch has no list of {kind}.")
            if len(values) != len(data):
                raise FileError(f"{tree.path}: a batch has {len(data)} images and {len(values)} {kind}.")
        pixels.append(_interleaved(data))
        labels.append(np.array(columns, dtype=np.int64).T)
    return np.concatenate(pixels), _in_range(np.concatenate(labels), kinds, tree)


def _interleaved(planes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert rows of red, green and blue planes to rows of pixels."""
    return np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)).reshape(-1, _PIXELS)


def _in_range(labels: NDArray[np.int64], kinds: dict[str, int], tree: Tree) -> NDArray[np.int64]:
    for column, (kind, count) in zip(labels.T, kinds.items(), strict=True):
        if len(column) and (column.min() < 0 or column.max() >= count):
            raise FileError(
                f"{tree.path}: {kind} must lie in 0..{count - 1}; they reach from {column.min()} to {column.max()}."
            )
    return labels


def _member(tree: Tree, name: str) -> bytes:
    found = tree.find(name)
    if found is None:
        raise FileError(f"{tree.path} lacks {name}.")
    return tree.read(found)


def _text(value: str | bytes) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else value


def _unpickled(tree: Tree, name: str) -> dict[str, Any]:
    try:
        batch = _ArraysOnly(io.BytesIO(_member(tree, name)), encoding="bytes").load()
    except FileError:
        raise
    except pickle.UnpicklingError as error:
        raise FileError(f"{tree.path}: {name} is not read: {error}.") from error
    except Exception as error:  # a damaged pickle can raise almost any exception
        raise FileError(f"{tree.path}: {name} is damaged or no CIFAR batch.") from error
    if not isinstance(batch, dict):
        raise FileError(f"{tree.path}: {name} is no CIFAR batch.")
    return {_text(key): value for key, value in batch.items() if isinstance(key, (str, bytes))}


class _ArraysOnly(pickle.Unpickler):
    """Unpickle plain containers, numbers, strings and NumPy arrays of integers, and refuse every other class.

    Each lookup returns a new function that does less than the original, so a pickle can neither call nor change an
    object that exists outside of it.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return lambda kind, shape, code: np.ndarray((0,), np.int8)
        if (module, name) == ("numpy", "ndarray"):
            return None  # it is used only as the first argument of _reconstruct, which ignores it
        if (module, name) == ("numpy", "dtype"):
            return lambda code, *_: _integer_dtype(_text(code))
        if (module, name) == ("_codecs", "encode"):
            return lambda text, codec="latin1": text.encode("latin1")
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only arrays are unpickled")


def _integer_dtype(code: str) -> np.dtype[Any]:
    if code not in _DTYPES:
        raise pickle.UnpicklingError(f"it holds an array of type {code!r} where bytes are expected")
    # The pickle sets the state of this object next, so it must be a copy: NumPy shares its own dtype objects.
    return np.dtype(code, align=False, copy=True)
