"""A comparison of learned codes with random codes and with floats, on data that needs no download."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes, data, metrics
from hashlearn.data import Dataset
from hashlearn.fitting.advice import muted
from hashlearn.hashers import AutoHasher, BaseHasher, find_method
from hashlearn.progress import report

_PHASE = "comparing methods"
COMPARED = ("auto", "gsdhp", "sdhp", "lsh")
DEFINITION = (
    "MAP: mean average precision over the whole ranking, rows at equal distance at their expected value.",
    "hashed: the database goes through the learned function, as new rows would.",
    "learned: the database keeps the codes that training gave it with its labels.",
    "P@10: precision of the first 10, hashed database.",
    "Queries are new rows; the database is the training rows, whose labels all but LSH and the floats have seen.",
)


@dataclass(frozen=True)
class DemoRow:
    """The results of one method. Values that a method does not have are None."""

    method: str
    bytes_per_item: int
    map_hashed: float
    map_learned: float | None
    precision_at_10: float
    fit_seconds: float | None
    codes_per_second: float | None


@dataclass(frozen=True)
class Demo:
    """The rows of the comparison and what they were measured on."""

    dataset: str
    n_train: int
    n_queries: int
    n_features: int
    n_bits: int
    rows: list[DemoRow]
    chosen: str
    """What AutoHasher chose, and why."""
    definition: tuple[str, ...] = field(default=DEFINITION)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return asdict(self)


def demo_dataset() -> Dataset:
    """Load Fashion-MNIST (10,000 rows, 1,000 queries) if Debian's package is installed, else the digits."""
    return data.fashion_mnist(10_000, 1000) if data.fashion_mnist_there() else data.digits()


def run_demo(n_bits: int = 32, seed: int = 0, dataset: Dataset | None = None) -> Demo:
    """Fit the compared methods and score them beside cosine similarity of the floats."""
    dataset = dataset or demo_dataset()
    steps, rows, chosen = len(COMPARED) + 1, [], ""
    for done, name in enumerate(COMPARED):
        report(_PHASE, done, steps)
        hasher = find_method(name)(n_bits=n_bits, random_state=seed)
        with muted():  # advice about codes of the other methods would hide the comparison
            rows.append(_hashed_row(hasher, dataset))
        if isinstance(hasher, AutoHasher):
            chosen = f"AutoHasher chose {hasher.report_.chosen}. {hasher.report_.reason}"
    report(_PHASE, len(COMPARED), steps)
    rows.append(_float_row(dataset))
    report(_PHASE, steps, steps)
    n_train, n_features = dataset.train_X.shape
    return Demo(dataset.name, n_train, len(dataset.query_X), n_features, n_bits, rows, chosen)


def _hashed_row(hasher: Any, dataset: Dataset) -> DemoRow:
    started = time.perf_counter()
    hasher.fit(dataset.train_X, dataset.train_y)
    seconds = time.perf_counter() - started
    database, rate = _timed_codes(hasher, dataset.train_X)
    queries = hasher.encode_queries(dataset.query_X)
    hashed = metrics.evaluate(queries, database, dataset.query_y, dataset.train_y, at=None, precision_at=10)
    learned = None
    if hasher.info.database == "learned":
        learned = metrics.mean_average_precision(queries, hasher.codes_, dataset.query_y, dataset.train_y, at=None)
    return DemoRow(
        hasher.info.title, codes.n_bytes(hasher.n_bits_), hashed.map, learned, hashed.precision, seconds, rate
    )


def _timed_codes(hasher: BaseHasher, X: NDArray[np.float32]) -> tuple[NDArray[np.uint8], float]:
    """Codes, and codes per second in the fastest of a few runs: one run on a small data set is too short to time."""
    best, spent, result = float("inf"), 0.0, None
    while result is None or spent < 0.2:
        started = time.perf_counter()
        result = hasher.encode(X)
        seconds = time.perf_counter() - started
        best, spent = min(best, seconds), spent + seconds
    return result, len(X) / best


def _float_row(dataset: Dataset) -> DemoRow:
    scores = metrics.evaluate_floats(
        dataset.query_X, dataset.train_X, dataset.query_y, dataset.train_y, metric="cosine", at=None, precision_at=10
    )
    width = dataset.train_X.shape[1] * dataset.train_X.itemsize
    return DemoRow("float cosine", width, scores.map, None, scores.precision, None, None)
