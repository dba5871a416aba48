"""New payloads for stored rows, on every kind of storage: codes and vectors stay."""

import numpy as np
import pytest

from hashlearn import Collection
from hashlearn.collection import CollectionError

CODES = np.arange(6, dtype=np.uint8).reshape(3, 2)


@pytest.fixture(params=("embedded", "milvus", "postgres"))
def uri(request, tmp_path):
    return str(tmp_path / "shop") if request.param == "embedded" else request.getfixturevalue(f"{request.param}_uri")


def test_fields_are_merged_or_replaced(uri):
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    with Collection.create(uri, n_bits=16, vector_size=2, ids="text") as shop:
        shop.add(codes=CODES, ids=["a", "b", "c"], payload=[{"n": 1, "color": "red"}] * 3, vectors=vectors)
        assert shop.update_payload(["c", "a"], {"n": [3, 2]}) == 2
        assert shop.update_payload("b", {"n": 9}, merge=False) == 1
        items = shop.get(["a", "b", "c"])
        assert [item.payload for item in items] == [{"n": 2, "color": "red"}, {"n": 9}, {"n": 3, "color": "red"}]
        np.testing.assert_array_equal([item.code for item in items], CODES)
        np.testing.assert_array_equal([item.vector for item in items], vectors)
        assert shop.count({"n": 3}) == 1
        assert len(shop) == 3


def test_a_missing_row_changes_nothing(tmp_path):
    with Collection.create(tmp_path / "shop", n_bits=16) as shop:
        shop.add(codes=CODES, payload=[{"n": 1}] * 3)
        with pytest.raises(CollectionError, match="the first is 7: no payload was changed"):
            shop.update_payload([0, 7], [{"n": 2}, {"n": 2}])
        with pytest.raises(ValueError, match="Got 0 twice"):
            shop.update_payload([0, 0], [{"n": 2}, {"n": 2}])
        assert [item.payload for item in shop.get([0, 1, 2])] == [{"n": 1}] * 3
        assert shop.update_payload([], []) == 0
