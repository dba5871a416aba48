"""Searching over HTTP gives what the collection gives."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from service_box import API, N_BITS, ROWS, SIDE, client, error_of, new_service, npy, payload, rows

from hashlearn import Collection
from hashlearn.codes import hamming_distances


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    service = new_service(folder)
    with client(service) as http, Collection.open(folder / "shop", read_only=True) as bare:
        yield http, bare


def asked(http, **body):
    response = http.post(f"{API}/search", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def pairs(result):
    return [(hit["id"], hit["distance"]) for hit in result["hits"]]


def expected(hits, row=0):
    return list(zip(hits.ids[row].tolist(), hits.distances[row].tolist(), strict=True))


def test_vectors_codes_and_ids_find_the_same_as_the_collection(shop):
    http, bare = shop
    queries = rows(3, seed=1)
    hits = bare.search(queries, k=5)
    answer = asked(http, vectors=queries.tolist(), k=5)
    assert answer["mode"] == "hamming"
    assert answer["n_bits"] == N_BITS
    assert [pairs(result) for result in answer["results"]] == [expected(hits, row) for row in range(3)]
    codes = bare.hasher.encode(queries)
    for texts in ([code.tobytes().hex() for code in codes], [base64.b64encode(code).decode() for code in codes]):
        by_code = asked(http, codes=texts, k=5)["results"]
        assert [pairs(result) for result in by_code] == [pairs(result) for result in answer["results"]]
    own = bare.get([7, 9])
    by_id = asked(http, ids=[7, 9], k=5, exclude_self=False)["results"]
    stored = bare.search(codes=np.stack([item.code for item in own]), k=5)
    assert [pairs(result) for result in by_id] == [expected(stored, row) for row in range(2)]
    assert by_id[0]["query"]["id"] == 7
    assert by_id[0]["query"]["code"] == own[0].code.tobytes().hex()


@pytest.mark.parametrize("mode", ["hamming", "asymmetric", "rescore"])
@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("signs", [[1, 1], [-1, -1], [1, -1]], ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # projections of the hasher overflow too
def test_very_large_vectors_have_finite_distances(shop, mode, metric, signs):
    vector = (3e38 * np.resize(signs, SIDE * SIDE)).tolist()
    answer = asked(shop[0], vectors=[vector], mode=mode, metric=metric, k=3)
    assert np.isfinite([hit["distance"] for hit in answer["results"][0]["hits"]]).all()


def test_an_item_is_no_neighbour_of_its_own(shop):
    http, _ = shop
    whole = [pair for pair in pairs(asked(http, ids=[7], k=ROWS, exclude_self=False)["results"][0]) if pair[0] != 7]
    assert len(whole) == ROWS - 1
    assert pairs(asked(http, ids=[7], k=5)["results"][0]) == whole[:5]
    assert pairs(asked(http, ids=[7], k=5, offset=3)["results"][0]) == whole[3:8]
    near = [pair for pair in whole if pair[1] <= 4]
    result = asked(http, ids=[7], radius=4)["results"][0]
    assert pairs(result) == near
    assert result["found"] == len(near)
    cut = asked(http, ids=[7], radius=4, k=2)["results"][0]
    assert pairs(cut) == near[:2]
    assert cut["found"] == len(near)


def test_a_radius_finds_the_ball(shop):
    http, bare = shop
    queries = rows(4, seed=2)
    ball = bare.within(queries, radius=3)
    results = asked(http, vectors=queries.tolist(), radius=3)["results"]
    for row, result in enumerate(results):
        part = slice(ball.offsets[row], ball.offsets[row + 1])
        assert pairs(result) == list(zip(ball.ids[part].tolist(), ball.distances[part].tolist(), strict=True))


@pytest.mark.parametrize("mode", ["asymmetric", "rescore"])
def test_other_modes_rank_as_the_collection_does(shop, mode):
    http, bare = shop
    queries = rows(2, seed=3)
    settings = {"asymmetric": True} if mode == "asymmetric" else {"rescore": 3.0, "metric": "euclidean"}
    hits = bare.search(queries, k=4, **settings)
    results = asked(http, vectors=queries.tolist(), k=4, mode=mode, oversample=3.0, metric="euclidean")["results"]
    assert [pairs(result) for result in results] == [expected(hits, row) for row in range(2)]
    # Stored vectors stand in for those of the items asked for.
    by_id = asked(http, ids=[3], k=4, mode=mode, oversample=3.0, metric="euclidean", exclude_self=False)["results"][0]
    assert pairs(by_id) == expected(bare.search(bare.get(3).vector[None], k=4, **settings))


def test_filters_hold(shop):
    http, _ = shop
    where = {"colour": "red", "year": {">=": 2000}}
    answer = asked(http, ids=[0], k=ROWS, where=where)["results"][0]
    assert {hit["id"] for hit in answer["hits"]} == {row for row in range(10, ROWS) if row % 3 == 0}
    assert all(hit["payload"] == payload()[hit["id"]] for hit in answer["hits"])
    assert asked(http, ids=[0], where={"colour": "no such"})["results"][0]["hits"] == []


def test_hits_tell_what_was_asked_for(shop):
    http, bare = shop
    hit = asked(http, ids=[5], k=1, include=["payload", "code", "vector"])["results"][0]["hits"][0]
    item = bare.get(hit["id"])
    assert hit["code"] == item.code.tobytes().hex()
    assert hit["payload"] == item.payload
    assert hit["vector"] == item.vector.tolist()
    assert http.get(hit["image"]).headers["content-type"] == "image/png"
    assert set(asked(http, ids=[5], k=1, include=[])["results"][0]["hits"][0]) == {"id", "distance", "image"}


def test_batches_as_npy(shop):
    http, bare = shop
    queries = rows(50, seed=4)
    wanted = bare.search(queries, k=70)
    for body in (queries, queries.astype(np.float64), np.asfortranarray(queries), bare.hasher.encode(queries)):
        response = http.post(f"{API}/search.npy?k=70", content=npy(body), headers={"Content-Type": "application/x-npy"})
        assert response.status_code == 200, response.text
        found = np.load(io.BytesIO(response.content), allow_pickle=False)
        np.testing.assert_array_equal(found["ids"], wanted.ids)
        np.testing.assert_array_equal(found["distances"], wanted.distances)
        assert (found["ids"][:, ROWS:] == -1).all()


def test_npy_with_a_radius_a_mode_and_a_filter(shop):
    http, bare = shop
    queries, headers = rows(5, seed=5), {"Content-Type": "application/x-npy"}
    ball = bare.within(queries, radius=4, where={"colour": "red"})
    params = {"radius": 4, "where": '{"colour": "red"}'}
    response = http.post(f"{API}/search.npy", params=params, content=npy(queries), headers=headers)
    found = np.load(io.BytesIO(response.content))
    for name in ("offsets", "ids", "distances"):
        np.testing.assert_array_equal(found[name], getattr(ball, name))
    params = {"k": 3, "mode": "asymmetric"}
    response = http.post(f"{API}/search.npy", params=params, content=npy(queries), headers=headers)
    np.testing.assert_array_equal(
        np.load(io.BytesIO(response.content))["ids"], bare.search(queries, k=3, asymmetric=True).ids
    )


def test_an_uploaded_picture_finds_itself(shop, tmp_path):
    http, bare = shop
    picture = http.get(f"{API}/images/11").content
    response = http.post(f"{API}/search/image?k=3&include=code", content=picture, headers={"Content-Type": "image/png"})
    assert response.status_code == 200, response.text
    result = response.json()["results"][0]
    row = (rows()[11].reshape(1, SIDE * SIDE) * 255).round() / np.float32(255)
    assert pairs(result) == expected(bare.search(row, k=3))
    assert 11 in {hit["id"] for hit in result["hits"]}


def test_histogram_counts_every_row(shop):
    http, bare = shop
    codes = np.stack([item.code for item in bare.get(list(range(ROWS)))])
    wanted = np.bincount(hamming_distances(codes[8:9], codes)[0], minlength=N_BITS + 1).tolist()
    assert http.get(f"{API}/histogram?id=8").json() == {"n_bits": N_BITS, "counts": wanted}
    for body in ({"id": 8}, {"code": codes[8].tobytes().hex()}, {"vector": rows()[8].tolist()}):
        assert http.post(f"{API}/histogram", json=body).json()["counts"] == wanted


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ({}, "bad_request", "exactly one of vectors, ids, codes"),
        ({"ids": [1], "codes": ["abc0"]}, "bad_request", "got ids and codes"),
        ({"ids": [1], "k": 0}, "bad_request", "k"),
        ({"ids": [1], "k": 5000}, "bad_k", "1,000"),
        ({"ids": [1], "k": 1000, "offset": 1}, "bad_k", "1,000"),
        ({"ids": [1], "radius": 2, "offset": 1}, "bad_request", "offset"),
        ({"ids": [1], "k": "5"}, "bad_request", "k"),
        ({"ids": [1], "radius": 2, "mode": "asymmetric"}, "bad_request", "hamming"),
        ({"ids": [1], "colour": 2}, "bad_request", "colour"),
        ({"ids": [-1]}, "bad_id", "ids[0]"),
        ({"ids": [2**70]}, "bad_id", "ids[0]"),
        ({"ids": [True]}, "bad_id", "ids[0]"),
        ({"ids": []}, "bad_id", "ids"),
        ({"vectors": [[1.0, 2.0]]}, "bad_vector", "(rows, 16). Got (1, 2)"),
        ({"vectors": [[1.0] * 16, [1.0]]}, "bad_vector", "one length"),
        ({"vectors": [[1e300] * 16]}, "bad_vector", "row 0"),
        ({"vectors": [[0.5] * 16, [10**400] * 16]}, "bad_vector", "row 1"),
        ({"vectors": [["1"] * 16]}, "bad_vector", "row 0"),
        ({"codes": ["zz"]}, "bad_code", "12 bits"),
        ({"codes": ["abcd"]}, "bad_code", "4 zero bits"),
        ({"codes": ["abc0"], "mode": "rescore"}, "bad_mode", "vectors of the queries"),
        ({"ids": [1], "where": {"year": {"~": 1}}}, "bad_filter", "'~'"),
        ({"ids": [1], "where": []}, "bad_filter", "where"),
        ({"ids": [1], "where": None}, "bad_request", "null"),
        ({"ids": [1], "mode": "rescore", "oversample": 1e6}, "bad_request", "100"),
    ],
)
def test_bad_searches_get_a_sentence(shop, body, code, says):
    response = shop[0].post(f"{API}/search", json=body)
    assert error_of(response, 400) == code
    assert says in response.json()["error"]["message"]


def test_what_is_not_there(shop):
    http, _ = shop
    assert error_of(http.post(f"{API}/search", json={"ids": [10**6]}), 404) == "no_item"
    assert error_of(http.post("/api/v1/collections/none/search", json={"ids": [1]}), 404) == "no_collection"
    assert error_of(http.get("/nothing"), 404) == "not_found"
    response = http.put(f"{API}/items", json={})
    assert error_of(response, 405) == "wrong_method"
    assert response.headers["allow"] == "DELETE, GET, HEAD, PATCH, POST"
