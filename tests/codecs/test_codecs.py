"""Codecs: one contract for all, every byte counted, and the known order of quality on real digits."""

import sys

import numpy as np
import pytest

from hashlearn import codecs, data, metrics
from hashlearn.codecs.base import best_places, unit_rows
from hashlearn.codecs.labeled import ContrastiveAdapter, Posteriors

MAKE = {
    "float": lambda: codecs.FloatCodec(),
    "pq": lambda: codecs.ProductCodec(4),
    "pq 5": lambda: codecs.ProductCodec(5),  # 64 dimensions do not divide by 5
    "pq 4 bit": lambda: codecs.ProductCodec(4, 4),
    "opq": lambda: codecs.RotatedProductCodec(4),
    "4 bit": lambda: codecs.ScalarCodec(4),
    "8 bit": lambda: codecs.ScalarCodec(8),
    "rabitq": lambda: codecs.RaBitCodec(12),
    "rabitq 3 bit": lambda: codecs.RaBitCodec(32, 3),
    "sign": lambda: codecs.SignCodec(),
    "sign, floats": lambda: codecs.SignCodec(queries="floats"),
    "pca sign": lambda: codecs.SignCodec(4),
    "rescored": lambda: codecs.RescoredSignCodec(),
    "cut": lambda: codecs.CutCodec(4),
    "euclidean": lambda: codecs.FloatCodec("euclidean"),
    "lda": lambda: codecs.MappedCodec(codecs.Discriminant(), codecs.FloatCodec()),
    "lda pq": lambda: codecs.MappedCodec(codecs.Discriminant(), codecs.ProductCodec(4)),
    "posteriors": lambda: codecs.MappedCodec(codecs.Posteriors(), codecs.FloatCodec("dot")),
    "adapter": lambda: codecs.MappedCodec(codecs.ContrastiveAdapter(), codecs.FloatCodec()),
    "open metric": lambda: codecs.MappedCodec(codecs.OpenMetric(), codecs.FloatCodec("dot")),
    "open": lambda: codecs.HasherCodec("open", 4, queries="alike", labels=False),
    "class": lambda: codecs.ClassCodec(),
    "class pq": lambda: codecs.ClassCodec(codecs.ProductCodec, n_bytes=4),
    "filter": lambda: codecs.ClassCodec(lambda _: codecs.FloatCodec(), filtered=True),
    "itq": lambda: codecs.HasherCodec("itq", 4),
    "itq real": lambda: codecs.HasherCodec("itq", 4, queries="real"),
}
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name == "opq" else name for name in MAKE]
BYTES = {"float": 256, "euclidean": 256, "pq 5": 5, "4 bit": 32, "8 bit": 64, "rabitq": 12, "rabitq 3 bit": 32}
BYTES |= {"sign": 8, "sign, floats": 8, "rescored": 72, "lda": 36, "open metric": 236, "posteriors": 40}
BYTES |= {"adapter": 256, "class": 1, "filter": 257}
# Signs of coordinates that are never negative say nothing, and class numbers know no neighbors.
POOR = ("sign", "sign, floats", "class", "posteriors", "cut", "euclidean")


@pytest.fixture(scope="module")
def digits():
    rows = data.digits()
    return rows.train_X[:700], rows.train_y[:700], rows.train_X[700:1200], rows.train_y[700:1200], rows.query_X[:60]


@pytest.fixture(scope="module")
def fitted(digits):
    """The codecs by name; each is fitted when it is first asked for. Every tenth row has no label."""
    X, y, *_ = digits
    y = np.where(np.arange(len(y)) % 10 == 0, np.nan, y)

    class Fitted(dict):
        def __missing__(self, name):
            self[name] = MAKE[name]().fit(X, y)
            return self[name]

    return Fitted()


def map_of(codec, digits):
    _, _, database, database_y, queries = digits
    scores = codec.scores(queries, codec.encode(database))
    return metrics.evaluate_scores(scores, data.digits().query_y[:60], database_y, at=None).map


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
    # A row is scored by its own bytes alone, whatever rows are beside it.
    np.testing.assert_allclose(codec.scores(queries[:3], codes[7:9]), scores[:3, 7:9], atol=1e-4)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in POOR])
def test_codes_find_what_floats_find(name, fitted, digits):
    _, _, database, _, queries = digits
    codec = fitted[name]
    exact = best_places(unit_rows(queries) @ unit_rows(database).T, 10)
    found = best_places(codec.scores(queries, codec.encode(database)), 10)
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact, found, strict=True)])
    assert recall > {"float": 0.999, "8 bit": 0.95, "rescored": 0.95, "4 bit": 0.8}.get(name, 0.15)


def test_labels_help_on_their_own_classes(fitted, digits):
    plain = map_of(fitted["pq"], digits)
    for name in ("lda pq", "posteriors", "adapter", "class", "class pq", "filter"):
        assert map_of(fitted[name], digits) > plain + 0.1


def test_euclidean_floats_are_ordered_by_distance(fitted, digits):
    _, _, database, _, queries = digits
    codec = fitted["euclidean"]
    distances = ((queries[:, None] - database[None, :50]) ** 2).sum(axis=2)
    scores = codec.scores(queries, codec.encode(database[:50]))
    np.testing.assert_allclose(-2 * scores + (queries**2).sum(axis=1)[:, None], distances, rtol=1e-4)


def test_more_bits_of_rabitq_are_nearer_to_the_floats(fitted, digits):
    floats = map_of(fitted["float"], digits)
    one, three = (abs(map_of(fitted[name], digits) - floats) for name in ("rabitq", "rabitq 3 bit"))
    assert three < one


