"""Codes do not depend on how rows lie in memory: C order, Fortran order and data frames of pandas give the same."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from small_methods import small

import hashlearn as hl

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


@pytest.mark.parametrize("method", ["itq", "gsdhp", "auto", "open"])
def test_masked_entries_are_refused(method):
    X = np.ma.masked_array(np.random.default_rng(0).normal(size=(40, 5)))
    y = np.arange(40) % 2
    hasher = small(method, 8)
    assert hasher.fit(X, y).encode(X).shape == (40, hasher.n_bits // 8)  # nothing is masked
    X[3, 2] = np.ma.masked
    for call in (lambda: hasher.encode(X), lambda: hasher.fit(X, y)):
        with pytest.raises(ValueError, match="X has 1 masked entries, which have no value"):
            call()
