"""Hostile trials: processes are killed, bytes are flipped, the service gets random requests and many clients.

    python benchmarks/hostile.py [--trials kills flips fuzz load] [--kills 60] [--flips 500] [--requests 3000]
        [--connections 500] [--seconds 300] [--seed 0] [--json]

It prints what was lost, what went unnoticed, and what was not answered.

kills: a process adds and removes rows and is killed (SIGKILL) at random moments; after every kill all that it had
acknowledged must be there, and ``verify`` must find nothing wrong.

flips: one random byte of a collection's SQLite file, or of the log (-wal) that a killed writer leaves, is changed. Then
the copy is asked everything, changed, opened again and asked once more. "said" is a CollectionError, "harmless" means
that all answers were right (the byte was of no use), "raw" is any other error, "silent" a wrong answer.

fuzz and load: see ``hostile_service.py`` beside this file. They need the extra ``hashlearn[serve]``.

Every trial ends after its number of repetitions or after its share of --seconds. The exit code is 1 if an acknowledged
change was lost, an answer was wrong, an error was raw, or the service failed or kept clients waiting for too long.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hashlearn import ITQ, Collection
from hashlearn.collection import CollectionError

FILE, LOG = "collection.sqlite", "collection.sqlite-wal"
X = np.random.default_rng(1).normal(size=(400, 16)).astype(np.float32)


class Outcome(NamedTuple):
    """Figures by name, and whether the trial was passed. The trials of the service return the same as a plain tuple."""

    figures: dict[str, float]
    good: bool


Trial = Callable[[argparse.Namespace, float], tuple[dict[str, float], bool]]
"""A trial gets the arguments of the command and the time (``time.monotonic``) when it has to end; see ``Outcome``."""


def code_of(ids: np.ndarray) -> np.ndarray:
    """A code of 32 bits that tells the id of its row."""
    return (np.asarray(ids, dtype=np.uint64) * 2654435761 % 2**32).astype(">u4").view(np.uint8).reshape(-1, 4)


def kills(arguments: argparse.Namespace, end: float) -> Outcome:
    rng = np.random.default_rng(arguments.seed)
    done = acknowledged = lost = damaged = 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as place:
        folder = Path(place, "shop")
        Collection.create(folder, n_bits=32, indexed=["n"]).close()
        expected: dict[int, bool] = {}
        command = [sys.executable, __file__, "--victim", str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdin is not None
            while done < arguments.kills and time.monotonic() < end:
                victim.stdin.write(f"{rng.integers(2**31)}\n")
                victim.stdin.flush()
                begun = _one_kill(victim, expected, float(rng.uniform(0, 0.15)))
                acknowledged += begun[0]
                done += 1
                with Collection.open(folder) as shop:
                    damaged += bool(shop.verify().problems)
                    lost += _lost(shop, expected, begun[1])
            victim.stdin.close()
    figures = {"kills": done, "acknowledged": acknowledged, "lost": lost, "damaged": damaged}
    return Outcome(figures, lost == damaged == 0)


def _one_kill(victim: subprocess.Popen[str], expected: dict[int, bool], wait: float) -> tuple[int, set[int]]:
    """Kill the writer once it has worked for a while; how many changes it acknowledged, and the ids under way."""
    assert victim.stdout is not None
    pid, acknowledged, under_way, started = 0, 0, set[int](), None
    for line in victim.stdout:
        word, *rest = line.split()
        if word == "end":
            break
        if word == "pid":
            pid = int(rest[0])
            continue
        first, last = int(rest[0]), int(rest[1])
        if word == "begin":
            under_way = set(range(first, last))
        else:
            expected.update(dict.fromkeys(range(first, last), word == "added"))
            under_way, acknowledged = set(), acknowledged + 1
        started = time.monotonic() if started is None else started
        if pid and time.monotonic() - started > wait:
            os.kill(pid, signal.SIGKILL)
            pid = 0
    return acknowledged, under_way


def _lost(shop: Collection, expected: dict[int, bool], under_way: set[int]) -> int:
    """How many acknowledged changes are not there as they were made.

    ``expected`` learns what became of the change that was under way.
    """
    found = {item.id: item for item in shop.get(sorted(expected | dict.fromkeys(under_way))) if item is not None}
    lost = 0
    for number, there in expected.items():
        if number in under_way:
            continue
        item = found.get(number)
        if there:
            same = item is not None and item.payload == {"n": number}
            lost += not same or item.code.tobytes() != code_of(np.array([number])).tobytes()
        else:
            lost += item is not None
    expected.update({number: number in found for number in under_way})
    return lost


def be_victim(folder: str) -> None:
    """Fork a writer for every line on standard input; it works until it is killed."""
    for line in sys.stdin:
        pid = os.fork()
        if pid:
            os.write(1, f"pid {pid}\n".encode())
            os.waitpid(pid, 0)
            os.write(1, b"end\n")
            continue
        rng = np.random.default_rng(int(line))
        shop = Collection.open(folder)
        while True:
            first = int(rng.integers(0, 5000))
            last = first + int(rng.choice([1, 5, 200]))
            os.write(1, f"begin {first} {last}\n".encode())
            ids = np.arange(first, last)
            if rng.random() < 0.7:
                shop.add(codes=code_of(ids), ids=ids, payload=[{"n": number} for number in ids.tolist()])
                os.write(1, f"added {first} {last}\n".encode())
            else:
                shop.delete(ids)
                os.write(1, f"removed {first} {last}\n".encode())


def flips(arguments: argparse.Namespace, end: float) -> Outcome:
    rng = np.random.default_rng(arguments.seed)
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="hostile-") as place:
        closed, logged = _victims(Path(place))
        for number in range(arguments.flips):
            if time.monotonic() > end:
                break
            # A closed collection is one file; a killed writer leaves a log beside it.
            folder, name = ((closed, FILE), (logged, FILE), (logged, LOG))[number % 3]
            tally["flips"] += 1
            tally[_flipped(folder, name, rng, Path(place, "copy"))] += 1
    figures = {name: tally[name] for name in ("flips", "said", "harmless", "raw", "silent")}
    return Outcome(figures, tally["raw"] == tally["silent"] == 0)


def _victims(place: Path) -> tuple[Path, Path]:
    """A collection that was closed, and one as a kill leaves it, with changes in its log."""
    hasher = ITQ(n_bits=16, random_state=0).fit(X)
    closed = place / "closed"
    with Collection.create(closed, hasher, store_vectors=True, indexed=["digit"]) as shop:
        shop.add(X[:300], payload=_payloads(0, 300))
    with Collection.open(closed) as shop:
        shop.add(X[300:380], payload=_payloads(300, 380))
        shop.delete([5, 6, 7])
        shop.add(X[380:390], ids=np.arange(10), payload=_payloads(380, 390))
        for row in range(390, 395):
            shop.add(X[row : row + 1], payload=_payloads(row, row + 1))
        logged = place / "logged"
        shutil.copytree(closed, logged, ignore=shutil.ignore_patterns("*-shm"))
    return closed, logged


def _payloads(first: int, last: int) -> list[dict[str, Any] | None]:
    return [
        {"digit": n % 10, "name": f"n{n}", "tags": [n % 3, "x"], "long": "y" * (n % 50) * 7} if n % 9 else None
        for n in range(first, last)
    ]


_WHERES: list[dict[str, Any]] = [
    {"digit": 3},
    {"digit": {">=": 7}},
    {"name": "n12"},
    {"tags": {"contains": 2}},
    {"name": {"exists": False}},
]
_truths: dict[Path, list[Any]] = {}


def _flipped(folder: Path, name: str, rng: np.random.Generator, copy: Path) -> str:
    """What becomes of a copy in which one byte is another."""
    try:
        if folder not in _truths:
            shutil.copytree(folder, copy)
            _truths[folder] = _answers(copy)
            shutil.rmtree(copy)
        shutil.copytree(folder, copy)
        data = bytearray((copy / name).read_bytes())
        data[rng.integers(len(data))] ^= int(rng.integers(1, 256))
        (copy / name).write_bytes(data)
        return "harmless" if _answers(copy) == _truths[folder] else "silent"
    except CollectionError:
        return "said"
    except Exception as error:
        print(f"raw error: {type(error).__name__}: {error}", file=sys.stderr)
        return "raw"
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _answers(folder: Path) -> list[Any]:
    """All that a collection can tell, before and after some changes."""
    told: list[Any] = []
    with Collection.open(folder) as shop:
        told += [len(shop), shop.search(X[:20], k=7).ids.tolist(), shop.search(X[:20], k=5, rescore=4).ids.tolist()]
        told += [(shop.count(where), shop.search(X[:3], k=9, where=where).ids.tolist()) for where in _WHERES]
        told += [_shown(item) for item in shop.get(range(420))]
        told.append(shop.hasher.encode(X).tobytes())
        told.append(shop.add(X[395:], payload=[{"digit": 1, "name": "new"}] * 5).tolist())
        told.append(shop.delete([20, 21]) + shop.delete(where={"name": "n40"}))
        shop.add(X[:3], ids=[30, 31, 32], payload=[{"digit": 9}] * 3)
    with Collection.open(folder) as shop:
        for rows in shop.scan(50, vectors=True):
            assert rows.vectors is not None
            told.append((rows.ids.tolist(), rows.codes.tobytes(), repr(rows.payloads), rows.vectors.tobytes()))
        told += [len(shop), *(shop.count(where) for where in _WHERES)]
        told.append(shop.verify().problems)
    return told


def _shown(item: Any) -> Any:
    return None if item is None else (item.id, item.code.tobytes(), repr(item.payload), item.vector.tobytes())


def trials() -> dict[str, Trial]:
    """The trials of this file, and those of the service if the packages that it needs are installed."""
    found: dict[str, Trial] = {"kills": kills, "flips": flips}
    if importlib.util.find_spec("uvicorn") is not None:
        found |= importlib.import_module("hostile_service").TRIALS
    else:
        print("fuzz and load are left out: they need pip install '.[serve]'", file=sys.stderr)
    return found


def main() -> int:
    known = trials()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", nargs="+", choices=tuple(known), default=list(known))
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--flips", type=int, default=500)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--victim", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.victim:
        be_victim(arguments.victim)
        return 0
    warnings.simplefilter("ignore", UserWarning)
    outcomes = {}
    for name in arguments.trials:
        started = time.monotonic()
        figures, good = known[name](arguments, started + arguments.seconds / len(arguments.trials))
        outcomes[name] = {**figures, "seconds": round(time.monotonic() - started, 1), "good": good}
        if not arguments.as_json:
            print(f"{name}: " + ", ".join(f"{value:g} {what}" for what, value in figures.items()), flush=True)
    if arguments.as_json:
        print(json.dumps(outcomes))
    return 0 if all(outcome["good"] for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
