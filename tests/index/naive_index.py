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


def top(queries, table, k, rows=None):
    """Ids and distances (queries, k) from a dict id -> bytes; no more columns than rows of the index."""
    k = min(k, len(table) if rows is None else rows)
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


def by_signs(queries, codes, ids, n_bits, k, bitorder="big"):
    """Ids and distances -q.h: sums over nibbles in float32, then over bytes in float64, then in float32."""
    padded = np.zeros((len(queries), 8 * codes.shape[1]))
    padded[:, :n_bits] = queries
    signs = np.unpackbits(codes, axis=1, bitorder=bitorder) * 2.0 - 1.0
    nibbles = (padded[:, None] * signs).reshape(len(queries), len(codes), -1, 4).sum(axis=3).astype(np.float32)
    distances = -nibbles.astype(np.float64).sum(axis=2).astype(np.float32)
    order = np.array([np.lexsort((ids, row))[:k] for row in distances])
    return np.asarray(ids)[order], np.take_along_axis(distances, order, axis=1)


def by_tables(tables, table, k):
    """Ids and scores (queries, k), for tables of whole numbers and words of 8 bits, from a dict id -> bytes."""
    ids, scores = np.full((len(tables), k), -1), np.full((len(tables), k), -np.inf)
    for number, (nibbles, words) in enumerate(zip(tables.nibbles, tables.words, strict=True)):
        score = {
            id_: words[code[0]] + sum(nibbles[2 * i, b >> 4] + nibbles[2 * i + 1, b & 15] for i, b in enumerate(code))
            for id_, code in table.items()
        }
        for place, (negative, id_) in enumerate(sorted((-score[id_], id_) for id_ in score)[:k]):
            ids[number, place], scores[number, place] = id_, -negative
    return ids, scores


def pairs(ball):
    """The answer of ``within`` in the shape of ``inside``."""
    return [
        list(zip(ball.distances[a:b].tolist(), ball.ids[a:b].tolist(), strict=True))
        for a, b in zip(ball.offsets[:-1], ball.offsets[1:], strict=True)
    ]


def _distance(query, code):
    return int(np.bitwise_count(query ^ code).sum())
