"""CCA-ITQ: ranks, correlations, and the rotation's loss."""

import numpy as np
import pytest
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_digits

from hashlearn import CCAITQ
from hashlearn.codes import unpack
from hashlearn.hashers.ccaitq import RIDGES, Covariances, canonical_directions, chosen_ridge
from hashlearn.hashers.sums import GramSums

X, Y = (part[:500] for part in load_digits(return_X_y=True))


def one_hot(y):
    return (np.asarray(y)[:, None] == np.unique(y)).astype(float)


def test_only_one_direction_less_than_classes_correlates():
    hasher = CCAITQ(n_bits=16, random_state=0).fit(X, Y)
    assert hasher.correlations_[8] > 0.3
    assert np.all(hasher.correlations_[9:] < 1e-6)
    assert np.linalg.matrix_rank(hasher.function_.weights_, tol=1e-4) == 9
    assert np.linalg.matrix_rank(hasher.decision_function(X), tol=1e-2) == 9


def test_labels_linear_in_the_features_correlate_fully():
    rng = np.random.RandomState(0)
    y = rng.randint(5, size=300)
    mix = rng.standard_normal((5, 12))
    hasher = CCAITQ(n_bits=8, ridge=1e-9, random_state=0).fit(one_hot(y) @ mix, y)
    np.testing.assert_allclose(hasher.correlations_[:4], 1, atol=1e-5)
    assert np.all(hasher.correlations_[4:] < 1e-3)


def sums_of(rows, sets):
    return GramSums(len(rows), rows.sum(axis=0), rows.T @ rows, rows.T @ sets, sets.sum(axis=0), sets.T @ sets)


def test_correlations_agree_with_scikit_learn():
    rng = np.random.RandomState(1)
    sets = (rng.random_sample((400, 3)) < 0.4).astype(float)
    rows = rng.standard_normal((400, 6)) + sets @ rng.standard_normal((3, 6))
    rows -= rows.mean(axis=0)
    directions, found = canonical_directions(Covariances.from_sums(sums_of(rows, sets)), 1e-10, 1e-10, 6)
    left, right = CCA(3, max_iter=5000, tol=1e-12).fit_transform(rows, sets)
    wanted = [np.corrcoef(left[:, k], right[:, k])[0, 1] for k in range(3)]
    np.testing.assert_allclose(found[:3], wanted, atol=1e-5)
    # Three labels have no more than three directions.
    assert len(found) == 3
    projections = rows @ directions
    np.testing.assert_allclose(projections.T @ projections / 399, np.eye(3), atol=1e-6)


def test_bits_are_the_rotated_correlation_scaled_projections():
    hasher = CCAITQ(n_bits=9, ridge=1e-4, random_state=0).fit(X, Y)
    assert hasher.ridge_ == 1e-4
    centred = X - X.mean(axis=0)
    directions, correlations = canonical_directions(Covariances.from_sums(sums_of(centred, one_hot(Y))), 1e-4, 1e-4, 9)
    wanted = centred @ (directions * correlations)
    found = hasher.decision_function(X)
    # A rotation keeps inner products.
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-3)


def test_the_loss_never_rises():
    losses = CCAITQ(n_bits=12, random_state=0).fit(X, Y).losses_
    assert losses.shape == (50,)
    assert np.all(np.diff(losses) <= 1e-8 * losses[:-1])
    assert losses[-1] < 0.98 * losses[0]


@pytest.mark.parametrize("n_bits", [4, 40])
def test_label_sets_rows_without_labels_and_more_bits_than_features(n_bits):
    rng = np.random.RandomState(2)
    sets = (rng.random_sample((200, 5)) < 0.4).astype(int)
    sets[:20] = 0
    rows = rng.standard_normal((200, 10)) + 3 * sets @ rng.standard_normal((5, 10))
    known = CCAITQ(n_bits=n_bits, random_state=0).fit(rows[20:], sets[20:])
    both = CCAITQ(n_bits=n_bits, random_state=0).fit(rows, sets)
    # Unlabelled rows only move the centre of the features, which the intercept takes back.
    np.testing.assert_allclose(both.decision_function(rows), known.decision_function(rows), atol=1e-3)
    assert unpack(both.codes_, n_bits).shape == (200, n_bits)


def test_same_seed_same_codes():
    first, second = (CCAITQ(n_bits=16, n_jobs=jobs, random_state=3).fit(X, Y) for jobs in (1, 2))
    np.testing.assert_array_equal(first.codes_, second.codes_)
    assert (CCAITQ(n_bits=16, random_state=4).fit(X, Y).codes_ != first.codes_).any()


def test_constant_features():
    assert CCAITQ(n_bits=6).fit(np.ones((5, 3)), [0, 1, 0, 1, 0]).codes_.shape == (5, 1)


def test_the_ridge_is_chosen_by_generalized_cross_validation():
    rng = np.random.RandomState(3)
    y = rng.randint(4, size=60)
    rows = rng.standard_normal((60, 30)) + 0.5 * one_hot(y) @ rng.standard_normal((4, 30))
    rows -= rows.mean(axis=0)
    sets = one_hot(y) - one_hot(y).mean(axis=0)
    scale = (rows**2).sum() / 59 / 30
    errors = []
    for share in RIDGES:
        hat = rows @ np.linalg.solve(rows.T @ rows / 59 + share * scale * np.eye(30), rows.T / 59)
        errors.append(((sets - hat @ sets) ** 2).sum() / (1 - np.trace(hat) / 60) ** 2)
    assert np.argmin(errors) > 0
    chosen = chosen_ridge(Covariances.from_sums(sums_of(rows, one_hot(y))))
    assert chosen == pytest.approx(RIDGES[int(np.argmin(errors))] * scale)


def test_a_chosen_ridge_finds_more_on_kernel_features():
    """The variances of kernel features are small, and the authors' ridge drowns most of them."""
    rows, labels = load_digits(return_X_y=True)
    found = [
        CCAITQ(32, kernel="rbf", n_landmarks=300, ridge=ridge, random_state=0).fit(rows[:900], labels[:900])
        for ridge in ("auto", 1e-2)
    ]
    scores = [hasher.score(rows[900:], labels[900:]) for hasher in found]
    assert scores[0] > scores[1] + 0.02


def test_rows_wider_than_many():
    rng = np.random.RandomState(4)
    y = np.repeat(np.arange(8), 5)
    rows = rng.standard_normal((8, 300))[y] + rng.standard_normal((40, 300))
    hasher = CCAITQ(16, random_state=0).fit(rows, y)
    assert hasher.correlations_.shape == (8,)
    assert len(np.unique(hasher.codes_, axis=0)) >= 8
