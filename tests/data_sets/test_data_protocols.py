"""Named splits: their sizes, that roles do not overlap, and that they are the same everywhere."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from hashlearn import data
from hashlearn.data import Pool, protocol
from hashlearn.data.protocols import PROTOCOLS, split_hash, unseen_classes

GOLDEN = {
    "holdout": "9169cc4cb96f6a7f2e474379114d70270aaa7566f3ade985f45f7a298a9d2dbd",
    "coco-full": "593302880cf0c129acd9e50d6773d62b2612cab37f80c4a8ed31b110e914695a",
    "fold0-unseen": "4285e868781ae82373d7241aebcf448895229e5b095803fa63db190e36f5d459",
    "fold0-seen": "07e5aef51d32d9c38814250ede60ac2c9cd81de3350d8709d089df64edf38f11",
    "fold2-unseen": "f4c8874c6ba509908fb236aab7ed30af74488c897c2fc7ab9c2d88c417b93177",
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


@pytest.mark.parametrize("name", ["holdout", "coco-full", "unseen"])
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


def test_unseen_classes_are_unseen(cifar):
    splits = protocol("unseen").splits(cifar, seed=1)
    assert [split.name for split in splits] == [f"fold{k}-{kind}" for k in range(3) for kind in ("unseen", "seen")]
    used = []
    for unseen, seen in zip(splits[::2], splits[1::2], strict=True):
        assert (len(unseen.train), len(unseen.query), len(unseen.database)) == (10_000, 600, 6000)
        assert (len(seen.query), len(seen.database)) == (600, 10_000)
        left_out, learned = set(cifar.y[unseen.query].tolist()), set(cifar.y[unseen.train].tolist())
        assert len(left_out) == 3
        assert len(learned) == 7
        assert not left_out & learned
        assert set(cifar.y[unseen.database].tolist()) == left_out
        assert set(cifar.y[seen.query].tolist()) == learned
        assert seen.train is unseen.train
        assert not np.intersect1d(unseen.query, unseen.database).size
        assert not np.intersect1d(seen.query, seen.train).size
        used += sorted(left_out)
    assert len(set(used)) == 9
    with pytest.raises(ValueError, match="unseen makes 6 splits"):
        protocol("unseen").split(cifar)


def test_unseen_classes_of_ones_choice(cifar):
    unseen, seen = unseen_classes(cifar, [7, 8, 9])
    assert unseen.name == "7-8-9-unseen"
    assert set(cifar.y[unseen.query].tolist()) == {7, 8, 9}
    assert seen.database_is_train
    with pytest.raises(ValueError, match="Got 10 instead"):
        unseen_classes(cifar, [1, 10])


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
    for name in ("unseen", "cifar10-1k"):
        with pytest.raises(ValueError, match="sets has label sets"):
            protocol(name).splits(sets)
    few = Pool("few", np.eye(9), np.arange(9) % 3)
    with pytest.raises(ValueError, match="at least 10 rows"):
        protocol("holdout").split(few)
    with pytest.raises(ValueError, match="at least 4 classes"):
        protocol("unseen").splits(few)
    with pytest.raises(ValueError, match="must be one of new, mixed, cifar10-1k"):
        protocol("nope")


def test_every_protocol_says_what_it_does():
    assert all(made.about.endswith(".") and len(made.about) < 130 for made in PROTOCOLS.values())


@pytest.mark.slow
def test_the_same_in_another_process(digits):
    """Nothing of the process, such as the seed of its string hashes, is in a split."""
    code = (
        "import json; from hashlearn.data import load, protocol;"
        "print(json.dumps([s.hash for s in protocol('unseen').splits(load('digits'), 5)]))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(other) == [split.hash for split in protocol("unseen").splits(digits, 5)]
