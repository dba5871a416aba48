"""How much code a reader meets who follows a call: files and functions of hashlearn that run, and the deepest stack.

    python benchmarks/fit_path.py [--list]

Counts are printed, not gated. Comprehensions are not counted as functions. ``--list`` names the functions of each file.
"""

from __future__ import annotations

import argparse
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
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the functions of each file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, work in works(Path(folder)).items():
            work()  # imports and caches are not part of the path
            path = CallPath()
            path.watch(work)
            count = sum(map(len, path.functions.values()))
            print(f"{name}: {len(path.functions)} files, {count} functions, depth {path.depth}")
            if options.list:
                for file, functions in sorted(path.functions.items()):
                    print(f"  {file}: {', '.join(sorted(functions))}")


if __name__ == "__main__":
    main()
