"""Fits that a folder keeps: one JSON file with the points of each, named by what was fitted and by which code."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hashlearn.bench.frontier.measure import FrontierPoint
from hashlearn.bench.frontier.methods import FrontierMethod
from hashlearn.bench.method_code import method_code, module_code
from hashlearn.bench.store import write_json
from hashlearn.codecs import HasherCodec

# Counts up when what is measured changes, so that points of before are measured again.
_FORMAT = 1
_HASH_LETTERS = 12


class KeptFits:
    """The folder ``points`` of a frontier."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder) / "points"

    def path(self, name: str, code: str) -> Path:
        """The file of a fit; see ``fit_name`` and ``fit_code``."""
        return self.folder / f"{name}-{code}.json"

    def outdated(self, name: str) -> Path | None:
        """The newest file of a fit that any code has made, or None."""
        return max(self.folder.glob(f"{name}-*.json"), key=lambda path: path.stat().st_mtime, default=None)

    def read(self, path: Path) -> list[FrontierPoint]:
        kept: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return [FrontierPoint(**point) for point in kept]

    def write(self, path: Path, points: Sequence[FrontierPoint]) -> None:
        self.folder.mkdir(exist_ok=True)
        write_json(path, [asdict(point) for point in points])


def fit_name(method: FrontierMethod, size: int, seed: int, data: Sequence[Any]) -> str:
    """What is fitted. ``data`` is whatever tells the rows from others."""
    digest = _digest([_FORMAT, method.name, size, seed, *data])
    return re.sub(r"[^A-Za-z0-9+-]+", "_", f"{method.name}-{size}B-s{seed}") + f"-{digest}"


def fit_code(method: FrontierMethod, size: int, seed: int) -> str:
    """A hash of the code that the points of a method come from."""
    codec = method.make(max(size, method.least_bytes + 1), seed)
    own = method_code(codec.method) if isinstance(codec, HasherCodec) else module_code(type(codec).__module__)
    return _digest([own, module_code("hashlearn.codecs.two_stage"), module_code("hashlearn.metrics")])


def _digest(facts: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_HASH_LETTERS]
