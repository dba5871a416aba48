"""The splits ``new`` and ``new-unseen``: three separate draws, and classes that training never saw."""

import numpy as np
import pytest

from hashlearn import data
from hashlearn.data import Pool, protocol

GOLDEN = {
    "new": "c172d5698f5df96d49a88855e46604640e55865e4d97d7faf0bba167eae7119f",
    "seen": "0d43d89977928df57b5e0c8ea7d51075349fd2fe86fbe425956ad0d015ca414b",
    "unseen": "f6c50ae91d9b731729cc66dfa577a24a0521d9ec9db015769eb39b5cc5651fc2",
}


def pool_of(n_rows, n_classes):
    y = np.arange(n_rows) % n_classes
    return Pool("made", np.zeros((n_rows, 1), np.float32), y)


def rows_of(split):
    return [set(rows.tolist()) for rows in (split.train, split.query, split.database)]


def test_no_row_has_two_roles_and_all_rows_have_one():
    train, query, database = rows_of(protocol("new").split(pool_of(1001, 7)))
    assert (len(train), len(query), len(database)) == (500, 250, 251)
    assert len(train | query | database) == 1001


def test_large_pools_are_cut():
    split = protocol("new").split(pool_of(60_000, 10), seed=1)
    assert [len(rows) for rows in rows_of(split)] == [10_000, 1000, 10_000]
    assert len(set.union(*rows_of(split))) == 21_000


def test_unseen_classes_are_in_no_training_row():
    pool = pool_of(3000, 9)
    seen, unseen = protocol("new-unseen").splits(pool, seed=2)
    assert (seen.name, unseen.name) == ("seen", "unseen")
    np.testing.assert_array_equal(seen.train, unseen.train)
    trained, left_out = set(pool.y[seen.train]), set(pool.y[unseen.query]) | set(pool.y[unseen.database])
    assert len(left_out) == 3
    assert not trained & left_out
    assert set(pool.y[seen.query]) | set(pool.y[seen.database]) <= trained
    assert len(set.union(*rows_of(seen), *rows_of(unseen))) == 3000


def test_seeds_draw_other_rows_and_classes():
    pool = pool_of(3000, 9)
    first, second = (protocol("new-unseen").splits(pool, seed=seed)[1] for seed in (0, 1))
    assert set(pool.y[first.query]) != set(pool.y[second.query])


@pytest.mark.parametrize("name", ["new", "new-unseen"])
def test_golden_hashes_of_new_splits(name):
    made = {split.name: split.hash for split in protocol(name).splits(data.load("digits"))}
    assert made == {key: GOLDEN[key] for key in made}


def test_what_is_missing_is_said():
    label_sets = Pool("sets", np.zeros((20, 1), np.float32), np.ones((20, 3), np.uint8))
    assert len(protocol("new").split(label_sets).database)
    with pytest.raises(ValueError, match="sets has label sets: use new"):
        protocol("new-unseen").splits(label_sets)
    with pytest.raises(ValueError, match="at least 3 classes; made has 2"):
        protocol("new-unseen").splits(pool_of(100, 2))
    with pytest.raises(ValueError, match="at least 8 rows"):
        protocol("new").splits(pool_of(7, 2))
