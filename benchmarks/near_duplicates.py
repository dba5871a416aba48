"""Measure near_duplicates against comparing all rows, with the compiled scan and with faiss range_search.

    python benchmarks/near_duplicates.py [--rows 10000000] [--radius 3] [--queries 256] [--threads 2]

Codes of 64 bits are random, and a hundredth of them are copies with 1 to 3 flipped bits. The two scans are timed on
some queries against all rows, and their time for all pairs follows from that: each pair is looked at once by the scan
of hashlearn, and twice by range_search. What the scan finds for these queries must be in the answer.
"""

from __future__ import annotations

import argparse
import resource
import time

import faiss
import numpy as np

import hashlearn as hl
from hashlearn.index import scan


def planted(rows: int, rng: np.random.Generator) -> np.ndarray:
    codes = rng.integers(0, 2**63, rows, dtype=np.uint64) * np.uint64(2) + rng.integers(0, 2, rows, dtype=np.uint64)
    copies = rng.integers(0, rows, rows // 100)
    flips = sum(np.uint64(1) << rng.integers(0, 64, len(copies), dtype=np.uint64) for _ in range(3))
    codes[rng.integers(0, rows, len(copies))] = codes[copies] ^ flips
    return codes.view(np.uint8).reshape(-1, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--radius", type=int, default=3)
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    codes = planted(options.rows, np.random.default_rng(0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    found = hl.near_duplicates(codes, options.radius, n_jobs=options.threads)
    ours = time.perf_counter() - start
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"near_duplicates: {ours:.1f} s, {len(found.pairs):,} pairs, {memory:.0f} MB more memory", flush=True)
    start = time.perf_counter()
    kept = int(found.keep.sum())
    print(f"clusters: {time.perf_counter() - start:.1f} s, {kept:,} rows kept")
    asked = np.ascontiguousarray(codes[: options.queries])
    start = time.perf_counter()
    inside = scan.within(codes, asked, options.radius, n_jobs=options.threads)
    scanned = (time.perf_counter() - start) / options.queries * options.rows / 2
    faiss.omp_set_num_threads(options.threads)
    flat = faiss.IndexBinaryFlat(64)
    flat.add(codes)
    start = time.perf_counter()
    flat.range_search(asked, options.radius + 1)
    by_faiss = (time.perf_counter() - start) / options.queries * options.rows
    query = np.repeat(np.arange(options.queries), np.diff(inside.offsets))
    wanted = {(one, other) for one, other in zip(query.tolist(), inside.rows.tolist(), strict=True) if one < other}
    part = found.pairs[found.pairs[:, 0] < options.queries]
    if wanted != {(one, other) for one, other, _ in part.tolist()}:
        raise SystemExit("The scan found other pairs.")
    print(f"scan of all pairs: {scanned:.0f} s ({scanned / ours:.0f}x), range_search of faiss: {by_faiss:.0f} s "
          f"({by_faiss / ours:.0f}x); estimated from {options.queries} queries")  # fmt: skip


if __name__ == "__main__":
    main()
