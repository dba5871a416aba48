"""Requests that mean harm, or are broken: each gets its sentence, and the server goes on."""

from __future__ import annotations

import io
import json
import socket
import struct
import time
import zlib

import httpx
import numpy as np
import pytest
from PIL import Image
from service_box import API, AUTH, ROWS, client, error_of, new_service, npy, rows, running

from hashlearn.service.settings import Limits

JSON = {"Content-Type": "application/json"}
NPY = {"Content-Type": "application/x-npy"}
PNG = {"Content-Type": "image/png"}


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with client(new_service(tmp_path_factory.mktemp("hostile"))) as it:
        yield it
        assert it.get(API).json()["rows"] == ROWS


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("empty", b""),
        ("half", b'{"ids": [1'),
        ("no object", b"[1]"),
        ("text", b'"ids"'),
        ("not UTF-8", b'{"ids": [1], "mode": "\xff"}'),
        ("UTF-16", '{"ids": [1]}'.encode("utf-16")),
        ("BOM", '\ufeff{"ids": [1]}'.encode()),
        ("NaN", b'{"vectors": [[NaN]]}'),
        ("Infinity", b'{"vectors": [[Infinity, -Infinity]]}'),
        ("beyond floats", b'{"vectors": [[1e999]]}'),
        ("beyond digits", b'{"ids": [' + b"9" * 10_000 + b"]}"),
        ("deep arrays", b'{"vectors": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
        ("deep objects", b'{"where":' * 100_000 + b"1" + b"}" * 100_000),
        ("deep filter", b'{"ids": [1], "where": ' + b'{"$not": ' * 900 + b'{"a": 1}' + b"}" * 901),
        ("wide filter", json.dumps({"ids": [1], "where": {"$or": [{"a": 1}] * 5000}}).encode()),
        ("long name", json.dumps({"ids": [1], "x" * 100_000: 1}).encode()),
        ("prototype", b'{"ids": [1], "__proto__": {"k": 3}, "__class__": 1}'),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_hostile_json(http, name, body):
    response = http.post(f"{API}/search", content=body, headers=JSON)
    error_of(response, 400)
    assert http.get("/healthz").status_code == 200


def test_a_deep_payload_is_refused(http):
    body = b'{"vectors": [' + json.dumps([0.5] * 16).encode() + b'], "payload": [' + b'{"a":' * 500 + b"1" + b"}" * 500
    error_of(http.post(f"{API}/items", content=body + b"]}", headers={**JSON, **AUTH}), 400)


def test_the_body_must_be_what_it_should_be(http):
    body = json.dumps({"ids": [1]})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        response = http.post(f"{API}/search", content=body, headers={"Content-Type": kind} if kind else {})
        assert error_of(response, 415) == "wrong_type"
    assert error_of(http.post(f"{API}/search.npy", content=b"", headers=JSON), 415) == "wrong_type"
    response = http.post(f"{API}/search/image", content=b"", headers={"Content-Type": "image/svg+xml"})
    assert error_of(response, 415) == "wrong_type"


def _header(text: str) -> bytes:
    raw = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw


class _Bomb:
    def __reduce__(self):
        raise AssertionError("unpickled")


HOSTILE_NPY = {
    "empty": b"",
    "no magic": b"hello",
    "cut": npy(rows(3))[:-1],
    "more than it says": npy(rows(3)) + b"x",
    "promises much": _header("{'descr': '<f4', 'fortran_order': False, 'shape': (9999, 999999999)}"),
    "overflow": _header("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4611686018427387904)}"),
    "negative": _header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 16)}"),
    "no rows": npy(rows(0)),
    "one row": npy(rows(1)[0]),
    "three ways": npy(rows(2)[None]),
    "objects": _header("{'descr': '|O', 'fortran_order': False, 'shape': (1, 16)}") + b"cos\nsystem\n(S'true'\ntR.",
    "records": npy(np.zeros((2, 2), dtype=[("a", "f4")])),
    "integers": npy(np.zeros((2, 16), dtype=np.int64)),
    "text": npy(np.full((2, 16), "x")),
    "code in the header": _header("__import__('os').system('true')"),
    "deep header": _header("(" * 50),
    "NaN": npy(np.full((2, 16), np.nan, dtype=np.float32)),
    "infinity": npy(np.full((2, 16), np.inf)),
    "too large for float32": npy(np.full((2, 16), 1e300)),
    "wrong width": npy(rows(2)[:, :5]),
    "wrong width of codes": npy(np.zeros((2, 3), dtype=np.uint8)),
    "bits after the last": npy(np.full((2, 2), 255, dtype=np.uint8)),
    "huge header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{",
    "newer version": b"\x93NUMPY\x09\x00" + npy(rows(2))[8:],
}


