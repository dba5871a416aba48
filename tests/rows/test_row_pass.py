"""The pass that codes rows: every block once, the same on any number of threads, no thread left when it fails."""

import threading

import numpy as np
import pytest
from chunk_data import assert_same, hasher, rows_and_classes

from hashlearn.files.arrays import FileError
from hashlearn.pairwise import row_pass
from hashlearn.rows.source import RowRange

N_ROWS = 5000


def data(n_unlabeled=0):
    X, y = rows_and_classes(N_ROWS)
    return X, np.where(np.arange(N_ROWS) < n_unlabeled, np.nan, y)


@pytest.mark.parametrize("ridge", [0.01, "auto"])
@pytest.mark.parametrize("n_unlabeled", [0, 900])
def test_every_block_is_coded_once_and_threads_change_nothing(monkeypatch, ridge, n_unlabeled):
    starts, code_block = [], row_pass.code_block

    def counted(plan, block, packed):
        starts.append(block.rows.start)
        return code_block(plan, block, packed)

    monkeypatch.setattr(row_pass, "code_block", counted)
    fits = []
    for n_jobs in (1, 3):
        starts.clear()
        fits.append(hasher(n_jobs=n_jobs, ridge=ridge).fit(*data(n_unlabeled)))
        assert sorted(starts) == list(range(0, N_ROWS, 625))
    assert_same(*fits)


def test_when_a_block_fails_no_thread_is_left(monkeypatch):
    code_block = row_pass.code_block

    def fail(plan, block, packed):
        if block.rows.start == 625:
            raise MemoryError("no room")
        return code_block(plan, block, packed)

    monkeypatch.setattr(row_pass, "code_block", fail)
    before = set(threading.enumerate())
    with pytest.raises(MemoryError, match="no room"):
        hasher(n_jobs=2).fit(*data())
    assert set(threading.enumerate()) <= before


def test_a_block_that_cannot_be_read_in_the_second_pass_is_named(monkeypatch, tmp_path):
    X, y = data()
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    read = RowRange.read

    def gone(rows, start, stop):
        if start == 0 and stop < 2048:  # blocks of the first pass have 2048 rows
            raise FileError("x.npy: rows 0 to 624 cannot be read: it is gone.")
        return read(rows, start, stop)

    monkeypatch.setattr(RowRange, "read", gone)
    with pytest.raises(FileError, match="rows 0 to 624"):
        hasher(n_jobs=2).fit_chunks(tmp_path / "x.npy", tmp_path / "y.npy")
