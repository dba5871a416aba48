"""Every method in the table keeps the same promises."""

import pickle
import pydoc

import numpy as np
import pytest
from parameter_checks import check_parameters_are_checked, small_data
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)
from small_methods import small

import hashlearn as hl
from hashlearn.methods import METHODS

TAKE_LONG = ("ldahash", "fasth", "ksh", "cosdish", "cgh", "mlh", "top-rsbc", "fsdh-gui")
ONE_PER_FRAME = ("gsdhp", "itq", "cca-itq", "lsh", "sdh", "aibc", "agh", "trh", "lfh")
"""Methods that scikit-learn checks in ``make quick``, too: most of the contract is kept by the frame of a method."""
MORE_ROWS_THAN_BITS = ("adgh", "dgh", "ksdh", "scdh")
FROM_TRIPLETS = ("cgh", "trh")
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in TAKE_LONG else name for name in METHODS]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:400]
    return X[order], y[order]


@parametrize_with_checks([small(name) for name in ONE_PER_FRAME])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([small(name) for name in METHODS if name not in ONE_PER_FRAME])
def test_scikit_learn_checks_of_the_other_methods(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "name", [name if name in ONE_PER_FRAME else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
)
@pytest.mark.parametrize(
    "check",
    [
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
    ],
)
def test_checks_that_scikit_learn_leaves_out(name, check):
    check(METHODS[name].__name__, small(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_checked(name):
    check_parameters_are_checked(small(name), *small_data())


@pytest.mark.parametrize("name", NAMES)
def test_three_outputs_agree(name, digits):
    X, y = digits
    hasher = small(name, n_bits=12).fit(X[:300], y[:300])
    projections, bits, packed = hasher.decision_function(X), hasher.transform(X), hasher.encode(X)
    assert projections.dtype == np.float32
    assert projections.shape == bits.shape == (400, 12)
    assert bits.dtype == packed.dtype == np.uint8
    np.testing.assert_array_equal(bits, projections >= 0)
    np.testing.assert_array_equal(hl.codes.unpack(hasher.encode_queries(X), 12), bits)
    assert packed.shape == (400, 2)
    if not hasher.two_encoders:  # database rows have an encoder of their own there
        np.testing.assert_array_equal(hl.codes.unpack(packed, 12), bits)
    assert hasher.codes_.shape == (300, 2)
    assert 0 <= hasher.score(X[300:], y[300:]) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_expected_bits(name, digits, tmp_path):
    X, y = digits
    hasher = small(name, n_bits=12).fit(X[:300], y[:300])
    e = hasher.expected_bits(X)
    assert e.dtype == np.float32
    assert np.abs(e).max() <= 1
    np.testing.assert_array_equal(e >= 0, hasher.transform(X))
    if not hasher.two_encoders:
        np.testing.assert_array_equal(hasher.encode_queries(X), hasher.encode(X))
    hl.save(hasher, tmp_path / "model.hl")
    np.testing.assert_array_equal(hl.load(tmp_path / "model.hl").expected_bits(X), e)


@pytest.mark.parametrize("name", NAMES)
def test_random_state_decides_everything(name, digits):
    X, y = digits
    first = small(name).fit(X, y)
    again = clone(first).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(first.decision_function(X), again.decision_function(X))
    for attribute, value in vars(first).items():
        if attribute.endswith("_") and isinstance(value, np.ndarray | int | float):
            np.testing.assert_array_equal(value, getattr(again, attribute), err_msg=attribute)
    if name != "sh":  # which draws nothing
        assert (clone(first).set_params(random_state=1).fit(X, y).codes_ != first.codes_).any()


@pytest.mark.parametrize("name", NAMES)
def test_pickle_and_pipeline(name, digits):
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), small(name)).fit(X, y)
    copied = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(copied.transform(X), pipeline.transform(X))


@pytest.mark.parametrize("name", NAMES)
def test_metadata_is_complete(name):
    method = METHODS[name]
    for fact in ("name", "title", "reference", "kind", "cost", "supervision_text"):
        assert isinstance(getattr(method.info, fact), str)
        assert getattr(method.info, fact)
    assert 1990 < method.info.year < 2030
    assert isinstance(method.info.verified, bool)
    for section in ("Parameters\n----------\nn_bits", "Attributes\n----------\n", "Examples\n--------\n"):
        assert section in (method.__doc__ or "")


@pytest.mark.parametrize("name", NAMES)
def test_the_protocol_of_the_database_is_true(name, digits):
    """Learned codes of the training rows differ from hashed ones; the others agree but for rounding."""
    X, y = digits[0].astype(np.float32), digits[1]
    hasher = small(name, n_bits=16).fit(X, y)
    agreement = np.mean(hl.codes.unpack(hasher.codes_, 16) == hl.codes.unpack(hasher.encode(X), 16))
    assert (agreement > 0.999) == (hasher.info.database == "hashed")


def test_help_shows_parameters_and_does_not_warn(recwarn):
    text = pydoc.plain(pydoc.render_doc(hl.GSDHP))
    assert "n_anchors : str among {'auto'} or an int in the range [1, inf), default='auto'" in text
    assert "random_state : " in text
    assert not recwarn


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X: np.where(np.arange(X.size).reshape(X.shape) == 5, np.nan, X), "NaN"),
        (lambda X: np.where(np.arange(X.size).reshape(X.shape) == 5, np.inf, X), "infinity"),
        (lambda X: X[:, :0], "0 feature"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: X[0], "1D array"),
    ],
)
def test_bad_rows_get_a_sentence(name, digits, change, sentence):
    X, y = digits
    with pytest.raises(ValueError, match=sentence):
        small(name).fit(change(X), y[: len(change(X))])


