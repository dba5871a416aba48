"""Collections and servers for the tests of the service."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from hashlearn import ITQ, Collection
from hashlearn.files.images import as_png
from hashlearn.service.run import listen, new_server, url_of
from hashlearn.service.served_collection import ServedCollection, open_collection
from hashlearn.service.service import Service
from hashlearn.service.settings import Limits, ServerSettings, Token

TOKEN = "a-token-of-the-tests"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
N_BITS, SIDE, ROWS = 12, 4, 60
API = "/api/v1/collections/shop"
COLOURS = ("red", "green", "blue")


def rows(count: int = ROWS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, SIDE * SIDE), dtype=np.float32)


def payload(count: int = ROWS) -> list[dict[str, Any]]:
    return [{"colour": COLOURS[row % 3], "year": 1990 + row, "label": str(row % 4)} for row in range(count)]


def make_shop(folder: Path, *, pictures: bool = False, vectors: bool = True, name: str = "shop") -> Path:
    """A small collection of grey pictures of 4×4 pixels."""
    X = rows()
    hasher = ITQ(n_bits=N_BITS, random_state=0).fit(X)
    path = folder / name
    with Collection.create(path, hasher, store_vectors=vectors) as shop:
        shop.add(X, payload=payload())
    if pictures:
        (folder / "pictures").mkdir(exist_ok=True)
        for number, row in enumerate(X):
            picture = (row.reshape(SIDE, SIDE) * 255).round().astype(np.uint8)
            (folder / "pictures" / f"{number}.png").write_bytes(as_png(picture))
    return path


def served_shop(folder: Path, **more: Any) -> ServedCollection:
    path = folder / "shop"
    if not path.exists():
        make_shop(folder, pictures=True)
    return open_collection(str(path), images=folder / "pictures", features=f"gray:{SIDE}", **more)


def new_service(folder: Path, limits: Limits | None = None, **settings: Any) -> Service:
    defaults = {"tokens": (Token(TOKEN),), "limits": limits or Limits()}
    return Service([served_shop(folder)], ServerSettings(**{**defaults, **settings}))


@contextmanager
def running(service: Service) -> Iterator[str]:
    """A real server in a thread; its address without the last slash."""
    listening = listen("127.0.0.1", 0)
    url = url_of(listening, service.settings).rstrip("/")
    begun = threading.Event()
    server = new_server(service, begun.set)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    try:
        assert begun.wait(60), "the server did not begin"
        yield url
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server did not end"


@contextmanager
def client(service: Service) -> Iterator[httpx.Client]:
    """A client of a real server."""
    with running(service) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        yield http


@contextmanager
def command(*arguments: str | Path, token: str | None = None) -> Iterator[tuple[subprocess.Popen, str]]:
    """A real ``hashlearn`` command that serves, in a process of its own, and its address without the last slash."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HASHLEARN_TOKEN": token or ""}
    whole = [sys.executable, "-m", "hashlearn", *map(str, arguments), "--port", "0"]
    server = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        if not url:
            raise AssertionError(server.communicate(timeout=30)[1])
        yield server, url.rstrip("/")
    finally:
        server.kill()
        server.communicate(timeout=30)


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def error_of(response: Any, status: int) -> str:
    """The code of an error, once its shape is right."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    message = body["error"]["message"]
    assert 10 < len(message) <= 500
    assert "Traceback" not in message
    assert response.headers["content-type"] == "application/json"
    return body["error"]["code"]
