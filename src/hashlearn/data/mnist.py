"""The digits of scikit-learn, and MNIST and Fashion-MNIST from their IDX files, gzipped or plain."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.data.pool import TEST, TRAIN, Dataset, DatasetMissing, Pool, joined_parts
from hashlearn.files.arrays import FileError

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
_PARTS, _KINDS = ("train", "t10k"), ("images-idx3", "labels-idx1")
_IDX_BYTES = 0x08


def digits(n_queries: int = 297, seed: int = 0) -> Dataset:
    """Load scikit-learn's 1797 handwritten digits (8×8 pixels in 0..1), split at random.

    >>> digits().train_X.shape
    (1500, 64)
    """
    pool = digits_pool(Path())
    order = np.random.default_rng(seed).permutation(len(pool))
    X, y = pool.X[order], pool.y[order]
    return Dataset("digits", X[n_queries:], y[n_queries:], X[:n_queries], y[:n_queries])


def fashion_mnist_there(folder: Path = FASHION_MNIST) -> bool:
    """Return whether Debian's package dataset-fashion-mnist is installed."""
    return all(_found(folder, part, kind) for part in _PARTS for kind in _KINDS)


def fashion_mnist(
    n_train: int | None = None, n_queries: int | None = None, seed: int = 0, folder: Path = FASHION_MNIST
) -> Dataset:
    """Load Fashion-MNIST (28×28 pixels in 0..1): its training images and, as queries, its test images.

    Parameters
    ----------
    n_train, n_queries : int or None
        How many images to draw at random; None takes all of them.
    seed : int
    folder : Path
        The folder of Debian's package.

    Raises
    ------
    DatasetMissing
        If Debian's package dataset-fashion-mnist is not installed.
    """
    if not fashion_mnist_there(folder):
        raise DatasetMissing(f"Fashion-MNIST is not in {folder}: sudo apt install dataset-fashion-mnist.")
    pool, rng = _idx_pool(folder, "Fashion-MNIST", GARMENTS), np.random.default_rng(seed)
    parts = np.flatnonzero(pool.part == TRAIN), np.flatnonzero(pool.part == TEST)
    counts = zip(parts, (n_train, n_queries), strict=True)
    train, query = (rows[np.sort(rng.permutation(len(rows))[:count])] for rows, count in counts)
    return Dataset("Fashion-MNIST", pool.features(train), pool.y[train], pool.features(query), pool.y[query])


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an array of bytes in LeCun's IDX format, gzipped or plain."""
    raw = path.read_bytes()
    # An IDX file begins with two zero bytes. Any other file is read as gzip, which fails if it is neither.
    if raw[:2] != b"\0\0":
        try:
            raw = gzip.decompress(raw)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is damaged or cut short.") from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != _IDX_BYTES or len(raw) < 4 + 4 * raw[3]:
        raise ValueError(f"{path} is not an IDX file of bytes.")
    shape = tuple(np.frombuffer(raw, dtype=">i4", count=raw[3], offset=4).tolist())
    values = np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * raw[3])
    if values.size != int(np.prod(shape)):
        raise ValueError(f"{path} is cut short: {values.size} bytes where its header promises {int(np.prod(shape))}.")
    return values.reshape(shape)


DIGITS = tuple(map(str, range(10)))
GARMENTS = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def digits_pool(folder: Path) -> Pool:
    """Load all digits of scikit-learn (8×8 pixels in 0..1); nothing is read from ``folder``."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Pool("digits", (X / 16).astype(np.float32), y.astype(np.int64), DIGITS)


def mnist(path: Path) -> Pool:
    """MNIST: 70,000 gray digits of 28×28; 60,000 for training, 10,000 for test.

    ``path`` is a folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same of ``t10k``, each
    gzipped (``.gz``) or plain.
    """
    return _idx_pool(path, "MNIST", DIGITS)


def fashion_mnist_pool(path: Path) -> Pool:
    """Fashion-MNIST: 70,000 gray garments of 28×28 in the layout of MNIST; Debian's package is found automatically."""
    if _found(path, "train", "images-idx3") is None and fashion_mnist_there():
        path = FASHION_MNIST
    return _idx_pool(path, "Fashion-MNIST", GARMENTS)


def _idx_pool(path: Path, name: str, label_names: tuple[str, ...]) -> Pool:
    parts, shapes = [], set()
    for part in _PARTS:
        files = [_found(path, part, kind) for kind in _KINDS]
        if files[0] is None or files[1] is None:
            raise DatasetMissing(
                f"{name} is not in {path}: put {part}-images-idx3-ubyte.gz and {part}-labels-idx1-ubyte.gz there."
            )
        images, labels = read_idx(files[0]), read_idx(files[1])
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise FileError(f"{files[0]} is {images.shape}, {files[1].name} is {labels.shape}: no images with labels.")
        if len(labels) and labels.max() >= len(label_names):
            raise FileError(f"{files[1]} has a label {labels.max()}; {name} has {len(label_names)} classes.")
        parts.append((images.reshape(len(images), -1), labels.astype(np.int64)))
        shapes.add((images.shape[1], images.shape[2], 1))
    if len(shapes) > 1:
        raise FileError(f"{path}: training and test images differ in size: {shapes}.")
    return joined_parts(name, parts, label_names, image_shape=shapes.pop())


def _found(path: Path, part: str, kind: str) -> Path | None:
    places = (path / f"{part}-{kind}-ubyte{ending}" for ending in (".gz", ""))
    return next((place for place in places if place.is_file()), None)
