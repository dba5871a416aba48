"""Put load on a real ``hashlearn serve``, and measure how long /healthz waits and how many requests are refused.

    python benchmarks/serve_load.py [--connections 500] [--seconds 10]

Bodies: JSON of nearly 8 MiB in several valid and invalid forms, one and then four at a time, while another process asks
/healthz every 10 ms. Crowd: many clients at the same time, each of which sends one search after the other over one
connection. The exit code is 1 if /healthz ever waits longer than 2 s, or if more than 1 % of the searches are refused.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import sys
import tempfile
import threading
import time
from collections import Counter
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from serve import FEATURES, JSON, TOKEN, Client, serving

from hashlearn import ITQ, Collection

ROWS, BITS = 20_000, 64
BODY_CHARS = 8 * 2**20 - 200
LONGEST_WAIT, LARGEST_SHARE = 2.0, 0.01


def filled(head: str, piece: str, tail: str) -> str:
    """A body of ``head``, as many copies of ``piece`` as fit, and ``tail``."""
    count = (BODY_CHARS - len(head) - len(tail)) // (len(piece) + 1)
    return head + ",".join([piece] * count) + tail


def bodies() -> dict[str, tuple[str, str]]:
    """Paths and bodies by a short description."""
    rng = np.random.default_rng(0)
    row = json.dumps(rng.random(FEATURES).round(12).tolist(), separators=(",", ":"))
    payload = '{"a":[[],[],[],[],[],[],[],[]],"title":"' + "x" * 300 + '","tags":["a","b","c"],"price":1.5}'
    count = BODY_CHARS // (len(row) + len(payload) + 3)
    code, codes = '"0123456789abcdef"', ",".join(['"0123456789abcdef"'] * 10_000)
    lists = ",".join(['{"a":[' + ",".join(["[]"] * 240) + "]}"] * 10_000)
    names = ",".join(f'"n{number}":1' for number in range(700_000))
    return {
        "45,000 names, one twice": ("/search", "{" + ",".join(f'"n{n}":1' for n in [*range(45_000), 44_999]) + "}"),
        "vectors": ("/search", filled('{"k":1,"vectors":[', row, "]}")),
        "vectors and payloads": (
            "/items",
            f'{{"vectors":[{",".join([row] * count)}],"payload":[{",".join([payload] * count)}]}}',
        ),
        "payloads of lists": ("/items", f'{{"codes":[{codes}],"payload":[{lists}]}}'),
        "too many codes": ("/search", filled('{"k":1,"codes":[', code, "]}")),
        "too many ids": ("/search", filled('{"k":1,"ids":[', "17", "]}")),
        "too many vectors": ("/search", filled('{"vectors":[', "[]", "]}")),
        "one long vector": ("/search", filled('{"vectors":[[', "0", "]]}")),
        "one long payload": ("/items", filled(f'{{"codes":[{code}],"payload":[{{"a":[', "[]", "]}]}")),
        "a payload of many names": ("/items", f'{{"codes":[{code}],"payload":[{{{names}}}]}}'),
        "a filter of many values": ("/search", filled('{"ids":[1],"where":{"a":{"in":[', "1", "]}}}")),
    }


def watch(url: str, ended: Event, longest: Synchronized) -> None:
    """Request /healthz repeatedly and set ``longest`` to the longest wait in seconds."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    while not ended.is_set():
        started = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        longest.value = max(longest.value, time.perf_counter() - started)
        time.sleep(0.01)


def health(url: str, end: float = float("inf")) -> float:
    """Send every body while another process requests /healthz, and return its longest wait.

    No further body is sent after ``end`` (``time.monotonic``).
    """
    ended, longest = multiprocessing.Event(), multiprocessing.Value("d", 0.0)
    watcher = multiprocessing.Process(target=watch, args=(url, ended, longest))
    watcher.start()
    waits = []

    def wait_during(work: threading.Thread, *more: threading.Thread) -> float:
        longest.value = 0.0
        for thread in (work, *more):
            thread.start()
        for thread in (work, *more):
            thread.join()
        waits.append(longest.value)
        return longest.value

    def send(path: str, body: bytes, statuses: list[int]) -> threading.Thread:
        return threading.Thread(target=lambda: statuses.append(Client(url, "shop").ask("POST", path, body)[0]))

    idle = wait_during(threading.Thread(target=time.sleep, args=(2,)))
    print(f"{'nothing':24s} /healthz waits {idle:.3f} s at most")
    for name, (path, text) in bodies().items():
        if time.monotonic() > end:
            break
        body, statuses = text.encode(), list[int]()
        started = time.perf_counter()
        one = wait_during(send(path, body, statuses))
        seconds = time.perf_counter() - started
        four = wait_during(*(send(path, body, statuses) for _ in range(4)))
        size = len(body) / 2**20
        print(
            f"{name:24s} {size:.1f} MiB, {statuses[0]} after {seconds:.2f} s: {one:.3f} s, {four:.3f} s with 4 at once"
        )
    ended.set()
    watcher.join()
    return max(waits)


def crowd(url: str, n_clients: int, seconds: float) -> float:
    """Search from many clients at the same time, and return the share of searches that are refused or lost."""
    statuses: Counter[int] = Counter()
    waits: list[float] = []
    body = json.dumps({"vectors": [np.random.default_rng(0).random(FEATURES).tolist()], "k": 10}).encode()
    together, lock = threading.Barrier(n_clients), threading.Lock()

    def work() -> None:
        client = Client(url, "shop")
        own: Counter[int] = Counter()
        times = []
        together.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            started = time.perf_counter()
            try:
                own[client.ask("POST", "/search", body, JSON)[0]] += 1
            except (OSError, http.client.HTTPException):
                own[0] += 1
                client = Client(url, "shop")
            times.append(time.perf_counter() - started)
        with lock:
            statuses.update(own)
            waits.extend(times)

    threads = [threading.Thread(target=work) for _ in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = statuses.total()
    refused = (total - statuses[200]) / total
    middle, late = np.percentile(waits, [50, 99])
    print(
        f"{n_clients} connections: {total} requests in {seconds:g} s, {dict(statuses)}, {refused:.1%} refused, "
        f"{statuses[200] / seconds:.0f} answers/s, p50 {middle:.2f} s, p99 {late:.2f} s"
    )
    return refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    X = np.random.default_rng(0).random((ROWS, FEATURES), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop"
        with Collection.create(path, ITQ(n_bits=BITS, random_state=0).fit(X[:2000])) as shop:
            shop.add(X)
        with serving(path) as url:
            while Client(url, "shop", TOKEN).json("POST", "/search", {"ids": [1]})[0] != 200:
                time.sleep(0.1)
            refused = crowd(url, given.connections, given.seconds)
            longest = health(url)
    return 0 if longest <= LONGEST_WAIT and refused <= LARGEST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
