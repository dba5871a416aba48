"""Codes do not depend on how rows lie in memory: C order, Fortran order and data frames of pandas give the same."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pytest
from sklearn.datasets import load_digits
from small_methods import small

import hashlearn as hl
from hashlearn.hashers.pipeline import PipelineHasher
from hashlearn.methods import FIRST

FORMS = {
    "Fortran order": np.asfortranarray,
    "data frame": pd.DataFrame,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return np.ascontiguousarray(X[:300]), y[:300]


@pytest.mark.filterwarnings("ignore::hashlearn.FitAdvice")
@pytest.mark.parametrize("name", [*hl.METHODS, "auto", "open"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fit_and_encode(name, dtype, digits):
    X, y = digits[0].astype(dtype), digits[1]
    make = (lambda: hl.AutoHasher(16, n_jobs=1, random_state=0)) if name == "auto" else (lambda: small(name, 16))
    expected = make().fit(X, y)
    for form, rows in FORMS.items():
        hasher = make().fit(rows(X), y)
        np.testing.assert_array_equal(hasher.codes_, expected.codes_, err_msg=form)
        np.testing.assert_array_equal(hasher.encode(rows(X)), expected.encode(X), err_msg=form)


@pytest.mark.parametrize("name", ["open", *(name for name, method in hl.METHODS.items() if method.info.passes)])
def test_fit_chunks(name, digits):
    X, y = digits
    expected = small(name, 16).fit_chunks([X[:170], X[170:]], [y[:170], y[170:]])
    hasher = small(name, 16).fit_chunks([np.asfortranarray(X[:170]), np.asfortranarray(X[170:])], [y[:170], y[170:]])
    np.testing.assert_array_equal(hasher.codes_, expected.codes_)
    np.testing.assert_array_equal(hasher.encode(X), expected.encode(X))


MASKED = "masked entries, which have no value"


@pytest.mark.parametrize("method", ["itq", "gsdhp", "auto", "open"])
def test_masked_entries_are_refused(method):
    X = np.ma.masked_array(np.random.default_rng(0).normal(size=(40, 5)))
    y = np.arange(40) % 2
    hasher = small(method, 8)
    assert hasher.fit(X, y).encode(X).shape == (40, hasher.n_bits // 8)  # nothing is masked
    X[3, 2] = np.ma.masked
    for call in (lambda: hasher.encode(X), lambda: hasher.fit(X, y), lambda: hasher.fit(list(X), y)):
        with pytest.raises(ValueError, match=f"X has 1 {MASKED}"):
            call()


def test_masked_entries_are_refused_by_every_entrance():
    X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    y = np.arange(40) % 2
    rows, labels = np.ma.masked_array(X, mask=np.zeros(X.shape)), np.ma.masked_array(y, mask=np.zeros(40))
    rows[3, 2] = labels[5] = np.ma.masked
    calls = {
        "X": [
            lambda: small("gsdhp", 8).fit_chunks(rows, y),
            lambda: small("gsdhp", 8).fit_chunks([rows[:20], rows[20:]], [y[:20], y[20:]]),
            lambda: small("gsdhp", 8).fit_chunks([lambda: (rows, y)]),
            lambda: small("gsdhp", 8).fit_chunks(lambda: iter([(rows, y)])),
            lambda: small("gsdhp", 8).partial_fit(rows, y),
            lambda: small("gsdhp", 8).partial_fit(X, y).partial_fit(rows, y),
            lambda: hl.JoinedHasher([small("itq", 8)]).fit(rows),
            lambda: PipelineHasher([], small("itq", 8)).fit(rows),
            lambda: hl.LandmarkKernel().fit(rows),
            lambda: hl.Collection.create(":memory:", small("itq", 8).fit(X)).add(rows),
        ],
        "vectors": [
            lambda: hl.Collection.create(":memory:", small("itq", 8).fit(X), store_vectors=True).add(X, vectors=rows)
        ],
        "query_X": [lambda: hl.metrics.evaluate_floats(rows, X, y, y)],
        "database_X": [lambda: hl.metrics.evaluate_floats(X, rows, y, y)],
        "y": [
            lambda: small("gsdhp", 8).fit(X, labels),
            lambda: small("gsdhp", 8).fit_chunks(X, labels),
            lambda: small("gsdhp", 8).fit_chunks([(X, labels)]),
            lambda: small("gsdhp", 8).partial_fit(X, labels),
        ],
        "query_y": [lambda: hl.metrics.evaluate_floats(X, X, labels, y)],
    }
    for name, group in calls.items():
        for number, call in enumerate(group):
            with pytest.raises(ValueError, match=f"{name} has 1 {MASKED}"):
                call()
                pytest.fail(f"{name}, call {number}")


@pytest.fixture(scope="module")
def columns():
    """Rows, their classes, and the rows as columns of vectors of several packages."""
    X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    flat = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(X.ravel()), 5)
    frame, lists = pd.DataFrame({"v": list(X)}), pl.Series("v", [list(map(float, row)) for row in X])
    forms = {
        "column of pandas": frame["v"],
        "frame of pandas": frame,
        "objects of NumPy": frame["v"].to_numpy(),
        "array of Arrow": flat,
        "chunks of Arrow": pyarrow.chunked_array([flat[:20], flat[20:]]),
        "table of Arrow": pyarrow.table({"v": flat}),
        "frame of Arrow types": pyarrow.table({"v": flat}).to_pandas(types_mapper=pd.ArrowDtype),
        "arrays of polars": pl.Series("v", X),
        "lists of polars": lists,
        "frame of polars": lists.to_frame(),
    }
    return X, np.arange(60) % 3, forms


def _entrances(name, hasher, rows, y):
    """What the methods of a fitted hasher that take rows return for them."""
    found = {"encode": hasher.encode(rows), "transform": hasher.transform(rows), "score": hasher.score(rows, y)}
    found["encode(X, y)"] = hasher.encode(rows, y)
    found["query"] = hasher.query(rows).nibbles if name == "open" else hasher.encode_queries(rows)
    if name != "auto":
        found["partial_fit"] = small(name, 8).partial_fit(rows, y).partial_fit(rows, y).encode(rows)
    return found


@pytest.mark.filterwarnings("ignore::hashlearn.FitAdvice")
@pytest.mark.parametrize("name", ["gsdhp", *FIRST])
def test_columns_of_vectors_are_matrices(name, columns):
    X, y, forms = columns
    expected = small(name, 8).fit(X, y)
    results = _entrances(name, expected, X, y)
    with hl.Collection.create(":memory:", expected, store_vectors=True) as shop:
        shop.add(X)
        nearest = shop.search(X[:3], k=2).ids
        for form, rows in forms.items():
            np.testing.assert_array_equal(small(name, 8).fit(rows, y).codes_, expected.codes_, err_msg=form)
            for entrance, found in _entrances(name, expected, rows, y).items():
                # Tables of float64 rows, as lists of polars are, are rounded otherwise than those of float32 rows.
                np.testing.assert_allclose(found, results[entrance], atol=1e-5, err_msg=f"{form}, {entrance}")
            shop.add(rows, ids=np.arange(60), vectors=rows)
            np.testing.assert_array_equal(shop.search(rows[:3], k=2).ids, nearest, err_msg=form)


def test_chunks_of_columns_of_vectors(columns):
    X, y, forms = columns
    codes = small("gsdhp", 8).fit_chunks(X, y).encode(X)
    for form, rows in forms.items():
        np.testing.assert_array_equal(small("gsdhp", 8).fit_chunks(rows, y).encode(X), codes, err_msg=form)
    column = forms["column of pandas"]
    halves = small("gsdhp", 8).fit_chunks([column[:30], column[30:]], [y[:30], y[30:]])
    np.testing.assert_array_equal(halves.encode(X), codes)


@pytest.mark.parametrize(("wrong", "got"), [(None, "none"), (np.zeros(4), "4")])
def test_columns_of_unequal_vectors_are_refused(wrong, got):
    column = pd.Series([np.zeros(5), np.ones(5), wrong])
    with pytest.raises(ValueError, match=f"as many numbers as the first, 5. Got {got} in row 2"):
        small("itq", 8).fit(column)
