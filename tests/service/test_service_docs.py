"""The client on the page of the docs works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from service_box import API, ROWS, TOKEN, client, new_service, rows

from hashlearn import Collection
from hashlearn.service.settings import MIB, SHORTEST_TOKEN, Limits

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")


def test_the_client_of_the_docs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict = {}
    exec(compile(code, "docs/service.md", "exec"), names)
    with client(new_service(tmp_path)) as http, Collection.open(tmp_path / "shop", read_only=True) as bare:
        own = names["Client"](str(http.base_url), "shop", TOKEN)
        queries = rows(3, seed=1)
        wanted = bare.search(queries, k=4)
        results = own.search(queries, k=4)
        assert [[hit["id"] for hit in result["hits"]] for result in results] == wanted.ids.tolist()
        ids, distances = own.search_batch(queries, k=4)
        np.testing.assert_array_equal(ids, wanted.ids)
        np.testing.assert_array_equal(distances, wanted.distances)
        assert own.add(queries[:1], [{"colour": "new"}]) == [ROWS]
        assert own.search(queries[:1], k=1, where={"colour": "new"})[0]["hits"][0]["payload"] == {"colour": "new"}


def test_every_route_is_on_the_page(tmp_path):
    with client(new_service(tmp_path)) as http:
        paths = http.get("/openapi.json").json()["paths"]
    prefix = API.replace("shop", "{collection}")
    for path in paths:
        assert path.removeprefix(prefix) in PAGE, path


def test_the_limits_on_the_page_are_those_of_the_code():
    limits = Limits()
    for text in (
        f"{limits.json_bytes // MIB} MiB JSON, {limits.body_bytes // MIB} MiB `.npy`",
        f"{limits.image_bytes // MIB} MiB and",
        f"{limits.image_pixels // 10**6} megapixels per image",
        f"{limits.held_bytes // MIB} MiB of bodies",
        f"{limits.queries:,} queries or items; k {limits.k:,} ({limits.k_npy:,} for `.npy`); {limits.hits_json:,} hits",
        f"({limits.floats_json // 10**6} million numbers of vectors), {limits.hits_npy // 10**6} million as `.npy`",
        f"{limits.seconds:g} s of work, {limits.head_seconds:g} s for the head of a request and "
        f"{limits.body_seconds:g} s for its body to arrive",
        f"{limits.keep_alive_seconds} s for an idle connection",
        f"{limits.queue_seconds:g} s of waiting for a thread",
        f"{limits.waiting} requests that wait, {limits.decoding} images decoded",
        f"{limits.connections:,} connections",
        f"{limits.collections} served",
        f"{limits.texts} per request, {limits.text_chars:,} characters each",
        f"{limits.element_chars:,} bytes of JSON",
        f"has not ended {limits.close_seconds} s after that",
        f"takes {limits.probe_seconds:g} s",
        f"for up to {limits.stop_seconds:g} s",
        f"has {SHORTEST_TOKEN} characters or more",
    ):
        assert text in PAGE, text
    assert limits.rows == limits.queries
