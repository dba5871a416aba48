"""What a fit advises: sentences where they are due, and silence elsewhere."""

import warnings

import numpy as np
import pytest
from chunk_data import Chunks
from scipy import sparse
from sklearn.datasets import load_digits

import hashlearn as hl
from hashlearn.labels import as_labels, group_rows
from hashlearn.rows import advice


def sets(y):
    return as_labels(y).sets


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


@pytest.mark.parametrize(
    ("y", "n_bits", "start"),
    [
        (np.repeat([0, 1, 2], [400, 100, 10]), 32, "The classes are unbalanced: the largest has 400 rows, the small"),
        (np.arange(1000), 32, "The labels have 1,000 different values in 1,000 rows, so they look like measurements"),
        (np.arange(1000) % 200, 16, "200 classes are more than 16 bits can separate well (about 94): use at least 24"),
        (np.where(np.arange(1000) < 800, np.nan, np.arange(1000) % 2), 32, "80 % of the rows (800) have no label"),
    ],
)  # fmt: skip
def test_labels_that_need_advice(y, n_bits, start):
    (sentence,) = advice.label_advice(sets(y), n_bits)
    assert sentence.startswith(start)
    # The same from distinct label sets and the numbers of their rows, as chunks have them.
    labels = sets(y)
    group, first = group_rows(labels)
    counts, n_unlabeled = np.bincount(group[group >= 0]), int(np.sum(group < 0))
    assert advice.label_advice(labels[first], n_bits, counts, n_unlabeled) == [sentence]


@pytest.mark.parametrize(
    "labels",
    [
        sets(np.arange(1000) % 10),
        sets(np.repeat([0, 1], [500, 30])),
        sets(np.repeat([0, 1], [60, 1])),  # too few rows to say anything
        sets(np.where(np.arange(300) < 50, np.nan, np.arange(300) % 2)),
        sparse.csr_matrix(np.random.default_rng(0).random((500, 30)) < 0.1),  # label sets are rarely alike
    ],
    ids=["balanced", "nearly balanced", "few", "mostly labeled", "label sets"],
)
def test_labels_that_need_none(labels):
    assert advice.label_advice(labels.astype(float), 32) == []


def test_how_many_classes_bits_can_separate():
    assert [advice.separable_classes(n_bits) for n_bits in (1, 4, 8, 16, 32)] == [2, 16, 28, 94, 951]
    assert advice.separable_classes(1024) > 10**30


def test_codes_that_collapse():
    rng = np.random.default_rng(0)
    few = rng.integers(0, 256, (44, 4), dtype=np.uint8)[np.arange(1500) % 44]
    (sentence,) = advice.code_advice(few, 32)
    assert sentence.startswith("The codes collapse: 44 distinct codes for 1,500 training rows")
    assert advice.is_about_codes(sentence)
    assert advice.code_advice(rng.integers(0, 256, (1500, 4), dtype=np.uint8), 32) == []
    assert advice.code_advice(few[:900], 32) == []
    assert advice.code_advice(few[:, :1], 2) == []  # four codes are all that two bits have


def test_a_fit_warns_at_the_callers_line_and_keeps_its_advice(digits):
    X, y = digits
    rare = np.flatnonzero(y == 3)[:4]
    kept = np.union1d(np.flatnonzero(y != 3), rare)
    with pytest.warns(hl.FitAdvice) as caught:
        hasher = hl.GSDHP(32, random_state=0).fit(X[kept], y[kept])
    assert [str(one.message) for one in caught] == hasher.advice_
    assert {one.filename for one in caught} == {__file__}
    assert "unbalanced: the largest has 182 rows, the smallest 4." in hasher.advice_[0]
    assert "distinct codes for" in hasher.advice_[1]
    with pytest.warns(hl.FitAdvice):
        chunked = hl.GSDHP(32, random_state=0).fit_chunks(Chunks(X[kept], y[kept], 700))
    assert chunked.advice_ == hasher.advice_


@pytest.mark.parametrize("method", [hl.SDH, hl.CCAITQ, hl.methods.KSH])
def test_every_frame_advises(digits, method):
    X, y = digits
    rows = np.concatenate([np.flatnonzero(y == 0)[:90], np.flatnonzero(y == 1)[:90], np.flatnonzero(y == 2)[:3]])
    few = {"n_landmarks": 20} if "n_landmarks" in method().get_params() else {}
    with pytest.warns(hl.FitAdvice, match="unbalanced"):
        hasher = method(8, random_state=0, **few).fit(X[rows], y[rows])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hasher.fit(X[:150], y[:150] % 2).advice_ == []


@pytest.mark.slow
def test_a_joined_hasher_advises_once_and_about_its_whole_codes(digits):
    X, y = digits
    some = np.where(np.arange(len(y)) < 1200, np.nan, y)
    parts = [hl.GSDHP(16, random_state=0), hl.SDH(8, n_landmarks=50, random_state=0), hl.ITQ(32, random_state=0)]
    with pytest.warns(hl.FitAdvice) as caught:
        hasher = hl.JoinedHasher(parts).fit(X, some)
    assert len(caught) == len(hasher.advice_) == 1
    assert hasher.advice_[0].startswith("67 % of the rows (1,200) have no label")
    with pytest.warns(hl.FitAdvice, match="collapse"):
        hl.JoinedHasher(parts[:1]).fit(X, y)


def test_advice_can_be_silenced_and_is_saved(digits, tmp_path):
    X, y = digits
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", hl.FitAdvice)
        hasher = hl.GSDHP(16, random_state=0).fit(X, y)
    assert len(hasher.advice_) == 1
    hl.save(hasher, tmp_path / "model.hl")
    assert hl.load(tmp_path / "model.hl").advice_ == hasher.advice_


@pytest.mark.slow
def test_auto_hasher_advises_once_and_reports_it(digits):
    X, y = digits
    kept = np.concatenate([np.flatnonzero(y == c)[: 4 if c == 3 else 100] for c in range(4)])
    with pytest.warns(hl.FitAdvice) as caught:
        hasher = hl.AutoHasher(16, random_state=0).fit(X[kept], y[kept])
    assert [str(one.message) for one in caught] == hasher.advice_ == hasher.report_.advice
    assert len(hasher.advice_) == 1
    assert "unbalanced: the largest has 100 rows, the smallest 4." in str(hasher.report_).replace("\n", " ")


@pytest.mark.parametrize("method", [hl.ITQ, hl.LSH, hl.GSDHP, hl.MetricITQ])
def test_a_feature_on_another_scale(digits, method):
    X, y = digits[0][:300], digits[1][:300]
    X = X[:, X.std(axis=0) > 0]
    assert advice.scale_advice(X) == []
    X[:, 3] *= 100
    mostly_constant = np.hstack([np.zeros((300, 100)), X])
    for rows, first in ((X, 3), (mostly_constant, 103)):
        match = rf"1 of {rows.shape[1]} features vary more than 20 times .* \(the first is feature {first},"
        for fit in (method(8, random_state=0).fit, method(8, random_state=0).fit_chunks):
            with pytest.warns(hl.FitAdvice, match=match):
                hasher = fit(rows, y if method.info.supervised or method is hl.MetricITQ else None)
            assert any("scale the features" in sentence for sentence in hasher.advice_)
    assert advice.scale_advice(X[:, 2:5]) == []  # too few to say which of them is the odd one
