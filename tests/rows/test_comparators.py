"""The comparators that learn from chunks: the answer of rows in memory."""

import numpy as np
import pytest
from chunk_data import Chunks, assert_same, label_sets, rows_and_classes
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import hashlearn as hl
from hashlearn.hashers import sums as gram
from hashlearn.rows import survey
from hashlearn.rows.reduce import block_rows, task_rows
from hashlearn.zoo import tsh

METHODS = {
    "lsh": hl.LSH(20, random_state=0),
    "pca-rr": hl.PCARR(12, random_state=0),
    "itq": hl.ITQ(12, random_state=0),
    "metric-itq": hl.MetricITQ(12, random_state=0),
    "cca-itq": hl.CCAITQ(20, random_state=0),
    "cca-itq rbf": hl.CCAITQ(20, kernel="rbf", n_landmarks=50, random_state=0),
    "fsdh": hl.methods.FSDH(20, n_landmarks=50, random_state=0),
    "sdh": hl.SDH(20, n_landmarks=50, random_state=0),
    "fsdh-gui": hl.methods.FSDHGui(70, n_landmarks=50, random_state=0),
    "fssh": hl.FSSH(70, n_landmarks=50, random_state=0),
    "class-code": hl.ClassCode(20, n_landmarks=50, random_state=0),
    "ksdh": hl.KSDH(20, n_landmarks=50, random_state=0),
    "ksdh h": hl.KSDH(12, variant="H", refit=False, kernel=None, random_state=0),
    "adgh": hl.ADGH(20, n_landmarks=50, random_state=0),
    # With these relevances some steps are too large and are taken back.
    "dserh": hl.DSeRH(12, n_samples=None, class_relevance=np.random.default_rng(2).random((10, 10)), random_state=0),
    "dserh sample": hl.DSeRH(20, n_samples=900, kernel="rbf", n_landmarks=50, random_state=0),
    "aibc": hl.AIBC(20, n_landmarks=50, max_iter=4, random_state=0),
    "cosdish": hl.COSDISH(20, n_landmarks=50, random_state=0),
    "lfh": hl.LFH(12, max_iter=10, random_state=0),
    "lfh rbf": hl.LFH(70, kernel="rbf", n_landmarks=50, max_iter=5, random_state=0),
    "tsh": hl.TSH(8, n_landmarks=50, n_partners=10, random_state=0),
    "aibc features": hl.AIBC(12, similarity="features", kernel=None, max_iter=4, random_state=0),
}
QUICK = ("lsh", "itq", "fsdh", "sdh", "ksdh")


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    monkeypatch.setattr(survey, "RANGE_BLOCKS", 1)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
)
def test_chunks_give_the_answer_of_memory(name):
    X, y = rows_and_classes(5000)
    y = np.where(np.arange(5000) % 9 == 0, np.nan, y)
    model = METHODS[name]
    labels = y if model.info.supervised else None
    expected = clone(model).fit(X, labels)
    assert_same(expected, clone(model).fit_chunks(Chunks(X, labels, 1313)))
    assert_same(expected, clone(model).fit_chunks(X, labels))
    # Learned codes of the rows that the calibration needs are kept, even if no codes are wanted.
    nowhere = clone(model).fit_chunks(Chunks(X, labels, 1313), codes=False)
    assert not hasattr(nowhere, "codes_")
    np.testing.assert_array_equal(nowhere.calibration_.slopes_, expected.calibration_.slopes_)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*METHODS, "gsdh_p", "sdh_p"])