@pytest.mark.parametrize("name", HOSTILE_NPY)
def test_hostile_npy(http, name):
    error_of(http.post(f"{API}/search.npy", content=HOSTILE_NPY[name], headers=NPY), 400)
    error_of(http.post(f"{API}/items.npy", content=HOSTILE_NPY[name], headers={**NPY, **AUTH}), 400)


def _png(width: int, height: int, data: bytes, kind: int = 0) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def _picture(kind: str, size: tuple[int, int] = (64, 48)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, (1, 2, 3)).save(stream, kind)
    return stream.getvalue()


HOSTILE_IMAGES = {
    "empty": b"",
    "no image": b"hello, this is text",
    "cut": _picture("PNG")[:-30],
    "cut jpeg": _picture("JPEG")[:200],
    "header only": b"\x89PNG\r\n\x1a\n",
    "damaged": _png(64, 64, b"not zlib"),
    "too little inside": _png(5000, 5000, zlib.compress(b"\0" * 100)),
    "nothing wide": _png(0, 5, b""),
    "another format": _picture("BMP"),
    "gif": _picture("GIF"),
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n/x (%pipe%true) (w) file def\n",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>",
}


@pytest.mark.parametrize("name", HOSTILE_IMAGES)
def test_hostile_images(http, name):
    response = http.post(f"{API}/search/image", content=HOSTILE_IMAGES[name], headers=PNG)
    assert error_of(response, 400) == "bad_image"


def test_bombs_are_not_unpacked(http):
    # A few kilobytes that say they are 100 gigabytes of pixels, and some that are 900 megabytes.
    for bomb in (_png(300_000, 300_000, b""), _png(30_000, 30_000, zlib.compress(b"\0" * 30_001 * 1000))):
        started = time.monotonic()
        response = http.post(f"{API}/search/image", content=bomb, headers=PNG)
        assert error_of(response, 413) == "too_large"
        assert time.monotonic() - started < 10


def test_good_images_of_every_kind_are_taken(http):
    for kind in ("PNG", "JPEG", "WEBP"):
        response = http.post(f"{API}/search/image", content=_picture(kind), headers=PNG)
        assert response.status_code == 200, response.text


