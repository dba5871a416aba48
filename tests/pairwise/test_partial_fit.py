"""``partial_fit``: more rows and new classes without the old rows; what was coded stays valid."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import hashlearn as hl
from hashlearn.pairwise.partial_fit import new_class_code


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


def make(method=hl.GSDHP, **settings):
    return method(24, n_landmarks=200, n_anchors=200, random_state=0, **settings)


def score(hasher, X, y):
    queries, rows = slice(1400, None), slice(0, 1400)
    return hl.metrics.mean_average_precision(
        hasher.encode_queries(X[queries]), hasher.encode(X[rows]), y[queries], y[rows], at=None
    )


def class_codes(hasher, y):
    return {label: hasher.codes_[np.flatnonzero(y == label)[0]].tobytes() for label in np.unique(y)}


def test_the_first_call_is_fit(digits):
    X, y = digits
    fitted, updated = make().fit(X[:600], y[:600]), make().partial_fit(X[:600], y[:600])
    np.testing.assert_array_equal(updated.codes_, fitted.codes_)
    np.testing.assert_array_equal(updated.decision_function(X), fitted.decision_function(X))


@pytest.mark.parametrize(
    ("method", "settings"),
    [(hl.GSDHP, {}), (hl.GSDHP, {"function": "posterior"}), (hl.SDHP, {})],
    ids=["linear", "posterior", "SDHP"],
)
def test_new_classes_come_close_to_a_fit_on_all(method, settings, digits):
    X, y = digits
    train = np.arange(1400)
    known, new = train[y[:1400] < 7], train[y[:1400] >= 7]
    hasher = make(method, **settings).partial_fit(X[known], y[known])
    before, old_codes = score(hasher, X, y), class_codes(hasher, y[known])
    hasher.partial_fit(X[new], y[new])
    after, fresh = score(hasher, X, y), score(make(method, **settings).fit(X[train], y[train]), X, y)
    assert after > before + 0.02
    assert after > fresh - 0.03
    found = class_codes(hasher, np.concatenate([y[known], y[new]]))
    assert {label: found[label] for label in old_codes} == old_codes
    assert len(set(found.values())) == 10
    assert len(hasher.codes_) == 1400


def test_parts_give_what_all_rows_give(digits):
    """Where classes are the same, the parts in which rows come change the sums by rounding only."""
    X, y = digits
    one, several = make().partial_fit(X[:600], y[:600]), make().partial_fit(X[:600], y[:600])
    one.partial_fit(X[600:1400], y[600:1400])
    for part in np.array_split(np.arange(600, 1400), 3):
        several.partial_fit(X[part], y[part])
    np.testing.assert_allclose(several.sums_.xx, one.sums_.xx, rtol=1e-4, atol=1e-3)
    assert np.mean(one.transform(X) != several.transform(X)) < 0.002
    assert score(one, X, y) > score(make().fit(X[:1400], y[:1400]), X, y) - 0.02


def test_after_fit_the_first_call_takes_its_rows_again(digits):
    X, y = digits
    train = np.arange(1400)
    known = train[y[:1400] < 7]
    hasher = make().fit(X[known], y[known])
    codes = hasher.encode(X[known], y[known])
    np.testing.assert_array_equal(hasher.partial_fit(X[train], y[train]).encode(X[known], y[known]), codes)
    from_the_start = make().partial_fit(X[known], y[known])
    codes = from_the_start.encode(X[known], y[known])
    np.testing.assert_array_equal(from_the_start.partial_fit(X[train], y[train]).encode(X[known], y[known]), codes)
    assert len(hasher.codes_) == 1400
    assert score(hasher, X, y) > score(make().fit(X[train], y[train]), X, y) - 0.02
    hasher.partial_fit(X[1400:1500], y[1400:1500])
    assert hasher.sums_.n_rows == len(hasher.codes_) == 1500


def test_rows_of_new_classes_become_landmarks_in_proportion(digits):
    X, y = digits
    known, new = np.flatnonzero(y < 7)[:600], np.flatnonzero(y >= 7)[:300]
    hasher = make().partial_fit(X[known], y[known])
    before = hasher.features_.landmarks_
    hasher.partial_fit(X[new], y[new])
    np.testing.assert_array_equal(hasher.features_.landmarks_[:200], before)
    assert len(hasher.features_.landmarks_) == len(hasher.sums_.xx) == 300
    # Rows of known classes add none, and plain features have none.
    assert len(hasher.partial_fit(X[known], y[known]).features_.landmarks_) == 300
    plain = make(kernel=None).partial_fit(X[known], y[known]).partial_fit(X[new], y[new])
    assert plain.sums_.xx.shape == (64, 64)


def test_a_call_that_fails_changes_nothing(digits, monkeypatch):
    X, y = digits
    hasher = make().partial_fit(X[:300][y[:300] < 9], y[:300][y[:300] < 9])
    bits, rows, landmarks = hasher.transform(X), hasher.sums_.n_rows, len(hasher.features_.landmarks_)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hashlearn.pairwise.partial_fit.fit_function", stop)
        with pytest.raises(KeyboardInterrupt):
            hasher.partial_fit(X[300:500], y[300:500])
    np.testing.assert_array_equal(hasher.transform(X), bits)
    assert (hasher.sums_.n_rows, len(hasher.features_.landmarks_)) == (rows, landmarks)
    hasher.partial_fit(X[300:500], y[300:500])


def test_a_saved_hasher_goes_on(digits, tmp_path):
    X, y = digits
    hasher = make().partial_fit(X[:600], y[:600].astype(str))
    hl.save(hasher, tmp_path / "model.hl")
    loaded = hl.load(tmp_path / "model.hl")
    for one in (hasher, loaded):
        one.partial_fit(X[600:900], y[600:900].astype(str))
    np.testing.assert_array_equal(loaded.decision_function(X), hasher.decision_function(X))


def test_unlabeled_rows_are_coded_and_not_learned_from(digits):
    X, y = digits
    marked = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    hasher = make(unlabeled=-1).partial_fit(X[:600], marked[:600]).partial_fit(X[600:900], marked[600:900])
    assert hasher.sums_.n_rows == np.count_nonzero(marked[:900] >= 0)
    unlabeled = np.flatnonzero(marked[600:900] < 0)
    np.testing.assert_array_equal(hasher.codes_[600:][unlabeled], hasher.encode_queries(X[600:900][unlabeled]))


def test_auto_hasher_updates_its_label_bits(digits, monkeypatch):
    X, y = digits
    train = np.arange(1400)
    known, new = train[y[:1400] < 7], train[y[:1400] >= 7]

    def choose(self, *_):
        """Trials take seconds; what they choose between is tested elsewhere."""
        self.report_ = SimpleNamespace()
        return hl.JoinedHasher([make(), hl.ITQ(8, random_state=0)])

    monkeypatch.setattr(hl.AutoHasher, "_choose", choose)
    hasher = hl.AutoHasher(32).partial_fit(X[known], y[known])
    before, structure = score(hasher, X, y), hasher.hasher_.hashers_[1].encode_queries(X)
    hasher.partial_fit(X[new], y[new])
    assert score(hasher, X, y) > before + 0.01
    np.testing.assert_array_equal(hasher.hasher_.hashers_[1].encode_queries(X), structure)
    assert len(hasher.codes_) == 1400
    later = hl.AutoHasher(32).fit(X[known], y[known])
    with pytest.raises(ValueError, match="needs rows of every known class again"):
        later.partial_fit(X[new], y[new])
    later.partial_fit(X[train], y[train])  # the rows of fit again, with the new ones
    assert score(later, X, y) > before + 0.01
    assert len(later.codes_) == 1400
    assert len(later.partial_fit(X[new], y[new]).codes_) == 1400 + len(new)


def test_mistakes_are_sentences(digits):
    X, y = digits
    # Sums of an earlier partial_fit are not those of a later fit.
    for hasher in (make(), make().partial_fit(X[:300], y[:300])):
        hasher.fit(X[:300], y[:300])
        with pytest.raises(ValueError, match=r"needs rows of every known class again.*none of 9 of the 10 classes"):
            hasher.partial_fit(X[:300][y[:300] == 3], y[:300][y[:300] == 3])
    by_sets = make().fit(X[:300], np.eye(10, dtype=int)[y[:300]])
    with pytest.raises(ValueError, match="was not fitted to one class per row"):
        by_sets.partial_fit(X[300:400], y[300:400])
    chunked = make().fit_chunks([(X[:300], y[:300])])
    assert len(chunked.partial_fit(X[:400], y[:400]).codes_) == 400
    with pytest.raises(ValueError, match="one class per row"):
        make().partial_fit(X[:300], np.eye(10, dtype=int)[y[:300]])
    with pytest.raises(ValueError, match="needs function='linear' or 'posterior'"):
        make(function="trees").partial_fit(X[:300], y[:300])


def test_classes_of_all_calls_are_of_one_kind(digits):
    X, y = digits
    names = [f"digit {number}" for number in y[:300]]
    hasher = make().partial_fit(X[:300], names)
    with pytest.raises(ValueError, match=r"y holds numbers \(0\) and the fit strings \('digit 0'\)"):
        hasher.partial_fit(X[300:400], y[300:400])
    assert len(hasher.codes_) == 300
    hasher.partial_fit(X[300:302], ["a new one", "digit 0"])
    with pytest.raises(ValueError, match="give both sides labels of one kind"):
        make().partial_fit(X[:300], y[:300]).partial_fit(X[300:302], ["a new one", "digit 0"])


def test_the_code_of_a_new_class_follows_the_features_and_keeps_its_distance():
    codes = np.array([[1] * 8, [1] * 4 + [-1] * 4], dtype=np.int8)
    expected = np.array([0.9, 0.9, -0.9, -0.9, 0.9, 0.9, -0.9, -0.9])
    np.testing.assert_array_equal(new_class_code(expected, codes), np.sign(expected))
    # Beside a single class there is room for the opposite code.
    np.testing.assert_array_equal(new_class_code(expected, codes[:1]), -codes[0])
    # As predicted it would be the first class itself. Classes are 4 bits apart, so its 4 least certain bits flip.
    np.testing.assert_array_equal(new_class_code(np.linspace(0.1, 0.9, 8), codes), [-1] * 4 + [1] * 4)


def test_few_bits_of_a_new_class_differ_from_what_its_features_predict():
    """Every bit that differs has to be learned against the features."""
    rng = np.random.default_rng(0)
    codes = np.where(rng.normal(size=(100, 64)) >= 0, 1, -1).astype(np.int8)
    apart = np.median(np.sort((64 - codes.astype(int) @ codes.T) / 2, axis=1)[:, 1])
    flipped = []
    for _ in range(20):
        # Rows of the class are between those of two known classes.
        expected = codes[rng.permutation(100)[:2]].mean(axis=0) + 0.1 * rng.normal(size=64)
        code = new_class_code(expected, codes)
        assert (codes != code).sum(axis=1).min() >= apart
        flipped.append(np.count_nonzero(code != np.where(expected >= 0, 1, -1)))
    assert np.mean(flipped) < 12  # 39 if each flip looks at the nearest class alone
