"""Looking at items, adding and deleting them, their pictures, and what is told about collections."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from PIL import Image
from service_box import (
    API,
    AUTH,
    N_BITS,
    ROWS,
    SIDE,
    TOKEN,
    client,
    error_of,
    make_shop,
    new_service,
    npy,
    payload,
    rows,
    served_shop,
)

from hashlearn import Collection
from hashlearn.codes import unpack
from hashlearn.files.arrays import FileError
from hashlearn.service.served_collection import DisplayConfig, ServedCollection, default_name, open_collection
from hashlearn.service.service import Service
from hashlearn.service.settings import ServerSettings, Token


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("items")


@pytest.fixture(scope="module")
def http(folder):
    """Read only: tests that write make their own."""
    with client(new_service(folder)) as it:
        yield it


def test_items_a_page_at_a_time(http):
    seen, after = [], -1
    while True:
        page = http.get(f"{API}/items", params={"limit": 25, "after": after}).json()
        seen += page["items"]
        after = page["next"]
        if after is None:
            break
    assert [item["id"] for item in seen] == list(range(ROWS))
    assert [item["payload"] for item in seen] == payload()


def test_one_item(http, folder):
    item = http.get(f"{API}/items/7").json()
    with Collection.open(folder / "shop", read_only=True) as bare:
        there = bare.get(7)
    assert item == {
        "id": 7,
        "code": there.code.tobytes().hex(),
        "payload": there.payload,
        "vector": there.vector.tolist(),
        "image": f"{API}/images/7",
    }
    assert error_of(http.get(f"{API}/items/{ROWS}"), 404) == "no_item"
    assert error_of(http.get(f"{API}/items/seven"), 400) == "bad_id"
    assert error_of(http.get(f"{API}/items/{2**63}"), 400) == "bad_id"


def test_random_items_are_of_the_collection_and_not_always_the_same(http):
    ids = {http.get(f"{API}/random").json()["id"] for _ in range(20)}
    assert len(ids) > 1
    assert ids <= set(range(ROWS))


@pytest.mark.slow
def test_random_where_ids_are_few_and_far_between(tmp_path):
    with Collection.create(tmp_path / "far", n_bits=8) as far:
        far.add(codes=np.array([[1], [2]], dtype=np.uint8), ids=[10**15, 2**62])
    with client(Service([open_collection(str(tmp_path / "far"))])) as http:
        assert {http.get("/api/v1/collections/far/random").json()["id"] for _ in range(20)} == {10**15, 2**62}
        facts = http.get("/api/v1/collections").json()["collections"][0]
    assert facts["hasher"] is None
    assert {"vector", "image", "asymmetric", "rescore", "write", "drop", "text"} <= set(facts["can"])
    assert not any(facts["can"].values())
    assert facts["has_labels"] is False


def test_an_empty_collection_answers(tmp_path):
    Collection.create(tmp_path / "empty", n_bits=8).close()
    with client(Service([open_collection(str(tmp_path / "empty"))])) as http:
        api = "/api/v1/collections/empty"
        assert error_of(http.get(f"{api}/random"), 404) == "empty"
        assert http.get(f"{api}/items").json() == {"items": [], "next": None}
        assert http.post(f"{api}/search", json={"codes": ["00"]}).json()["results"][0]["hits"] == []
        assert http.get(f"{api}/stats").json()["rows"] == 0
        assert http.post(f"{api}/histogram", json={"code": "00"}).json()["counts"] == [0] * 9


def test_facts_and_stats(http, folder):
    (facts,) = http.get("/api/v1/collections").json()["collections"]
    assert facts["name"] == "shop"
    assert facts["rows"] == ROWS
    assert facts["hasher"] == {"method": "itq", "title": "ITQ", "n_features": SIDE * SIDE}
    assert facts["label_field"] == "label"
    can = {name for name, able in facts["can"].items() if able}
    assert can == {"vector", "image", "asymmetric", "rescore", "write"}
    more = http.get(API).json()
    assert {**more, **facts} == more
    assert str(folder) not in http.get(API).text
    stats = http.get(f"{API}/stats").json()
    with Collection.open(folder / "shop", read_only=True) as bare:
        codes = np.stack([item.code for item in bare.get(list(range(ROWS)))])
    bits = unpack(codes, N_BITS)
    np.testing.assert_allclose(stats["ones"], bits.mean(axis=0), atol=1e-6)
    assert stats["distinct_codes"] == len({code.tobytes() for code in codes})
    largest = max(abs(np.corrcoef(bits[:, a], bits[:, b])[0, 1]) for a in range(N_BITS) for b in range(a))
    assert stats["largest_correlation"] == pytest.approx(largest, abs=1e-5)


def test_health_readiness_and_metrics(http):
    assert http.get("/healthz").json() == {"status": "ok"}
    for _ in range(100):
        if http.get("/readyz").status_code == 200:
            break
    assert http.get("/readyz").json() == {"status": "ready"}
    http.get(f"{API}/items/3")
    http.get("/no-such-page-1")
    text = http.get("/metrics").text
    assert f'hashlearn_collection_rows{{collection="shop"}} {ROWS}.0' in text
    assert 'hashlearn_collection_distinct_codes{collection="shop"}' in text
    assert 'hashlearn_collection_queries{collection="shop"}' in text
    assert 'route="/api/v1/collections/{collection}/items/{id}",status="200"' in text
    assert "no-such-page" not in text
    assert "hashlearn_request_seconds_bucket" in text


def test_adding_replacing_and_deleting(tmp_path):
    with client(new_service(tmp_path)) as http:
        new = rows(2, seed=9)
        body = {"vectors": new.tolist(), "payload": [{"colour": "new"}, {}]}
        answer = http.post(f"{API}/items", json=body, headers=AUTH).json()
        assert answer == {"ids": [ROWS, ROWS + 1], "count": 2}
        near = http.post(f"{API}/search", json={"vectors": new[:1].tolist(), "where": {"colour": "new"}}).json()
        assert [(hit["id"], hit["distance"]) for hit in near["results"][0]["hits"]] == [(ROWS, 0)]
        body = {"vectors": new[:1].tolist(), "ids": [5], "payload": [{"colour": "other"}]}
        assert http.post(f"{API}/items", json=body, headers=AUTH).json() == {"ids": [5], "count": 1}
        assert http.get(f"{API}/items/5").json()["payload"] == {"colour": "other"}
        bare = {"codes": ["abc0"], "vectors": new[:1].tolist(), "ids": [900]}
        assert http.post(f"{API}/items", json=bare, headers=AUTH).json()["count"] == 1
        assert http.get(f"{API}/items/900").json()["code"] == "abc0"
        headers = {**AUTH, "Content-Type": "application/x-npy"}
        answer = http.post(f"{API}/items.npy?first_id=1000", content=npy(rows(30, seed=8)), headers=headers).json()
        assert answer == {"ids": list(range(1000, 1030)), "count": 30}
        assert http.request("DELETE", f"{API}/items", json={"ids": [1000, 1001, 5000]}, headers=AUTH).json() == {
            "deleted": 2
        }
        assert http.request("DELETE", f"{API}/items", json={"where": {"colour": "red"}}, headers=AUTH).json() == {
            "deleted": ROWS // 3
        }
        assert http.delete(f"{API}/items/1002", headers=AUTH).json() == {"deleted": 1}
        assert error_of(http.delete(f"{API}/items/1002", headers=AUTH), 404) == "no_item"
        assert http.get(API).json()["rows"] == ROWS + 2 + 1 + 30 - 2 - ROWS // 3 - 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"ids": [1]}, "bad_request"),
        ({"vectors": [[1.0]]}, "bad_vector"),
        ({"vectors": [[0.5] * 16], "ids": [1, 2]}, "bad_request"),
        ({"vectors": [[0.5] * 16], "payload": [{}, {}]}, "bad_request"),
        ({"vectors": [[0.5] * 16] * 2, "ids": [1, 1]}, "bad_request"),
        ({"vectors": [[0.5] * 16], "payload": [{"a": "\0"}]}, "bad_request"),
        ({"codes": ["abc0"]}, "bad_request"),
        ({"codes": ["abc1"], "vectors": [[0.5] * 16]}, "bad_code"),
    ],
)
def test_bad_items_change_nothing(http, body, code):
    assert error_of(http.post(f"{API}/items", json=body, headers=AUTH), 400) == code
    assert http.get(API).json()["rows"] == ROWS


def test_no_filter_deletes_nothing(http):
    for body in ({"where": {}}, {}, {"ids": []}, {"ids": [1], "where": {"colour": "red"}}):
        assert error_of(http.request("DELETE", f"{API}/items", json=body, headers=AUTH), 400)
    assert http.get(API).json()["rows"] == ROWS


def test_read_only_collections_are_not_written(tmp_path):
    make_shop(tmp_path, pictures=True)
    service = Service([served_shop(tmp_path, read_only=True)], ServerSettings(tokens=(Token(TOKEN),)))
    with client(service) as http:
        body = {"vectors": rows(1).tolist()}
        assert error_of(http.post(f"{API}/items", json=body, headers=AUTH), 403) == "read_only"
        assert http.get(API).json()["can"]["write"] is False


def test_pictures_whole_and_small(http, folder):
    path = folder / "pictures" / "3.png"
    whole = http.get(f"{API}/images/3")
    assert whole.content == path.read_bytes()
    small = http.get(f"{API}/images/3?size=2")
    assert small.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(small.content)).size == (2, 2)
    assert http.get(f"{API}/images/3?size=100").content == whole.content
    assert error_of(http.get(f"{API}/images/3?size=0"), 400)
    assert error_of(http.get(f"{API}/images/{ROWS}"), 404) == "no_item"


def test_pictures_of_a_zip_named_in_the_payload(tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (6, 3), (200, 10, 10)).save(buffer, "BMP")
    folder = tmp_path / "c"
    with Collection.create(folder, n_bits=8) as made:
        names = ["a/red one.bmp", "a/notes.txt", "a/fake.png", "../pictures.zip", None]
        fields = [{} if name is None else {"photo": name} for name in names]
        made.add(codes=np.zeros((5, 1), dtype=np.uint8), payload=fields)
    with zipfile.ZipFile(folder / "pictures.zip", "w") as archive:
        archive.writestr("a/red one.bmp", buffer.getvalue())
        archive.writestr("a/notes.txt", "no picture")
        archive.writestr("a/fake.png", "no picture either")
    DisplayConfig(images="pictures.zip", image_field="photo").write(folder)
    with client(Service([open_collection(str(tmp_path / "c"))])) as http:
        api = "/api/v1/collections/c"
        shown = http.get(f"{api}/images/0")
        assert shown.headers["content-type"] == "image/png"  # browsers need not know BMP
        assert Image.open(io.BytesIO(shown.content)).getpixel((0, 0)) == (200, 10, 10)
        for row in (1, 2, 3, 4):
            assert error_of(http.get(f"{api}/images/{row}"), 404) == "no_image"
        assert "image" not in http.get(f"{api}/items/1").json()


def test_names_of_collections(tmp_path):
    assert default_name("/data/my shop/") == "my-shop"
    assert default_name("milvus://host:19530/photos") == "photos"
    assert default_name("postgresql://me:secret@host/db?collection=faces") == "faces"
    make_shop(tmp_path)
    with Collection.open(tmp_path / "shop") as collection:
        for name in ("a/b", "", "..", "x" * 65):
            with pytest.raises(ValueError, match="name"):
                ServedCollection(name, collection)
        with pytest.raises(ValueError, match="Two collections are called 'a'"):
            Service([ServedCollection("a", collection), ServedCollection("a", collection)])


def test_a_wrong_serve_json_is_said(tmp_path):
    make_shop(tmp_path)
    (tmp_path / "shop" / "serve.json").write_text('{"pictures": "x"}')
    with pytest.raises(ValueError, match="must be a JSON object"):
        open_collection(str(tmp_path / "shop"))
    with pytest.raises(ValueError, match="makes rows of 25 numbers, and the hasher was fitted on rows of 16"):
        (tmp_path / "shop" / "serve.json").write_text('{"image_features": "gray:5"}')
        open_collection(str(tmp_path / "shop"))


@pytest.mark.parametrize("place", ["../pictures", "..", "/", "link", "inside/../../pictures", "absolute"])
def test_serve_json_names_no_pictures_outside_of_its_folder(tmp_path, place):
    """A collection that was copied from elsewhere must not show pictures of this machine."""
    folder = make_shop(tmp_path, pictures=True)
    (folder / "link").symlink_to(tmp_path / "pictures")
    (folder / "inside").mkdir()
    DisplayConfig(images=str(tmp_path / "pictures") if place == "absolute" else place).write(folder)
    with pytest.raises(FileError, match=r"serve.json names pictures outside of the collection's folder: .* --images"):
        open_collection(str(folder))
    open_collection(str(folder), images=tmp_path / "pictures").collection.close()
    (tmp_path / "pictures").rename(folder / "inside" / "pictures")
    DisplayConfig(images="inside/pictures").write(folder)
    served = open_collection(str(folder))
    assert served.pictures is not None
    assert served.pictures.name(7, {}) == "7.png"
    served.collection.close()
