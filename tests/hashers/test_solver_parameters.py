"""What only the solver needs is in the solver: new names everywhere, old names for one more release."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import hashlearn as hl
from hashlearn import GSDHP, SDHP, Greedy, Symmetric, modelfile, models
from hashlearn.parameters import InvalidParameterError

SMALL = {"n_anchors": 30, "n_landmarks": 20, "random_state": 0}
BOTH = pytest.mark.parametrize(("method", "solver"), [(GSDHP, Greedy), (SDHP, Symmetric)])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    return rng.normal(size=(90, 6)) + y[:, None], y


def old(name, owner="GSDHP"):
    return pytest.warns(FutureWarning, match=rf"^the parameter '{name}' of {owner} is deprecated since hashlearn 0\.3")


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
        "structure",
        "unlabeled",
        "verbose",
    ]


@BOTH
def test_settings_of_the_solver_reach_it(method, solver, rows, recwarn):
    by_object = method(8, solver=solver(max_iter=2, batch_size=5, n_starts=1), **SMALL).fit(*rows)
    by_name = method(8, **SMALL).set_params(solver__max_iter=2, solver__batch_size=5, solver__n_starts=1).fit(*rows)
    assert len(by_object.changes_) <= 2
    np.testing.assert_array_equal(by_object.codes_, by_name.codes_)
    assert not np.array_equal(by_object.objective_, method(8, **SMALL).fit(*rows).objective_)
    assert method().get_params()["solver__max_iter"] == 20
    assert clone(by_name).solver.max_iter == 2
    search = GridSearchCV(method(8, **SMALL), {"solver__beta": [1.0, 10.0]}, cv=2).fit(*rows)
    assert set(search.best_params_) == {"solver__beta"}
    assert not [warning for warning in recwarn if warning.category is FutureWarning]


def test_a_solver_is_checked():
    X, y = np.zeros((4, 2)), [0, 0, 1, 1]
    with pytest.raises(InvalidParameterError, match="The 'beta' parameter of Greedy must be"):
        GSDHP(solver=Greedy(beta=-1.0)).fit(X, y)
    with pytest.raises(
        InvalidParameterError, match="The 'solver' parameter of SDHP must be None or an instance of 'Sym"
    ):
        SDHP(solver=Greedy()).fit(X, y)


@BOTH
def test_old_names_reach_the_solver(method, solver, rows):
    with old("beta", method.__name__) as caught:
        hasher = method(8, beta=3.0, **SMALL)
    assert [warning.filename for warning in caught] == [__file__]
    assert isinstance(hasher.solver, solver)
    new = method(8, solver=solver(beta=3.0), **SMALL)
    np.testing.assert_array_equal(hasher.fit(*rows).codes_, new.fit(*rows).codes_)
    with old("max_iter", method.__name__):
        assert hasher.set_params(max_iter=4).solver.max_iter == 4
    with old("beta", method.__name__):
        assert hasher.beta == 3.0
    with old("beta", method.__name__):
        hasher.beta = 5.0
    assert hasher.solver.beta == 5.0


def test_an_old_name_beside_a_solver_is_an_error():
    with old("beta"), pytest.raises(TypeError, match=r"got both solver and beta: give solver=Greedy\(\.\.\.\)"):
        GSDHP(beta=1.0, solver=Greedy())


def test_r_max_is_gone():
    assert GSDHP(r_max=None).solver is None
    with pytest.raises(TypeError, match="GSDHP has no parameter 'r_max' any more"):
        GSDHP(r_max=2.0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        GSDHP(no_such_thing=1)


def rewritten(hasher, change, path):
    """A model file with another description, as an earlier release wrote it."""
    document, arrays = modelfile.from_bytes(models.dumps(hasher), "model.hl")
    change(document["model"])
    path.write_bytes(modelfile.to_bytes(document, arrays))
    return path


def test_model_files_with_old_names_load(rows, tmp_path, recwarn):
    hasher = GSDHP(8, **SMALL).fit(*rows)

    def age(model):
        del model["parameters"]["solver"]
        model["parameters"] |= {"beta": 3.0, "batch_size": 7, "residual": "full", "r_max": None}

    again = hl.load(rewritten(hasher, age, tmp_path / "old.hl"))
    assert (again.solver.beta, again.solver.batch_size, again.solver.residual) == (3.0, 7, "full")
    np.testing.assert_array_equal(again.encode(rows[0]), hasher.encode(rows[0]))
    hl.save(again, tmp_path / "new.hl")
    assert hl.load(tmp_path / "new.hl").get_params()["solver__beta"] == 3.0
    assert not recwarn


def test_model_files_that_name_a_union_load(rows, tmp_path):
    hasher = hl.JoinedHasher([hl.ITQ(4, random_state=0), hl.LSH(4, random_state=0)]).fit(rows[0])

    def age(model):
        model["object"] = "Union"

    again = hl.load(rewritten(hasher, age, tmp_path / "old.hl"))
    assert type(again) is hl.JoinedHasher
    np.testing.assert_array_equal(again.encode(rows[0]), hasher.encode(rows[0]))


def test_the_old_name_of_a_joined_hasher_warns():
    with pytest.warns(FutureWarning, match=r"hashlearn\.Union is deprecated .* use hashlearn\.hashers\.JoinedHasher"):
        assert hl.Union is hl.JoinedHasher
    with pytest.warns(FutureWarning, match="Union is deprecated"):
        assert hl.hashers.Union is hl.JoinedHasher
