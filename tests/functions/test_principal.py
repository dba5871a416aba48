"""Principal directions of fewer rows than features: those of the large matrix, without making it."""

import numpy as np
import pytest
from scipy import linalg
from sklearn.decomposition import PCA

import hashlearn as hl
from hashlearn.functions import linalg as principal
from hashlearn.functions.linalg import principal_directions, top_eigenvectors
from hashlearn.methods import PCARR, SH

pytestmark = pytest.mark.slow


def decaying(n_rows, width, power=1.0, seed=0):
    """Rows with variances that fall like those of real features, centered."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, width)) * np.arange(1, width + 1) ** -power
    rows @= linalg.qr(rng.standard_normal((width, width)))[0]
    return (rows - rows.mean(axis=0)).astype(np.float32)


@pytest.mark.parametrize("n_rows", [60, 1024, 1300], ids=["few rows", "most that are exact", "a Krylov space"])
def test_the_same_as_of_the_large_matrix(n_rows):
    rows = decaying(n_rows, 1400)
    wide = rows.astype(np.float64)
    expected_values, expected = top_eigenvectors(wide.T @ wide, 32)
    values, directions = principal_directions(rows, 32)
    np.testing.assert_allclose(values, expected_values, rtol=1e-5)
    assert linalg.subspace_angles(directions, expected).max() < 1e-4
    # One by one too, and with the same signs.
    np.testing.assert_allclose(directions, expected, atol=2e-3)
    np.testing.assert_allclose(directions.T @ directions, np.eye(32), atol=1e-12)


def test_noise_keeps_more_variance_than_a_randomized_pca():
    rows = decaying(1300, 1400, power=0.0)
    wide = rows.astype(np.float64)
    most = top_eigenvectors(wide @ wide.T, 32)[0].sum()
    kept = ((wide @ principal_directions(rows, 32)[1]) ** 2).sum()
    randomized = PCA(32, svd_solver="randomized", random_state=0).fit(wide).components_
    assert ((wide @ randomized.T) ** 2).sum() < kept
    assert kept > 0.98 * most


@pytest.mark.parametrize("n_rows", [300, 1300])
def test_any_number_of_threads_gives_the_same_bits(n_rows):
    rows = decaying(n_rows, 1400)
    one, three = (principal_directions(rows, 16, n_jobs)[1] for n_jobs in (1, 3))
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("n_rows", [50, 1300])
@pytest.mark.parametrize("rank", [0, 1, 5])
def test_directions_in_which_nothing_extends_are_left_out(n_rows, rank):
    rng = np.random.default_rng(0)
    spread = rng.standard_normal((rank, 1400))
    rows = (rng.standard_normal((n_rows, rank)) @ spread).astype(np.float32)
    values, directions = principal_directions(rows, 16)
    assert directions.shape == (1400, max(rank, 1))
    if rank == 0:
        assert (values[0], abs(directions).max()) == (0, 0)
    else:
        assert linalg.subspace_angles(directions, spread.T).max() < 1e-4


@pytest.mark.parametrize("method", [hl.ITQ, PCARR, SH])
@pytest.mark.parametrize("n_rows", [200, 1300])
def test_methods_learn_from_them(method, n_rows, monkeypatch):
    """The codes are those of the large matrix, except where a projection is next to zero."""
    rows = decaying(n_rows, 1400) + 3.0
    fitted = method(16, random_state=0).fit(rows)
    frame = "hashlearn.hashers.sh" if method is SH else "hashlearn.hashers.sums"

    def from_the_large_matrix(features, count, n_jobs):
        wide = features.astype(np.float64)
        return top_eigenvectors(wide.T @ wide, count)

    monkeypatch.setattr(f"{frame}.principal_directions", from_the_large_matrix)
    expected = method(16, random_state=0).fit(rows)
    assert (fitted.transform(rows) != expected.transform(rows)).mean() < 0.002


@pytest.mark.parametrize("method", [hl.ITQ, PCARR])
@pytest.mark.parametrize("n_rows", [200, 1300])
def test_chunks_give_the_same_bits(method, n_rows):
    rows = decaying(n_rows, 1400)
    in_memory = method(16, random_state=0, n_jobs=1).fit(rows)
    chunked = method(16, random_state=0, n_jobs=2).fit_chunks(lambda: iter(np.array_split(rows, 7)))
    np.testing.assert_array_equal(in_memory.function_.weights_, chunked.function_.weights_)
    np.testing.assert_array_equal(in_memory.codes_, chunked.codes_)


@pytest.mark.parametrize("method", [hl.ITQ, PCARR, SH])
def test_more_bits_than_rows(method):
    rows = decaying(20, 100)
    fitted = method(64, random_state=0).fit(rows)
    assert np.isfinite(fitted.decision_function(rows)).all()
    assert len(np.unique(fitted.codes_, axis=0)) == 20


def test_as_many_rows_as_features_use_the_large_matrix(monkeypatch):
    monkeypatch.setattr(principal, "principal_directions", None)
    monkeypatch.setattr("hashlearn.hashers.sums.principal_directions", None)
    monkeypatch.setattr("hashlearn.hashers.sh.principal_directions", None)
    rows = decaying(50, 50)
    for method in (hl.ITQ, PCARR, SH):
        assert method(16, random_state=0).fit(rows).codes_.shape == (50, 2)
