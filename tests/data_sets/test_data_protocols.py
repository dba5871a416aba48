"""Named splits: their sizes, that roles do not overlap, and that they are the same everywhere."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from hashlearn import data
from hashlearn.data import Pool, protocol
from hashlearn.data.plain import labeled_pool
from hashlearn.data.protocols import PROTOCOLS, split_hash

GOLDEN = {
    "holdout": "9169cc4cb96f6a7f2e474379114d70270aaa7566f3ade985f45f7a298a9d2dbd",
    "coco-full": "593302880cf0c129acd9e50d6773d62b2612cab37f80c4a8ed31b110e914695a",
}


@pytest.fixture(scope="module")
def digits():
    return data.load("digits")


@pytest.fixture(scope="module")
def cifar():
    """The labels of CIFAR-10, sorted by class within the official parts as in a folder of images."""
    y = np.concatenate([np.repeat(np.arange(10), 5000), np.repeat(np.arange(10), 1000)])
    part = np.repeat(np.array([0, 1], dtype=np.uint8), [50_000, 10_000])
    return Pool("CIFAR-10", np.arange(60_000, dtype=np.float32)[:, None], y, part=part)


@pytest.mark.parametrize("name", ["holdout", "coco-full"])
def test_golden_hashes_on_digits(digits, name):
    made = {split.name: split.hash for split in protocol(name).splits(digits)}
    assert {key: GOLDEN[key] for key in made if key in GOLDEN} == {key: made[key] for key in made if key in GOLDEN}
    assert set(made) & set(GOLDEN)


@pytest.mark.parametrize(
    ("name", "train", "query", "database"),
    [
        ("cifar10-1k", 10_000, 1000, 10_000),
        ("cifar10-full", 50_000, 10_000, 50_000),
        ("cifar10-fig1", 5000, 1000, 5000),
        ("cifar10-deep", 5000, 1000, 59_000),
        ("nuswide-10k", 10_000, 1000, 10_000),
        ("nuswide-full", 59_000, 1000, 59_000),
        ("coco-10k", 10_000, 1000, 10_000),
        ("coco-full", 59_000, 1000, 59_000),
    ],
)
def test_sizes_and_roles(cifar, name, train, query, database):
    split = protocol(name).split(cifar, seed=3)
    assert (len(split.train), len(split.query), len(split.database)) == (train, query, database)
    for rows in (split.train, split.query, split.database):
        assert len(np.unique(rows)) == len(rows)
    assert not np.intersect1d(split.query, split.database).size
    assert np.isin(split.train, split.database).all()
    assert split.database_is_train == (train == database)
    # Rows come shuffled: stable ties would otherwise favour the first classes.
    assert np.any(np.diff(cifar.y[split.database]) < 0)
    if name.startswith("cifar10"):
        assert set(np.bincount(cifar.y[split.train])) == {train // 10}
        assert set(np.bincount(cifar.y[split.query])) == {query // 10}
    if name in ("cifar10-1k", "cifar10-full", "cifar10-fig1"):
        assert (cifar.part[split.train] == 0).all()
        assert (cifar.part[split.query] == 1).all()
    assert split.hash == protocol(name).split(cifar, seed=3).hash
    if name != "cifar10-full":
        assert split.hash != protocol(name).split(cifar, seed=4).hash


def test_the_hash_is_what_its_docstring_says():
    pool = Pool("p", np.eye(4), np.array([5, 6, 7, 8]))
    expected = hashlib.sha256()
    for rows in ([0, 2], [1], [3]):
        values = [len(rows), *rows, *pool.y[rows].tolist()]
        expected.update(b"".join(int(value).to_bytes(8, "little") for value in values))
    rows = [np.array(values, dtype=np.int64) for values in ([2, 0], [1], [3])]
    assert split_hash(pool, *rows) == expected.hexdigest()
    other = Pool("p", np.eye(4), np.array([5, 6, 7, 9]))
    assert split_hash(other, *rows) != expected.hexdigest()


def test_the_rows_of_a_split(digits, cifar):
    split = protocol("holdout").split(digits)
    dataset = split.dataset(digits)
    np.testing.assert_array_equal(dataset.query_X, digits.X[split.query])
    assert dataset.database_is_train
    deep = protocol("cifar10-deep").split(cifar).dataset(cifar)
    assert deep.database_X.shape == (59_000, 1)
    assert not deep.database_is_train


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cifar10-1k", "needs an official training and test part, which digits does not have"),
        ("cifar10-deep", "needs 500 rows per class; class 0 of digits has 78"),
        ("nuswide-10k", "needs 11000 rows; digits has 1797"),
    ],
)
def test_what_does_not_fit_is_one_sentence(digits, name, says):
    with pytest.raises(ValueError, match=says):
        protocol(name).split(digits)


def test_label_sets_and_tiny_data():
    sets = Pool("sets", np.eye(20), np.eye(20, dtype=np.uint8), part=np.zeros(20, dtype=np.uint8))
    assert len(protocol("holdout").split(sets).query) == 2
    for name in ("mixed", "cifar10-1k"):
        with pytest.raises(ValueError, match="sets has label sets"):
            protocol(name).splits(sets)
    few = Pool("few", np.eye(9), np.arange(9) % 3)
    with pytest.raises(ValueError, match="at least 10 rows"):
        protocol("holdout").split(few)
    with pytest.raises(ValueError, match="at least 3 classes; two has 2"):
        protocol("mixed").splits(Pool("two", np.eye(9), np.arange(9) % 2))
    with pytest.raises(ValueError, match="must be one of new, mixed, cifar10-1k"):
        protocol("nope")


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", " ", "b", "", "a"]),
        np.array(["a", None, "b", None, "a"], dtype=object),
        np.array([1.0, np.nan, 2.0, np.nan, 1.0]),
        np.array([1, -1, 2, -1, 1]),
    ],
    ids=["blank", "none", "nan", "-1"],
)
def test_rows_without_a_label_are_known(labels):
    assert labeled_pool("few", np.eye(5), labels).y.tolist() == [0, -1, 1, -1, 0]


def test_one_of_two_classes_may_be_minus_one():
    assert labeled_pool("few", np.eye(4), np.array([-1, 1, 1, -1])).y.tolist() == [0, 1, 1, 0]
    tags = np.fromiter((["a"], ["b", "a"]), dtype=object, count=2)
    assert labeled_pool("tags", np.eye(2), tags).y.tolist() == [[1, 0], [1, 1]]
    with pytest.raises(ValueError, match="few has no label in any row"):
        labeled_pool("few", np.eye(2), np.array([np.nan, np.nan]))


def test_rows_without_a_label_are_trained_on_and_stored_but_not_searched_for(digits):
    pool = Pool("some", digits.X, np.where(np.arange(len(digits)) % 3 == 0, -1, digits.y))
    for name in ("new", "mixed", "holdout"):
        for split in protocol(name).splits(pool):
            rows = split.dataset(pool)
            assert (rows.query_y >= 0).all()
            assert np.isnan(rows.train_y).mean() > 0.3
            if split.name != "unknown-alone":
                assert np.isnan(rows.database_y).mean() > 0.3


def test_every_protocol_says_what_it_does():
    assert all(made.about.endswith(".") and len(made.about) < 130 for made in PROTOCOLS.values())


@pytest.mark.slow
def test_the_same_in_another_process(digits):
    """Nothing of the process, such as the seed of its string hashes, is in a split."""
    code = (
        "import json; from hashlearn.data import load, protocol;"
        "print(json.dumps([s.hash for s in protocol('mixed').splits(load('digits'), 5)]))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(other) == [split.hash for split in protocol("mixed").splits(digits, 5)]
