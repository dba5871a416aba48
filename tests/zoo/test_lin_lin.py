"""Lin:Lin and Lin:V: pairs by loops, losses that never rise, two encoders everywhere."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits

import hashlearn as hl
from hashlearn.models.export.describe import describe
from hashlearn.models.export.steps import ExportError
from hashlearn.zoo.lin_lin import Pairs, best_bit, free_codes

X, Y = load_digits(return_X_y=True)
SETS = np.stack([Y % 2, Y % 3 == 0, Y > 6], axis=1).astype(int)
BOTH = pytest.mark.parametrize("method", [hl.LinLin, hl.LinV])


def signs(rng, *shape):
    return rng.choice(np.array([-1, 1], dtype=np.int32), shape)


def test_pairs_by_loops():
    rng = np.random.default_rng(0)
    similar, u, v = rng.random((5, 4)) < 0.4, signs(rng, 5, 6), signs(rng, 4, 6)
    pairs = Pairs(similar, 6, 0.3, 0.5)
    pairs.keys += (u @ v.T - 6).astype(np.int32)
    pairs.theta = 1.0
    weight = {True: 0.3 / similar.sum(), False: 0.7 / (~similar).sum()}

    def loss(theta):
        total = 0.0
        for i, j in itertools.product(range(5), range(4)):
            s = 1 if similar[i, j] else -1
            total += weight[s > 0] * np.log(1 + np.exp(-0.5 * s * (u[i] @ v[j] - theta)))
        return total

    slopes = np.empty((5, 4))
    for i, j in itertools.product(range(5), range(4)):
        s = 1 if similar[i, j] else -1
        slopes[i, j] = weight[s > 0] * 0.5 * s / (1 + np.exp(0.5 * s * (u[i] @ v[j] - 1)))
    pull = pairs.pull()
    np.testing.assert_allclose(pull / np.abs(pull).max(), slopes / np.abs(slopes).max(), rtol=1e-5)
    best = min((loss(theta), theta) for theta in (-1.0, 0.0, 1.0, 2.0, 3.0))
    assert pairs.move_threshold() == pytest.approx(best[0])
    assert pairs.theta == best[1]


def test_the_best_bit_among_all():
    rng = np.random.default_rng(0)
    pull, u = rng.normal(size=(6, 4)).astype(np.float32), signs(rng, 6)
    found = best_bit(pull, u, np.ones(4, dtype=np.int32))
    assert u @ pull @ found == pytest.approx(max(u @ pull @ np.array(v) for v in itertools.product([-1, 1], repeat=4)))
    zeros = np.zeros((6, 4), dtype=np.float32)
    np.testing.assert_array_equal(best_bit(zeros, u, found), found)


def test_free_codes_of_separated_queries():
    """Queries of two classes have opposite codes: a column of a class gets the code of its class."""
    queries = np.repeat(np.array([[1, 1, -1, 1], [-1, -1, 1, -1]], dtype=np.int32), 5, axis=0)
    similar = np.repeat(np.eye(2, dtype=bool), 5, axis=0)
    pairs = Pairs(similar, 4, 0.5, 1.0)
    pairs.theta = 0.0
    np.testing.assert_array_equal(free_codes(pairs, queries), queries[[0, 5]])


@BOTH
@pytest.mark.parametrize("labels", [Y, SETS], ids=["classes", "sets"])
def test_the_loss_never_rises(method, labels):
    hasher = method(12, n_anchors=50, random_state=0, n_jobs=1).fit(X[:300], labels[:300])
    assert len(hasher.objective_) == 12 * hasher.n_iter_ + 1 == 25
    assert np.all(np.diff(hasher.objective_) <= 1e-12)
    assert hasher.objective_[12] < 0.8 * hasher.objective_[0]


@BOTH
def test_two_encoders(method, tmp_path):
    hasher = method(24, n_anchors=50, max_iter=1, random_state=0, n_jobs=1).fit(X[:1000], Y[:1000])
    queries, database = hasher.encode_queries(X), hasher.encode(X)
    assert np.mean(hl.codes.unpack(queries, 24) != hl.codes.unpack(database, 24)) > 0.01
    projected = hasher.database_function_.project((X - hasher.features_.center_).astype(np.float32))
    assert np.mean(hl.codes.unpack(database, 24) == (projected >= 0)) > 0.999
    assert hasher.score(X[1000:], Y[1000:]) > 0.55
    hl.save(hasher, tmp_path / "m.hl")
    again = hl.load(tmp_path / "m.hl")
    np.testing.assert_array_equal(again.encode(X), database)
    np.testing.assert_array_equal(again.encode_queries(X), queries)
    paths = hasher.encode_chunks(X, tmp_path / "codes")
    np.testing.assert_array_equal(np.load(paths[0]), database)
    with hl.Collection.create(tmp_path / "rows", hasher=hasher) as rows:
        rows.add(X=X[:500], ids=np.arange(500))
        found = rows.search(X[1000:1003], k=5)
    distances = np.sort(hl.codes.hamming_distances(queries[1000:1003], database[:500]), axis=1)
    np.testing.assert_array_equal(found.distances, distances[:, :5])


@BOTH
def test_places_that_know_one_encoder_refuse(method):
    with pytest.raises(TypeError, match="has one for queries and another for database rows"):
        hl.JoinedHasher([method(8), hl.ITQ(8)]).fit(X[:100], Y[:100])
    fitted = method(8, n_anchors=20, max_iter=1, random_state=0).fit(X[:100], Y[:100])
    with pytest.raises(ExportError, match="cannot be exported"):
        describe(fitted)


def test_lin_v_gives_each_class_a_code_and_may_sample():
    hasher = hl.LinV(16, n_samples=200, n_anchors=50, random_state=0, n_jobs=1).fit(X[:600], Y[:600])
    assert len(np.unique(np.c_[Y[:600], hasher.codes_], axis=0)) == 10
