"""JoinedHasher: the parts' bits side by side under the whole contract of a hasher."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from hashlearn import GSDHP, ITQ, KSH, LSH, SDH, JoinedHasher, codes, load, metrics, save

SMALL = {"n_landmarks": 20, "random_state": 0}


def classes(n=120, d=10, c=3, seed=0):
    rng = np.random.RandomState(seed)
    y = rng.randint(c, size=n)
    return (rng.standard_normal((n, d)) + 2 * rng.standard_normal((c, d))[y]).astype(np.float32), y


def joined():
    return JoinedHasher([GSDHP(5, n_anchors=40, **SMALL), ITQ(3, random_state=0), LSH(13, random_state=0)])


def test_bits_of_the_parts_side_by_side():
    X, y = classes()
    hasher = joined().fit(X, y)
    alone = [GSDHP(5, n_anchors=40, **SMALL).fit(X, y), ITQ(3, random_state=0).fit(X), LSH(13, random_state=0).fit(X)]
    assert hasher.n_bits_ == 21
    bits = np.hstack([part.transform(X) for part in alone])
    assert (hasher.transform(X) == bits).all()
    assert (hasher.encode(X) == codes.pack(bits)).all()
    assert hasher.encode(X).shape == (120, 3)
    projections = np.hstack([part.decision_function(X) for part in alone])
    assert (hasher.decision_function(X) == projections).all()
    assert (hasher.expected_bits(X) == np.hstack([part.expected_bits(X) for part in alone])).all()
    learned = np.hstack([codes.unpack(part.codes_, part.n_bits_) for part in alone])
    assert (codes.unpack(hasher.codes_, 21) == learned).all()
    assert list(hasher.get_feature_names_out()) == [f"joinedhasher{i}" for i in range(21)]


def test_fit_leaves_the_given_hashers_alone():
    X, y = classes()
    hasher = joined().fit(X, y)
    assert not hasattr(hasher.hashers[0], "codes_")
    assert hasher.hashers_[0] is not hasher.hashers[0]
    assert list(hasher.seconds_) == ["gsdhp", "itq", "lsh"]


def test_parameters_by_name():
    hasher = JoinedHasher([ITQ(4), GSDHP(8), ITQ(6)])
    parameters = hasher.get_params()
    assert parameters["itq-1__n_bits"] == 4
    assert parameters["itq-2__n_bits"] == 6
    assert parameters["gsdhp__n_bits"] == 8
    assert parameters["gsdhp"] is hasher.hashers[1]
    assert list(hasher.get_params(deep=False)) == ["hashers", "spread"]
    given = hasher.hashers
    hasher.set_params(**{"itq-2__max_iter": 3, "gsdhp": LSH(2)})
    assert hasher.hashers[2].max_iter == 3
    assert isinstance(hasher.hashers[1], LSH)
    assert isinstance(given[1], GSDHP)  # the caller's list is not changed
    hasher.set_params(hashers=[SDH(7)], sdh__n_bits=9)
    assert hasher.get_params()["sdh__n_bits"] == 9
    with pytest.raises(ValueError, match="Invalid parameter 'itq'"):
        hasher.set_params(itq__n_bits=3)


def test_clone_is_deep():
    hasher = joined()
    copy = clone(hasher)
    assert copy.hashers is not hasher.hashers
    copy.set_params(itq__n_bits=9)
    assert hasher.hashers[1].n_bits == 3


def test_grid_search_reaches_inside():
    X, y = classes(n=60)
    search = GridSearchCV(JoinedHasher([LSH(2, random_state=0), ITQ(2, random_state=0)]), {"lsh__n_bits": [2, 8]}, cv=2)
    assert search.fit(X, y).best_estimator_.n_bits_ in (4, 10)


def test_joined_hashers_nest_and_survive_a_model_file(tmp_path):
    X, y = classes()
    hasher = JoinedHasher([JoinedHasher([ITQ(3, random_state=0)]), GSDHP(6, n_anchors=40, **SMALL)]).fit(X, y)
    save(hasher, tmp_path / "model.hl")
    again = load(tmp_path / "model.hl")
    assert (again.encode(X) == hasher.encode(X)).all()
    assert (again.codes_ == hasher.codes_).all()
    assert again.get_params()["joinedhasher__itq__n_bits"] == 3
    assert (again.fit(X, y).codes_ == hasher.codes_).all()


def test_label_sets_unlabeled_rows_and_column_names():
    pandas = pytest.importorskip("pandas")
    X, y = classes()
    Y = np.eye(3, dtype=int)[y]
    Y[:, 0] |= Y[:, 1]
    Y[100:] = 0
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(10)])
    hasher = joined().fit(frame, Y)
    assert (hasher.codes_[100:] == hasher.encode(frame)[100:]).all()
    with pytest.raises(ValueError, match="feature names"):
        hasher.encode(frame.rename(columns={"f0": "x"}))


@pytest.mark.parametrize("hashers", [[], [ITQ], [ITQ(4), "itq"], "itq", None])
def test_anything_but_hashers_is_refused(hashers):
    X, y = classes()
    with pytest.raises((ValueError, TypeError), match="hasher"):
        JoinedHasher(hashers).fit(X, y)


def test_too_many_bits():
    X, _ = classes()
    with pytest.raises(ValueError, match=r"at most 1024 bits\. Got 1100"):
        JoinedHasher([LSH(600), LSH(500)]).fit(X)


def test_labels_are_needed_exactly_if_a_part_needs_them():
    X, _ = classes()
    JoinedHasher([LSH(4), ITQ(4)]).fit(X)
    with pytest.raises(ValueError, match="requires y"):
        joined().fit(X)


@pytest.mark.slow
def test_scikit_learn_contract():
    check_estimator(JoinedHasher([LSH(3, random_state=0), ITQ(4, random_state=0)]))
    check_estimator(JoinedHasher([GSDHP(3, n_anchors=10, **SMALL), ITQ(4, random_state=0)]))


@pytest.mark.parametrize("seed", [0, 1])
def test_real_valued_queries_on_classes_never_trained_on_beat_hamming(seed):
    """The projections of the paper's GSDH_P and ITQ differ in size: as they are, they rank worse than plain bits."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    unseen = np.isin(y, rng.permutation(10)[:3])
    known = np.flatnonzero(~unseen)[:600]
    hasher = JoinedHasher([GSDHP.paper(48, random_state=0), ITQ(16, random_state=0)]).fit(X[known], y[known])
    rows = np.flatnonzero(unseen)
    query, database = rows[::5], np.setdiff1d(rows, rows[::5])
    packed = hasher.encode(X)

    def score(queries):
        return metrics.mean_average_precision(queries[query], packed[database], y[query], y[database], at=None)

    assert score(hasher.decision_function(X)) < score(packed) < score(hasher.expected_bits(X))


