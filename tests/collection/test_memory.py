"""``Collection.create(":memory:")``: a collection for trying out, which leaves nothing behind."""

import gc
import os
import pickle
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from hashlearn import ITQ, Collection
from hashlearn.collection import CollectionError
from hashlearn.collection.stores.embedded import folder as files

CODES = np.arange(6, dtype=np.uint8).reshape(3, 2)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_works_and_is_gone_when_closed(place):
    X = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    with Collection.create(":memory:", ITQ(n_bits=8, random_state=0).fit(X), store_vectors=True) as shop:
        shop.add(X, payload={"n": list(range(50))})
        assert shop.search(X[7], k=1, where={"n": {"<": 20}}, rescore=True)[0].id == 7
        assert shop.uri == shop.info()["uri"] == ":memory:"
        assert len(list(place.iterdir())) == 1
    assert not list(place.iterdir())
    shop.close()
    with pytest.raises(CollectionError, match="is closed"):
        len(shop)


def test_two_calls_make_two_collections_for_their_user_alone(place):
    with Collection.create(":memory:", n_bits=16) as one, Collection.create(":memory:", n_bits=16) as other:
        one.add(codes=CODES)
        assert (len(one), len(other)) == (3, 0)
        assert [path.stat().st_mode & 0o077 for path in place.iterdir()] == [0, 0]


def test_it_is_gone_when_nobody_uses_it(place):
    shop = Collection.create(":memory:", n_bits=16)
    shop.add(codes=CODES, payload=[{"n": 1}] * 3)
    hits = shop.search(codes=CODES[:1], k=1)
    del shop
    gc.collect()
    assert hits[0][0].payload == {"n": 1}  # hits read payloads when they are asked for, so they keep the collection
    del hits
    gc.collect()
    assert not list(place.iterdir())


START = """if True:
    import os, sys
    import numpy as np
    import hashlearn as hl
    shop = hl.Collection.create(":memory:", n_bits=8)
    shop.add(codes=np.ones((1, 1), dtype=np.uint8))
"""


def run_python(script, place):
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", START + script]
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(place)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_it_is_gone_when_python_ends(tmp_path):
    assert run_python("    print(len(os.listdir(os.environ['TMPDIR'])))", tmp_path) == ["1"]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_that_ends_leaves_it_alone(tmp_path):
    script = """
    if not os.fork():
        try:
            len(shop)
        except hl.collection.CollectionError as error:
            print(error, flush=True)
        sys.exit()
    os.wait()
    print(len(shop))
"""
    said, rows = run_python(script, tmp_path)
    assert "this is its fork" in said
    assert said.endswith("create it in a folder instead of in memory.")
    assert rows == "1"
    assert not list(tmp_path.iterdir())


def test_a_creation_that_fails_leaves_nothing(place, monkeypatch):
    with pytest.raises(ValueError, match="kind"):
        Collection.create(":memory:", n_bits=8, kind="other")

    def full(folder, spec):
        raise CollectionError("The disk is full.")

    monkeypatch.setattr(files, "create", full)
    with pytest.raises(CollectionError, match="disk is full"):
        Collection.create(":memory:", n_bits=8)
    assert not list(place.iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(place / "none"))
    with pytest.raises(CollectionError, match="Cannot make a temporary folder: No such file or directory"):
        Collection.create(":memory:", n_bits=8)


def test_a_trial_can_be_kept(place, tmp_path_factory):
    kept = tmp_path_factory.mktemp("kept")
    with Collection.create(":memory:", n_bits=16, indexed=["n"]) as shop:
        shop.add(codes=CODES, payload=[{"n": n} for n in range(3)])
        shop.backup(kept / "trial.backup")
        assert shop.export(kept / "codes.npy") == 3
        assert not shop.verify().problems
    with Collection.restore(kept / "trial.backup", kept / "shop") as shop:
        assert [item.payload for item in shop] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert not list(place.iterdir())


def test_what_cannot_be_done_is_said_in_one_sentence(place, tmp_path_factory):
    with pytest.raises(CollectionError, match=r"only in the object that Collection[.]create returned: use it"):
        Collection.open(":memory:")
    with pytest.raises(CollectionError, match="is removed when it is closed"):
        Collection.drop(":memory:")
    with pytest.raises(ValueError, match="exist_ok=True has no meaning: leave it out"):
        Collection.create(":memory:", n_bits=8, exist_ok=True)
    with Collection.create(":memory:", n_bits=16) as shop:
        backup = tmp_path_factory.mktemp("kept") / "backup"
        shop.backup(backup)
        with pytest.raises(CollectionError, match="cannot be restored to :memory:: give a folder"):
            Collection.restore(backup, ":memory:")
        with pytest.raises(TypeError, match="create it in a folder instead of in memory"):
            pickle.dumps(shop)
    assert not list(place.iterdir())


def test_a_closed_one_is_called_by_its_name(place):
    shop = Collection.create(":memory:", n_bits=16)
    shop.close()
    with pytest.raises(CollectionError, match=r"^The collection :memory: is closed\.$"):
        len(shop)
