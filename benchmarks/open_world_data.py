"""The data of ``open_world.py``: training rows, and searches whose database and queries training never saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from hashlearn.data import load, protocols


@dataclass(frozen=True)
class Search:
    """Queries and database with their labels."""

    query_X: np.ndarray
    query_y: np.ndarray
    database_X: np.ndarray
    database_y: np.ndarray


@dataclass(frozen=True)
class OpenWorld:
    """Training rows, and searches by name; ``at`` is the cut-off of MAP. Label sets are scored by NDCG@50."""

    train_X: np.ndarray
    train_y: np.ndarray
    searches: dict[str, Search]
    at: int | None = None


def named(name: str, protocol: str, at: int | None = None) -> Callable[[str, int], OpenWorld]:
    """A data set of the library under one of its protocols."""

    def make(folder: str, seed: int) -> OpenWorld:
        pool = load(name, folder)
        sets = {split.name: split.dataset(pool) for split in protocols.protocol(protocol).splits(pool, seed)}
        first = next(iter(sets.values()))
        searches = {
            split: Search(one.query_X, one.query_y, one.database_X, one.database_y) for split, one in sets.items()
        }
        return OpenWorld(first.train_X, first.train_y, searches, at)

    return make


def unbalanced_digits(_: str, seed: int) -> OpenWorld:
    """Digits whose classes have 130 to 3 training rows."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    sizes = np.round(np.geomspace(130, 3, 10)).astype(int)
    train, rest = [], []
    for number, size in enumerate(sizes):
        rows = rng.permutation(np.flatnonzero(y == number))
        train.append(rows[:size])
        rest.append(rows[size:])
    chosen, others = rng.permutation(np.concatenate(train)), rng.permutation(np.concatenate(rest))
    X = X.astype(np.float32)
    found = Search(X[others[:300]], y[others[:300]], X[others[300:]], y[others[300:]])
    return OpenWorld(X[chosen], y[chosen], {"new": found})


def gaussians(
    n_classes: int, per_class: int, n_features: int, width: float, n_queries: int = 1000, unit: bool = False
) -> Callable[[str, int], OpenWorld]:
    """Classes around random centers; training rows and database have ``per_class`` rows of each."""

    def make(_: str, seed: int) -> OpenWorld:
        rng = np.random.default_rng([seed, 7])
        centers = rng.standard_normal((n_classes, n_features)).astype(np.float32)

        def rows(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            X = (centers[y] + width * rng.standard_normal((len(y), n_features))).astype(np.float32)
            return (X / np.linalg.norm(X, axis=1, keepdims=True) if unit else X), y

        every = np.repeat(np.arange(n_classes), per_class)
        train_y, asked = rng.permutation(every), rng.integers(0, n_classes, n_queries)
        train, database, queries = rows(train_y), rows(every), rows(asked)
        return OpenWorld(*train, {"new": Search(*queries, *database)})

    return make


DATA: dict[str, Any] = {
    "banking77": named("banking77-minilm", "new-unseen"),
    "clinc150": named("clinc150-minilm", "new-unseen"),
    "coco18": named("coco18", "new"),
    "cifar10-gist": named("cifar10-gist", "new", at=500),
    "unbalanced-digits": unbalanced_digits,
    "gaussians-1000x10": gaussians(1000, 10, 128, 1.5),
    "gaussians-100x50-d4096": gaussians(100, 50, 4096, 4.8, unit=True),
    "gaussians-10000x5": gaussians(10_000, 5, 128, 0.98, n_queries=500),
    # Not used while the rules of AutoHasher were made:
    "corel16k": named("corel16k", "new"),
    "digits": named("digits", "new-unseen"),
    "cifar10-unseen": named("cifar10-gist", "new-unseen", at=500),
}
DEVELOPMENT = tuple(DATA)[:8]
