"""Old names work for one more release, and their warning says where they were used and what to write instead."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

import hashlearn as hl
from hashlearn import fitting, modelfile, models
from hashlearn.deprecation import renamed_attribute, renamed_parameters
from hashlearn.hashers.lsh import LSH


@renamed_parameters(since="0.3", bitorder="bit_order")
def packed(bits, bit_order="big"):
    return bits, bit_order


@renamed_parameters(since="0.3", n_iter="max_iter")
class Example(BaseEstimator):
    def __init__(self, max_iter=10, ridge=1.0):
        self.max_iter = max_iter
        self.ridge = ridge

    def fit(self, X, y=None):
        return self

    def score(self, X, y=None):
        return -abs(self.max_iter - 7)


def expected(pattern):
    return pytest.warns(FutureWarning, match=pattern)


def test_an_old_keyword_reaches_the_new_parameter():
    with expected(
        r"^the parameter 'bitorder' of packed is deprecated since hashlearn 0\.3 and will be removed in 0\.4: "
        r"use 'bit_order'\.$"
    ) as caught:
        assert packed(1, bitorder="little") == (1, "little")
    assert [warning.filename for warning in caught] == [__file__]


def test_new_names_do_not_warn(recwarn):
    assert packed(1, bit_order="little") == packed(1, "little") == (1, "little")
    assert Example(max_iter=3).set_params(max_iter=4).max_iter == 4
    assert not recwarn


def test_both_names_at_once_are_an_error():
    with pytest.raises(TypeError, match="packed got both 'bit_order' and its old name 'bitorder': give 'bit_order'"):
        packed(1, bit_order="big", bitorder="little")


def test_an_estimator_takes_the_old_name_wherever_it_took_it_before():
    with expected("the parameter 'n_iter' of Example is deprecated"):
        example = Example(n_iter=3)
    assert example.get_params() == {"max_iter": 3, "ridge": 1.0}
    assert clone(example).max_iter == 3
    with expected("the parameter 'n_iter' of Example"):
        assert example.set_params(n_iter=5).max_iter == 5
    with expected("the attribute 'n_iter' of Example is deprecated.*: use 'max_iter'") as caught:
        assert example.n_iter == 5
    with expected("the attribute 'n_iter' of Example"):
        example.n_iter = 6
    assert example.max_iter == 6
    assert [warning.filename for warning in caught] == [__file__]


def test_a_grid_search_over_the_old_name_works():
    with expected("the parameter 'n_iter' of Example"):
        search = GridSearchCV(Example(), {"n_iter": [5, 7, 9]}, cv=2).fit(np.zeros((4, 1)), np.zeros(4))
    assert search.best_estimator_.max_iter == 7


def test_an_old_attribute_of_a_module_is_the_new_one():
    with expected(r"old\.home\.Stream is deprecated.*: use hashlearn\.fitting\.Stream"):
        found = renamed_attribute("old.home", "Stream", {"Stream": "hashlearn.fitting.Stream"}, since="0.3")
    assert found is fitting.Stream
    with pytest.raises(AttributeError, match=r"module 'old\.home' has no attribute 'Brook'"):
        renamed_attribute("old.home", "Brook", {"Stream": "hashlearn.fitting.Stream"}, since="0.3")


def test_model_files_with_old_parameter_names_load(monkeypatch, tmp_path, recwarn):
    """Files of an earlier release are no fault of the user, so they load without a warning."""
    hasher = LSH(n_bits=16, random_state=3).fit(np.random.default_rng(0).normal(size=(50, 8)))
    path = tmp_path / "model.hl"
    document, arrays = modelfile.from_bytes(models.dumps(hasher), "model.hl")
    document["model"]["parameters"]["random_stat"] = document["model"]["parameters"].pop("random_state")
    path.write_bytes(modelfile.to_bytes(document, arrays))
    with pytest.raises(models.ModelFileError, match="'random_stat', which LSH does not have"):
        hl.load(path)
    monkeypatch.setattr(LSH, "_renamed_parameters", {"random_stat": "random_state"}, raising=False)
    assert hl.load(path).random_state == 3
    assert not recwarn


def test_the_old_name_of_fitting():
    """In a process of its own, because an import is remembered."""
    code = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import hashlearn as hl
    assert hl.chunks is hl.fitting
    from hashlearn.chunks import Stream
    assert Stream is hl.fitting.Stream
    assert not hasattr(hl.chunks, "nothing")
for warning in caught:
    print(warning.category.__name__, warning.filename, str(warning.message).partition(" is")[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "FutureWarning <string> hashlearn.chunks",
        "FutureWarning <string> hashlearn.chunks.Stream",
    ]


def test_no_old_name_outlives_the_release_after_its_own():
    current = tuple(map(int, hl.__version__.split(".")[:2]))
    marks = [
        (path.name, since)
        for path in Path(hl.__file__).parent.rglob("*.py")
        for since in re.findall(r'since="(\d+\.\d+)"', path.read_text())
        if path.name != "deprecation.py"
    ]
    assert marks
    assert [mark for mark in marks if tuple(map(int, mark[1].split("."))) < current] == []
