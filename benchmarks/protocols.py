"""The named splits that the result tables use, made from a folder of real data.

The folder holds ``cifar10_gist512.npz`` (X_train, y_train, X_test, y_test) and ``coco18_efflite0.npz`` (feat_q,
feat_scale, Y). Rows are always shuffled, because ties are broken by row order under ``ties="stable"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn import metrics

NAMES = ("cifar-10k", "cifar-full", "coco-10k")


@dataclass(frozen=True)
class Split:
    """Training rows, which are the database too, and queries."""

    name: str
    X: NDArray[np.float32]
    y: NDArray[Any]
    queries: NDArray[np.float32]
    query_y: NDArray[Any]

    @property
    def measure(self) -> str:
        return "NDCG@50" if self.y.ndim == 2 else "MAP@500"

    def score(self, query_codes: NDArray[Any], database_codes: NDArray[np.uint8], ties: str = "stable") -> float:
        """The paper's measure of this data set; stable ties over shuffled rows are the paper's."""
        arguments = (query_codes, database_codes, self.query_y, self.y)
        if self.y.ndim == 2:
            return metrics.ndcg(*arguments, at=50, ties=ties)
        return metrics.mean_average_precision(*arguments, at=500, ties=ties)

    def score_floats(self, queries: NDArray[Any], database: NDArray[Any], metric: str = "cosine") -> float:
        scores = metrics.evaluate_floats(
            queries, database, self.query_y, self.y, metric=metric, at=500, ndcg_at=50, ties="stable"
        )
        return scores.ndcg if self.y.ndim == 2 else scores.map


def load(name: str, folder: Path, seed: int = 0) -> Split:
    """A split by name: 1,000 training rows and 100 queries a class, the official 50k/10k, or COCO-18 10k/1k."""
    rng = np.random.default_rng(seed)
    if name == "coco-10k":
        archive = np.load(folder / "coco18_efflite0.npz")
        X = ((archive["feat_q"].astype(np.float32) / 255) ** 2 * archive["feat_scale"]).astype(np.float32)
        order = rng.permutation(len(X))
        train, query = order[:10_000], order[10_000:11_000]
        return Split(name, X[train], archive["Y"][train], X[query], archive["Y"][query])
    archive = np.load(folder / "cifar10_gist512.npz")
    y_train, y_test = archive["y_train"], archive["y_test"]
    if name == "cifar-full":
        train, query = rng.permutation(len(y_train)), np.arange(len(y_test))
    elif name == "cifar-10k":
        train, query = _by_class(y_train, 1000, rng), _by_class(y_test, 100, rng)
    else:
        raise ValueError(f"The split must be one of {NAMES}. Got {name!r} instead.")
    X_train, X_test = archive["X_train"][train], archive["X_test"][query]
    return Split(name, X_train.astype(np.float32), y_train[train], X_test.astype(np.float32), y_test[query])


def _by_class(y: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    return rng.permutation(
        np.concatenate([rng.choice(np.flatnonzero(y == k), count, replace=False) for k in np.unique(y)])
    )
