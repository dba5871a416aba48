"""Count the code that a reader meets who follows a call: files and functions of hashlearn that run, the deepest stack.

    python benchmarks/fit_path.py [--list]

Comprehensions are not counted as functions. ``--list`` names the functions of each file. The size of the package and
its repeated blocks follow. ``tests/docs/test_fit_path.py`` holds the limits.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import hashlearn as hl

PACKAGE = Path(hl.__file__).parent
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class CallPath:
    """Functions of hashlearn that run in any thread, by file, and the most of them on one stack."""

    def __init__(self) -> None:
        self.functions: dict[str, set[str]] = defaultdict(set)
        self.depth = 0

    def watch(self, work: Callable[[], Any]) -> None:
        """Call ``work`` and note what it calls."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "call" or not _is_ours(frame):
            return
        code = frame.f_code
        if code.co_name not in COMPREHENSIONS:
            self.functions[str(Path(code.co_filename).relative_to(PACKAGE))].add(code.co_qualname)
        depth, above = 0, frame
        while above is not None:
            depth += _is_ours(above)
            above = above.f_back  # type: ignore[assignment]
        self.depth = max(self.depth, depth)


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(PACKAGE))


def http_search(folder: Path) -> Callable[[], Any]:
    """Return a search by HTTP in the collection of a folder; the application answers without a socket."""
    import httpx

    from hashlearn.service.app import make_app
    from hashlearn.service.served_collection import open_collection
    from hashlearn.service.service import Service
    from hashlearn.service.settings import ServerSettings, Token

    def new_app() -> Any:
        settings = ServerSettings(tokens=(Token("a-token-of-sixteen-letters"),))
        service = Service([open_collection(str(folder))], settings)
        service.search_all()  # as a server does when it starts, which brings the codes into memory
        return make_app(service)

    # Only threads that start while calls are noted are watched, so every call has threads that have not started yet.
    apps = iter([new_app(), new_app()])
    body = {"vectors": np.zeros((1, 16)).tolist(), "k": 10}

    async def search() -> None:
        headers = {"Authorization": "Bearer a-token-of-sixteen-letters"}
        transport = httpx.ASGITransport(next(apps))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            url = f"/api/v1/collections/{folder.name}/search"
            answer = await client.post(url, json=body)
            assert answer.status_code == 200, answer.text

    return lambda: asyncio.run(search())


def repeated_blocks(least: int = 6) -> int:
    """Count pairs of places with ``least`` or more equal lines, without blank lines, imports and single brackets."""
    seen: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        lines = [line.strip() for line in file.read_text().splitlines()]
        kept = [line for line in lines if len(line) > 2 and not line.startswith(("import ", "from ", "#"))]
        for place in range(len(kept) - least + 1):
            seen[tuple(kept[place : place + least])].append((str(file), place))
    pairs = {
        (*one, *other)
        for places in seen.values()
        for number, one in enumerate(places)
        for other in places[number + 1 :]
    }
    # A longer block counts once: by the pair of places where it begins.
    return sum((a, i - 1, b, j - 1) not in pairs for a, i, b, j in pairs)


def works(folder: Path) -> dict[str, Callable[[], Any]]:
    """What is followed. Objects are made before, so that only the call itself counts."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 3000)
    X = (rng.normal(size=(10, 16))[y] + rng.standard_normal((3000, 16))).astype(np.float32)
    hasher = hl.GSDHP(16, n_landmarks=60, n_anchors=120, n_jobs=2, random_state=0)
    chunked = hl.GSDHP(16, n_landmarks=60, n_anchors=120, n_jobs=2, random_state=0)
    rotated = hl.ITQ(8, n_jobs=2, random_state=0)
    collection = hl.Collection.create(str(folder / "collection"), hasher.fit(X, y))
    collection.add(X, np.arange(len(X)))
    return {
        "GSDHP.fit": lambda: hasher.fit(X, y),
        "GSDHP.fit_chunks": lambda: chunked.fit_chunks([(X[:1500], y[:1500]), (X[1500:], y[1500:])]),
        "ITQ.fit": lambda: rotated.fit(X),
        "Collection.search": lambda: collection.search(X[:5], 10),
        "HTTP search": http_search(folder / "collection"),
    }


def counted(work: Callable[[], Any]) -> CallPath:
    """Return the path of a call; a call before it takes imports and caches off the path."""
    work()
    path = CallPath()
    path.watch(work)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the functions of each file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, work in works(Path(folder)).items():
            path = counted(work)
            count = sum(map(len, path.functions.values()))
            print(f"{name}: {len(path.functions)} files, {count} functions, depth {path.depth}")
            if options.list:
                for file, functions in sorted(path.functions.items()):
                    print(f"  {file}: {', '.join(sorted(functions))}")
    files = [file.read_text().count("\n") for file in PACKAGE.rglob("*.py")]
    print(f"package: {len(files)} files, {sum(files)} lines, {repeated_blocks()} pairs of repeated blocks")


if __name__ == "__main__":
    main()
