"""The splits ``new`` and ``mixed``: three separate draws, and classes whose labels training never saw."""

import numpy as np
import pytest

from hashlearn import data
from hashlearn.data import Pool, protocol

GOLDEN = {
    "new": "c172d5698f5df96d49a88855e46604640e55865e4d97d7faf0bba167eae7119f",
    "known": "83e46ebb91a684a474336f4a0b19cd00501937adc9152b2bff1f96945c7baf47",
    "unknown": "8f34cee141338e752cac841a4ca4497dcded3003eb4f12b9db62fbf6ea3546e3",
    "unknown-alone": "2878773c75937adf74fa5f38a64cc0104e8401dc806968b9e6ac91e8cfc7b9f9",
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


def test_a_mixed_database_has_all_classes_and_training_hides_some_labels():
    pool = pool_of(3000, 9)
    known, unknown, alone = protocol("mixed").splits(pool, seed=2)
    assert [split.name for split in (known, unknown, alone)] == ["known", "unknown", "unknown-alone"]
    hidden = set(known.hidden)
    assert len(hidden) == 3
    assert known.train is unknown.train is alone.train
    assert known.database is unknown.database
    assert set(pool.y[known.database]) == set(range(9))
    assert not set(pool.y[known.query]) & hidden
    assert set(pool.y[unknown.query]) == set(pool.y[alone.database]) == hidden
    rows = [*rows_of(known), set(unknown.query.tolist())]
    assert [len(part) for part in rows] == [1200, len(known.query), 1350, len(unknown.query)]
    assert len(set.union(*rows)) == sum(map(len, rows)) == 3000
    labels = known.dataset(pool).train_y
    np.testing.assert_array_equal(np.isnan(labels), np.isin(pool.y[known.train], known.hidden))


def test_seeds_draw_other_rows_and_classes():
    pool = pool_of(3000, 9)
    first, second = (protocol("mixed").splits(pool, seed=seed)[0] for seed in (0, 1))
    assert set(first.hidden) != set(second.hidden)


@pytest.mark.parametrize("name", ["new", "mixed"])
def test_golden_hashes_of_new_splits(name):
    made = {split.name: split.hash for split in protocol(name).splits(data.load("digits"))}
    assert made == {key: GOLDEN[key] for key in made}


def test_what_is_missing_is_said():
    label_sets = Pool("sets", np.zeros((20, 1), np.float32), np.ones((20, 3), np.uint8))
    assert len(protocol("new").split(label_sets).database)
    with pytest.raises(ValueError, match="sets has label sets: use new"):
        protocol("mixed").splits(label_sets)
    with pytest.raises(ValueError, match="at least 3 classes; made has 2"):
        protocol("mixed").splits(pool_of(100, 2))
    with pytest.raises(ValueError, match="at least 8 rows"):
        protocol("new").splits(pool_of(7, 2))
