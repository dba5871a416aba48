"""Measure the compiled scan against faiss and usearch, both exact, as ratios of the best of interleaved repeats.

    python benchmarks/scan.py [--rows 1000000] [--bits 64 128 256] [--batch 64] [--threads 1] [--repeats 5]

The answers of all must be equal: distances everywhere, and rows under the order (distance, row).
HASHLEARN_SCAN=avx2 (or another name of ``scan_info()``) measures another kernel.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
from usearch.index import MetricKind, search

from hashlearn.index import ScoreTables, scan_info
from hashlearn.index.scan import nearest


def best_times(repeats: int, works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The shortest time of each work in seconds. The works take turns, so that a busy moment slows all of them."""
    times = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def report(what: str, queries: int, times: dict[str, float]) -> None:
    ours = times["scan"]
    others = ", ".join(
        f"{name} {1e3 * t / queries:.3f} ms ({t / ours:.1f}x)" for name, t in times.items() if name != "scan"
    )
    print(f"{what}: scan {1e3 * ours / queries:.3f} ms per query, {others}", flush=True)


def hamming(rows: int, bits: int, batch: int, k: int, threads: int, repeats: int) -> None:
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 256, (rows, bits // 8), dtype=np.uint8)
    queries = rng.integers(0, 256, (batch, bits // 8), dtype=np.uint8)
    flat = faiss.IndexBinaryFlat(bits)
    flat.add(codes)
    for asked in (queries[:1], queries):
        ours, (theirs, _) = nearest(codes, asked, k, n_jobs=threads), flat.search(asked, k)
        if not np.array_equal(ours.distances, theirs):
            raise SystemExit("The distances differ from those of faiss.")
        works = {
            "scan": lambda asked=asked: nearest(codes, asked, k, n_jobs=threads),
            "faiss": lambda asked=asked: flat.search(asked, k),
            "usearch": lambda asked=asked: search(
                codes, asked, k, metric=MetricKind.Hamming, exact=True, threads=threads
            ),
        }
        report(f"{bits} bits, {len(asked)} queries, k = {k}", len(asked), best_times(repeats, works))


def tables(rows: int, bits: int, batch: int, k: int, threads: int, repeats: int) -> None:
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 256, (rows, bits // 8), dtype=np.uint8)
    asked = rng.integers(0, 256, (batch, bits // 8), dtype=np.uint8)
    values = rng.standard_normal((batch, bits), dtype=np.float32)
    for n in (1, batch):
        entries = ScoreTables.from_bits(values[:n])
        works = {
            "scan": lambda n=n, entries=entries: nearest(codes, entries, k, n_jobs=threads),
            "Hamming scan": lambda n=n: nearest(codes, asked[:n], k, n_jobs=threads),
        }
        report(f"{bits} bits by tables, {n} queries, k = {k}", n, best_times(repeats, works))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    faiss.omp_set_num_threads(options.threads)
    print(scan_info())
    for bits in options.bits:
        for measure in (hamming, tables):
            measure(options.rows, bits, options.batch, options.k, options.threads, options.repeats)


if __name__ == "__main__":
    main()
