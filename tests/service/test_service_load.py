"""A real server under load: nobody is kept waiting by large bodies, a crowd waits in a queue, errors reach clients."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from service_box import API, AUTH, ROWS, TOKEN, client, command, error_of, make_shop, new_service, rows

from hashlearn.service.settings import MIB, Limits

pytestmark = pytest.mark.slow

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("load")
    with command("serve", make_shop(folder), token=TOKEN) as (_, address):
        yield address


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


@contextmanager
def watching(url: str) -> Iterator[list[float]]:
    """The seconds that every request to /healthz took meanwhile."""
    waits: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as own:
            while not ended.is_set():
                started = time.perf_counter()
                assert own.get("/healthz").status_code == 200
                waits.append(time.perf_counter() - started)
                ended.wait(0.01)

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch)
        try:
            yield waits
        finally:
            ended.set()
            watcher.result(120)


def names_twice() -> bytes:
    names = ",".join(f'"n{number}":1' for number in range(45_000))
    return f'{{{names},"n44999":1}}'.encode()


def many_lists() -> bytes:
    arrays = ",".join(["[]"] * 240)
    payload = ",".join([f'{{"a":[{arrays}]}}'] * 10_000)
    codes = ",".join(['"abc0"'] * 10_000)
    return f'{{"codes":[{codes}],"payload":[{payload}],"ids":[1]}}'.encode()


@pytest.mark.parametrize(("path", "body"), [("/search", names_twice), ("/items", many_lists)])
def test_large_bodies_keep_nobody_waiting(url, path, body):
    """These held /healthz for 47 s and 6 s when they were read where requests are answered."""
    content = body()
    assert len(content) < 8 * MIB
    with watching(url) as waits, httpx.Client(base_url=url, timeout=300, trust_env=False) as own:
        for _ in range(2):
            assert own.post(API + path, content=content, headers={**JSON, **AUTH}).status_code == 400
    assert waits
    assert max(waits) < 3


def test_a_crowd_waits_in_the_queue(url):
    """With 64 places and no queue, most of these were refused."""
    count, body = 300, json.dumps({"ids": [1], "k": 5}).encode()
    together = threading.Barrier(count)
    parts = urlsplit(url)

    def ask(_: int) -> list[int]:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        together.wait(120)
        statuses = []
        for _ in range(2):
            connection.request("POST", f"{API}/search", body, JSON)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
        return statuses

    with ThreadPoolExecutor(count) as pool:
        statuses = [status for some in pool.map(ask, range(count)) for status in some]
    assert statuses == [200] * (2 * count)
    figures = httpx.get(f"{url}/metrics").text
    assert "hashlearn_queue_wait_seconds_bucket" in figures
    assert 'hashlearn_queue_refused_total{queue="read"} 0.0' in figures


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system cannot halt a process")
def test_connections_wait_while_the_server_does_nothing(tmp_path):
    """With room for 100, the system reset most of those that came while the server was busy."""
    with command("serve", make_shop(tmp_path), token=TOKEN) as (server, address):
        server.send_signal(signal.SIGSTOP)
        try:
            crowd = [connect(address) for _ in range(300)]
            for one in crowd:
                one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        finally:
            server.send_signal(signal.SIGCONT)
        answers = []
        for one in crowd:
            with one, one.makefile("rb") as stream:
                answers.append(stream.readline())
    assert answers == [b"HTTP/1.1 200 OK\r\n"] * len(crowd)


def test_who_waits_too_long_is_told_when_to_come_back(tmp_path):
    limits = Limits(waiting=3, queue_seconds=0.5, seconds=2, probe_seconds=0.5)
    service = new_service(tmp_path, limits)
    collection = service.collections["shop"].collection
    go_on, original = threading.Event(), collection.search

    def stuck(*arguments, **more):
        go_on.wait(60)
        return original(*arguments, **more)

    with client(service) as own:
        until(lambda: own.get("/readyz").status_code == 200)
        collection.search = stuck
        with ThreadPoolExecutor(40) as pool:
            base = str(own.base_url)
            body = {"ids": [1]}
            asked = [pool.submit(httpx.post, f"{base}{API}/search", json=body, timeout=60) for _ in range(40)]
            answers = [task.result(60) for task in asked]
        codes = [error_of(answer, 503) for answer in answers]
        assert set(codes) == {"busy", "too_long"}  # no thread came free, or the work itself took too long
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
        # Every thread is still busy with work that nobody waits for. Probes and figures have threads of their own.
        assert error_of(own.get(f"{API}/items/1"), 503) == "busy"
        assert own.get("/healthz").status_code == 200
        assert error_of(own.get("/readyz"), 503) == "not_ready"
        figures = dict(line.rsplit(" ", 1) for line in own.get("/metrics").text.splitlines() if line[0] != "#")
        threads = codes.count("too_long")
        assert float(figures['hashlearn_queue_working{queue="read"}']) == threads
        assert float(figures['hashlearn_queue_refused_total{queue="read"}']) == codes.count("busy") + 1
        assert float(figures['hashlearn_collection_rows{collection="shop"}']) == ROWS
        assert float(figures["process_resident_memory_bytes"]) > 0
        go_on.set()
        collection.search = original
        until(lambda: own.get(f"{API}/items/1").status_code == 200)
        until(lambda: own.get("/readyz").status_code == 200)


def until(true) -> None:
    """Wait until something is true, for a minute at most."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def raw_answer(url: str, *parts: bytes) -> bytes:
    """Send everything before anything is read, as many clients do, and read to the end."""
    with connect(url) as connection:
        for part in parts:
            connection.sendall(part)
        received = []
        while part := connection.recv(65536):
            received.append(part)
        return b"".join(received)


HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"


@pytest.mark.parametrize("size", [9 * MIB, 40 * MIB])
def test_too_large_is_an_answer_and_not_a_reset(url, size):
    search = HEAD % f"{API}/search".encode()
    body = b" " * size
    answer = raw_answer(url, search + b"Content-Length: %d\r\n\r\n" % size, body)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"8,388,608 bytes" in answer
    pieces = [b"%x\r\n" % MIB + body[:MIB] + b"\r\n"] * (size // MIB)
    answer = raw_answer(url, search + b"Transfer-Encoding: chunked\r\n\r\n", *pieces, b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413")
    # The same holds for every other answer that comes before the body has arrived.
    add = HEAD % f"{API}/items".encode() + b"Content-Length: %d\r\n\r\n" % (8 * MIB)
    answer = raw_answer(url, add, body[: 8 * MIB])
    assert answer.startswith(b"HTTP/1.1 401")


def test_a_client_that_asks_first_need_not_send(url):
    with connect(url) as connection:
        head = HEAD % f"{API}/search".encode() + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % (9 * MIB)
        connection.sendall(head)
        started = time.monotonic()
        answer = connection.recv(65536)
        while part := connection.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 413")
    assert time.monotonic() - started < 15  # and not the 30 s that a body may take


def test_two_lengths_are_refused(url):
    """A proxy that believes Content-Length would take the second request for a part of the first."""
    both = HEAD % f"{API}/search".encode() + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = raw_answer(url, both.replace(b"Connection: close\r\n", b"") + hidden)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"not both" in answer
    assert answer.count(b"HTTP/1.1") == 1


def test_head_is_get_without_a_body(url):
    paths = ["/", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/static/main.js", "/api/v1/collections"]
    paths += [API, *(f"{API}{path}" for path in ("/stats", "/items", "/items/1", "/histogram?id=1", "/images/1"))]
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as own:  # one connection: a body would spoil the next
        until(lambda: own.get("/readyz").status_code == 200)
        for path in paths:
            get, head = own.get(path), own.head(path)
            assert (head.status_code, head.content) == (get.status_code, b""), path
            assert head.headers["content-type"] == get.headers["content-type"], path
            if path != "/metrics":  # whose figures change
                assert head.headers["content-length"] == get.headers["content-length"], path
        assert own.head(f"{API}/search").status_code == 405
        assert 'method="HEAD"' in own.get("/metrics").text


def test_answers_are_whole_after_a_large_add(url):
    """The connection goes on being used after a body of several pieces."""
    body = json.dumps({"vectors": rows(2000, seed=1).tolist(), "ids": list(range(1000, 3000))}).encode()
    with httpx.Client(base_url=url, timeout=60, trust_env=False, headers=AUTH) as own:
        assert own.post(f"{API}/items", content=body, headers=JSON).json()["count"] == 2000
        gone = own.request("DELETE", f"{API}/items", json={"ids": list(range(1000, 3000))})
        assert gone.json() == {"deleted": 2000}
        assert own.get(API).json()["rows"] == ROWS