@pytest.mark.parametrize(("bits", "least"), [(1, 8), (4, 23)])
def test_rabitq_bills_its_factors(bits, least):
    with pytest.raises(ValueError, match=rf"more than {least} bytes per row\. Got {least}"):
        codecs.RaBitCodec(least, bits)


def test_the_whole_ranking_is_that_of_the_second_codec(fitted, digits):
    _, _, database, _, queries = digits
    found, second = (fitted[n].scores(queries, fitted[n].encode(database)) for n in ("rescored", "8 bit"))
    np.testing.assert_array_equal(found, second)


def test_a_class_number_and_its_filter(fitted, digits):
    _, _, database, _, queries = digits
    codec, filtered = fitted["class"], fitted["filter"]
    codes = codec.encode(database)
    chances = codec._posteriors.transform(queries)
    np.testing.assert_allclose(codec.scores(queries, codes), chances[:, codes[:, 0]])
    scores = filtered.scores(queries, filtered.encode(database))
    cosine = unit_rows(queries) @ unit_rows(database).T
    for number, best in enumerate(chances.argmax(axis=1)):
        inside = codes[:, 0] == best
        expected = np.concatenate([np.sort(cosine[number, inside])[::-1], np.sort(cosine[number, ~inside])[::-1]])
        found = cosine[number, np.argsort(-scores[number], kind="stable")]
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_many_classes_take_two_bytes():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(300, 16)).astype(np.float32)
    y = np.repeat(np.arange(300), 3)
    X = centers[y] + 0.01 * rng.normal(size=(900, 16)).astype(np.float32)
    codec = codecs.ClassCodec().fit(X, y)
    assert codec.bytes_per_row == 2
    beside = codecs.ClassCodec(codecs.ProductCodec, n_bytes=8).fit(X, y)
    assert beside.bytes_per_row == 8
    scores = codec.scores(X[::3], codec.encode(X))
    assert np.mean(y[scores.argmax(axis=1)] == y[::3]) > 0.9


def test_label_sets_have_posteriors_and_adapters_but_no_class_number(digits):
    X, y, database, *_ = digits
    sets = np.stack([y % 2, y % 3 == 0, y > 6], axis=1).astype(int)
    found = Posteriors().fit(X, sets).transform(database)
    assert found.shape == (len(database), 3)
    assert found.min() >= 0
    assert found.max() <= 1
    assert ContrastiveAdapter().fit(X, sets).transform(database).shape == (len(database), 64)
    with pytest.raises(ValueError, match="one class per row"):
        codecs.ClassCodec().fit(X, sets)
    with pytest.raises(ValueError, match="No row has a label"):
        codecs.ClassCodec().fit(X, np.full(len(X), np.nan))


def test_the_slope_of_the_adapter_is_that_of_its_loss():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(12, 5)), np.eye(3)[rng.integers(3, size=12)]
    adapter = ContrastiveAdapter()
    adapter._weights = rng.normal(size=(5, 4))

    def loss(weights):
        unit = rows @ weights
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        total = 0.0
        for place in range(12):
            others = [other for other in range(12) if other != place]
            cosines = unit[others] @ unit[place] / 0.1
            logs = cosines - np.log(np.exp(cosines).sum())
            partners = [n for n, other in enumerate(others) if labels[other] @ labels[place] > 0]
            total -= np.mean(logs[partners]) if partners else 0.0
        return total / 12

    slope, step = adapter._slope(rows, labels), 1e-5
    for place in ((0, 0), (3, 2), (4, 3)):
        moved = np.zeros_like(adapter._weights)
        moved[place] = step
        expected = (loss(adapter._weights + moved) - loss(adapter._weights - moved)) / (2 * step)
        assert slope[place] == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_other_queries_share_the_fit(fitted):
    real = fitted["itq"].asked("real")
    assert real.hasher_ is fitted["itq"].hasher_
    assert (real.queries, fitted["itq"].queries) == ("real", "bits")


def test_open_codes_are_asked_with_an_emphasis(digits):
    X, y, database, database_y, queries = digits
    codec = codecs.HasherCodec("open", 8).fit(X, np.where(y > 6, np.nan, y))
    codes, query_y = codec.encode(database), data.digits().query_y[:60]
    scores = {name: codec.asked(name).scores(queries, codes) for name in ("alike", "auto", "label")}
    known = query_y <= 6
    found = {
        name: [metrics.evaluate_scores(s[part], query_y[part], database_y, at=None).map for part in (known, ~known)]
        for name, s in scores.items()
    }
    assert found["label"][0] > found["alike"][0] + 0.05
    assert found["alike"][1] > found["label"][1] + 0.05


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


def test_turboquant_is_near_to_the_floats(digits):
    pytest.importorskip("turbovec")
    X, _, database, _, queries = digits
    codec = codecs.TurboCodec(4).fit(X)
    exact = unit_rows(queries) @ unit_rows(database).T
    assert codec.bytes_per_row == 36
    assert np.abs(codec.scores(queries, codec.encode(database)) - exact).max() < 0.2


@pytest.mark.parametrize(
    ("codec", "y", "message"),
    [
        (codecs.ProductCodec(2), None, "256 centroids from at least as many rows. Got 60"),
        (codecs.MappedCodec(codecs.Discriminant(), codecs.FloatCodec()), np.eye(60), "LDA needs one class per row"),
        (codecs.TurboCodec(2), None, "pip install turbovec"),
    ],
)
def test_what_a_codec_cannot_learn_from_is_one_sentence(codec, y, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "turbovec", None)
    with pytest.raises(codecs.NotSuited, match=message):
        codec.fit(np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32), y)


def test_rows_that_do_not_differ_are_one_sentence_for_lda():
    with pytest.raises(ValueError, match="classes with several rows that differ"):
        codecs.Discriminant().fit(np.ones((60, 8), dtype=np.float32), np.arange(60) % 6)
