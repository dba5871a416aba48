"""What goes wrong in a long fit: bad rows, bad files, dead workers, Ctrl-C and crashes."""

import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from chunk_data import Chunks, MemoryPart, assert_same, hasher, shards

import hashlearn as hl
from hashlearn.files import FileError
from hashlearn.progress import listening
from hashlearn.rows import Source, WorkersLost, as_source
from hashlearn.rows import checkpoint as job
from hashlearn.rows.reduce import FitContext

pytestmark = pytest.mark.usefixtures("small_ranges")


class LoggedPart(MemoryPart):
    """Rows that note which of them are read, and fail at one of them as long as they are told to."""

    log: list
    bad: int | None

    def __init__(self, array, first=0, shared=None):
        super().__init__(array)
        self.first, self.shared = first, shared or self

    def read(self, start, stop):
        if stop - start > 1:
            self.shared.log.append(self.first + start)
        if self.shared.bad is not None and self.first + start <= self.shared.bad < self.first + stop:
            raise FileError("a disk failed")
        return super().read(start, stop)

    def slice(self, start, stop):
        return LoggedPart(self.array[start:stop], self.first + start, self.shared)


def logged(X, y, bad=None):
    part = LoggedPart(X)
    part.log, part.bad = [], bad
    return part, Source(part, y)


def test_a_row_that_is_no_number_is_named(data, tmp_path):
    X = data[0].copy()
    X[4321, 2] = np.inf
    with pytest.raises(FileError, match=r"row 4321 .* holds NaN or infinity"):
        hasher().fit_chunks(Chunks(X, data[1], 1000))
    names = shards(tmp_path, X, data[1], [1000, 4000], [1])
    with pytest.raises(FileError, match=r"row 4321 \(row 321 of .*x-002\.npy\) holds NaN or infinity"):
        hasher().fit_chunks(*names)


def test_a_file_that_goes_away_is_named_with_its_rows(data, tmp_path):
    source = as_source(*shards(tmp_path, *data, [1000, 4096], [1]))
    (tmp_path / "x-001.npy").unlink()
    with pytest.raises(FileError, match=r"x-001\.npy: rows 0 to 1047 cannot be read"):
        hasher(n_jobs=1).fit_chunks(source)


def test_labels_that_change_between_passes(data):
    passes = []

    def chunks():
        passes.append(1)
        yield data[0], data[1] + 100 * (len(passes) > 2)

    with pytest.raises(ValueError, match="changed between"):
        hasher().fit_chunks(chunks)


def test_chunks_that_disagree(data):
    X, y = data
    with pytest.raises(ValueError, match="of one kind"):
        hasher().fit_chunks([(X[:5000], y[:5000]), (X[5000:], y[5000:].astype(str))])
    with pytest.raises(FileError, match="Chunk 1 comes without labels"):
        hasher().fit_chunks(lambda: iter([(X[:5000], y[:5000]), X[5000:]]))
    with pytest.raises(ValueError, match="No row has a label"):
        hasher().fit_chunks(X, np.full(len(X), np.nan))


def leave(shared, task):
    os._exit(1)


def test_a_broken_pool_is_one_sentence():
    with ProcessPoolExecutor(1) as pool, pytest.raises(WorkersLost, match="checkpoint="):
        list(FitContext(pool).run(leave, None, [1, 2]))


def test_a_checkpoint_keeps_the_codes_that_the_calibration_needs(data, in_memory, tmp_path):
    part, source = logged(*data)

    def fail_late(phase, done, total):
        if phase == "learn anchors":
            part.bad = 5000

    with listening(fail_late), pytest.raises(FileError, match="a disk failed"):
        hasher(n_jobs=1).fit_chunks(source, checkpoint=tmp_path / "point", codes=False)
    fitted = hasher().fit_chunks(logged(*data)[1], checkpoint=tmp_path / "point", codes=False)
    np.testing.assert_array_equal(fitted.calibration_.slopes_, in_memory.calibration_.slopes_)


