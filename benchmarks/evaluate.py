"""Compare the time of hashlearn.metrics.evaluate with the usual loop over queries, on noisy class codes.

    python benchmarks/evaluate.py [--queries 10000] [--database 50000] [--bits 64]

The exit code is 1 if the ratio is below 5, if memory exceeds 1 GB, or if the two disagree.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

from hashlearn.codes import pack, unpack_signs
from hashlearn.metrics import Rules, evaluate

AT, NDCG_AT, PRECISION_AT, RADIUS = 500, 50, 10, 2
SMALLEST_RATIO, LARGEST_MEGABYTES, TOLERANCE = 5.0, 1024, 1e-9


def noisy_class_codes(
    rng: np.random.Generator, centers: np.ndarray, n: int, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """Codes that differ from the code of their class in a random share of the bits."""
    y = rng.integers(len(centers), size=n)
    flips = rng.random((n, centers.shape[1])) < noise * rng.random((n, 1))
    return pack(centers[y] ^ flips), y


def peer_loop(
    queries: np.ndarray, database: np.ndarray, query_y: np.ndarray, database_y: np.ndarray, kind: str | None
) -> tuple[float, float]:
    """Do what published evaluators do for each query. Returns (MAP, NDCG), by the same definitions as Rules.paper.

    Published evaluators use NumPy's default sort, which is faster but leaves ties in no defined order; the timing uses
    it too. For comparing the values, the sort is stable.
    """
    positions = np.arange(1, AT + 1)
    discounts = 1 / np.log2(np.arange(2, NDCG_AT + 2))
    scores = []
    for query, label in zip(queries, query_y, strict=True):
        distances = 0.5 * (queries.shape[1] - query @ database.T)
        order = np.argsort(distances, kind=kind)
        truth = (database_y == label).astype(np.float32)[order]
        hits = truth[:AT]
        found = np.cumsum(hits)
        average = float((found / positions[: len(hits)] * hits).sum() / max(1.0, found[-1]))
        ideal = np.sort(truth)[::-1][:NDCG_AT] @ discounts
        gained = truth[:NDCG_AT] @ discounts
        ball = distances <= RADIUS
        # Published evaluators compute these scores too, so their cost counts. Their values are not compared.
        _ = (
            hits[:PRECISION_AT].mean(),
            found[-1] / truth.sum(),
            (ball * (database_y == label)).sum() / ball.sum().clip(1),
        )
        scores.append((average, float(gained / ideal) if ideal > 0 else 0.0))
    return tuple(np.mean(scores, axis=0).tolist())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--database", type=int, default=50_000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--peer-queries", type=int, default=300, help="queries the peer loop is timed on")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    centers = rng.integers(2, size=(10, arguments.bits)).astype(bool)
    queries, query_y = noisy_class_codes(rng, centers, arguments.queries, noise=0.6)
    database, database_y = noisy_class_codes(rng, centers, arguments.database, noise=0.6)

    seconds = {}
    for ties in ("expected", "stable"):
        start = time.perf_counter()
        scores = evaluate(
            queries,
            database,
            query_y,
            database_y,
            at=AT,
            ndcg_at=NDCG_AT,
            precision_at=PRECISION_AT,
            radius=RADIUS,
            ties=ties,
        )
        seconds[ties] = time.perf_counter() - start
        print(f"evaluate, ties={ties:<9} {seconds[ties]:7.2f} s   MAP@{AT} {scores.map:.6f}   NDCG {scores.ndcg:.6f}")
    # Memory is read before the peer loop, so that it is the peak of evaluate.
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)

    some = min(arguments.peer_queries, arguments.queries)
    signs = unpack_signs(database, arguments.bits).astype(np.float32)
    query_signs = unpack_signs(queries[:some], arguments.bits).astype(np.float32)
    start = time.perf_counter()
    peer_loop(query_signs, signs, query_y[:some], database_y, kind=None)
    peer_seconds = (time.perf_counter() - start) * arguments.queries / some
    print(f"per-query loop          {peer_seconds:7.2f} s   (scaled from {some} queries)")

    peer_map, peer_ndcg = peer_loop(query_signs, signs, query_y[:some], database_y, kind="stable")
    ours = evaluate(queries[:some], database, query_y[:some], database_y, rules=Rules.paper(at=AT, ndcg_at=NDCG_AT))
    difference = max(abs(ours.map - peer_map), abs(ours.ndcg - peer_ndcg))
    ratio = peer_seconds / max(seconds.values())
    print(f"largest difference      {difference:.1e}   (MAP and NDCG on those queries, stable order)")
    print(f"peak memory             {megabytes:7.0f} MB")
    for ties, value in seconds.items():
        print(f"ratio, ties={ties:<9}   {peer_seconds / value:7.1f}")
    return 0 if ratio >= SMALLEST_RATIO and megabytes < LARGEST_MEGABYTES and difference < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
