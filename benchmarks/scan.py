"""Measure the compiled scan against faiss and usearch, both exact, and against a plain read of the same bytes.

    python benchmarks/scan.py [--rows 1000000] [--bits 64 128 256] [--batch 64] [--threads 1] [--repeats 5]

Each work runs several times in a row and then gives way to the next; its time is the shortest of all runs. So all of
them read codes from the last cache if they fit it (1,000,000 codes of 64 bits are 8 MB), and otherwise from memory
(--rows 20000000). The answers of all must be equal: distances everywhere, and rows under the order (distance, row).
HASHLEARN_SCAN=avx2 (or another name of ``scan_info()``) measures another kernel.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import faiss
import numpy as np
from usearch.index import MetricKind, search

from hashlearn.index import ScoreTables, scan_info
from hashlearn.index.scan import nearest

IN_A_ROW = 5


def best_times(repeats: int, works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The shortest time of each work in seconds. The works take turns, so that a busy moment slows all of them."""
    times = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            for _ in range(IN_A_ROW):
                start = time.perf_counter()
                work()
                times[name] = min(times[name], time.perf_counter() - start)
                if times[name] > 1:
                    break
    return times


def report(what: str, queries: int, times: dict[str, float]) -> None:
    ours = times["scan"]
    others = ", ".join(
        f"{name} {1e3 * t / queries:.3f} ms ({t / ours:.2f}x)" for name, t in times.items() if name != "scan"
    )
    print(f"{what}: scan {1e3 * ours / queries:.3f} ms per query, {others}", flush=True)


def measure(rows: int, bits: int, batch: int, k: int, threads: int, repeats: int) -> None:
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 256, (rows, bits // 8), dtype=np.uint8)
    queries = rng.integers(0, 256, (batch, bits // 8), dtype=np.uint8)
    values = rng.standard_normal((batch, bits), dtype=np.float32)
    flat = faiss.IndexBinaryFlat(bits)
    flat.add(codes)
    size = f"{codes.nbytes / 1e6:,.0f} MB"
    for n in (1, batch):
        asked, tables = queries[:n], ScoreTables.from_bits(values[:n])
        if not np.array_equal(nearest(codes, asked, k, n_jobs=threads).distances, flat.search(asked, k)[0]):
            raise SystemExit("The distances differ from those of faiss.")
        ours = partial(nearest, codes, asked, k, n_jobs=threads)
        exact = partial(search, codes, asked, k, metric=MetricKind.Hamming, exact=True, threads=threads)
        works = {"scan": ours, "faiss": partial(flat.search, asked, k), "usearch": exact}
        if n == 1:
            works["plain read by one thread"] = partial(np.bitwise_or.reduce, codes.reshape(-1).view(np.uint64))
        report(f"{bits} bits ({size}), {n} queries, k = {k}", n, best_times(repeats, works))
        works = {"scan": partial(nearest, codes, tables, k, n_jobs=threads), "Hamming scan": ours}
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
        measure(options.rows, bits, options.batch, options.k, options.threads, options.repeats)


if __name__ == "__main__":
    main()