def test_the_answer_does_not_depend_on_the_threads_that_blas_may_use(name):
    """With matrices large enough for BLAS to split them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 2500)
    X = (rng.normal(size=(10, 96))[y] + rng.standard_normal((2500, 96))).astype(np.float32)
    own = {"gsdh_p": hl.GSDHP(20, random_state=0), "sdh_p": hl.SDHP(20, random_state=0)}
    model = clone({**METHODS, **own}[name])
    if "n_landmarks" in model.get_params():
        model.set_params(n_landmarks=400)
    fits = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            fits.append(clone(model).fit(X, y if model.info.supervised else None))
    assert_same(*fits)


def test_label_sets_of_cca_itq():
    X, _ = rows_and_classes(5000)
    Y = label_sets(5000)
    assert_same(hl.CCAITQ(12, random_state=0).fit(X, Y), hl.CCAITQ(12, random_state=0).fit_chunks(Chunks(X, Y, 999)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        hl.KSDH(12, n_landmarks=50, random_state=0),
        hl.DSeRH(12, n_samples=None, max_iter=8, random_state=0),
        hl.DSeRH(12, n_samples=800, random_state=0),
        hl.AIBC(12, kernel=None, max_iter=3, random_state=0),
        hl.COSDISH(12, kernel=None, random_state=0),
        hl.LFH(12, max_iter=5, random_state=0),
        hl.TSH(3, n_partners=5, kernel=None, random_state=0),
    ],
    ids=["ksdh", "dserh", "dserh sample", "aibc", "cosdish", "lfh", "tsh"],
)
def test_label_sets_by_groups(model):
    """More label sets than a block of rows has, so that tasks bring sums of different ones."""
    X, _ = rows_and_classes(5000)
    Y = label_sets(5000, n_labels=14)
    assert len(np.unique(Y, axis=0)) > 900
    expected = clone(model).fit(X, Y)
    assert_same(expected, clone(model).fit_chunks(Chunks(X, Y, 999)))


def test_aibc_of_features_needs_no_labels():
    X, _ = rows_and_classes(3000)
    model = METHODS["aibc features"]
    fitted = clone(model).fit_chunks(Chunks(X, None, 700))
    assert_same(clone(model).fit(X), fitted)
    np.testing.assert_array_equal(fitted.database_function_.weights_, clone(model).fit(X).database_function_.weights_)
    with pytest.raises(ValueError, match="chunks have no labels"):
        hl.AIBC(12).fit_chunks(Chunks(X, None, 700))


def test_a_rotation_from_a_sample(monkeypatch):
    """With fewer rows in the sample than there are, chunks and memory still draw the same ones."""
    monkeypatch.setattr(gram, "SAMPLE_ROWS", 700)
    X, _ = rows_and_classes(5000)
    few = hl.ITQ(12, random_state=0).fit(X)
    assert_same(few, hl.ITQ(12, random_state=0).fit_chunks(Chunks(X, None, 1313)))
    monkeypatch.setattr(gram, "SAMPLE_ROWS", 5000)
    assert not np.array_equal(few.function_.weights_, hl.ITQ(12, random_state=0).fit(X).function_.weights_)


def test_bits_from_pairs_of_a_sample(monkeypatch):
    """TSH with more rows than it pairs."""
    monkeypatch.setattr(tsh, "PAIRED_ROWS", 700)
    X, y = rows_and_classes(3000)
    y = np.where(np.arange(3000) % 9 == 0, np.nan, y)
    model = METHODS["tsh"]
    fitted = clone(model).fit(X, y)
    assert_same(fitted, clone(model).fit_chunks(Chunks(X, y, 999)))
    monkeypatch.setattr(tsh, "PAIRED_ROWS", 3000)
    assert not np.array_equal(fitted.codes_, clone(model).fit(X, y).codes_)


def test_every_method_says_whether_it_can():
    able = {name for name, method in hl.methods.METHODS.items() if method.info.passes}
    assert able >= {"sdhp", "gsdhp", "lsh", "itq", "pca-rr", "cca-itq", "fsdh", "class-code", "sdh", "fsdh-gui"}
    assert able >= {"ksdh", "adgh", "dserh", "aibc", "cosdish", "lfh", "tsh"}
    for name, method in hl.methods.METHODS.items():
        if name not in able:
            with pytest.raises(TypeError, match="needs all rows in memory"):
                method().fit_chunks(np.zeros((5, 2)), np.arange(5))


@pytest.mark.parametrize("n_rows", [2, 511, 5000, 50_000, 131_072, 10**6, 2 * 10**6, 10**8, 10**10])
def test_tasks_are_whole_blocks_and_not_too_many(n_rows):
    block, task = block_rows(n_rows), task_rows(n_rows)
    assert task % block == 0
    assert 512 <= block <= 4096
    assert -(-n_rows // task) <= 1025