def test_slopes_keep_the_sign_of_bits_that_say_nothing():
    X, y = classes()
    hasher = JoinedHasher([LSH(64, random_state=0)]).fit(X, y)
    assert (hasher.calibration_.slopes_ > 0).all()
    alone = LSH(64, random_state=0).fit(X)
    assert (hasher.transform(X) == alone.transform(X)).all()


def test_chunks_give_the_same_as_memory():
    X, y = classes()
    in_memory = joined().fit(X, y)
    again = joined().fit_chunks([lambda at=at: (X[at : at + 70], y[at : at + 70]) for at in range(0, len(X), 70)])
    np.testing.assert_array_equal(again.codes_, in_memory.codes_)
    np.testing.assert_array_equal(again.expected_bits(X), in_memory.expected_bits(X))
    assert not hasattr(joined().fit_chunks(X, y, codes=False), "codes_")


def test_chunks_need_hashers_that_learn_from_chunks_and_labels_for_those_that_do():
    X, y = classes()
    with pytest.raises(ValueError, match="KSH needs all rows in memory, so this JoinedHasher cannot learn from chunks"):
        JoinedHasher([ITQ(4), KSH(4)]).fit_chunks(X, y)
    with pytest.raises(ValueError, match="GSDHP requires y to be passed"):
        JoinedHasher([ITQ(4), GSDHP(4)]).fit_chunks(X)


def test_spread_moves_thresholds_of_label_bits_for_database_rows_only():
    X, y = classes()
    plain = JoinedHasher([GSDHP(12, n_anchors=40, **SMALL), ITQ(4, random_state=0)]).fit(X, y)
    spread = clone(plain).set_params(spread=0.75).fit(X, y)
    assert np.ptp(spread.thresholds_[:12]) == 1.5
    assert not spread.thresholds_[12:].any()
    np.testing.assert_array_equal(spread.encode_queries(X), plain.encode(X))
    expected = spread.expected_bits(X)
    database = codes.unpack(spread.encode(X), 16)
    certain = abs(expected - spread.thresholds_) > 1e-4
    np.testing.assert_array_equal(database[certain], (expected >= spread.thresholds_)[certain])
    assert (database != codes.unpack(plain.encode(X), 16)).any()
