"""Hostile trials of the service, for ``hostile.py``: random requests (fuzz), and large bodies and many clients (load).

Both run against a real ``hashlearn serve`` on the loopback interface.

fuzz: requests with random paths, methods, headers and bodies, most of them damaged copies of good ones. The server may
refuse a request (4xx), and may say that it is busy (503), but a 500 or a connection without an answer is a fault. After
every hundred requests one good search must have the right answer.

load: bodies of nearly 8 MiB in several forms while another process asks /healthz, then a crowd of clients that search.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import serve_load
from serve import FEATURES, JSON, NPY, TOKEN, Client, npy, serving

from hashlearn import ITQ, Collection

ROWS, BITS = 5_000, 64
_ODD_VALUES: list[Any] = [None, True, -1, 0, 1e308, 2**63, 2**70, "", "\ud800", "a" * 3000, [], [[]], {}, [None]]
_ODD_PATHS = ("/", "/healthz", "/readyz", "/metrics", "/docs", "/api/v1/collections", "/..%2f..%2fetc/passwd")


@contextlib.contextmanager
def _shop(n_rows: int) -> Iterator[tuple[str, np.ndarray]]:
    """A served collection with payloads and vectors: its address, and its rows."""
    X = np.random.default_rng(0).random((n_rows, FEATURES), dtype=np.float32)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        path = Path(folder) / "shop"
        hasher = ITQ(n_bits=BITS, random_state=0).fit(X[:2000])
        with Collection.create(path, hasher, store_vectors=True, indexed=["n"]) as shop:
            shop.add(X, payload={"n": list(range(n_rows))})
        with serving(path) as url:
            while Client(url, "shop", TOKEN).json("POST", "/search", {"ids": [1]})[0] != 200:
                time.sleep(0.1)
            yield url, X


def fuzz(arguments: argparse.Namespace, end: float) -> tuple[dict[str, float], bool]:
    rng = np.random.default_rng(arguments.seed)
    tally: Counter[str] = Counter()
    with _shop(ROWS) as (url, X):
        good = Client(url, "shop")
        before = _answer(good, X)
        assert before[0] == 200, before
        while tally["requests"] < arguments.requests and time.monotonic() < end:
            tally["requests"] += 1
            tally[_send(url, *_request(rng, X))] += 1
            if tally["requests"] % 100 == 0:
                tally["wrong answers"] += _answer(good, X) != before
    names = ("requests", "answered", "refused", "busy", "failed with 500", "no answer", "wrong answers")
    figures = {name: float(tally[name]) for name in names}
    return figures, not any(figures[name] for name in names[4:])


def _answer(client: Client, X: np.ndarray) -> Any:
    body = {"vectors": X[:3].tolist(), "k": 5, "where": {"n": {"<": 1000}}}
    status, found = client.json("POST", "/search", body)
    return status, found.get("results")


def _request(rng: np.random.Generator, X: np.ndarray) -> tuple[str, str, dict[str, str], bytes]:
    """Method, path, headers and body of a request that is wrong in some way, or is not."""
    api = "/api/v1/collections/shop"
    row = X[rng.integers(len(X))].tolist()
    code = rng.bytes(BITS // 8).hex()
    bodies: list[tuple[str, Any]] = [
        (f"{api}/search", {"vectors": [row], "k": 3, "where": {"n": {">=": 5}}}),
        (f"{api}/search", {"codes": [code], "mode": "hamming", "include": ["payload"]}),
        (f"{api}/search", {"ids": [1, 2], "k": 2}),
        (f"{api}/items", {"codes": [code], "ids": [900_000], "payload": [{"tags": ["a", 1]}]}),
        (f"{api}/search", {"vectors": [row], "mode": "rescore", "oversample": 4}),
    ]
    path, value = bodies[rng.integers(len(bodies))]
    method = "POST"
    headers = {"Content-Type": JSON, "Authorization": f"Bearer {TOKEN}"}
    kind = rng.integers(7)  # 6 leaves the request as it is
    if kind == 0:  # a value of the wrong kind, or an unknown name
        name = str(rng.choice([*value, "k", "where", "nothing"]))
        value = {**value, name: _ODD_VALUES[rng.integers(len(_ODD_VALUES))]}
    body = json.dumps(value).encode()
    if kind == 1:  # damaged bytes
        data = bytearray(body)
        for place in rng.integers(0, len(data), 1 + rng.integers(4)):
            data[place] = int(rng.integers(256))
        body = bytes(data)
    elif kind == 2:  # cut off
        body = body[: rng.integers(len(body))]
    elif kind == 3:  # a .npy body, whole or damaged
        headers["Content-Type"], path = NPY, f"{api}/search.npy?k=3"
        data = bytearray(npy(X[:3]))
        data[rng.integers(len(data))] ^= int(rng.integers(256))
        body = bytes(data)
    elif kind == 4:  # another place or method
        method = str(rng.choice(["GET", "GET", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]))
        own = [f"{api}{end}" for end in ("", "/items/4007", "/histogram", "/random", f"/{quote(rng.bytes(5))}")]
        path = str(rng.choice([*_ODD_PATHS, *own]))
        path += str(rng.choice(["", "?limit=-1", "?k=x&k=2", "?" + quote(rng.bytes(8)), "/" * 50]))
    elif kind == 5:  # odd headers
        headers[str(rng.choice(["Authorization", "Content-Type", "Accept", "Host", "Origin", "X-Long"]))] = str(
            rng.choice(
                ["", "Bearer", "Basic !!!!", "application/json; charset=utf-7", "x" * 3000, "http://evil.example"]
            )
        )
    return method, path, headers, body


def _send(url: str, method: str, path: str, headers: dict[str, str], body: bytes) -> str:
    """Send one request on a connection of its own, and say what became of it."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(method, path, body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return "no answer"
    finally:
        connection.close()
    if status == 503:
        return "busy"
    return "failed with 500" if status >= 500 else "refused" if status >= 400 else "answered"


def load(arguments: argparse.Namespace, end: float) -> tuple[dict[str, float], bool]:
    seconds = max(1.0, min(10.0, (end - time.monotonic()) / 4))
    with _shop(ROWS) as (url, _), contextlib.redirect_stdout(None):
        refused = serve_load.crowd(url, arguments.connections, seconds)
        longest = serve_load.health(url, end)
    figures = {
        "connections": float(arguments.connections),
        "% of searches refused": round(100 * refused, 2),
        "s longest wait of /healthz": round(longest, 3),
    }
    return figures, refused <= serve_load.LARGEST_SHARE and longest <= serve_load.LONGEST_WAIT


TRIALS = {"fuzz": fuzz, "load": load}
