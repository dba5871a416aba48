"""HMOH: perceptrons by loops, no mistake on separable rows in the end, majority targets."""

import numpy as np
from sklearn.datasets import load_digits

from hashlearn import HMOH, codes
from hashlearn.zoo.hmoh import mean_perceptrons

X, Y = load_digits(return_X_y=True)


def test_an_epoch_by_loops():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(7, 4)).astype(np.float32)
    targets = rng.choice([-1.0, 1.0], (7, 3)).astype(np.float32)
    order, start = rng.permutation(7), rng.normal(size=(4, 3)).astype(np.float32)
    weights = start.copy()
    mean, wrong = mean_perceptrons(rows, targets, order, 2, weights)
    W, passed, mistakes = start.astype(float), np.zeros((4, 3)), 0
    for place in range(0, 7, 2):
        change = np.zeros((4, 3))
        for row in order[place : place + 2]:
            for bit in range(3):
                guess = 1.0 if rows[row] @ W[:, bit] >= 0 else -1.0
                if guess != targets[row, bit]:
                    mistakes += 1
                    change[:, bit] += 2 * targets[row, bit] * rows[row]
        W = W + change
        passed += len(order[place : place + 2]) * W
    np.testing.assert_allclose(weights, W, rtol=1e-5)
    np.testing.assert_allclose(mean, passed / 7, rtol=1e-4, atol=1e-5)
    assert wrong == mistakes


def test_separable_rows_end_without_mistakes():
    """The perceptron convergence theorem: 60 rows in 60 kernel features can be separated in any way."""
    hasher = HMOH(16, n_epochs=200, random_state=0, n_jobs=1).fit(X[:60], Y[:60])
    assert hasher.mistakes_[-1] == 0 < hasher.mistakes_[0]


def test_targets_are_majorities_of_codewords():
    sets = np.stack([Y % 2, Y % 3 == 0, Y > 6], axis=1).astype(int)
    keep = sets.any(axis=1)
    hasher = HMOH(16, n_landmarks=50, random_state=0, n_jobs=1).fit(X[keep], sets[keep])
    votes = sets[keep] @ hasher.class_codes_.astype(int)
    learned = codes.unpack_signs(hasher.codes_, 16)
    decided = votes != 0
    np.testing.assert_array_equal(learned[decided], np.sign(votes)[decided])
    undecided = ~decided
    assert all(len(np.unique(learned[undecided[:, k], k])) <= 1 for k in range(16))


def test_one_pass_learns():
    hasher = HMOH(32, n_landmarks=200, random_state=0, n_jobs=1).fit(X[:1000], Y[:1000])
    assert hasher.score(X[1000:], Y[1000:]) > 0.75
