"""CIFAR-10 and CIFAR-100 from the official archives, python or binary version, or from a folder or zip of images."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.data.pool import DatasetMissing, Pool, joined_parts
from hashlearn.files.arrays import FileError
from hashlearn.files.tree import Tree, is_archive, open_tree

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SHAPE = (32, 32, 3)
_PIXELS = 32 * 32 * 3
_TRAIN_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_DTYPES = ("u1", "i1", "b", "B", "i4", "i8")
LabeledImages = tuple[NDArray[np.uint8], NDArray[np.int64]]


def cifar10(path: Path) -> Pool:
    """CIFAR-10: 60,000 color images of 32×32, 10 classes; 50,000 for training, 10,000 for test.

    ``path`` is an archive (``cifar-10-python.tar.gz``, ``cifar-10-binary.tar.gz``), a zip or folder of images
    ``train/<class>/*.jpg`` and ``test/<class>/*.jpg``, or a folder that holds any of these, unpacked or not.
    """
    for place in _places(path, ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz", "cifar10-images.zip")):
        with open_tree(place) as tree:
            if tree.find("data_batch_1"):
                return _joined10([_python_part(tree, _TRAIN_BATCHES), _python_part(tree, ("test_batch",))])
            if tree.find("data_batch_1.bin"):
                binary = [tuple(f"{name}.bin" for name in _TRAIN_BATCHES), ("test_batch.bin",)]
                return _joined10([_binary_part(tree, names) for names in binary])
            if any("/airplane/" in "/" + name for name in tree.names()):
                return _from_images(place)
    raise DatasetMissing(
        f"CIFAR-10 is not in {path}: put cifar-10-python.tar.gz, cifar-10-binary.tar.gz or a zip of images there."
    )


def cifar100(path: Path) -> Pool:
    """CIFAR-100: 60,000 color images of 32×32 whose label set is a fine class (100) and a coarse class (20).

    Two images share both labels, the coarse one only, or none: relevance 2, 1 or 0.
    """
    for place in _places(path, ("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz")):
        with open_tree(place) as tree:
            python = tree.find("cifar-100-python/meta", "meta")
            if python:
                names = _unpickled(tree, python)
                coarse, fine = (tuple(map(_text, names[f"{kind}_label_names"])) for kind in ("coarse", "fine"))
                parts = [_python_part100(tree, f"cifar-100-python/{part}", part) for part in ("train", "test")]
                return _joined100(parts, fine, coarse)
            binary = tree.find("fine_label_names.txt")
            if binary:
                fine, coarse = (_lines(tree, f"{kind}_label_names.txt") for kind in ("fine", "coarse"))
                return _joined100([_binary_part100(tree, part) for part in ("train.bin", "test.bin")], fine, coarse)
    raise DatasetMissing(f"CIFAR-100 is not in {path}: put cifar-100-python.tar.gz or cifar-100-binary.tar.gz there.")


def _places(path: Path, archives: tuple[str, ...]) -> list[Path]:
    """Return the path itself and, if it is a folder, its archives. Unpacked files come first: they are read faster."""
    if not path.exists():
        return []
    return [path] if is_archive(path) else [path, *(path / name for name in archives if (path / name).exists())]


def _joined10(parts: list[LabeledImages]) -> Pool:
    return joined_parts("CIFAR-10", parts, CLASSES, image_shape=_SHAPE)


def _joined100(
    parts: list[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]],
    fine: tuple[str, ...],
    coarse: tuple[str, ...],
) -> Pool:
    labeled = []
    for images, fine_y, coarse_y in parts:
        sets = np.zeros((len(images), len(fine) + len(coarse)), dtype=np.uint8)
        rows = np.arange(len(images))
        _check_range(fine_y, len(fine), "CIFAR-100's fine labels")
        _check_range(coarse_y, len(coarse), "CIFAR-100's coarse labels")
        sets[rows, fine_y] = 1
        sets[rows, len(fine) + coarse_y] = 1
        labeled.append((images, sets))
    return joined_parts("CIFAR-100", labeled, fine + coarse, image_shape=_SHAPE)


def _from_images(path: Path) -> Pool:
    from hashlearn.data.plain import image_folder

    pool = image_folder(path, name="CIFAR-10")
    if pool.label_names != CLASSES or pool.part is None or pool.image_shape != _SHAPE:
        raise FileError(
            f"{path} is not CIFAR-10: it must hold train/<class> and test/<class> of its 10 classes, 32×32 pixels."
        )
    return pool


def _check_range(labels: NDArray[np.int64], count: int, what: str) -> None:
    if len(labels) and (labels.min() < 0 or labels.max() >= count):
        raise FileError(f"{what} must lie in 0..{count - 1}; they reach from {labels.min()} to {labels.max()}.")


# The binary version has records of one label byte (CIFAR-100 has two, the coarse label first) and 3072 pixel bytes, one
# plane per color.


def _binary_part(tree: Tree, names: tuple[str, ...]) -> LabeledImages:
    records = np.concatenate([_records(tree, name, 1) for name in names])
    labels = records[:, 0].astype(np.int64)
    _check_range(labels, len(CLASSES), f"{tree.path}: CIFAR-10's labels")
    return _interleaved(records[:, 1:]), labels


def _binary_part100(tree: Tree, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    records = _records(tree, name, 2)
    return _interleaved(records[:, 2:]), records[:, 1].astype(np.int64), records[:, 0].astype(np.int64)


def _records(tree: Tree, name: str, label_bytes: int) -> NDArray[np.uint8]:
    raw = np.frombuffer(_member(tree, name), dtype=np.uint8)
    if not raw.size or raw.size % (label_bytes + _PIXELS):
        raise FileError(f"{tree.path}: {name} has {raw.size} bytes, not whole records of {label_bytes + _PIXELS}.")
    return raw.reshape(-1, label_bytes + _PIXELS)


def _interleaved(planes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert rows of red, green and blue planes to rows of pixels."""
    return np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)).reshape(-1, _PIXELS)


def _member(tree: Tree, name: str) -> bytes:
    found = tree.find(name)
    if found is None:
        raise FileError(f"{tree.path} lacks {name}.")
    return tree.read(found)


def _lines(tree: Tree, name: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in _member(tree, name).decode().splitlines() if line.strip())


# The python version has dictionaries that were pickled by Python 2.


def _python_part(tree: Tree, names: tuple[str, ...]) -> LabeledImages:
    batches = [_unpickled(tree, name) for name in names]
    pixels = np.concatenate([_pixels(tree, batch) for batch in batches])
    labels = np.concatenate([_labels(tree, batch, "labels") for batch in batches])
    _check_range(labels, len(CLASSES), f"{tree.path}: CIFAR-10's labels")
    return pixels, labels


def _python_part100(tree: Tree, *names: str) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    batch = _unpickled(tree, next((name for name in names if tree.find(name)), names[-1]))
    return _pixels(tree, batch), _labels(tree, batch, "fine_labels"), _labels(tree, batch, "coarse_labels")


def _pixels(tree: Tree, batch: dict[str, Any]) -> NDArray[np.uint8]:
    data = batch.get("data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != _PIXELS:
        raise FileError(f"{tree.path}: a batch does not hold rows of {_PIXELS} bytes.")
    return _interleaved(data)


def _labels(tree: Tree, batch: dict[str, Any], key: str) -> NDArray[np.int64]:
    values = batch.get(key)
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        raise FileError(f"{tree.path}: a batch has no list of {key}.")
    if len(values) != len(batch["data"]):
        raise FileError(f"{tree.path}: a batch has {len(batch['data'])} images and {len(values)} {key}.")
    return np.array(values, dtype=np.int64)


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
            return _fresh(lambda kind, shape, code: np.ndarray((0,), np.int8))
        if (module, name) == ("numpy", "ndarray"):
            return None  # it is used only as the first argument of _reconstruct, which ignores it
        if (module, name) == ("numpy", "dtype"):
            return _fresh(_integer_dtype)
        if (module, name) == ("_codecs", "encode"):
            return _fresh(lambda text, codec="latin1": text.encode("latin1"))
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only arrays are unpickled")


def _fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*arguments)


def _integer_dtype(code: str | bytes, *_: Any) -> np.dtype[Any]:
    if _text(code) not in _DTYPES:
        raise pickle.UnpicklingError(f"it holds an array of type {_text(code)!r} where bytes are expected")
    # The pickle sets the state of this object next, so it must be a copy: NumPy shares its own dtype objects.
    return np.dtype(_text(code), align=False, copy=True)
