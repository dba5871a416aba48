"""What an index must answer, by the plainest loops."""

from __future__ import annotations

import numpy as np

ODD_BITS = (1, 7, 12, 63, 65, 128)


def random_codes(rng, n, n_bits, bitorder="big"):
    return np.packbits(rng.integers(0, 2, (n, n_bits), dtype=np.uint8), axis=1, bitorder=bitorder)


def clustered(rng, n, n_bits=64, n_clusters=50, flips=0.08):
    """Database and queries around common centres."""
    centres = rng.integers(0, 2, (n_clusters, n_bits), dtype=np.uint8)
    bits = centres[rng.integers(0, n_clusters, n)] ^ (rng.random((n, n_bits)) < flips)
    return np.packbits(bits, axis=1)


def top(queries, table, k):
    """Ids and distances (queries, k) from a dict id -> bytes; -1 where there are too few rows."""
    ids = np.full((len(queries), k), -1)
    distances = np.full((len(queries), k), -1)
    for number, query in enumerate(queries):
        ranked = sorted((_distance(query, code), id_) for id_, code in table.items())[:k]
        for place, (distance, id_) in enumerate(ranked):
            ids[number, place], distances[number, place] = id_, distance
    return ids, distances


def inside(queries, table, radius):
    """For each query the (distance, id) pairs within the radius, sorted."""
    return [
        sorted((d, id_) for id_, code in table.items() if (d := _distance(query, code)) <= radius) for query in queries
    ]


def asymmetric(projections, codes, ids, n_bits, k, bitorder="big"):
    """Ids and float32 scores by a float64 product over the unpacked codes."""
    signs = np.unpackbits(codes, axis=1, count=n_bits, bitorder=bitorder) * 2.0 - 1.0
    scores = (-(projections.astype(np.float64) @ signs.T)).astype(np.float32)
    order = np.array([np.lexsort((ids, row))[:k] for row in scores])
    return np.asarray(ids)[order], np.take_along_axis(scores, order, axis=1)


def pairs(ball):
    """The answer of ``within`` in the shape of ``inside``."""
    return [
        list(zip(ball.distances[a:b].tolist(), ball.ids[a:b].tolist(), strict=True))
        for a, b in zip(ball.lims[:-1], ball.lims[1:], strict=True)
    ]


def _distance(query, code):
    return int(np.bitwise_count(query ^ code).sum())
