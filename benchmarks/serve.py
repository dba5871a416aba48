"""Compare searches through ``hashlearn serve`` with the bare index, and count what a long mixed run loses.

    python benchmarks/serve.py [--rows 1000000] [--batch 1000] [--clients 4] [--mixed 100000]

The server is a real process on the loopback interface. Batches: packed codes as .npy, top 10, compared with
Index.search of the same codes in this process; then float rows, compared with encode and search. Single: one query per
request, as JSON, from several clients that keep their connections. Mixed: searches, additions, deletions, reads of
items and bad requests; every answer is checked, and at the end every item that was acknowledged and not deleted must be
there. The exit code is 1 if batches of codes reach less than 0.7 of the speed of the bare index, or if an item or an
answer is lost.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from hashlearn import ITQ, Collection, Index

BITS, FEATURES, K = 64, 64, 10
SMALLEST_RATIO = 0.7
TOKEN = "benchmark-token-of-this-run"
NPY, JSON = "application/x-npy", "application/json"


class Client:
    """A client that keeps one connection."""

    def __init__(self, url: str, name: str, token: str = TOKEN) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        self._path = f"/api/v1/collections/{name}"
        self._token = token

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> tuple[int, bytes]:
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self._token}"}
        self._connection.request(method, self._path + path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def json(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, answer = self.ask(method, path, None if body is None else json.dumps(body).encode())
        return status, json.loads(answer)


@dataclass
class MixedResult:
    """The result of a mixed run: number of requests, number of items that must exist, and errors."""

    requests: int = 0
    kept: int = 0
    lost: list[str] = field(default_factory=list)
    seconds: float = 0.0


def mixed(
    url: str, name: str, token: str, n_features: int, n_requests: int, n_clients: int, seed: int = 0
) -> MixedResult:
    """Send many kinds of requests from several clients at the same time, and check each answer."""
    told, lock, started = MixedResult(), threading.Lock(), time.perf_counter()
    shares = [n_requests // n_clients + (number < n_requests % n_clients) for number in range(n_clients)]

    def work(number: int) -> None:
        requests, mine, lost = _mixed_client(Client(url, name, token), number, shares[number], n_features, seed)
        with lock:
            told.requests += requests
            told.kept += len(mine)
            told.lost += lost

    _in_threads(work, n_clients)
    told.seconds = time.perf_counter() - started
    return told


def _mixed_client(
    client: Client, number: int, share: int, n_features: int, seed: int
) -> tuple[int, dict[int, str], list[str]]:
    rng = np.random.default_rng([seed, number])
    mine: dict[int, str] = {}
    lost: list[str] = []

    def row() -> list[float]:
        return rng.random(n_features).round(4).tolist()

    def expect(good: bool, what: str, answer: Any) -> None:
        if not good:
            lost.append(f"client {number}: {what}: {str(answer)[:200]}")

    for step in range(share):
        kind = rng.choice(["search", "near", "look", "add", "delete", "bad"], p=[0.45, 0.1, 0.15, 0.15, 0.1, 0.05])
        if kind in ("near", "look", "delete") and not mine:
            kind = "add"
        chosen = int(rng.choice(list(mine)[-50:])) if mine else -1
        if kind == "search":
            status, answer = client.json("POST", "/search", {"vectors": [row()], "k": K})
            expect(status == 200 and len(answer["results"][0]["hits"]) == K, "search", answer)
        elif kind == "near":
            body = {"ids": [chosen], "k": 1, "exclude_self": False, "where": {"name": mine[chosen]}}
            status, answer = client.json("POST", "/search", body)
            hits = answer["results"][0]["hits"] if status == 200 else None
            expect(bool(hits) and (hits[0]["id"], hits[0]["distance"]) == (chosen, 0), "near", answer)
        elif kind == "look":
            status, answer = client.json("GET", f"/items/{chosen}")
            expect(status == 200 and answer["payload"] == {"name": mine[chosen]}, "look", answer)
        elif kind == "add":
            title = f"{number}-{step}"
            status, answer = client.json("POST", "/items", {"vectors": [row()], "payload": [{"name": title}]})
            expect(status == 200 and answer["count"] == 1, "add", answer)
            if status == 200:
                expect(answer["ids"][0] not in mine, "an id twice", answer)
                mine[answer["ids"][0]] = title
        elif kind == "delete":
            status, answer = client.json("DELETE", "/items", {"ids": [chosen]})
            expect(status == 200 and answer == {"deleted": 1}, "delete", answer)
            del mine[chosen]
        else:
            status, answer = client.json("POST", "/search", {"vectors": [[1.0]], "k": K})
            expect(status == 400 and answer["error"]["code"] == "bad_vector", "bad", answer)
    for item, title in mine.items():
        status, answer = client.json("GET", f"/items/{item}")
        expect(status == 200 and answer["payload"] == {"name": title}, "at the end", answer)
    return share, mine, lost


def _in_threads(work: Callable[[int], None], count: int) -> None:
    failed: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "hashlearn", "serve", str(folder), "--port", "0"]
    environment = {**os.environ, "HASHLEARN_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            if not url:
                raise SystemExit("The server did not start.")
            yield url
        finally:
            server.terminate()


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def batches(url: str, name: str, index: Index, hasher: ITQ, queries: np.ndarray, repeats: int) -> bool:
    """Compare the speed of batches over HTTP with that of the bare index, and check that the answers are the same."""
    client, codes = Client(url, name), hasher.encode_queries(queries)

    def through(array: np.ndarray) -> np.ndarray:
        status, answer = client.ask("POST", f"/search.npy?k={K}", npy(array), NPY)
        if status != 200:
            raise SystemExit(f"The server answered {status}: {answer[:200]!r}")
        return np.load(io.BytesIO(answer))["ids"]

    good = True
    for title, bare, served in (
        ("codes", lambda: index.search(codes, K).ids, lambda: through(codes)),
        ("float rows", lambda: index.search(hasher.encode_queries(queries), K).ids, lambda: through(queries)),
    ):
        np.testing.assert_array_equal(bare(), served())
        best = [np.inf, np.inf]
        for _ in range(repeats):
            for side, work in enumerate((bare, served)):
                start = time.perf_counter()
                work()
                best[side] = min(best[side], time.perf_counter() - start)
        ratio = best[0] / best[1]
        rates = [len(queries) / seconds for seconds in best]
        print(f"batches of {len(queries)} {title}: {rates[1]:,.0f} queries/s, bare {rates[0]:,.0f}, ratio {ratio:.2f}")
        good &= title != "codes" or ratio >= SMALLEST_RATIO
    return good


def singles(url: str, name: str, index: Index, hasher: ITQ, queries: np.ndarray, n_clients: int) -> None:
    """Measure requests per second and latency with one query per request, beside the bare index in as many threads."""
    codes = hasher.encode_queries(queries)

    def timed(work: Callable[[int], Callable[[int], Any]]) -> tuple[float, np.ndarray]:
        latencies: list[list[float]] = [[] for _ in range(n_clients)]

        def run(number: int) -> None:
            one = work(number)
            for row in range(number, len(queries), n_clients):
                start = time.perf_counter()
                one(row)
                latencies[number].append(time.perf_counter() - start)

        started = time.perf_counter()
        _in_threads(run, n_clients)
        return len(queries) / (time.perf_counter() - started), np.concatenate(latencies) * 1000

    def client_work(_: int) -> Callable[[int], Any]:
        client = Client(url, name)
        client.json("GET", "/items/0")
        return lambda row: client.json("POST", "/search", {"codes": [codes[row].tobytes().hex()], "k": K})

    served, waited = timed(client_work)
    bare, bare_waited = timed(lambda _: lambda row: index.search(codes[row : row + 1], K, n_jobs=1))
    print(
        f"single, {n_clients} clients: {served:,.0f} requests/s, p50 {np.percentile(waited, 50):.1f} ms, "
        f"p99 {np.percentile(waited, 99):.1f} ms; bare {bare:,.0f}/s, p50 {np.percentile(bare_waited, 50):.1f} ms, "
        f"p99 {np.percentile(bare_waited, 99):.1f} ms; ratio {served / bare:.2f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--singles", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--mixed", type=int, default=0, help="requests of the mixed run")
    parser.add_argument("--mixed-rows", type=int, default=10_000, help="rows of the collection of the mixed run")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    hasher = ITQ(n_bits=BITS, random_state=0).fit(rng.random((2000, FEATURES), dtype=np.float32))
    good = True
    with tempfile.TemporaryDirectory() as folder:
        codes = rng.integers(0, 256, (given.rows, BITS // 8), dtype=np.uint8)
        index = Index(BITS)
        index.add(codes)
        with Collection.create(Path(folder) / "large", hasher) as collection:
            collection.add(codes=codes)
        queries = rng.random((max(given.batch, given.singles), FEATURES), dtype=np.float32)
        with serving(Path(folder) / "large") as url:
            good &= batches(url, "large", index, hasher, queries[: given.batch], given.repeats)
            singles(url, "large", index, hasher, queries[: given.singles], given.clients)
        if given.mixed:
            with Collection.create(Path(folder) / "mixed", hasher) as collection:
                collection.add(codes=codes[: given.mixed_rows])
            with serving(Path(folder) / "mixed") as url:
                told = mixed(url, "mixed", TOKEN, FEATURES, given.mixed, given.clients)
            with Collection.open(Path(folder) / "mixed") as collection:
                whole = len(collection) == given.mixed_rows + told.kept
            rate = told.requests / told.seconds
            print(f"mixed: {told.requests:,} requests, {rate:,.0f}/s, {len(told.lost)} lost, rows as told: {whole}")
            print("\n".join(told.lost[:10]))
            good &= whole and not told.lost
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
