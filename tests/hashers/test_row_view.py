"""Blocks seen while the anchors are learned: each once, the same fit, and nothing left behind when learning fails."""

import pickle
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest

import hashlearn as hl
from hashlearn.files.arrays import FileError
from hashlearn.fitting import row_pass, row_view
from hashlearn.fitting.frames import pairwise
from hashlearn.fitting.grouping import GivenGroups
from hashlearn.fitting.row_view import View
from hashlearn.fitting.sources import Cut
from hashlearn.kernel import PlainFeatures

N_ROWS = 5000


def data(unlabelled=0):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, N_ROWS).astype(float)
    X = rng.normal(size=(5, 12))[y.astype(int)] + rng.standard_normal((N_ROWS, 12))
    y[:unlabelled] = np.nan
    return X.astype(np.float32), y


def hasher(**changes):
    return hl.GSDHP(**{"n_bits": 16, "n_landmarks": 40, "n_anchors": 80, "random_state": 0, **changes})


@pytest.fixture
def seen(monkeypatch):
    """First rows of the blocks and when somebody began with them, and in ``learned`` when learning was over."""
    blocks, learned, original, solve = [], [], View._see, pairwise.PairwiseHasher._best_start

    def see(view, cut, rows):
        blocks.append((rows.start, time.perf_counter()))
        return original(view, cut, rows)

    def learn_slowly(*arguments):
        time.sleep(0.2)
        learned.append(time.perf_counter())
        return solve(*arguments)

    monkeypatch.setattr(View, "_see", see)
    monkeypatch.setattr(pairwise.PairwiseHasher, "_best_start", learn_slowly)
    return SimpleNamespace(blocks=blocks, learned=learned)


@pytest.mark.parametrize("unlabelled", [0, 900])
def test_every_block_is_seen_once_the_first_ones_early_and_the_fit_is_the_same(seen, unlabelled):
    X, y = data(unlabelled)
    alone = hasher(n_jobs=1).fit(X, y)
    starts = sorted(start for start, _ in seen.blocks)
    assert len(starts) == len(set(starts)) > 5
    assert all(began > seen.learned[0] for _, began in seen.blocks)
    seen.blocks.clear()
    together = hasher(n_jobs=3).fit(X, y)
    assert sorted(start for start, _ in seen.blocks) == starts
    assert sum(began < seen.learned[1] for _, began in seen.blocks) >= 2
    np.testing.assert_array_equal(alone.codes_, together.codes_)
    np.testing.assert_array_equal(alone.function_.weights_, together.function_.weights_)


@pytest.mark.parametrize("ridge", [0.01, "auto"])
@pytest.mark.parametrize("unlabelled", [0, 900])
def test_of_few_rows_the_factor_is_made_beside_the_codes(monkeypatch, ridge, unlabelled):
    X, y = data(unlabelled)
    alone = hasher(n_jobs=1, ridge=ridge).fit(X, y)
    makers, original = [], row_view.factorised

    def factorised(*arguments):
        makers.append(threading.current_thread())
        return original(*arguments)

    monkeypatch.setattr(row_view, "factorised", factorised)
    together = hasher(n_jobs=2, ridge=ridge).fit(X, y)
    assert len(makers) == 1
    assert makers[0] is not threading.current_thread()
    np.testing.assert_array_equal(alone.function_.weights_, together.function_.weights_)
    monkeypatch.setattr(row_view, "FEW_ROWS", N_ROWS - 1)
    many = hasher(n_jobs=2, ridge=ridge).fit(X, y)
    assert len(makers) == 1
    np.testing.assert_array_equal(alone.function_.weights_, many.function_.weights_)


def test_it_does_not_matter_who_comes_last(monkeypatch):
    """Sums of the pass are added up in place, and who gathers may look at the blocks only afterwards."""
    X, y = data(unlabelled=900)
    alone = hasher(n_jobs=1).fit(X, y)
    added_up, gather, code = threading.Event(), View._gather, pairwise.PairwiseHasher._code_rows

    def late(*arguments):
        assert added_up.wait(timeout=60)
        return gather(*arguments)

    def code_rows(*arguments):
        result = code(*arguments)
        added_up.set()
        return result

    monkeypatch.setattr(View, "_gather", late)
    monkeypatch.setattr(pairwise.PairwiseHasher, "_code_rows", code_rows)
    together = hasher(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(alone.function_.weights_, together.function_.weights_)


def test_when_a_block_cannot_be_coded_nobody_goes_on_waiting(monkeypatch):
    code = row_pass._code_block

    def fail(plan, block, rows):
        if rows.start == 625:
            raise MemoryError("no room")
        return code(plan, block, rows)

    monkeypatch.setattr(row_pass, "_code_block", fail)
    before = set(threading.enumerate())
    with pytest.raises(MemoryError, match="no room"):
        hasher(n_jobs=2).fit(*data())
    assert set(threading.enumerate()) <= before


def test_rows_that_can_only_be_read_in_their_own_chunks_wait(seen):
    X, y = data()
    hasher(n_jobs=3).fit_chunks([lambda k=k: (X[k::2], y[k::2]) for k in range(2)])
    assert all(began > seen.learned[0] for _, began in seen.blocks)


@pytest.mark.parametrize("step", ["map_block", "leading_directions"])
def test_when_learning_fails_nobody_goes_on_waiting(monkeypatch, step):
    """Before the centre is known, for which the blocks wait, and after it."""
    main = threading.current_thread()

    def fail(*arguments, **options):
        if threading.current_thread() is main:
            raise KeyboardInterrupt
        return PlainFeatures.map_block(*arguments, **options)

    if step == "map_block":
        monkeypatch.setattr(hl.AnchorKernel, "map_block", fail)
    else:
        monkeypatch.setattr(pairwise, "leading_directions", fail)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        hasher(n_jobs=3).fit(*data())
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=20)
        assert not thread.is_alive()


def test_a_block_that_cannot_be_read_early_is_told(monkeypatch, tmp_path):
    X, y = data()
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    read = Cut.read

    def gone(cut, start, stop):
        if start == 0 and stop < 2048:  # the first block of the second pass
            raise FileError("x.npy: rows 0 to 624 cannot be read: it is gone.")
        return read(cut, start, stop)

    monkeypatch.setattr(Cut, "read", gone)
    with pytest.raises(FileError, match="rows 0 to 624"):
        hasher(n_jobs=2).fit_chunks(tmp_path / "x.npy", tmp_path / "y.npy")


def test_other_processes_get_the_centre_and_no_blocks():
    view = View(PlainFeatures(), GivenGroups(), 512)
    view.center.set_result(np.arange(3, dtype=np.float32))
    view.ahead[0] = view.factor = Future()
    other = pickle.loads(pickle.dumps(view))
    np.testing.assert_array_equal(other.center.result(), [0, 1, 2])
    assert (other.ahead, other.factor, other.block_rows) == ({}, None, 512)
