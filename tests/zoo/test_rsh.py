"""RSH: the ranking matrix against its sum over all triplets, its rank, and both solvers."""

from functools import partial

import numpy as np
import pytest
from scipy import linalg
from zoo_data import classes

from hashlearn import RSH
from hashlearn.labels import label_matrix
from hashlearn.zoo.rsh import ranking_matrix

classes = partial(classes, d=30)


def all_triplets(X, relevance):
    """sum_q p_q q' with p_q = sum_ij sgn(r_qi - r_qj) (x_i - x_j), loop by loop."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for q in range(len(X)):
        for i in range(len(X)):
            for j in range(len(X)):
                total += np.sign(relevance[q, i] - relevance[q, j]) * np.outer(X[i] - X[j], X[q])
    return total


@pytest.mark.parametrize("labels", ["classes", "label sets"])
def test_ranking_matrix_equals_the_sum_over_all_triplets(labels):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((25, 4))
    Y = np.eye(3, dtype=int)[rng.randint(3, size=25)]
    if labels == "label sets":
        Y = Y | rng.randint(2, size=(25, 3))
    wanted = all_triplets(X, Y @ Y.T)
    found = ranking_matrix(X, label_matrix(Y))
    W = rng.standard_normal((4, 3))
    assert np.trace(W.T @ found @ W) == pytest.approx(np.trace(W.T @ wanted @ W), rel=1e-10)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-8)


def test_many_label_sets_do_not_depend_on_the_block(monkeypatch):
    rng = np.random.RandomState(1)
    X, Y = rng.standard_normal((60, 5)), rng.randint(2, size=(60, 6))
    Y[Y.sum(axis=1) == 0, 0] = 1
    whole = ranking_matrix(X, label_matrix(Y))
    monkeypatch.setattr("hashlearn.zoo.rsh.GROUP_BLOCK", 7)
    np.testing.assert_allclose(ranking_matrix(X, label_matrix(Y)), whole, rtol=1e-12)


def test_classes_give_rank_c_minus_1_and_label_sets_more():
    X, y = classes(c=4)
    assert np.linalg.matrix_rank(ranking_matrix(X, label_matrix(y)), tol=1e-3) == 3
    Y = np.random.RandomState(2).randint(2, size=(200, 6))
    Y[Y.sum(axis=1) == 0, 0] = 1
    assert np.linalg.matrix_rank(ranking_matrix(X, label_matrix(Y)), tol=1e-3) > 5


def test_hard_solver_takes_the_top_eigenvectors():
    X, y = classes()
    hasher = RSH(n_bits=3, orthogonality="hard", random_state=0).fit(X, y)
    matrix = ranking_matrix((X - X.mean(axis=0)).astype(np.float64), label_matrix(y))
    matrix = (matrix + matrix.T) / 2
    W = hasher.function_.weights_.astype(np.float64)
    assert np.trace(W.T @ matrix @ W) == pytest.approx(linalg.eigvalsh(matrix)[-3:].sum(), rel=1e-5)
    assert hasher.orthogonality_gap_ < 1e-6


def test_soft_solver_nears_orthogonality_and_spreads_what_matters():
    X, y = classes(d=60)
    soft = RSH(n_bits=24, max_iter=100, random_state=0).fit(X, y)
    hard = RSH(n_bits=24, orthogonality="hard").fit(X, y)
    assert soft.orthogonality_gap_ < 0.2
    assert soft.score(X, y) > hard.score(X, y) + 0.05


@pytest.mark.parametrize("penalty", [0.1, 10.0])
def test_soft_solver_is_stable_for_other_penalties(penalty):
    X, y = classes()
    assert RSH(n_bits=8, penalty=penalty, random_state=0).fit(X, y).orthogonality_gap_ < 1.5


def test_more_bits_than_features():
    X, y = classes(d=5)
    assert RSH(n_bits=12, random_state=0).fit(X, y).score(X, y) > 0.5
    with pytest.raises(ValueError, match=r"at most one bit per feature: 5 features, but n_bits=12"):
        RSH(n_bits=12, orthogonality="hard").fit(X, y)


def test_constant_features_have_nothing_to_rank():
    X, y = classes()
    with pytest.raises(ValueError, match="nothing to rank"):
        RSH(n_bits=4).fit(np.ones_like(X), y)


def test_same_seed_same_codes_and_unlabeled_rows_take_no_part():
    X, y = classes()
    X -= X.mean(axis=0)
    X[150:] -= X[150:].mean(axis=0)  # both parts centred: the frame's mean is the same with and without the rest
    X[:150] -= X[:150].mean(axis=0)
    Y = np.eye(4, dtype=int)[y]
    Y[150:] = 0
    part = RSH(n_bits=8, random_state=3, n_jobs=1).fit(X[:150], Y[:150])
    whole = RSH(n_bits=8, random_state=3, n_jobs=2).fit(X, Y)
    np.testing.assert_allclose(whole.function_.weights_, part.function_.weights_, atol=1e-4)
    assert (whole.codes_ == whole.encode(X)).all()
