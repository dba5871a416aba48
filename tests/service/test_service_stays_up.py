"""Many at the same time, stopping, being killed: nothing is lost and nothing is half."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from service_box import API, AUTH, ROWS, TOKEN, client, command, make_shop, new_service, rows

from hashlearn import Collection
from hashlearn.codes import hamming_distances
from hashlearn.service.run import connection_cap
from hashlearn.service.service import Service

pytestmark = pytest.mark.slow
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "serve.py"


def _versions(hasher) -> list[tuple[np.ndarray, str]]:
    """Two rows with different codes: an item is now the one and now the other."""
    X = rows(50, seed=7)
    codes = hasher.encode(X)
    other = next(row for row in range(1, 50) if (codes[row] != codes[0]).any())
    return [(X[0], codes[0].tobytes().hex()), (X[other], codes[other].tobytes().hex())]


def test_searches_while_rows_are_added_replaced_and_deleted(tmp_path):
    service = new_service(tmp_path)
    (row_a, code_a), (row_b, code_b) = _versions(service.collections["shop"].hasher)
    names = {code_a: "a", code_b: "b"}
    ended = threading.Event()
    with client(service) as http:
        base = str(http.base_url)

        def write() -> int:
            rounds = 0
            with httpx.Client(base_url=base, headers=AUTH, timeout=60, trust_env=False) as own:
                while rounds < 25:
                    for row, name in ((row_a, "a"), (row_b, "b")):
                        body = {
                            "ids": list(range(1000, 1005)),
                            "vectors": [row.tolist()] * 5,
                            "payload": [{"version": name}] * 5,
                        }
                        assert own.post(f"{API}/items", json=body).json()["count"] == 5
                    gone = own.request("DELETE", f"{API}/items", json={"ids": list(range(1000, 1005))}).json()
                    assert gone == {"deleted": 5}
                    rounds += 1
            ended.set()
            return rounds

        def look(seed: int) -> int:
            seen = 0
            with httpx.Client(base_url=base, timeout=60, trust_env=False) as own:
                while not ended.is_set():
                    body = {"codes": [code_a, code_b], "k": ROWS + 10, "include": ["payload", "code"]}
                    answer = own.post(f"{API}/search", json=body)
                    assert answer.status_code == 200, answer.text
                    for result in answer.json()["results"]:
                        seen += _check(result, names)
            return seen

        with ThreadPoolExecutor(5) as pool:
            writing = pool.submit(write)
            looking = [pool.submit(look, seed) for seed in range(4)]
            assert writing.result(120) == 25
            assert sum(task.result(120) for task in looking) > 0
        assert http.get(API).json()["rows"] == ROWS


def _check(result: dict, names: dict[str, str]) -> int:
    """Every hit is one version of its row as a whole, no row twice, in order; how many of the changing rows."""
    hits = result["hits"]
    ids = [hit["id"] for hit in hits]
    assert len(set(ids)) == len(ids)
    assert set(range(ROWS)) <= set(ids)
    assert [(hit["distance"], hit["id"]) for hit in hits] == sorted((hit["distance"], hit["id"]) for hit in hits)
    codes = np.array([list(bytes.fromhex(hit["code"])) for hit in hits], dtype=np.uint8)
    query = np.frombuffer(bytes.fromhex(result["query"]["code"]), dtype=np.uint8)[None]
    assert hamming_distances(query, codes)[0].tolist() == [hit["distance"] for hit in hits]
    changing = [hit for hit in hits if hit["id"] >= 1000]
    assert len(changing) in (0, 5)  # all of an addition, or nothing
    assert len({hit["payload"]["version"] for hit in changing}) <= 1
    assert all(names[hit["code"]] == hit["payload"]["version"] for hit in changing)
    return len(changing)


def test_an_answer_does_not_wait_for_the_network(tmp_path):
    """Two pieces of an answer without TCP_NODELAY are 40 ms apart, every time."""
    with client(new_service(tmp_path)) as http:
        seconds = []
        for _ in range(40):
            started = time.perf_counter()
            assert http.get(f"{API}/items/1").status_code == 200
            seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.03


def test_sigterm_finishes_what_was_accepted(tmp_path):
    make_shop(tmp_path)
    new = np.random.default_rng(3).random((2000, 16), dtype=np.float32)
    with command("serve", tmp_path / "shop", token=TOKEN) as (server, url):
        with httpx.Client(base_url=url, headers=AUTH, timeout=60, trust_env=False) as http:
            assert http.get("/healthz").status_code == 200

            def body() -> Iterator[bytes]:
                whole = json.dumps({"vectors": new.tolist()}).encode()
                yield whole[:1000]
                # In the middle of the request the server is told to stop.
                server.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                yield whole[1000:]

            headers = {"Content-Type": "application/json"}
            answer = http.post(f"{API}/items", content=body(), headers=headers)
            assert answer.status_code == 200, answer.text
            assert answer.json()["count"] == 2000
        assert server.wait(60) == 0
        assert "stopped" in server.stderr.read()
    with Collection.open(tmp_path / "shop") as after:
        assert len(after) == ROWS + 2000
        codes = np.stack([item.code for item in after.get(answer.json()["ids"], vectors=False)])
        np.testing.assert_array_equal(codes, after.hasher.encode(new))


STUCK = """
import sys, threading
from hashlearn.service.run import listen, serve, url_of
from hashlearn.service.served_collection import open_collection
from hashlearn.service.service import Service
from hashlearn.service.settings import Limits, ServerSettings

