"""A Pipeline of scikit-learn with a hasher at its end: saved, loaded and in a collection, it computes the same."""

import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from hashlearn import GSDHP, ITQ, Collection, JoinedHasher, LinLin, codes, models

rng = np.random.default_rng(0)
y = rng.integers(3, size=150)
X = (rng.normal(size=(150, 10)) + y[:, None]) * np.logspace(-3, 3, 10)
STEPS = [
    [StandardScaler()],
    [MinMaxScaler(), MaxAbsScaler()],
    [RobustScaler(), Normalizer()],
    [StandardScaler(), PCA(4, random_state=0)],
    ["passthrough"],
]


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_saved_pipeline_computes_the_same(tmp_path, number):
    pipeline = make_pipeline(*STEPS[number], GSDHP(8, random_state=0)).fit(X, y)
    models.save(pipeline, tmp_path / "model.hl")
    again = models.load(tmp_path / "model.hl")
    np.testing.assert_array_equal(again.transform(X), pipeline.transform(X))
    np.testing.assert_array_equal(again.encode(X), codes.pack(pipeline.transform(X)))
    inner, rows = pipeline[-1], pipeline[:-1].transform(X)
    np.testing.assert_array_equal(again.encode_queries(X), inner.encode_queries(rows))
    np.testing.assert_array_equal(again.expected_bits(X), inner.expected_bits(rows))
    assert (again.n_bits_, again.n_features_in_) == (8, 10)
    assert models.fingerprint(again) == models.fingerprint(pipeline)


def test_a_collection_takes_a_pipeline(tmp_path):
    pipeline = make_pipeline(StandardScaler(), ITQ(8, random_state=0)).fit(X)
    with Collection.create(tmp_path / "shop", pipeline) as shop:
        shop.add(X)
    with Collection.open(tmp_path / "shop", pipeline) as shop:
        assert (shop.search(X, k=1).distances == 0).all()
        assert shop.search(X[:3], k=2, asymmetric=True).filled.all()
        packed = np.stack([item.code for item in shop.get(np.arange(150))])
    np.testing.assert_array_equal(packed, codes.pack(pipeline.transform(X)))


@pytest.mark.parametrize("hasher", [LinLin(8, random_state=0), JoinedHasher([GSDHP(8, random_state=0)], spread=0.5)])
def test_database_rows_have_their_own_codes(hasher):
    pipeline = make_pipeline(StandardScaler(), hasher).fit(X, y)
    again, inner, rows = models.loads(models.dumps(pipeline), "it"), pipeline[-1], pipeline[:-1].transform(X)
    assert (inner.encode(rows) != inner.encode_queries(rows)).any()
    np.testing.assert_array_equal(again.encode(X), inner.encode(rows))
    np.testing.assert_array_equal(again.encode_queries(X), inner.encode_queries(rows))
    assert again.score(X, y) == inner.score(rows, y)


def test_names_of_columns_are_left_to_the_pipeline(tmp_path, recwarn):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"c{n}" for n in range(10)])
    pipeline = make_pipeline(StandardScaler(), ITQ(8, random_state=0)).fit(frame)
    again = models.loads(models.dumps(pipeline), "it")
    recwarn.clear()
    np.testing.assert_array_equal(again.encode(X), codes.pack(pipeline.transform(frame)))
    assert not recwarn.list


def test_it_fits_again(tmp_path):
    pipeline = make_pipeline(StandardScaler(), GSDHP(8, random_state=0)).fit(X, y)
    again = models.loads(models.dumps(pipeline), "it").fit(X, y)
    np.testing.assert_array_equal(again.encode(X), codes.pack(pipeline.transform(X)))


@pytest.mark.parametrize(
    ("pipeline", "says"),
    [
        (make_pipeline(TruncatedSVD(3), ITQ(4)), "step 'truncatedsvd' of the pipeline is a TruncatedSVD"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "must be a hasher. Got LogisticRegression"),
    ],
)
def test_what_cannot_be_saved_is_said(pipeline, says):
    with pytest.raises(TypeError, match=says):
        models.dumps(pipeline.fit(X, y))


def test_an_unfitted_pipeline_is_refused():
    with pytest.raises(NotFittedError):
        models.dumps(Pipeline([("scale", StandardScaler()), ("hash", ITQ(4))]))
