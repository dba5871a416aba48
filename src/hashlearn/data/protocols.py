"""Named splits of a pool into training rows, queries and database. They are the same on every machine.

A protocol takes a pool and a seed. It draws rows with NumPy's PCG64, whose streams are fixed by its documentation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from hashlearn.data.pool import TEST, TRAIN, Dataset, Pool
from hashlearn.typing import Int64Array


@dataclass(frozen=True)
class Split:
    """Row numbers of a pool. If the training rows are the database, ``database`` is the same array as ``train``.

    ``hidden`` are classes whose training rows have no label.
    """

    protocol: str
    name: str
    seed: int
    train: Int64Array
    query: Int64Array
    database: Int64Array
    hash: str
    hidden: Int64Array | None = None

    @property
    def database_is_train(self) -> bool:
        return self.database is self.train

    def dataset(self, pool: Pool) -> Dataset:
        """Return the rows of the split, as dense float32. Missing and hidden labels are NaN."""
        y = pool.y if pool.labeled.all() else np.where(pool.labeled, pool.y, np.nan)
        train_X, train_y = pool.features(self.train), y[self.train]
        if self.hidden is not None:
            train_y = np.where(np.isin(train_y, self.hidden), np.nan, train_y)
        asked = pool.features(self.query), pool.y[self.query]
        title = f"{pool.name} {self.name}"
        if self.database_is_train:
            return Dataset(title, train_X, train_y, *asked)
        return Dataset(title, train_X, train_y, *asked, pool.features(self.database), y[self.database])


class Draw(NamedTuple):
    """Rows that a protocol draws for one split; without ``database`` the training rows are it."""

    train: Int64Array
    query: Int64Array
    database: Int64Array | None = None
    name: str | None = None
    hidden: Int64Array | None = None


@dataclass(frozen=True)
class Protocol:
    """A named way to split; ``draw`` takes a pool, random numbers and the name. Some protocols make several splits."""

    name: str
    about: str
    draw: Callable[[Pool, np.random.Generator, str], list[Draw]]

    def splits(self, pool: Pool, seed: int = 0) -> list[Split]:
        """Return all splits. Only labeled rows are queries."""
        made = []
        for drawn in self.draw(pool, np.random.Generator(np.random.PCG64(seed)), self.name):
            train, query = drawn.train, drawn.query[pool.labeled[drawn.query]]
            database = train if drawn.database is None else drawn.database
            rows = split_hash(pool, train, query, database)
            made.append(Split(self.name, drawn.name or self.name, seed, train, query, database, rows, drawn.hidden))
        return made

    def split(self, pool: Pool, seed: int = 0) -> Split:
        """Return the only split of the protocol; raise a ValueError if the protocol makes several."""
        made = self.splits(pool, seed)
        if len(made) != 1:
            raise ValueError(f"{self.name} makes {len(made)} splits: take splits().")
        return made[0]


def split_hash(pool: Pool, train: Int64Array, query: Int64Array, database: Int64Array) -> str:
    """SHA-256 over the sorted row numbers of the three roles and the labels of those rows.

    Numbers are little-endian int64, labels little-endian int64 (classes) or bytes (label sets), so equal hashes on two
    machines show that both have the same rows in the same order. Features do not count.
    """
    digest = hashlib.sha256()
    for rows in (train, query, database):
        ordered = np.sort(rows).astype("<i8")
        labels = pool.y[ordered].astype("u1" if pool.multilabel else "<i8")
        digest.update(np.array([len(ordered)], dtype="<i8").tobytes() + ordered.tobytes() + labels.tobytes())
    return digest.hexdigest()


def _shuffled(pool: Pool, rng: np.random.Generator) -> Int64Array:
    return rng.permutation(len(pool)).astype(np.int64)


def _part(pool: Pool, part: int, protocol: str) -> Int64Array:
    if pool.part is None:
        raise ValueError(f"{protocol} needs an official training and test part, which {pool.name} does not have.")
    return np.flatnonzero(pool.part == part).astype(np.int64)


def _per_class(pool: Pool, rows: Int64Array, count: int, rng: np.random.Generator, protocol: str) -> Int64Array:
    """Draw ``count`` rows of every class, in random order."""
    if pool.multilabel:
        raise ValueError(f"{protocol} draws rows by class, and {pool.name} has label sets.")
    y = pool.y[rows]
    chosen = []
    for number in pool.classes:
        members = rows[y == number]
        if len(members) < count:
            raise ValueError(
                f"{protocol} needs {count} rows per class; class {number} of {pool.name} has {len(members)}."
            )
        chosen.append(members[rng.permutation(len(members))[:count]])
    return rng.permutation(np.concatenate(chosen))


def _by_class(pool: Pool, rng: np.random.Generator, name: str, n_train: int, n_query: int) -> list[Draw]:
    train = _per_class(pool, _part(pool, TRAIN, name), n_train, rng, name)
    return [Draw(train, _per_class(pool, _part(pool, TEST, name), n_query, rng, name))]


def _official(pool: Pool, rng: np.random.Generator, name: str) -> list[Draw]:
    train, query = (rng.permutation(_part(pool, part, name)) for part in (TRAIN, TEST))
    return [Draw(train, query)]


def _deep(pool: Pool, rng: np.random.Generator, name: str) -> list[Draw]:
    """Draw as is usual for deep hashing (Table 3 of the paper): the official parts are joined first."""
    every = np.arange(len(pool), dtype=np.int64)
    query = _per_class(pool, every, 100, rng, name)
    database = rng.permutation(np.setdiff1d(every, query))
    return [Draw(_per_class(pool, np.sort(database), 500, rng, name), query, database)]


def _random(
    pool: Pool, rng: np.random.Generator, name: str, n_train: int | None = None, search_all: bool = False
) -> list[Draw]:
    """Draw 1,000 queries; ``search_all`` makes all other rows the database, also those that are not for training."""
    least = 1000 + (n_train or 1)
    if len(pool) < least:
        raise ValueError(f"{name} needs {least} rows; {pool.name} has {len(pool)}.")
    order = _shuffled(pool, rng)
    query, others = order[:1000], order[1000:]
    return [Draw(others[:n_train], query, others if search_all else None)]


def _holdout(pool: Pool, rng: np.random.Generator, name: str) -> list[Draw]:
    count = min(1000, len(pool) // 10)
    if count == 0:
        raise ValueError(f"{name} needs at least 10 rows; {pool.name} has {len(pool)}.")
    order = _shuffled(pool, rng)
    return [Draw(order[count:], order[:count])]


MOST_TRAIN, MOST_DATABASE, MOST_QUERIES = 10_000, 10_000, 1000
# Queries of known and of unknown classes each.
MOST_MIXED_QUERIES = 600
LEAST_ROWS = 8


def _new(pool: Pool, rng: np.random.Generator, name: str) -> list[Draw]:
    """Draw half of the rows for training; of the others, a quarter of all rows are queries, the rest the database."""
    if len(pool) < LEAST_ROWS:
        raise ValueError(f"{name} needs at least {LEAST_ROWS} rows to draw from; {pool.name} has {len(pool)}.")
    order, count, half = _shuffled(pool, rng), min(MOST_QUERIES, len(pool) // 4), len(pool) // 2
    train, query, database = order[: min(half, MOST_TRAIN)], order[half : half + count], order[half + count :]
    return [Draw(train, query, database[:MOST_DATABASE])]


def _mixed(pool: Pool, rng: np.random.Generator, name: str) -> list[Draw]:
    """Hide the labels of a third of the classes, and draw training rows, database and queries of all classes.

    Two fifths of the rows are for training, in which the rows of the hidden classes have no labels, and 45 % are the
    database. ``known`` and ``unknown`` search the whole database with queries of the other and of the hidden classes.
    ``unknown-alone`` searches only the rows of the hidden classes, which is easier and not what users have.
    """
    if pool.multilabel:
        raise ValueError(f"{name} hides the labels of classes, and {pool.name} has label sets: use new.")
    classes = rng.permutation(pool.classes)
    if len(classes) < 3:
        raise ValueError(f"{name} needs at least 3 classes; {pool.name} has {len(classes)}.")
    hidden = np.sort(classes[: len(classes) // 3])
    train, database, queries = np.split(_shuffled(pool, rng), [int(0.4 * len(pool)), int(0.85 * len(pool))])
    train, database, queries = train[:MOST_TRAIN], database[:MOST_DATABASE], queries[pool.labeled[queries]]
    is_hidden = np.isin(pool.y[queries], hidden)
    known, unknown = queries[~is_hidden][:MOST_MIXED_QUERIES], queries[is_hidden][:MOST_MIXED_QUERIES]
    if not len(known) or not len(unknown):
        raise ValueError(f"{name} found no queries of both kinds of classes; {pool.name} has only {len(pool)} rows.")
    alone = database[np.isin(pool.y[database], hidden)]
    return [
        Draw(train, known, database, "known", hidden),
        Draw(train, unknown, database, "unknown", hidden),
        Draw(train, unknown, alone, "unknown-alone", hidden),
    ]


_PER_CLASS = "training rows and 100 queries per class, from the official parts; the training rows are the database."
_RANDOM = "1,000 queries drawn from all rows and, for training, {} other rows, which are the database."
PROTOCOLS: dict[str, Protocol] = {
    name: Protocol(name, about, draw)
    for name, about, draw in (
        ("new", "For any data: half of the rows are for training; the database and the queries are other rows.", _new),
        (
            "mixed",
            "For any classes: one database of all classes, of which a third has no labels in training.",
            _mixed,
        ),
        ("cifar10-1k", f"1,000 {_PER_CLASS}", partial(_by_class, n_train=1000, n_query=100)),
        (
            "cifar10-full",
            "All official training rows, which are the database, and all official test rows as queries.",
            _official,
        ),
        ("cifar10-fig1", f"500 {_PER_CLASS}", partial(_by_class, n_train=500, n_query=100)),
        (
            "cifar10-deep",
            "100 queries per class from all rows; the others are the database, and 500 per class of them are for "
            "training.",
            _deep,
        ),
        (
            "label-sets-deep",
            "1,000 queries from all rows; the others are the database, and 10,000 of them are for training.",
            partial(_random, n_train=10_000, search_all=True),
        ),
        ("nuswide-10k", _RANDOM.format("10,000 of the"), partial(_random, n_train=10_000)),
        ("nuswide-full", _RANDOM.format("all"), _random),
        ("coco-10k", _RANDOM.format("10,000 of the"), partial(_random, n_train=10_000)),
        ("coco-full", _RANDOM.format("all"), _random),
        (
            "holdout",
            "For any data: a tenth of the rows, 1,000 at most, are queries; all others are for training and the "
            "database.",
            _holdout,
        ),
    )
}


def protocol(name: str) -> Protocol:
    """Return the protocol with that name; ValueError if there is none.

    Examples
    --------
    >>> from hashlearn.data import load
    >>> split = protocol("holdout").split(load("digits"))
    >>> len(split.train), len(split.query), split.database_is_train
    (1618, 179, True)
    """
    if name not in PROTOCOLS:
        raise ValueError(f"The protocol must be one of {', '.join(PROTOCOLS)}. Got {name!r} instead.")
    return PROTOCOLS[name]
