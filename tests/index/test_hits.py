"""Hits per query: without empty places, as lists, dicts and tables, from an index and from a collection."""

import base64
import io
import re

import numpy as np
import pytest

from hashlearn import Collection, Index


@pytest.fixture
def index():
    index = Index(8)
    index.add(np.array([[0b0000], [0b0001], [0b0111]], dtype=np.uint8), ids=[10, 11, 12])
    return index


ZERO = np.zeros((1, 1), dtype=np.uint8)


def test_hits_of_an_index_have_no_empty_places(index):
    hits = index.search(np.array([[0], [7]], dtype=np.uint8), k=5)
    ids, distances = hits
    assert ids.shape == distances.shape == (2, 3)
    assert len(hits) == 2
    assert hits[1].ids.tolist() == [12, 11, 10]
    assert hits[1].distances.tolist() == [0, 2, 3]
    assert [[hit.id for hit in one] for one in hits.per_query()] == [[10, 11, 12], [12, 11, 10]]
    assert hits.to_list()[0][:2] == [{"id": 10, "distance": 0}, {"id": 11, "distance": 1}]
    assert hits[-1].to_list() == hits[1].to_list()
    with pytest.raises(IndexError, match=r"There are 2 queries\. Got number 2"):
        hits[2]


def test_a_single_query_has_a_single_result(index):
    assert index.search(ZERO[0], k=2).to_list() == index.search(ZERO, k=2).to_list()[0]
    floats = np.full(8, -1.0)
    assert index.search(floats, k=1).ids.tolist() == [10]


def test_codes_by_id(index):
    assert index.get(11).tolist() == [1]
    assert index.get(99) is None
    assert [None if code is None else code.tolist() for code in index.get([12, 99, 10])] == [[7], None, [0]]


@pytest.fixture
def shop(tmp_path):
    with Collection.create(tmp_path / "shop", n_bits=8, vector_size=2) as shop:
        codes = np.array([[0], [1], [7]], dtype=np.uint8)
        payload = [{"color": "red", "id": "A"}, {"color": "blue"}, None]
        shop.add(codes=codes, ids=[1, 2, 3], payload=payload, vectors=np.eye(3, 2))
        yield shop


def test_hits_of_a_collection_have_payloads(shop):
    hits = shop.search(codes=ZERO, k=5)
    assert hits.to_list() == [
        [
            {"id": 1, "distance": 0, "payload": {"color": "red", "id": "A"}},
            {"id": 2, "distance": 1, "payload": {"color": "blue"}},
            {"id": 3, "distance": 3, "payload": {}},
        ]
    ]
    single = shop.search(codes=ZERO[0], k=1, include=["payload", "vector"])
    assert single[0].payload["color"] == "red"
    np.testing.assert_array_equal(single.vectors, [[1, 0]])


def test_hits_as_a_table(shop):
    table = shop.search(codes=np.repeat(ZERO, 2, axis=0), k=2).to_pandas()
    assert table.columns.tolist() == ["query", "id", "distance", "color", "payload.id"]
    assert table["query"].tolist() == [0, 0, 1, 1]
    assert table["color"].tolist() == ["red", "blue"] * 2


def test_hits_show_the_moment_of_the_search(shop):
    hits = shop.search(codes=ZERO, k=2, include=["payload", "code"])
    shop.delete([2])
    assert [hit.payload for hit in hits[0]] == [{"color": "red", "id": "A"}, {"color": "blue"}]
    assert [hit.code.tolist() for hit in hits[0]] == [[0], [1]]
    bare = shop.search(codes=ZERO, k=1, include=[])
    assert bare.to_list() == [[{"id": 1, "distance": 0}]]
    with pytest.raises(ValueError, match="include must be a list of 'payload', 'vector', 'code'"):
        shop.search(codes=ZERO, k=1, include="payload")


def test_vectors_that_are_not_kept_are_refused(tmp_path):
    with Collection.create(tmp_path / "bare", n_bits=8) as bare, pytest.raises(RuntimeError, match="keeps no vectors"):
        bare.search(codes=ZERO, include=["vector"])


