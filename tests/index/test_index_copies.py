"""An index is pickled and copied with its rows and its structure, and the copy is independent."""

import copy
import pickle

import numpy as np
import pytest

from hashlearn import Index


@pytest.fixture(scope="module")
def codes():
    return np.random.default_rng(0).integers(0, 256, (500, 4), dtype=np.uint8)


@pytest.mark.parametrize("kind", ["flat", "ivf"])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))])
def test_a_copy_finds_the_same_and_lives_alone(codes, kind, again):
    index = Index(32, kind, "little")
    index.add(codes, ids=np.arange(500) * 3)
    hits = index.search(codes[:20], 5)
    other = again(index)
    assert (other.info().kind, other.bit_order, len(other)) == (kind, "little", 500)
    np.testing.assert_array_equal(other.search(codes[:20], 5).ids, hits.ids)
    other.add(codes[:1])
    assert (other.rows()[0][-1], len(index)) == (1498, 500)


def test_lists_are_not_learned_again(codes, monkeypatch):
    index = Index(32, "ivf")
    index.add(codes)
    index.search(codes[:1], 5)
    stored = pickle.dumps(index)
    monkeypatch.setattr("hashlearn.index.groups.Lists.learn", lambda *_: pytest.fail("learned again"))
    assert pickle.loads(stored).search(codes[:1], 1).ids.tolist() == [[0]]


def test_the_copy_of_a_mapped_index_needs_no_file(codes, tmp_path):
    index = Index(32)
    index.add(codes)
    index.save(tmp_path / "index")
    other = pickle.loads(pickle.dumps(Index.load(tmp_path / "index")))
    (tmp_path / "index").unlink()
    np.testing.assert_array_equal(other.rows()[1], codes)
    assert not isinstance(other.rows()[1], np.memmap)