settings = ServerSettings(limits=Limits(seconds=1, stop_seconds=1, close_seconds=1))
service = Service([open_collection(sys.argv[1])], settings)
service.collections["shop"].collection.get = lambda *_, **__: threading.Event().wait()
listening = listen("127.0.0.1", 0)
serve(service, listening, lambda: print(url_of(listening, settings), flush=True))
"""


def test_sigterm_does_not_wait_for_work_that_never_ends(tmp_path):
    make_shop(tmp_path)
    command = [sys.executable, "-c", STUCK, str(tmp_path / "shop")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().strip().rstrip("/")
            answer = httpx.get(f"{url}{API}/items/1", timeout=60)
            assert answer.status_code == 503
            server.send_signal(signal.SIGTERM)
            assert server.wait(20) == 1  # not 0: something was given up
            assert "was given up" in server.stderr.read()
        finally:
            server.kill()


def test_a_folder_that_changes_under_the_server(tmp_path):
    """Gone, put back, replaced by another: the server says whether it is ready, and adds nothing to a lost file."""
    make_shop(tmp_path)
    shop, backup = tmp_path / "shop", tmp_path / "backup"
    body = {"vectors": rows(1).tolist()}
    with command("serve", shop, token=TOKEN) as (server, url):
        with httpx.Client(base_url=url, headers=AUTH, timeout=60, trust_env=False) as http:
            end = time.monotonic() + 60
            while http.get("/readyz").status_code != 200:
                assert time.monotonic() < end
                time.sleep(0.05)
            shutil.copytree(shop, backup)
            shutil.rmtree(shop)
            assert http.get("/readyz").status_code == 503
            assert http.post(f"{API}/items", json=body).status_code == 503
            shutil.copytree(backup, shop)
            assert http.get("/readyz").status_code == 200
            assert http.post(f"{API}/items", json=body).json() == {"ids": [ROWS], "count": 1}
            shutil.rmtree(shop)
            Collection.create(shop, n_bits=12).close()
            assert http.get("/readyz").status_code == 503
            assert http.get("/healthz").status_code == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_kill_9_loses_nothing_acknowledged(tmp_path):
    make_shop(tmp_path)
    acknowledged: dict[int, str] = {}
    for turn in range(2):
        with command("serve", tmp_path / "shop", token=TOKEN) as (server, url):
            killer = threading.Timer(1.0, server.kill)
            with httpx.Client(base_url=url, headers=AUTH, timeout=60, trust_env=False) as http:
                assert http.get("/healthz").status_code == 200
                for number, name in acknowledged.items():
                    assert http.get(f"{API}/items/{number}").json()["payload"] == {"name": name}
                killer.start()
                try:
                    for step in range(10**6):
                        name = f"{turn}-{step}"
                        body = {"vectors": rows(1, seed=step).tolist(), "payload": [{"name": name}]}
                        answer = http.post(f"{API}/items", json=body)
                        assert answer.status_code == 200, answer.text
                        acknowledged[answer.json()["ids"][0]] = name
                except httpx.TransportError:
                    pass
            assert server.wait(30) == -signal.SIGKILL
    assert len(acknowledged) > 2
    with Collection.open(tmp_path / "shop") as after:
        found = after.get(list(acknowledged))
        assert [item.payload for item in found] == [{"name": name} for name in acknowledged.values()]
        # At most the one request of each turn that was never answered.
        assert 0 <= len(after) - ROWS - len(acknowledged) <= 2


def test_nothing_is_lost_in_many_mixed_requests(tmp_path):
    """The small sister of benchmarks/serve.py --mixed."""
    mixed = runpy.run_path(str(BENCHMARK))["mixed"]
    service: Service = new_service(tmp_path)
    with client(service) as http:
        told = mixed(str(http.base_url), "shop", TOKEN, n_features=16, n_requests=2000, n_clients=4)
        assert told.requests == 2000
        assert told.lost == []
        assert http.get(API).json()["rows"] == ROWS + told.kept
        counted = re.findall(r'hashlearn_requests_total\{.*?status="(\d+)"\} (\d+)', http.get("/metrics").text)
    assert sum(int(count) for _, count in counted) >= 2000
    assert {status[0] for status, _ in counted} <= {"2", "4"}


def test_systems_without_a_limit_on_open_files_cap_nothing(monkeypatch):
    monkeypatch.setattr("hashlearn.service.run.resource", None)
    assert connection_cap(1000, 1000, 9) == 1000
