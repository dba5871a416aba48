"""Measure how much faster the compiled inner loops are than NumPy, which replaces them without a C compiler.

    python benchmarks/compiled.py [--rows 10000] [--codes 1000000]

Prints the ratios of the best of five interleaved repeats on one thread. The exit code is 1 if a loop is not faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hashlearn.index import ScoreTables, scan
from hashlearn.pairwise import general, greedy
from hashlearn.pairwise.losses import LOSSES
from hashlearn.pairwise.solver import random_batches
from hashlearn.pairwise.supervision import AnchorProblem
from hashlearn.parallel import one_blas_thread
from hashlearn.similarity import from_labels

BITS, ANCHORS = 64, 1000


def against(plain: Callable[[], Any], compiled: Callable[[], Any], repeats: int = 5) -> tuple[float, float]:
    best = [np.inf, np.inf]
    for _ in range(repeats):
        for place, work in enumerate((plain, compiled)):
            start = time.perf_counter()
            work()
            best[place] = min(best[place], time.perf_counter() - start)
    return best[0], best[1]


def without(module: Any, name: str, value: Any, work: Callable[[], Any]) -> Callable[[], Any]:
    """The same work without a compiled part."""

    def run() -> Any:
        kept = getattr(module, name)
        setattr(module, name, value)
        try:
            return work()
        finally:
            setattr(module, name, kept)

    return run


def solvers(rows: int) -> list[tuple[str, float, float]]:
    rng = np.random.default_rng(0)
    similarity, anchors = from_labels(rng.integers(0, 10, rows)), np.arange(ANCHORS)
    problem = AnchorProblem.from_similarity(similarity, anchors, BITS)
    start = rng.choice([-1.0, 1.0], size=(rows, BITS))
    batches = random_batches(anchors, 200, 0)
    measured = []
    for name, module, part in (
        ("ksh", greedy, "_flips"),
        ("hinge", general, "_slopes"),
    ):
        solver, loss = greedy.Greedy(), LOSSES[name]

        def learn(solver: Any = solver, loss: Any = loss) -> Any:
            return solver.solve(problem, start[:ANCHORS], batches, loss).codes

        coder = solver.row_coder(similarity, anchors, learn(), loss)
        group, first = similarity.group[ANCHORS:], start[ANCHORS:].astype(np.float32)

        def code(coder: Any = coder, group: Any = group, first: Any = first) -> Any:
            return coder.code(group, first)

        for what, work in ((f"{ANCHORS} anchors, {name}", learn), (f"{len(group)} rows, {name}", code)):
            measured.append((what, *against(without(module, part, None, work), work)))
    return measured


def scans(n_codes: int) -> list[tuple[str, float, float]]:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n_codes, BITS // 8), dtype=np.uint8)
    packed = rng.integers(0, 256, (10, BITS // 8), dtype=np.uint8)
    tables = ScoreTables.from_bits(rng.standard_normal((10, BITS)))
    measured = []
    for what, queries in (("codes", packed), ("real-valued queries", tables)):

        def search(queries: Any = queries) -> Any:
            return scan.nearest(codes, queries, 100)

        times = against(without(scan, "_BLOCK_ROWS", 2**17, without(scan, "_scan", None, search)), search)
        measured.append((f"search {n_codes} codes by 10 {what}", *times))
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--codes", type=int, default=1_000_000)
    options = parser.parse_args()
    if greedy._flips is None or general._slopes is None or scan._scan is None:
        raise SystemExit("Nothing to compare: hashlearn was installed without a C compiler.")
    with one_blas_thread():
        measured = solvers(options.rows) + scans(options.codes)
    for what, plain, compiled in measured:
        print(f"{what}: {1000 * plain:.1f} ms, compiled {1000 * compiled:.1f} ms, {plain / compiled:.1f} x")
    raise SystemExit(0 if all(plain > compiled for _, plain, compiled in measured) else 1)


if __name__ == "__main__":
    main()
