"""Data sets that come with scikit-learn (digits) or with Debian (Fashion-MNIST)."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
_IDX_BYTES = 0x08


class DatasetMissing(FileNotFoundError):
    """A data set is not on this machine; the message says how to get it."""


@dataclass(frozen=True)
class Dataset:
    """The rows of one split: training rows, queries and database. All arrays are read-only.

    Labels are classes (n,), or label sets (n, c) of 0 and 1. Without ``database_X`` and ``database_y``, the training
    rows are the database.
    """

    name: str
    train_X: NDArray[np.float32]
    train_y: NDArray[Any]
    query_X: NDArray[np.float32]
    query_y: NDArray[Any]
    # __post_init__ replaces None by the training rows, so readers never see None.
    database_X: NDArray[np.float32] = None  # type: ignore[assignment]
    database_y: NDArray[Any] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if (self.database_X is None) != (self.database_y is None):
            raise ValueError("database_X and database_y go together: give both or neither.")
        if self.database_X is None:
            object.__setattr__(self, "database_X", self.train_X)
            object.__setattr__(self, "database_y", self.train_y)
        # Many methods use the same arrays: a method that wrote into them would change the scores of the next one.
        for array in (self.train_X, self.train_y, self.query_X, self.query_y, self.database_X, self.database_y):
            array.setflags(write=False)

    @property
    def database_is_train(self) -> bool:
        """Whether the database is the training rows, so that learned codes exist for it."""
        return self.database_X is self.train_X


def digits(n_queries: int = 297, seed: int = 0) -> Dataset:
    """Load scikit-learn's 1797 handwritten digits (8×8 pixels in 0..1), split at random.

    >>> digits().train_X.shape
    (1500, 64)
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = (X[order] / 16).astype(np.float32), y[order].astype(np.int64)
    return Dataset("digits", X[n_queries:], y[n_queries:], X[:n_queries], y[:n_queries])


def fashion_mnist_there(folder: Path = FASHION_MNIST) -> bool:
    """Whether Debian's package dataset-fashion-mnist is installed."""
    return all((folder / name).exists() for pair in _names() for name in pair)


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
    rng = np.random.default_rng(seed)
    parts: list[tuple[NDArray[np.float32], NDArray[np.int64]]] = []
    for (image_name, label_name), count in zip(_names(), (n_train, n_queries), strict=True):
        images, labels = read_idx(folder / image_name), read_idx(folder / label_name)
        if len(images) != len(labels):
            raise ValueError(f"{folder / image_name} has {len(images)} images, {label_name} has {len(labels)} labels.")
        rows = np.sort(rng.permutation(len(images))[:count])
        flat = images[rows].reshape(len(rows), -1)
        parts.append(((flat / np.float32(255)).astype(np.float32), labels[rows].astype(np.int64)))
    return Dataset("Fashion-MNIST", *parts[0], *parts[1])


def _names() -> list[tuple[str, str]]:
    return [(f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz") for part in ("train", "t10k")]


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
