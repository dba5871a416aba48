"""What only the solver needs is in the solver: new names everywhere, old names for one more release."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from hashlearn import GSDHP, SDHP, Greedy, Symmetric
from hashlearn.parameters import InvalidParameterError

SMALL = {"n_anchors": 30, "n_landmarks": 20, "random_state": 0}
BOTH = pytest.mark.parametrize(("method", "solver"), [(GSDHP, Greedy), (SDHP, Symmetric)])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    return rng.normal(size=(90, 6)) + y[:, None], y


def test_gsdhp_has_half_as_many_parameters():
    assert sorted(GSDHP().get_params(deep=False)) == [
        "dissimilar",
        "function",
        "kernel",
        "loss",
        "n_anchors",
        "n_bits",
        "n_jobs",
        "n_landmarks",
        "projection",
        "random_state",
        "relevance",
        "ridge",
        "solver",
        "unlabeled",
        "verbose",
    ]


def test_a_solver_is_checked():
    X, y = np.zeros((4, 2)), [0, 0, 1, 1]
    with pytest.raises(InvalidParameterError, match="The 'beta' parameter of Greedy must be"):
        GSDHP(solver=Greedy(beta=-1.0)).fit(X, y)
    with pytest.raises(
        InvalidParameterError, match="The 'solver' parameter of SDHP must be None or an instance of 'Sym"
    ):
        SDHP(solver=Greedy()).fit(X, y)


@BOTH
def test_settings_of_the_solver_reach_it(method, solver, rows):
    by_object = method(8, solver=solver(max_iter=2, batch_size=5, n_starts=1), **SMALL).fit(*rows)
    by_name = method(8, **SMALL).set_params(solver__max_iter=2, solver__batch_size=5, solver__n_starts=1).fit(*rows)
    assert len(by_object.changes_) <= 2
    np.testing.assert_array_equal(by_object.codes_, by_name.codes_)
    assert not np.array_equal(by_object.objective_, method(8, **SMALL).fit(*rows).objective_)
    assert method().get_params()["solver__max_iter"] == 20
    assert clone(by_name).solver.max_iter == 2
    search = GridSearchCV(method(8, **SMALL), {"solver__beta": [1.0, 10.0]}, cv=2).fit(*rows)
    assert set(search.best_params_) == {"solver__beta"}
