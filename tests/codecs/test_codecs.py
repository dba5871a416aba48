"""Codecs: one contract for all, every byte counted, and the known order of quality on real digits."""

import numpy as np
import pytest

from hashlearn import codecs, data, metrics
from hashlearn.codecs.base import best_places, unit_rows

MAKE = {
    "float": lambda: codecs.FloatCodec(),
    "pq": lambda: codecs.ProductCodec(4),
    "pq 5": lambda: codecs.ProductCodec(5),  # 64 dimensions do not divide by 5
    "opq": lambda: codecs.RotatedProductCodec(4),
    "rq": lambda: codecs.ResidualCodec(4),
    "lsq": lambda: codecs.LocalSearchCodec(2),
    "lsq 9": lambda: codecs.LocalSearchCodec(9),  # three parts of 3 bytes; 64 dimensions do not divide by 3
    "4 bit": lambda: codecs.ScalarCodec(4),
    "8 bit": lambda: codecs.ScalarCodec(8),
    "cut": lambda: codecs.CutCodec(8),
    "rabitq": lambda: codecs.RaBitCodec(12),
    "sign": lambda: codecs.SignCodec(4),
    "mean": lambda: codecs.SignCodec(4, "mean"),
    "pca sign": lambda: codecs.SignCodec(4, "pca"),
    "lda pq": lambda: codecs.LabelScoreCodec(4),
    "kernel pq": lambda: codecs.LabelScoreCodec(4, "kernel"),
    "sqh": lambda: codecs.SupervisedCodec(4),
    "itq": lambda: codecs.HasherCodec("itq", 4),
    "itq real": lambda: codecs.HasherCodec("itq", 4, queries="real"),
}
TAKE_LONG = ("lsq", "lsq 9", "rq", "opq", "sqh", "kernel pq")
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in TAKE_LONG else name for name in MAKE]
BYTES = {"float": 256, "pq 5": 5, "lsq": 2, "lsq 9": 9, "4 bit": 32, "8 bit": 64, "cut": 8, "rabitq": 12}


@pytest.fixture(scope="module")
def digits():
    rows = data.digits()
    return rows.train_X[:700], rows.train_y[:700], rows.train_X[700:1200], rows.train_y[700:1200], rows.query_X[:60]


@pytest.fixture(scope="module")
def fitted(digits):
    """The codecs by name; each is fitted when it is first asked for."""
    X, y, *_ = digits

    class Fitted(dict):
        def __missing__(self, name):
            self[name] = MAKE[name]().fit(X, y)
            return self[name]

    return Fitted()


@pytest.mark.parametrize("name", NAMES)
def test_the_contract(name, fitted, digits):
    _, _, database, _, queries = digits
    codec = fitted[name]
    codes = codec.encode(database)
    assert codes.dtype == np.uint8
    assert codes.shape == (len(database), codec.bytes_per_row)
    assert codec.bytes_per_row == BYTES.get(name, 4)
    assert codec.model_bytes >= 0
    scores = codec.scores(queries, codes)
    assert scores.shape == (len(queries), len(database))
    assert np.isfinite(scores).all()
    # The search finds rows whose scores are the best ones, whatever the order of ties.
    places = codec.searcher(codes)(queries, 5)
    found = np.sort(np.take_along_axis(scores, places, axis=1), axis=1)
    best = np.sort(scores, axis=1)[:, -5:]
    np.testing.assert_allclose(found, best, atol=2e-3)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("sign", "cut")])
def test_codes_find_what_floats_find(name, fitted, digits):
    _, _, database, _, queries = digits
    codec = fitted[name]
    exact = best_places(unit_rows(queries) @ unit_rows(database).T, 10)
    found = best_places(codec.scores(queries, codec.encode(database)), 10)
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact, found, strict=True)])
    assert recall > {"float": 0.999, "8 bit": 0.95, "4 bit": 0.8}.get(name, 0.15)


def test_labels_help_on_their_own_classes(fitted, digits):
    _, _, database, database_y, queries = digits
    query_y = data.digits().query_y[:60]
    score = {
        name: metrics.evaluate_scores(
            fitted[name].scores(queries, fitted[name].encode(database)), query_y, database_y, at=None
        ).map
        for name in ("pq", "lda pq", "kernel pq")
    }
    assert score["lda pq"] > score["pq"] + 0.1
    assert score["kernel pq"] > score["pq"] + 0.1


def test_thresholds_are_the_means(digits):
    X, _, database, *_ = digits
    codes = codecs.SignCodec(4, "mean").fit(X).encode(database)
    bits = np.unpackbits(codes, axis=1)
    np.testing.assert_array_equal(bits, unit_rows(database)[:, :32] >= unit_rows(X)[:, :32].mean(axis=0))


def test_rabitq_bills_its_factors():
    with pytest.raises(ValueError, match=r"more than 8 bytes per row\. Got 8"):
        codecs.RaBitCodec(8)


@pytest.mark.parametrize(("vectors", "more"), [("int8", 64), ("float", 256)])
def test_two_stages(fitted, digits, vectors, more):
    X, _, database, _, queries = digits
    codec = codecs.TwoStageCodec(fitted["itq real"], vectors, k=5, oversample=4).fit(X)
    codes = codec.encode(database)
    assert codes.shape[1] == codec.bytes_per_row == 4 + more
    first = fitted["itq real"].scores(queries, codes[:, :4])
    proposed = best_places(first, 20)
    exact = unit_rows(queries) @ unit_rows(database).T
    scores = codec.scores(queries, codes)
    for number in range(len(queries)):
        order = np.argsort(-scores[number], kind="stable")
        assert set(order[:20]) == set(proposed[number])
        ranked = exact[number, order[:20]]
        assert (np.diff(ranked) <= (1e-6 if vectors == "float" else 0.02)).all()
        # The others follow in the order of the first stage.
        assert (np.diff(first[number, order[20:]]) <= 0).all()
    places = codec.searcher(codes)(queries, 5)
    assert places.shape == (len(queries), 5)
    best = np.take_along_axis(scores, places, axis=1)
    assert (best > np.sort(scores, axis=1)[:, [-21]]).all()


def test_real_queries_share_the_fit(fitted):
    real = fitted["itq"].real_queries()
    assert real.hasher_ is fitted["itq"].hasher_
    assert real.queries == "real"


def test_given_scores_are_scored_as_the_vectors_they_come_from(digits):
    _, _, database, database_y, queries = digits
    query_y = data.digits().query_y[:60]
    table = unit_rows(queries) @ unit_rows(database).T
    given = metrics.evaluate_scores(table, query_y, database_y)
    floats = metrics.evaluate_floats(unit_rows(queries), unit_rows(database), query_y, database_y, metric="dot")
    assert (given.map, given.ndcg, given.precision) == (floats.map, floats.ndcg, floats.precision)
    assert given.radius_precision is None
    tied = metrics.evaluate_scores(np.zeros_like(table), query_y, database_y, at=None)
    share = np.mean([np.mean(database_y == label) for label in query_y])
    assert tied.map == pytest.approx(share, abs=0.02)


def test_signs_of_embeddings_with_more_coordinates_than_codes_have_bits():
    X = np.random.default_rng(0).normal(size=(50, 1280)).astype(np.float32)
    codec = codecs.SignCodec(160).fit(X)
    packed = codec.encode(X)
    assert codec.bytes_per_row == packed.shape[1] == 160
    assert codec.searcher(packed)(X, 1)[:, 0].tolist() == list(range(50))
    assert codec.scores(X, packed).argmax(axis=1).tolist() == list(range(50))
