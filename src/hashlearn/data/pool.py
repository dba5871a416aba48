"""All rows of a data set, before a protocol splits them into training rows, queries and database."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

TRAIN, TEST = 0, 1


@dataclass(frozen=True)
class Pool:
    """Rows with their labels, read-only.

    Parameters
    ----------
    name : str
    X : (n, d) array or CSR matrix
        Features, or the pixels of images (uint8, rows of height × width × channels).
    y : (n,) int64 classes, -1 for rows without a label, or (n, c) uint8 label sets
    label_names : names of the classes or of the label columns
    part : (n,) uint8 or None
        The official split: 0 for training rows, 1 for test rows; None if there is no official split.
    ids : (n,) array or None
        Names of the rows in the original files: file names or image numbers.
    image_shape : (height, width, channels) or None
        The shape of each row as an image; rows are then bytes, which ``features`` scales to 0..1.

    Examples
    --------
    >>> pool = Pool("two", np.array([[0.0], [1.0]]), np.array([0, 1]), ("no", "yes"))
    >>> len(pool), pool.multilabel
    (2, False)
    """

    name: str
    X: Any
    y: NDArray[Any]
    label_names: tuple[str, ...] = ()
    part: NDArray[np.uint8] | None = None
    ids: NDArray[Any] | None = None
    image_shape: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        n_rows = self.X.shape[0]
        for title, values in (("labels", self.y), ("parts", self.part), ("ids", self.ids)):
            if values is not None and len(values) != n_rows:
                raise ValueError(f"{self.name} has {n_rows} rows but {len(values)} {title}.")
        if self.y.ndim == 2 and self.label_names and len(self.label_names) != self.y.shape[1]:
            raise ValueError(f"{self.name} has {self.y.shape[1]} labels but {len(self.label_names)} names for them.")
        # Many methods use the same arrays: a method that wrote into them would change the scores of the next one.
        for values in (self.X, self.y, self.part, self.ids):
            if isinstance(values, np.ndarray):
                values.setflags(write=False)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def multilabel(self) -> bool:
        return self.y.ndim == 2

    @property
    def labeled(self) -> NDArray[np.bool_]:
        """Which rows have a label; rows of label sets all have one, which may be empty."""
        return np.ones(len(self), dtype=bool) if self.multilabel else self.y >= 0

    @property
    def classes(self) -> NDArray[np.int64]:
        """The numbers of the classes that rows have."""
        return np.unique(self.y[self.y >= 0])

    @property
    def images(self) -> NDArray[np.uint8]:
        """The rows as images (n, height, width, channels)."""
        if self.image_shape is None:
            raise ValueError(f"{self.name} holds features, not images.")
        return np.asarray(self.X).reshape(len(self), *self.image_shape)

    def features(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the chosen rows as dense float32; pixels of images are scaled to 0..1."""
        chosen = self.X[rows]
        if sparse.issparse(chosen):
            chosen = chosen.toarray()
        dense = np.asarray(chosen, dtype=np.float32)
        return dense / np.float32(255) if self.image_shape is not None else dense

    def with_features(self, X: NDArray[Any], name: str) -> Pool:
        """Return a pool with the same rows and labels and other features."""
        return replace(self, X=X, name=name, image_shape=None)


def joined_parts(name: str, parts: list[tuple[Any, NDArray[Any]]], label_names: tuple[str, ...], **more: Any) -> Pool:
    """Make a pool of an official training part followed by an official test part."""
    (train_X, train_y), (test_X, test_y) = parts
    part = np.repeat(np.array([TRAIN, TEST], dtype=np.uint8), [len(train_y), len(test_y)])
    return Pool(
        name, np.concatenate([train_X, test_X]), np.concatenate([train_y, test_y]), label_names, part=part, **more
    )


class DatasetMissing(FileNotFoundError):
    """A data set is not on this machine; the message says how to get it."""


@dataclass(frozen=True)
class Dataset:
    """The rows of one split: training rows, queries and database. All arrays are read-only.

    Labels are classes (n,), NaN for rows without a label, or label sets (n, c) of 0 and 1. Without ``database_X`` and
    ``database_y``, the training rows are the database.
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
