"""Every metric by plain loops over one query at a time, for the tests to compare with."""

from __future__ import annotations

import itertools
import math

import numpy as np


def hamming(a, b):
    return sum(bin(int(x) ^ int(y)).count("1") for x, y in zip(a, b, strict=True))


def distance_table(queries, database):
    return [[hamming(q, d) for d in database] for q in queries]


def shared_labels(query_y, database_y):
    """Relevance table: 1 for the same class, or the number of shared labels."""
    if np.ndim(query_y[0]) == 0:
        return [[float(a == b) for b in database_y] for a in query_y]
    return [[float(sum(x * y for x, y in zip(a, b, strict=True))) for b in database_y] for a in query_y]


def order(distances, relevance, ties):
    sign = {"stable": 0, "optimistic": -1, "pessimistic": 1}[ties]
    return sorted(range(len(distances)), key=lambda i: (distances[i], sign * relevance[i], i))


def all_orders(distances):
    """Every order that random ties can give."""
    groups = [
        list(itertools.permutations([i for i, d in enumerate(distances) if d == value]))
        for value in sorted(set(distances))
    ]
    for parts in itertools.product(*groups):
        yield [i for part in parts for i in part]


def average_precision(listed, at, denominator):
    """AP, or None where it is 0/0. ``listed`` is the relevance of the whole database in order."""
    total = sum(r > 0 for r in listed)
    found, summed = 0, 0.0
    for position, r in enumerate(listed[:at], start=1):
        if r > 0:
            found += 1
            summed += found / position
    bottom = {"retrieved": found, "min": min(total, at), "relevant": total}[denominator]
    return summed / bottom if bottom else None


def dcg(listed, at, gain):
    result = 0.0
    for position, r in enumerate(listed[:at], start=1):
        if gain == "exp":
            result += (2**r - 1) / math.log2(position + 1)
        else:
            result += r if position == 1 else r / math.log2(position)
    return result


def ndcg(listed, at, gain):
    ideal = dcg(sorted(listed, reverse=True), at, gain)
    return dcg(listed, at, gain) / ideal if ideal else None


def recall(listed, at):
    total = sum(r > 0 for r in listed)
    return sum(r > 0 for r in listed[:at]) / total if total else None


def precision(listed, k):
    return sum(r > 0 for r in listed[:k]) / min(k, len(listed))


def mean(values, empty_queries):
    """Mean where None is 0, or is left out."""
    if empty_queries == "drop":
        values = [v for v in values if v is not None]
    return sum(v or 0.0 for v in values) / len(values) if values else float("nan")


def evaluate(distances, relevance, at, precision_at, ndcg_at, radius, ties, denominator, empty_queries, gain):
    """All scores as a dict, from tables of distances and relevance."""
    lists = [[r[i] for i in order(d, r, ties)] for d, r in zip(distances, relevance, strict=True)]
    n = len(lists[0])
    at, ndcg_at = at or n, ndcg_at or n
    inside = [[r for d, r in zip(*pair, strict=True) if d <= radius] for pair in zip(distances, relevance, strict=True)]
    totals = [sum(r > 0 for r in row) for row in relevance]
    hits = [sum(r > 0 for r in ball) for ball in inside]
    return {
        "map": mean([average_precision(x, at, denominator) for x in lists], empty_queries),
        "precision": mean([precision(x, precision_at) for x in lists], "zero"),
        "recall": mean([recall(x, at) for x in lists], empty_queries),
        "ndcg": mean([ndcg(x, ndcg_at, gain) for x in lists], empty_queries),
        "acg": mean([sum(ball) / len(ball) if ball else 0.0 for ball in inside], "zero"),
        "radius_precision": mean(
            [h / len(ball) if ball else 0.0 for h, ball in zip(hits, inside, strict=True)], "zero"
        ),
        "radius_recall": mean([h / t if t else None for h, t in zip(hits, totals, strict=True)], empty_queries),
        "empty_balls": mean([float(not ball) for ball in inside], "zero"),
    }
