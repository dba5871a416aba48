"""New payloads for stored rows, on every kind of storage: codes and vectors stay."""

import numpy as np
import pytest

from hashlearn import Collection
from hashlearn.collection import CollectionError
from hashlearn.collection.unknown_fields import UnknownFieldWarning

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


def test_rows_that_match_get_the_same_fields(uri):
    with Collection.create(uri, n_bits=16, ids="text") as shop:
        shop.add(codes=CODES, ids=["a", "b", "c"], payload=[{"n": 1}, {"n": 2}, {"n": 2, "sold": False}])
        assert shop.update_payload(where={"n": 2}, payload={"sold": True}) == 2
        assert [item.payload for item in shop.get(["a", "b", "c"])] == [{"n": 1}] + [{"n": 2, "sold": True}] * 2
        np.testing.assert_array_equal([item.code for item in shop.get(["a", "b", "c"])], CODES)
        assert shop.update_payload(where={"n": 3}, payload={"sold": True}) == 0


def test_what_an_update_by_filter_refuses(tmp_path):
    with Collection.create(tmp_path / "shop", n_bits=16) as shop:
        shop.add(codes=CODES, payload=[{"n": 1}] * 3)
        with pytest.raises(ValueError, match="Give ids or where= to update"):
            shop.update_payload(payload={"n": 2})
        with pytest.raises(ValueError, match="Give ids or where= to update"):
            shop.update_payload([0], [{"n": 2}], where={"n": 1})
        with pytest.raises(ValueError, match="payload must be one dict for all rows"):
            shop.update_payload(where={"n": 1}, payload=[{"n": 2}] * 3)
        with pytest.warns(UnknownFieldWarning, match="'m'") as told:
            shop.update_payload(where={"m": 1}, payload={"n": 2})
        assert told[0].filename == __file__
        assert shop.count({"n": 1}) == 3