SMALL = Limits(
    json_bytes=2000,
    body_bytes=4000,
    image_bytes=3000,
    queries=20,
    k=50,
    k_npy=80,
    hits_json=100,
    floats_json=400,
    hits_npy=1000,
    rows=5,
    seconds=3.0,
    body_seconds=1.5,
    connections=8,
    held_bytes=6000,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    service = new_service(tmp_path_factory.mktemp("small"), SMALL)
    with running(service) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        yield http, service


def test_sizes_are_limited(small):
    http, _ = small
    large = b" " * 5000
    for kind, limit in (
        ("application/json", 2000),
        ("application/x-npy", 4000),
        ("image/png", 3000),
        ("text/plain", 4000),
    ):
        path = "/search.npy" if kind == "application/x-npy" else "/search/image" if kind == "image/png" else "/search"
        response = http.post(API + path, content=large, headers={"Content-Type": kind})
        assert error_of(response, 413) == "too_large"
        assert f"{limit:,}" in response.json()["error"]["message"]

        def pieces():
            for _ in range(50):
                yield b" " * 100

        response = http.post(API + path, content=pieces(), headers={"Content-Type": kind})
        if kind == "text/plain":
            assert error_of(response, 415)  # refused before its body is read
        else:
            assert error_of(response, 413) == "too_large"


def test_counts_are_limited(small):
    http, _ = small
    for body, status in (
        ({"ids": [1] * 21}, 413),
        ({"ids": [1], "k": 51}, 400),
        ({"ids": [1] * 3, "k": 50}, 413),
        ({"ids": [1, 2], "radius": 12}, 413),
        ({"ids": [1], "k": 50, "mode": "rescore", "oversample": 50}, 413),
        ({"ids": [1], "k": 26, "include": ["vector"]}, 413),
    ):
        error_of(http.post(f"{API}/search", json=body), status)
    assert http.post(f"{API}/search", json={"ids": [1, 2], "radius": 12, "k": 50}).status_code == 200
    codes = np.zeros((21, 2), dtype=np.uint8)
    assert error_of(http.post(f"{API}/search.npy", content=npy(codes), headers=NPY), 413) == "too_many"
    error_of(http.post(f"{API}/search.npy?k=81", content=npy(codes[:1]), headers=NPY), 400)
    error_of(http.post(f"{API}/search.npy?k=80", content=npy(codes[:20]), headers=NPY), 413)
    error_of(http.post(f"{API}/search.npy?radius=12", content=npy(codes[:20]), headers=NPY), 413)
    error_of(http.post(f"{API}/items.npy", content=npy(codes[:6]), headers={**NPY, **AUTH}), 413)
    error_of(http.request("DELETE", f"{API}/items", json={"ids": list(range(6))}, headers=AUTH), 413)
    error_of(http.post(f"{API}/items", json={"codes": ["abc0"] * 6}, headers=AUTH), 413)


def _raw(http: httpx.Client) -> socket.socket:
    return socket.create_connection((http.base_url.host, http.base_url.port), timeout=30)


def _answer(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.slow
def test_slow_bodies_are_sent_away(small):
    http, _ = small
    post = b"POST %s/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % API.encode()
    for name, first in (
        ("half of the body", post + b"Content-Length: 100\r\n\r\n{"),
        ("half of the pieces", post + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"),
    ):
        started = time.monotonic()
        with _raw(http) as connection:
            connection.sendall(first)
            answer = _answer(connection)
        assert answer.startswith(b"HTTP/1.1 408"), name
        assert b'"too_slow"' in answer, name
        assert time.monotonic() - started < 20, name


def test_what_is_no_http(small):
    http, _ = small
    for raw in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELLO\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ):
        with _raw(http) as connection:
            connection.sendall(raw)
            answer = _answer(connection)
        assert answer.startswith(b"HTTP/1.1 400"), raw[:40]


def test_idle_connections_give_way(small, caplog):
    """Ten times as many as the server may have, and all of them go on being answered in turn."""
    http, _ = small
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    held = [_raw(http) for _ in range(10 * SMALL.connections)]
    try:
        _until(lambda: sum(_is_closed(connection) for connection in held) >= 9 * SMALL.connections)
        assert not _is_closed(held[-1])
        held[-1].sendall(request)
        assert held[-1].recv(65536).startswith(b"HTTP/1.1 200")
        assert http.get("/healthz").status_code == 200
    finally:
        for connection in held:
            connection.close()
    said = [record for record in caplog.records if "connections" in record.message]
    assert 1 <= len(said) <= 5  # one per second at most


def _is_closed(connection) -> bool:
    """Whether the server has closed a connection on which it sent nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        connection.settimeout(30)


def test_connections_beyond_the_limit_get_503_while_all_are_busy(small):
    http, _ = small
    post = b"POST %s/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % API.encode()
    busy = [_raw(http) for _ in range(SMALL.connections)]
    try:
        for connection in busy:
            connection.sendall(post + b"Content-Length: 100\r\n\r\n{")
        time.sleep(0.3)
        with _raw(http) as one_more:
            answer = _answer(one_more)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"too many connections" in answer
    finally:
        for connection in busy:
            connection.close()
    _until(lambda: http.get("/healthz").status_code == 200)


@pytest.mark.parametrize("sent", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he"])
def test_a_connection_without_a_whole_head_is_closed(tmp_path, sent):
    with client(new_service(tmp_path, Limits(head_seconds=0.5, keep_alive_seconds=1))) as http:
        with _raw(http) as connection:
            for byte in sent:
                connection.sendall(bytes([byte]))
            started = time.monotonic()
            answer = _answer(connection)
        assert time.monotonic() - started < 20
        assert answer.startswith(b"HTTP/1.1 200") == sent.endswith(b"GET /he")


def _until(true) -> None:
    """Wait until something is true, for a minute at most."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_bodies_held_at_the_same_time_are_limited(small):
    http, _ = small
    head = b"POST %s/search.npy HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n" % API.encode()
    for _ in range(5):  # on a busy machine the first may be sent away before the second is there
        first, second = _raw(http), _raw(http)
        with first, second:
            first.sendall(head + b"Content-Length: 3900\r\n\r\n" + b"x" * 3800)
            time.sleep(0.2)
            second.sendall(head + b"Content-Length: 3900\r\n\r\n" + b"x" * 3800)
            answers = _answer(second) + _answer(first)
        if b'"busy"' in answers:
            break
    assert b'"busy"' in answers
    # What was held is given back.
    for _ in range(3):
        response = http.post(f"{API}/search.npy", content=npy(np.zeros((20, 2), dtype=np.uint8)), headers=NPY)
        assert response.status_code == 200


def test_a_client_that_leaves_early_does_no_harm(small):
    http, _ = small
    for _ in range(20):
        with _raw(http) as connection:
            body = b'{"ids": [1], "k": 40}'
            head = f"POST {API}/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    # A new connection: the client's own one may have been the longest idle one, which the server closes first.
    with httpx.Client(base_url=http.base_url, trust_env=False) as again:
        assert again.post(f"{API}/search", json={"ids": [1]}).status_code in (200, 503)
