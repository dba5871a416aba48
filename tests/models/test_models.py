"""Model files: exact round trips of everything, one sentence for everything that is no model, and kill -9."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from small_methods import small

from hashlearn import GSDHP, LSH, METHODS, SDHP, Greedy, LandmarkKernel
from hashlearn.functions.trees import BoostedTrees
from hashlearn.models import ModelFileError, NotSaved, load, save

X, Y = (part[:300] for part in load_digits(return_X_y=True))
GOLDEN = Path(__file__).parent / "data" / "gsdhp-v1.hl"
SMALL = {"n_bits": 12, "n_anchors": 60, "n_landmarks": 40, "random_state": 0}


def same(a, b):
    """Equal to the bit: types, dtypes, memory order, NaN, order of keys, attributes of objects."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        alike = a.dtype == b.dtype and a.shape == b.shape and a.flags.f_contiguous == b.flags.f_contiguous
        return alike and (same(a.tolist(), b.tolist()) if a.dtype == object else a.tobytes() == b.tobytes())
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if sparse.issparse(a):
        return a.shape == b.shape and all(same(getattr(a, p), getattr(b, p)) for p in ("data", "indices", "indptr"))
    if hasattr(a, "__dict__"):
        return same(dict(sorted(vars(a).items())), dict(sorted(vars(b).items())))
    return repr(a) == repr(b)


def round_trip(hasher, folder):
    first, second = folder / "first.hl", folder / "second.hl"
    save(hasher, first)
    again = load(first)
    save(again, second)
    assert second.read_bytes() == first.read_bytes()
    save(hasher, second)
    assert second.read_bytes() == first.read_bytes()
    assert sorted(os.listdir(folder)) == ["first.hl", "second.hl"]
    return again


def assert_exact(hasher, folder, rows=X):
    again = round_trip(hasher, folder)
    assert same(hasher, again)
    assert same(hasher.get_params(deep=False), again.get_params(deep=False))
    for output in ("encode", "decision_function", "transform"):
        assert same(getattr(hasher, output)(rows), getattr(again, output)(rows)), output
    return again


@pytest.mark.parametrize("method", METHODS)
def test_every_method(method, tmp_path):
    hasher = small(method, n_bits=12).fit(X, Y)
    again = assert_exact(hasher, tmp_path)
    assert same(hasher.codes_, again.codes_)
    assert again.codes_.flags.writeable


@pytest.mark.parametrize("function", ["trees", BoostedTrees(n_trees=3, max_depth=2)], ids=["name", "object"])
def test_trees(function, tmp_path):
    pytest.importorskip("lightgbm")
    assert_exact(GSDHP(**(SMALL | {"n_bits": 2, "n_jobs": 1}), function=function).fit(X, Y), tmp_path)


def test_sparse_rows_and_label_sets(tmp_path):
    rows = sparse.csr_array(X)
    labels = np.stack([Y % 2, Y % 3 == 0, Y > 6], axis=1).astype(int)
    assert_exact(SDHP(**SMALL).fit(rows, labels), tmp_path, rows)


