"""Splits whose database consists of rows that training never saw, as for a user who fits once and then adds rows.

A database of the training rows flatters every supervised method, because the hash function has seen the labels of those
rows. Here training rows, database and queries are three separate draws.
"""

from __future__ import annotations

import numpy as np

from hashlearn.data.pool import Pool
from hashlearn.typing import Int64Array

MOST_TRAIN, MOST_DATABASE, MOST_QUERIES = 10_000, 10_000, 1000
LEAST_ROWS = 8

Draw = tuple[Int64Array, Int64Array, Int64Array]


def new_rows(pool: Pool, rng: np.random.Generator) -> Draw:
    """Draw training rows, queries and database from all rows.

    Half of the rows are for training (10,000 at most). Of the other half, 1,000 rows are queries, or a quarter of all
    rows if that is less, and the rest (10,000 at most) is the database.
    """
    return _three_draws(rng.permutation(len(pool)), pool, "new")


def new_rows_and_classes(pool: Pool, rng: np.random.Generator) -> tuple[Draw, Draw]:
    """Leave out a third of the classes, and draw rows of the other classes as ``new_rows`` does.

    Returns
    -------
    seen : training rows, queries and database of the classes that are trained on
    unseen : the same training rows, and queries and database of the classes that were left out

    Raises
    ------
    ValueError
        If the pool has label sets, fewer than 3 classes, or too few rows.
    """
    if pool.multilabel:
        raise ValueError(f"new-unseen leaves classes out, and {pool.name} has label sets: use new.")
    classes = rng.permutation(np.unique(pool.y))
    if len(classes) < 3:
        raise ValueError(f"new-unseen needs at least 3 classes; {pool.name} has {len(classes)}.")
    left_out = np.isin(pool.y, classes[: len(classes) // 3])
    seen_rows = rng.permutation(np.flatnonzero(~left_out))
    unseen_rows = rng.permutation(np.flatnonzero(left_out)).astype(np.int64)
    seen = _three_draws(seen_rows, pool, "new-unseen")
    count = _n_queries(unseen_rows, pool, "new-unseen")
    return seen, (seen[0], unseen_rows[:count], unseen_rows[count : count + MOST_DATABASE])


def _three_draws(order: Int64Array, pool: Pool, protocol: str) -> Draw:
    order = order.astype(np.int64)
    count = _n_queries(order, pool, protocol)
    half = len(order) // 2
    return order[: min(half, MOST_TRAIN)], order[half : half + count], order[half + count :][:MOST_DATABASE]


def _n_queries(rows: Int64Array, pool: Pool, protocol: str) -> int:
    if len(rows) < LEAST_ROWS:
        raise ValueError(f"{protocol} needs at least {LEAST_ROWS} rows to draw from; {pool.name} has {len(rows)}.")
    return min(MOST_QUERIES, len(rows) // 4)