def test_tables_have_their_columns_even_without_rows(shop):
    nothing = shop.search(codes=ZERO, k=2, where={"color": "green"})
    assert nothing.to_pandas().columns.tolist() == ["query", "id", "distance"]
    assert nothing[0].to_pandas().columns.tolist() == ["id", "distance"]
    assert nothing.to_arrow().column_names == ["query", "id", "distance"]


def test_hits_for_arrow(shop):
    table = shop.search(codes=ZERO, k=3).to_arrow()
    assert table.column_names == ["query", "id", "distance", "color", "payload.id"]
    assert table.column("color").to_pylist() == ["red", "blue", None]
    shop.add(codes=ZERO, ids=[4], payload=[{"color": 7}], vectors=[[0, 0]])
    with pytest.raises(ValueError, match="'color' holds values of different kinds"):
        shop.search(codes=ZERO, k=3).to_arrow()


def test_uuids_are_text_for_arrow(tmp_path):
    with Collection.create(tmp_path / "named", n_bits=8, ids="uuid") as named:
        (drawn,) = named.add(codes=ZERO)
        assert named.search(codes=ZERO[0], k=1).to_arrow().to_pylist() == [{"id": str(drawn), "distance": 0}]


def test_hits_in_a_notebook(shop):
    shop.add(codes=ZERO, ids=[4], payload=[{"text": "<script>" + "x" * 5000}], vectors=[[0, 0]])
    shown = shop.search(codes=ZERO, k=5)._repr_html_()
    assert shown.startswith("<table><tr><th>query</th><th>id</th><th>distance</th><th>color</th>")
    assert "&lt;script&gt;" in shown
    assert len(shown) < 2000
    many = shop.search(codes=np.repeat(ZERO, 30, axis=0), k=4)._repr_html_()
    assert many.count("<tr>") == 51
    assert "and 70 more" in many


def test_hits_print_their_texts(shop):
    shop.update_payload(2, {"text": "I lost\nmy card"})
    printed = repr(shop.search(codes=ZERO, k=2))
    assert printed.splitlines() == [
        "query  id  distance  color  payload.id  text",
        "0      1   0         red    A",
        "0      2   1         blue               I lost my card",
    ]
    assert repr(shop.search(codes=ZERO[0], k=1)).splitlines()[1] == "1   0         red    A"
    assert repr(shop.within(codes=ZERO, radius=0)).splitlines()[1] == "0      1   0         red    A"
    assert "and 10 more" in repr(shop.search(codes=np.repeat(ZERO, 10, axis=0), k=2))


def test_pictures_are_thumbnails_in_a_notebook(shop, tmp_path):
    from PIL import Image

    Image.new("RGB", (400, 200), "red").save(tmp_path / "red.jpg")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    names = [str(tmp_path / "red.jpg"), str(tmp_path / "broken.png"), "gone.png"]
    shop.update_payload([1, 2, 3], [{"picture": name} for name in names])
    shown = shop.search(codes=ZERO[0], k=3)._repr_html_()
    (data,) = re.findall(r'<img src="data:image/png;base64,([^"]+)"', shown)
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (96, 48)
    assert "broken.png</td>" in shown
    assert "gone.png</td>" in shown


def test_later_pages(shop):
    hits, rest = shop.search(codes=ZERO, k=3), shop.search(codes=ZERO, k=2, offset=1)
    assert rest.to_list() == [hits.to_list()[0][1:]]
    assert shop.search(codes=ZERO[0], k=5, offset=2).ids.tolist() == [3]
    assert shop.search(codes=ZERO, k=5, offset=7).to_list() == [[]]
    with pytest.raises(ValueError, match="offset must be"):
        shop.search(codes=ZERO, offset=-1)


def test_a_ball_of_an_index_is_used_like_hits(index):
    ball = index.within(np.array([[0], [7]], dtype=np.uint8), 1)
    assert [one.ids.tolist() for one in ball.per_query()] == [[10, 11], [12]]
    assert ball[-1].to_list() == [{"id": 12, "distance": 0}]
    assert index.within(ZERO[0], 1).ids.tolist() == [10, 11]
    with pytest.raises(IndexError, match="There are 2 queries"):
        ball[2]


def test_an_index_knows_its_ids_and_finds_ten_rows_unless_told(index):
    assert [11 in index, 99 in index] == [True, False]
    index.add(np.zeros((20, 1), dtype=np.uint8))
    assert index.search(ZERO).ids.shape == (1, 10)
