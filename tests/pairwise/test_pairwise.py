"""SDHP and GSDHP: every kind of supervision, every hash function, and the odd cases."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.tree import DecisionTreeClassifier

import hashlearn as hl
from hashlearn import GSDHP, SDHP
from hashlearn.metrics import mean_average_precision

BOTH = pytest.mark.parametrize("hasher", [SDHP, GSDHP])
# Codes of four rows: by the settings of the paper, as release 0.2.0 gave them by default, and by the defaults of today.
GOLDEN_PAPER = [[236, 232, 110], [139, 127, 178], [139, 127, 178], [82, 16, 201]]
GOLDEN_DEFAULT = [[233, 2, 114], [133, 125, 161], [225, 44, 241], [114, 172, 221]]


def make(hasher, **changes):
    settings = {"n_bits": 16, "n_landmarks": 100, "n_anchors": 150, "random_state": 0}
    return hasher().set_params(**{**settings, **changes})


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:800]], y[order[:800]], X[order[800:1200]], y[order[800:1200]]


@pytest.fixture(scope="module")
def sets(digits):
    """Label sets that the features can tell: the digit, whether it is even, whether it is large."""
    X, y, _, _ = digits
    return X, np.c_[np.eye(10, dtype=int)[y], y % 2 == 0, y > 4].astype(int)


def scores(hasher, digits):
    """MAP of queries against the learned and against the hashed training rows."""
    X, y, Q, yq = digits
    queries = hasher.encode(Q)
    return [mean_average_precision(queries, db, yq, y, at=100) for db in (hasher.codes_, hasher.encode(X))]


@BOTH
def test_classes_are_learned(hasher, digits):
    learned, hashed = scores(make(hasher, n_bits=32).fit(*digits[:2]), digits)
    floats = hl.metrics.evaluate_floats(digits[2], digits[0], digits[3], digits[1], at=100).map
    assert learned > 0.9
    assert hashed > max(0.9, floats)


@BOTH
def test_class_names_may_be_anything(hasher, digits):
    X, y = digits[:2]
    names = np.array([f"digit {k}" for k in range(10)])
    np.testing.assert_array_equal(make(hasher).fit(X, names[y]).codes_, make(hasher).fit(X, y).codes_)


@BOTH
def test_label_sets_dense_and_sparse(hasher, sets):
    X, Y = sets
    dense = make(hasher).fit(X, Y)
    np.testing.assert_array_equal(dense.codes_, make(hasher).fit(X, sparse.csr_matrix(Y)).codes_)
    found = hl.metrics.evaluate(dense.encode(X), dense.codes_, Y, Y, ndcg_at=50).ndcg
    assert found > (0.8 if hasher is GSDHP else 0.7)


@BOTH
def test_sparse_rows(hasher, digits):
    X, y, Q, _ = digits
    dense, thin = make(hasher).fit(X, y), make(hasher).fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(dense.codes_, thin.codes_)
    np.testing.assert_allclose(
        thin.decision_function(sparse.csr_matrix(Q)), dense.decision_function(Q), rtol=1e-3, atol=1e-2
    )


@BOTH
def test_rows_without_labels_are_coded_but_do_not_teach(hasher, digits):
    X, y, Q, _ = digits
    hidden = np.arange(len(y)) % 4 == 0
    partly = np.where(hidden, -1, y)
    fitted = make(hasher, unlabeled=-1).fit(X, partly)
    assert not hidden[fitted.anchor_indices_].any()
    np.testing.assert_array_equal(fitted.codes_[hidden], fitted.encode(X[hidden].astype(np.float64)))
    other = partly.copy()
    other[~hidden] = y[~hidden]
    np.testing.assert_array_equal(make(hasher, unlabeled=-1).fit(X, other).codes_, fitted.codes_)
    as_none = np.array([None if h else k for h, k in zip(hidden, y, strict=True)], dtype=object)
    np.testing.assert_array_equal(make(hasher).fit(X, as_none).encode(Q), fitted.encode(Q))


@BOTH
def test_pairs(hasher, digits):
    X, y, Q, yq = digits
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 300, (6000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    fitted = make(hasher, n_anchors=300).fit_pairs(X, pairs[same], pairs[~same])
    assert set(fitted.anchor_indices_) <= set(range(300))
    np.testing.assert_array_equal(fitted.codes_[300:], fitted.encode(X[300:]))
    assert mean_average_precision(fitted.encode(Q), fitted.encode(X), yq, y, at=50) > 0.7


@BOTH
def test_a_similarity_matrix_equals_classes(hasher, digits):
    """S built from classes, with the same anchors, teaches the same."""
    X, y = digits[:2]
    by_class = make(hasher).fit(X, y)
    anchors = by_class.anchor_indices_
    S = np.where(y[:, None] == y[anchors], 1.0, -1.0)
    for matrix in (S, sparse.csr_matrix(S)):
        given = make(hasher).fit_similarity(X, matrix, anchors)
        learned = [hl.metrics.mean_average_precision(h.encode(X), h.codes_, y, y, at=50) for h in (by_class, given)]
        assert learned[1] == pytest.approx(learned[0], abs=0.03)


@BOTH
def test_neighbours_need_no_labels(hasher, digits):
    X, y, Q, yq = digits
    fitted = make(hasher, n_bits=32).fit_neighbors(X, n_neighbors=20, far_quantile=0.3)
    random = hl.LSH(32, random_state=0).fit(X)
    found = [mean_average_precision(h.encode(Q), h.encode(X), yq, y, at=50) for h in (fitted, random)]
    assert found[0] > found[1] + 0.05


@pytest.mark.parametrize("loss", ["bre", "bre-released", "hinge", "ee", lambda s, u: np.maximum(0, 8 - s * u) ** 2])
def test_losses_learn(loss, digits):
    learned, hashed = scores(make(GSDHP, loss=loss, n_bits=16).fit(*digits[:2]), digits)
    assert learned > 0.85
    assert hashed > 0.85


@BOTH
@pytest.mark.parametrize("projection", ["anchors", "rows"])
def test_projections(hasher, projection, digits):
    learned, _ = scores(make(hasher, projection=projection).fit(*digits[:2]), digits)
    assert learned > 0.85


def test_trees(digits):
    pytest.importorskip("lightgbm")
    trees = hl.functions.BoostedTrees(n_trees=20)
    fitted = make(GSDHP, n_bits=8, function=trees, n_jobs=1).fit(*digits[:2])
    assert scores(fitted, digits)[0] > 0.7
    assert not hasattr(trees, "leaf_")


@pytest.mark.parametrize(
    "function", [Ridge(), MultiOutputClassifier(DecisionTreeClassifier()), DecisionTreeClassifier()]
)
def test_any_estimator_as_hash_function(function, digits):
    fitted = make(GSDHP, n_bits=8, function=function).fit(*digits[:2])
    assert scores(fitted, digits)[0] > 0.5
    assert not hasattr(function, "n_features_in_")


def test_ridge_auto_chooses_a_ridge(digits):
    fitted = make(GSDHP, ridge="auto").fit(*digits[:2])
    assert 0 < fitted.function_.ridge_ < np.inf
    assert scores(fitted, digits)[0] > 0.85


def test_grid_search(digits):
    search = GridSearchCV(make(GSDHP), {"n_bits": [2, 24]}, cv=3).fit(*digits[:2])
    assert search.best_params_ == {"n_bits": 24}
    assert search.best_score_ > 0.7


def test_more_starts_never_end_higher(digits):
    """The first start is the same, and the best by objective is kept."""
    ends = [make(GSDHP, solver__n_starts=count).fit(*digits[:2]).objective_[-1] for count in (1, 2, 5)]
    assert ends[0] >= ends[1] >= ends[2]
    assert ends[0] > ends[2]


@BOTH
def test_what_is_recorded(hasher, digits):
    fitted = make(hasher).fit(*digits[:2])
    assert fitted.n_iter_ == len(fitted.objective_) == len(fitted.changes_) <= 20
    assert len(fitted.anchor_indices_) == 150
    assert {"features", "similarity", "start", "learn", "rows", "function"} <= set(fitted.seconds_)
    H = hl.codes.unpack_signs(fitted.codes_[fitted.anchor_indices_], 16).astype(float)
    S = np.where(digits[1][fitted.anchor_indices_][:, None] == digits[1][fitted.anchor_indices_], 1, -1)
    assert fitted.objective_[-1] == pytest.approx(((H @ H.T - 16 * S) ** 2).sum())


@BOTH
@pytest.mark.parametrize(
    ("n", "y", "bits"),
    [
        (30, np.r_[np.zeros(29, int), 1], 8),
        (30, np.arange(30), 8),
        (30, np.arange(30) % 3, 100),
        (2, np.array([0, 1]), 4),
    ],
    ids=["a class of one row", "every row its own class", "more bits than features", "two rows"],
)
def test_odd_supervision_simply_works(hasher, n, y, bits):
    X = np.random.default_rng(0).normal(size=(n, 5))
    fitted = hasher(n_bits=bits, random_state=0).fit(X, y)
    assert fitted.codes_.shape == (n, -(-bits // 8))
    assert np.isfinite(fitted.decision_function(X)).all()


@BOTH
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda h, X: h.fit_similarity(X, np.ones((3, 2)), [0, 1]), r"S must have one row per row of X.*\(30, 2\)"),
        (lambda h, X: h.fit_similarity(X, np.ones((30, 2)), [0, 0]), "distinct row numbers"),
        (lambda h, X: h.fit_similarity(X, np.ones((30, 2)), [0, 99]), r"outside 0\.\.29"),
        (lambda h, X: h.fit_similarity(X, np.triu(np.ones((30, 30))), np.arange(30)), "must be symmetric"),
        (lambda h, X: h.fit_similarity(X, np.zeros((30, 2)), [0, 1]), "says nothing"),
        (lambda h, X: h.fit_pairs(X, [[0, 77]], []), r"outside 0\.\.29"),
        (lambda h, X: h.fit_neighbors(X, n_neighbors=500), "between 1 and the 30 anchors"),
        (lambda h, X: h.fit(X, np.full((30, 3), 2)), "0/1 matrix"),
        (lambda h, X: h.fit(X, np.zeros(30, int)), "All labeled rows have the same label"),
        (lambda h, X: h.fit_chunks(X, np.zeros(30, int)), "All labeled rows have the same label"),
        (lambda h, X: h.set_params(dissimilar=0.5).fit(X, np.arange(30) % 2), "'dissimilar' parameter of"),
        (lambda h, X: h.set_params(n_bits=2000).fit(X, np.arange(30) % 2), r"range \[1, 1024\]. Got 2000"),
    ],
)
def test_bad_supervision_gets_a_sentence(hasher, call, sentence):
    X = np.random.default_rng(0).normal(size=(30, 5))
    with pytest.raises(ValueError, match=sentence):
        call(make(hasher), X)


def test_the_settings_of_the_paper_by_one_name(digits):
    X, y, Q, _ = digits
    paper = GSDHP.paper(16, random_state=0)
    by_hand = GSDHP(16, n_anchors=1000, n_landmarks=1000, ridge=1e-3, projection="auto", random_state=0)
    by_hand.set_params(solver=hl.Greedy(start="leading"))
    np.testing.assert_array_equal(paper.fit(X, y).encode(Q), by_hand.fit(X, y).encode(Q))
    assert paper.function_.ridge_ == 1e-3
    assert not paper.function_.intercept_.any()
    assert GSDHP.paper(16, loss="hinge", solver__beta=2.0).get_params()["solver__beta"] == 2.0
    assert SDHP().get_params()["n_landmarks"] == 1000


def test_the_codes_of_the_paper_are_those_of_release_0_2():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 200)
    X = rng.normal(size=(4, 6))[y] + rng.normal(size=(200, 6))
    codes = GSDHP.paper(24, n_landmarks=40, n_anchors=60, random_state=0).fit(X, y).encode(X[:4])
    assert codes.tolist() == GOLDEN_PAPER
    codes = GSDHP(24, n_landmarks=40, n_anchors=60, random_state=0).fit(X, y).encode(X[:4])
    assert codes.tolist() == GOLDEN_DEFAULT


def test_rare_classes_are_found(digits):
    """Classes of 130 to 3 rows: thresholds and projection of the paper put rare classes on the side of common ones."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    sizes = np.geomspace(130, 3, 10).round().astype(int)
    train = np.concatenate([rng.permutation(np.flatnonzero(y == k))[: sizes[k]] for k in range(10)])
    rest = np.setdiff1d(np.arange(len(y)), train)
    found = []
    for hasher in (GSDHP(64, random_state=0), GSDHP.paper(64, random_state=0)):
        packed = hasher.fit(X[train], y[train]).encode(X[rest])
        found.append(mean_average_precision(packed[::3], packed[1::3], y[rest][::3], y[rest][1::3], at=None))
    assert found[0] > 0.75
    assert found[0] > found[1] + 0.05


