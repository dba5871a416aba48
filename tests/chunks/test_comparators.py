"""The comparators that learn from chunks: the answer of rows in memory."""

import numpy as np
import pytest
from chunk_data import Chunks, assert_same, label_sets, rows_and_classes

import hashlearn as hl
from hashlearn.chunks import survey
from hashlearn.hashers import summed
from hashlearn.hashers.sums import block_rows, task_rows

METHODS = {
    "lsh": hl.LSH(20, random_state=0),
    "pca-rr": hl.PCARR(12, random_state=0),
    "itq": hl.ITQ(12, random_state=0),
    "cca-itq": hl.CCAITQ(20, random_state=0),
    "cca-itq rbf": hl.CCAITQ(20, kernel="rbf", n_landmarks=50, random_state=0),
    "fsdh": hl.hashers.FSDH(20, n_landmarks=50, random_state=0),
    "sdh": hl.SDH(20, n_landmarks=50, random_state=0),
    "fsdh-gui": hl.hashers.FSDHGui(70, n_landmarks=50, random_state=0),
    "class-code": hl.ClassCode(20, n_landmarks=50, random_state=0),
}


@pytest.fixture(autouse=True)
def small_cuts(monkeypatch):
    monkeypatch.setattr(survey, "CUT_BLOCKS", 1)


def same(one, other):
    if not hasattr(one.function_, "weights_"):
        one, other = (_scores(model) for model in (one, other))
    assert_same(one, other)


def _scores(model):
    """A class code's linear part stands for its function."""
    plain = hl.LSH()
    plain.codes_, plain.features_, plain.function_ = model.codes_, model.features_, model.function_.scores_
    return plain


@pytest.mark.parametrize("name", METHODS)
def test_chunks_give_the_answer_of_memory(name):
    from sklearn.base import clone

    X, y = rows_and_classes(5000)
    y = np.where(np.arange(5000) % 9 == 0, np.nan, y)
    model = METHODS[name]
    labels = y if model.supervision != "none" else None
    expected = clone(model).fit(X, labels)
    same(expected, clone(model).fit_chunks(Chunks(X, labels, 1313)))
    same(expected, clone(model).fit_chunks(X, labels))


def test_label_sets_of_cca_itq():
    X, _ = rows_and_classes(5000)
    Y = label_sets(5000)
    assert_same(hl.CCAITQ(12, random_state=0).fit(X, Y), hl.CCAITQ(12, random_state=0).fit_chunks(Chunks(X, Y, 999)))


def test_a_rotation_from_a_sample(monkeypatch):
    """With fewer rows in the sample than there are, chunks and memory still draw the same ones."""
    monkeypatch.setattr(summed, "SAMPLE_ROWS", 700)
    X, _ = rows_and_classes(5000)
    few = hl.ITQ(12, random_state=0).fit(X)
    assert_same(few, hl.ITQ(12, random_state=0).fit_chunks(Chunks(X, None, 1313)))
    monkeypatch.setattr(summed, "SAMPLE_ROWS", 5000)
    assert not np.array_equal(few.function_.weights_, hl.ITQ(12, random_state=0).fit(X).function_.weights_)


def test_every_method_says_whether_it_can():
    able = {name for name, method in hl.hashers.METHODS.items() if method.passes}
    assert able >= {"sdhp", "gsdhp", "lsh", "itq", "pca-rr", "cca-itq", "fsdh", "class-code", "sdh", "fsdh-gui"}
    for name, method in hl.hashers.METHODS.items():
        if name not in able:
            with pytest.raises(TypeError, match="needs all rows in memory"):
                method().fit_chunks(np.zeros((5, 2)), np.arange(5))


@pytest.mark.parametrize("n_rows", [2, 511, 5000, 50_000, 131_072, 10**6, 2 * 10**6, 10**8, 10**10])
def test_tasks_are_whole_blocks_and_not_too_many(n_rows):
    block, task = block_rows(n_rows), task_rows(n_rows)
    assert task % block == 0
    assert 512 <= block <= 4096
    assert -(-n_rows // task) <= 1025
