"""Named splits of a pool into training rows, queries and database. They are the same on every machine.

A protocol takes a pool and a seed. It draws rows with NumPy's PCG64, whose streams are fixed by its documentation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Protocol:
    """A named way to split. Protocols with folds make several splits; ``about`` is the first line of the docstring."""

    name: str
    make: Callable[[Pool, int], list[Split]]

    @property
    def about(self) -> str:
        return (self.make.__doc__ or "").strip().split("\n")[0]

    def splits(self, pool: Pool, seed: int = 0) -> list[Split]:
        return self.make(pool, seed)

    def split(self, pool: Pool, seed: int = 0) -> Split:
        """Return the only split of the protocol; raise a ValueError if the protocol makes several."""
        made = self.make(pool, seed)
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


def _split(
    protocol: str, name: str, seed: int, pool: Pool, train: Int64Array, query: Int64Array, database: Int64Array | None
) -> Split:
    database, query = train if database is None else database, query[pool.labeled[query]]
    return Split(protocol, name, seed, train, query, database, split_hash(pool, train, query, database))


def _rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


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


def _by_class(protocol: str, n_train: int, n_query: int) -> Callable[[Pool, int], list[Split]]:
    def make(pool: Pool, seed: int) -> list[Split]:
        rng = _rng(seed)
        train = _per_class(pool, _part(pool, TRAIN, protocol), n_train, rng, protocol)
        query = _per_class(pool, _part(pool, TEST, protocol), n_query, rng, protocol)
        return [_split(protocol, protocol, seed, pool, train, query, None)]

    make.__doc__ = (
        f"{n_train:,} training rows and {n_query:,} queries per class, from the official parts; the training rows "
        "are the database."
    )
    return make


def _full(pool: Pool, seed: int) -> list[Split]:
    """All official training rows, which are the database, and all official test rows as queries."""
    rng = _rng(seed)
    train, query = (rng.permutation(_part(pool, part, "cifar10-full")) for part in (TRAIN, TEST))
    return [_split("cifar10-full", "cifar10-full", seed, pool, train, query, None)]


def _deep(pool: Pool, seed: int) -> list[Split]:
    """100 queries per class from all rows; the others are the database, and 500 per class of them are for training.

    This is the usual protocol of deep hashing (Table 3 of the paper); it joins the official parts first.
    """
    rng = _rng(seed)
    every = np.arange(len(pool), dtype=np.int64)
    query = _per_class(pool, every, 100, rng, "cifar10-deep")
    database = rng.permutation(np.setdiff1d(every, query))
    train = _per_class(pool, np.sort(database), 500, rng, "cifar10-deep")
    return [_split("cifar10-deep", "cifar10-deep", seed, pool, train, query, database)]


def _deep_label_sets(pool: Pool, seed: int) -> list[Split]:
    """1,000 queries from all rows; the others are the database, and 10,000 of them are for training."""
    if len(pool) < 11_000:
        raise ValueError(f"label-sets-deep needs 11000 rows; {pool.name} has {len(pool)}.")
    order = _rng(seed).permutation(len(pool)).astype(np.int64)
    return [_split("label-sets-deep", "label-sets-deep", seed, pool, order[1000:11_000], order[:1000], order[1000:])]


def _random(protocol: str, n_train: int | None, n_query: int) -> Callable[[Pool, int], list[Split]]:
    def make(pool: Pool, seed: int) -> list[Split]:
        if len(pool) < (n_train or 1) + n_query:
            raise ValueError(f"{protocol} needs {(n_train or 1) + n_query} rows; {pool.name} has {len(pool)}.")
        order = _rng(seed).permutation(len(pool)).astype(np.int64)
        train = order[n_query:] if n_train is None else order[n_query : n_query + n_train]
        return [_split(protocol, protocol, seed, pool, train, order[:n_query], None)]

    amount = "all other rows" if n_train is None else f"{n_train:,} of the other rows"
    make.__doc__ = f"{n_query:,} queries drawn from all rows and, for training, {amount}, which are the database."
    return make


def _holdout(pool: Pool, seed: int) -> list[Split]:
    """For any data: a tenth of the rows, 1,000 at most, are queries; all others are for training and the database."""
    order = _rng(seed).permutation(len(pool)).astype(np.int64)
    count = min(1000, len(pool) // 10)
    if count == 0:
        raise ValueError(f"holdout needs at least 10 rows; {pool.name} has {len(pool)}.")
    return [_split("holdout", "holdout", seed, pool, order[count:], order[:count], None)]


def _new(pool: Pool, seed: int) -> list[Split]:
    """For any data: half of the rows are for training; the database and the queries are other rows."""
    return [_split("new", "new", seed, pool, *new_rows(pool, _rng(seed)))]


def _mixed(pool: Pool, seed: int) -> list[Split]:
    """For any classes: one database of all classes, of which a third has no labels in training.

    The rows of the hidden classes are there, in training without their labels. ``known`` and ``unknown`` search the
    whole database with queries of the other and of the hidden classes. ``unknown-alone`` searches only the rows of
    the hidden classes, which is easier and not what users have. All three have the same training rows.
    """
    drawn = mixed_rows(pool, _rng(seed))
    alone = drawn.database[np.isin(pool.y[drawn.database], drawn.hidden)]
    searches = {
        "known": (drawn.known, drawn.database),
        "unknown": (drawn.unknown, drawn.database),
        "unknown-alone": (drawn.unknown, alone),
    }
    return [
        replace(_split("mixed", name, seed, pool, drawn.train, *rows), hidden=drawn.hidden)
        for name, rows in searches.items()
    ]


PROTOCOLS: dict[str, Protocol] = {
    name: Protocol(name, make)
    for name, make in {
        "new": _new,
        "mixed": _mixed,
        "cifar10-1k": _by_class("cifar10-1k", 1000, 100),
        "cifar10-full": _full,
        "cifar10-fig1": _by_class("cifar10-fig1", 500, 100),
        "cifar10-deep": _deep,
        "label-sets-deep": _deep_label_sets,
        "nuswide-10k": _random("nuswide-10k", 10_000, 1000),
        "nuswide-full": _random("nuswide-full", None, 1000),
        "coco-10k": _random("coco-10k", 10_000, 1000),
        "coco-full": _random("coco-full", None, 1000),
        "holdout": _holdout,
    }.items()
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


MOST_TRAIN, MOST_DATABASE, MOST_QUERIES = 10_000, 10_000, 1000
# Queries of known and of unknown classes each.
MOST_MIXED_QUERIES = 600
LEAST_ROWS = 8

Draw = tuple[Int64Array, Int64Array, Int64Array]


def new_rows(pool: Pool, rng: np.random.Generator) -> Draw:
    """Draw training rows, queries and database from all rows.

    Half of the rows are for training (10,000 at most). Of the other half, 1,000 rows are queries, or a quarter of all
    rows if that is less, and the rest (10,000 at most) is the database.
    """
    return _three_draws(rng.permutation(len(pool)).astype(np.int64), pool)


class MixedDraw(NamedTuple):
    """Rows of a mixed database: training rows of all classes, of which the ``hidden`` classes have no labels.

    ``known`` and ``unknown`` are the queries of the other classes and of the hidden ones.
    """

    train: Int64Array
    known: Int64Array
    unknown: Int64Array
    database: Int64Array
    hidden: Int64Array


def mixed_rows(pool: Pool, rng: np.random.Generator) -> MixedDraw:
    """Hide the labels of a third of the classes, and draw training rows, database and queries of all classes.

    Two fifths of the rows are for training (10,000 at most) and 45 % are the database (10,000 at most). The rest are
    queries, at most 600 of each kind.

    Raises
    ------
    ValueError
        If the pool has label sets, fewer than 3 classes, or too few rows.
    """
    if pool.multilabel:
        raise ValueError(f"mixed hides the labels of classes, and {pool.name} has label sets: use new.")
    classes = rng.permutation(pool.classes)
    if len(classes) < 3:
        raise ValueError(f"mixed needs at least 3 classes; {pool.name} has {len(classes)}.")
    hidden = np.sort(classes[: len(classes) // 3])
    order = rng.permutation(len(pool)).astype(np.int64)
    train, database, queries = np.split(order, [int(0.4 * len(order)), int(0.85 * len(order))])
    queries = queries[pool.labeled[queries]]
    is_hidden = np.isin(pool.y[queries], hidden)
    known, unknown = queries[~is_hidden][:MOST_MIXED_QUERIES], queries[is_hidden][:MOST_MIXED_QUERIES]
    if not len(known) or not len(unknown):
        raise ValueError(f"mixed found no queries of both kinds of classes; {pool.name} has only {len(pool)} rows.")
    return MixedDraw(train[:MOST_TRAIN], known, unknown, database[:MOST_DATABASE], hidden)


def _three_draws(order: Int64Array, pool: Pool) -> Draw:
    if len(order) < LEAST_ROWS:
        raise ValueError(f"new needs at least {LEAST_ROWS} rows to draw from; {pool.name} has {len(order)}.")
    count, half = min(MOST_QUERIES, len(order) // 4), len(order) // 2
    return order[: min(half, MOST_TRAIN)], order[half : half + count], order[half + count :][:MOST_DATABASE]