@pytest.mark.parametrize("name", NAMES)
def test_wrong_width_and_wrong_length(name, digits):
    X, y = digits
    hasher = small(name).fit(X, y)
    with pytest.raises(ValueError, match=r"X has 63 features.*expecting 64"):
        hasher.encode(X[:, 1:])
    if METHODS[name].info.supervised:
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            small(name).fit(X, y[:-1])


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].info.supervised])
def test_no_label_at_all(name, digits):
    X, _ = digits
    with pytest.raises(ValueError, match="No row has a label"):
        small(name).fit(X, np.full(len(X), None, dtype=object))


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].info.supervised])
def test_rows_without_labels_are_hashed(name, digits):
    X, y = digits[0].astype(np.float32), digits[1].astype(object)
    y[::4] = None
    hasher = small(name, n_bits=16).fit(X, y)
    hashed = hasher.encode_database(X) if name == "aibc" else hasher.encode(X)
    np.testing.assert_array_equal(hasher.codes_[::4], hashed[::4])


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_all_the_same(name):
    hasher = small(name)
    if name == "rsh":
        with pytest.raises(ValueError, match="nothing to rank"):
            hasher.fit(np.ones((60, 3)), np.arange(60) % 4)
        return
    assert len(hasher.fit(np.ones((60, 3)), np.arange(60) % 4).codes_) == 60


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_rows", [2, 20])
def test_more_bits_than_rows(name, n_rows, digits):
    X, y = digits[0][:n_rows], np.arange(n_rows) % 3
    hasher = small(name, n_bits=40)
    refused = name in MORE_ROWS_THAN_BITS or (n_rows == 2 and name in FROM_TRIPLETS)
    if refused:
        with pytest.raises(ValueError, match=r"bits|No triplet can be drawn"):
            hasher.fit(X, y)
    else:
        assert hasher.fit(X, y).codes_.shape == (n_rows, 5)


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].info.supervised])
def test_a_single_label(name, digits):
    X, _ = digits
    with pytest.raises(ValueError, match="All labeled rows have the same label"):
        small(name).fit(X, np.where(np.arange(len(X)) == 0, 0.0, np.nan))


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_column_is_harmless(name, digits):
    X, y = digits
    assert small(name).fit(np.c_[X, np.ones(len(X))], y).codes_.shape == (400, 1)