@pytest.mark.parametrize("bad", [5000, 2500])
def test_a_checkpoint_goes_on_where_it_stopped(data, in_memory, tmp_path, bad):
    """The fit fails in its second pass; the next one reads neither the first pass's rows nor those coded already."""
    folder = tmp_path / "point"
    part, source = logged(*data)
    seen = []

    def fail_in_second_pass(phase, done, total):
        seen.append(phase)
        if phase == "learn anchors":
            part.bad = bad

    with listening(fail_in_second_pass), pytest.raises(FileError, match="a disk failed"):
        hasher(n_jobs=1).fit_chunks(source, checkpoint=folder)
    assert (folder / "code-rows.npz").exists()
    part, source = logged(*data)
    fitted = hasher(n_jobs=2).fit_chunks(source, checkpoint=folder)
    assert min(part.log) > bad - 1200
    assert_same(in_memory, fitted)
    assert not folder.exists()


def test_a_first_pass_that_crashed_goes_on(data, tmp_path, monkeypatch):
    """As after a kill: what counts is what was saved before, here after every task."""
    monkeypatch.setattr(job, "SAVE_SECONDS", 0.0)
    X, y = data
    names = np.array([f"class {k}" for k in y])
    part, source = logged(X, names, bad=6500)
    with pytest.raises(FileError, match="a disk failed"):
        hasher(n_jobs=1).fit_chunks(source, checkpoint=tmp_path / "point")
    part, source = logged(X, names)
    log = part.log
    fitted = hasher(n_jobs=1).fit_chunks(source, checkpoint=tmp_path / "point", codes=tmp_path / "codes.npy")
    assert log[0] == 6144
    assert_same(hasher().fit(X, names), fitted)


def test_ctrl_c_stops_and_keeps_what_is_done(data, in_memory, tmp_path):
    def interrupt(phase, done, total):
        if phase == "code rows" and done >= 3000:
            raise KeyboardInterrupt

    with listening(interrupt), pytest.raises(KeyboardInterrupt):
        hasher().fit_chunks(Chunks(*data, 700), checkpoint=tmp_path / "point", codes=tmp_path / "codes.npy")
    assert [file.name for file in tmp_path.iterdir()] == ["point"]
    fitted = hasher().fit_chunks(Chunks(*data, 900), checkpoint=tmp_path / "point", codes=tmp_path / "codes.npy")
    assert_same(in_memory, fitted)


def test_a_fit_without_a_seed_keeps_the_one_it_drew(data, tmp_path):
    part, source = logged(*data, bad=6500)
    for _ in range(2):
        with pytest.raises(FileError, match="a disk failed"):
            hasher(random_state=None).fit_chunks(source, checkpoint=tmp_path / "point")
    part.bad = None
    fitted = hasher(random_state=None).fit_chunks(source, checkpoint=tmp_path / "point")
    assert hl.metrics.mean_average_precision(fitted.encode(data[0]), fitted.codes_, data[1], data[1], at=100) > 0.9


def test_a_checkpoint_of_another_fit_is_refused(data, tmp_path):
    _, source = logged(*data, bad=5000)
    with pytest.raises(FileError, match="a disk failed"):
        hasher().fit_chunks(source, checkpoint=tmp_path / "point")
    with pytest.raises(FileError, match="another run"):
        hasher(solver=hl.Greedy(beta=3.0)).fit_chunks(source, checkpoint=tmp_path / "point")
    with pytest.raises(FileError, match=r"another run \(data differ\)"):
        hasher().fit_chunks(data[0][:5000], data[1][:5000], checkpoint=tmp_path / "point")
    (tmp_path / "point" / "checkpoint.json").write_text("{")
    with pytest.raises(FileError, match="damaged"):
        hasher().fit_chunks(source, checkpoint=tmp_path / "point")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(FileError, match="not empty"):
        hasher().fit_chunks(source, checkpoint=tmp_path / "mine")
