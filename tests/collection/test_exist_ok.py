"""``create(exist_ok=True)`` opens what the same call made before, on every kind of storage, and nothing else."""

import numpy as np
import pytest

from hashlearn import ITQ, LSH, Collection
from hashlearn.collection import CollectionError, CollectionExistsError


@pytest.fixture(params=("embedded", "milvus", "postgres"))
def uri(request, tmp_path):
    return str(tmp_path / "shop") if request.param == "embedded" else request.getfixturevalue(f"{request.param}_uri")


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)


def test_the_second_run_of_a_script_goes_on(uri, rows):
    for count in (1, 2):
        hasher = ITQ(n_bits=6, random_state=0).fit(rows)
        with Collection.create(uri, hasher, ids="text", store_vectors=True, exist_ok=True) as shop:
            shop.add(rows[count], ids=str(count))
            assert len(shop) == count
    with pytest.raises(CollectionExistsError, match="already: open it"):
        Collection.create(uri, hasher, ids="text", store_vectors=True)


def test_another_collection_is_refused_and_left_alone(tmp_path, rows):
    hasher, uri = ITQ(n_bits=6, random_state=0).fit(rows), tmp_path / "shop"
    made = {"kind": "ivf", "n_probes": 4, "indexed": ["year"]}
    with Collection.create(uri, hasher, **made) as shop:
        shop.add(rows)
    with pytest.raises(CollectionError, match="another hasher"):
        Collection.create(uri, LSH(6, random_state=0).fit(rows), **made, exist_ok=True)
    for other, says in (
        ({"ids": "text"}, "made with ids='int'. Got 'text' instead"),
        ({"store_vectors": True}, "vector_size=None. Got 6"),
        ({"n_probes": 5}, "settings="),
        ({"indexed": []}, "indexed="),
    ):
        with pytest.raises(CollectionError, match=says):
            Collection.create(uri, hasher, **(made | other), exist_ok=True)
    with pytest.raises(CollectionError, match="has a hasher, and none was given"):
        Collection.create(uri, n_bits=6, **made, exist_ok=True)
    with Collection.create(uri, hasher, **made, exist_ok=True) as shop:
        assert len(shop) == 40