def test_projections_are_log_odds_of_bits(digits):
    """About as many bits are right as the function says, on rows that it has not seen."""
    X, y, Q, yq = digits
    fitted = make(GSDHP, n_bits=32).fit(X, y)
    expected = fitted.expected_bits(Q)
    own = hl.codes.unpack_signs(fitted.codes_, 32)
    codes = np.array([np.sign(own[y == k].sum(axis=0) + 0.5) for k in range(10)])[yq]
    right = (expected >= 0) == (codes > 0)
    sure = np.abs(expected)
    for low, high in ((0.0, 0.5), (0.5, 0.9), (0.9, 1.0)):
        inside = (sure >= low) & (sure < high)
        assert right[inside].mean() == pytest.approx((1 + sure[inside].mean()) / 2, abs=0.08)


def test_many_landmarks_and_anchors_by_themselves(digits):
    X, y = digits[:2]
    fitted = GSDHP(8, random_state=0).fit(X, y)
    assert len(fitted.features_.landmarks_) == len(X)
    assert len(fitted.anchor_indices_) == len(X)
    many = np.arange(2600) // 2
    fitted = GSDHP(8, kernel=None, random_state=0).fit(np.random.default_rng(0).normal(size=(2600, 5)), many)
    assert len(fitted.anchor_indices_) == 2600


def test_class_posteriors_as_hash_function(digits):
    fitted = make(GSDHP, n_bits=32, function="posterior").fit(*digits[:2])
    learned, hashed = scores(fitted, digits)
    assert learned > 0.9
    assert hashed > 0.9
    expected = fitted.expected_bits(digits[2])
    np.testing.assert_array_equal(expected >= 0, fitted.transform(digits[2]) == 1)
    assert np.abs(expected).max() <= 1


def test_class_posteriors_need_classes(sets):
    with pytest.raises(ValueError, match=r"function='posterior'\) needs one class per row: use 'linear' here"):
        make(GSDHP, function="posterior").fit(*sets)