def test_feature_names_and_output_setting(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"höhe {i}" for i in range(64)])
    hasher = GSDHP(**SMALL).fit(frame, Y).set_output(transform="pandas")
    again = round_trip(hasher, tmp_path)
    assert same(hasher, again)
    assert list(again.feature_names_in_) == list(frame.columns)
    pandas.testing.assert_frame_equal(again.transform(frame), hasher.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.encode(frame.rename(columns={"höhe 0": "x"}))


def squared(s, u):
    return (s - u) ** 2


def test_functions_are_kept_by_name_only(tmp_path):
    hasher = GSDHP(**(SMALL | {"loss": squared, "random_state": np.random.RandomState(0)})).fit(X, Y)
    save(hasher, tmp_path / "model.hl")
    again = load(tmp_path / "model.hl")
    assert same(hasher.decision_function(X), again.decision_function(X))
    assert again.loss == NotSaved("squared")
    assert again.random_state is None
    save(again, tmp_path / "second.hl")
    assert load(tmp_path / "second.hl").loss == NotSaved("squared")
    with pytest.raises(ValueError, match="'squared' was not saved with the model; set the parameter again"):
        again.fit(X, Y)
    assert again.set_params(loss=squared).fit(X, Y).n_bits_ == 12


def test_every_kind_of_value(tmp_path):
    hasher = LSH(n_bits=4, random_state=0).fit(X)
    wide = sparse.csr_matrix(np.eye(3, 5, dtype=np.int16))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    hasher.odd_ = {
        "plain": [None, True, 3, 2**80, -0.0, 5e-324, 'Ω \ud800 " \\', b"\x00\xff", (1, (2.5, [])), {}],
        "no number": [float("nan"), float("inf"), float("-inf")],
        "keys": {"b": 1, "a.b": 2, 7: {"checksum": "0" * 64}},
        "scalars": [np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("ü"), np.float64("nan")],
        "shapes": [np.zeros(s) for s in [(), (0,), (0, 3), (2, 0, 4), (1, 1, 1)]],
        "orders": [np.asfortranarray(X[:5, :7]), X[:9:2, 1:8:3], np.asfortranarray(np.ones((2, 3, 4)))],
        "dtypes": [np.arange(3).astype(t) for t in "?bBhHiIqQefd"],
        "text": [np.array(["a", "bcd"]), np.array([["x"], [None]], dtype=object), np.array([], dtype="U3")],
        "sparse": [wide, sparse.csc_array(np.eye(3)), sparse.csr_array((0, 4))],
        "hashers": [SDHP(**SMALL).fit(X, Y), LSH(3)],
    }
    hasher.odd_["orders"][1] = np.ascontiguousarray(hasher.odd_["orders"][1])
    hasher.strided_, hasher.swapped_ = X[:, ::2], X[:3].astype(">f4")
    again = round_trip(hasher, tmp_path)
    assert same(hasher.odd_, again.odd_)
    assert np.array_equal(again.strided_, X[:, ::2])
    assert same(again.swapped_, X[:3].astype("<f4"))
    assert same(again.odd_["hashers"][0].encode(X), hasher.odd_["hashers"][0].encode(X))


class Mine(LSH):
    pass


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "model.hl"
    with pytest.raises(NotFittedError, match="LSH has nothing to save yet: call 'fit' first"):
        save(LSH(), path)
    with pytest.raises(TypeError, match=r"take a hasher of hashlearn\. Got KMeans"):
        save(KMeans(), path)
    with pytest.raises(ModelFileError, match=r"'function' holds a LinearRegression.*keep the hasher with joblib"):
        save(GSDHP(**SMALL, function=LinearRegression()).fit(X, Y), path)
    with pytest.raises(ModelFileError, match="only hashlearn's own classes"):
        save(Mine(4).fit(X), path)
    hasher = LSH(4).fit(X)
    for value in (squared, {1.5: 2}, np.zeros(2, complex), np.ma.ones(2), BaseEstimator(), range(3), hasher):
        hasher.extra_ = [value]
        with pytest.raises(ModelFileError, match=r"^Cannot save this LSH: ('extra_\[0\]'|it holds itself)"):
            save(hasher, path)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_a_mutant_never_asks_for_absurd_memory():
    """Every number and every shape of a model of every method, changed one at a time."""
    script = Path(__file__).parents[1] / "model_mutants.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"{name} " in done.stdout for name in (*METHODS, "joined", "trees"))
    assert all("'refused'" in line and "'ok'" in line for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": None},
        {"function": "posterior"},
        {"kernel": LandmarkKernel(n_landmarks=20, bandwidth=0.5, random_state=3)},
        {"unlabeled": 3},
        {"ridge": "auto", "solver": Greedy(beta=0.1 + 0.2), "unlabeled": float("nan")},
        {"dissimilar": np.float32(-0.3), "solver": Greedy(residual="stagewise")},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_variants(changes, tmp_path):
    assert_exact(GSDHP(**(SMALL | changes)).fit(X, Y), tmp_path)
