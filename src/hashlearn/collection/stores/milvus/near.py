"""Nearest rows from Milvus, which returns at most 16,384 hits and arbitrary ones of those that tie at the end.

A second request for the rows at exactly that distance settles ties. More hits than the limit are read by ranges of ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from hashlearn.collection.stores.remote import QueryHits, best, joined
from hashlearn.typing import Ids, PackedCodes

MAX_HITS = 16_384
LARGEST_ID = 2**63 - 1
FIRST_KEY = -1  # Milvus 2.3 never returns the row with the largest possible key, so that row gets this key

AskServer = Callable[[PackedCodes, int, str, int | None, int | None], list[QueryHits]]
"""Returns at most ``limit`` hits per query, for (queries, limit, expression, least bits, most bits)."""


def to_keys(ids: Ids) -> Ids:
    return np.where(np.asarray(ids) == LARGEST_ID, FIRST_KEY, ids)


def to_ids(keys: Ids) -> Ids:
    return np.where(keys == FIRST_KEY, LARGEST_ID, keys)


def nearest(ask: AskServer, queries: PackedCodes, k: int, expression: str, settle: bool) -> list[QueryHits]:
    """Return the k nearest rows of each query by (distance, id).

    Without ``settle``, ties at the last place are as found.
    """
    limit = min(MAX_HITS, 2 * k + 50) if settle else k
    found = [best([part], limit) for part in ask(queries, limit, expression, None, None)]
    if not settle:
        return found
    open_at: dict[int, list[int]] = defaultdict(list)
    for place, (ids, bits) in enumerate(found):
        # When the list goes on beyond the distance of the k-th row, all rows of that distance are in it.
        if len(ids) == limit and bits[k - 1] == bits[-1]:
            open_at[int(bits[-1])].append(place)
    for bits_at, places in open_at.items():
        tied = ask(queries[places], MAX_HITS, expression, bits_at, bits_at)
        for place, part in zip(places, tied, strict=True):
            ids, bits = found[place]
            nearer = bits < bits_at
            if len(part[0]) == MAX_HITS:
                missing = k - int(nearer.sum())
                part = by_windows(ask, queries[place : place + 1], expression, bits_at, bits_at, missing)
            found[place] = joined([(ids[nearer], bits[nearer]), part])
    return [best([part], k) for part in found]


def ball(ask: AskServer, queries: PackedCodes, radius: int, expression: str) -> list[QueryHits]:
    """Return all rows at most ``radius`` bits away from each query, in any order."""
    found = ask(queries, MAX_HITS, expression, None, radius)
    for place, (ids, _) in enumerate(found):
        if len(ids) == MAX_HITS:
            found[place] = by_windows(ask, queries[place : place + 1], expression, None, radius, None)
    return found


def by_windows(
    ask: AskServer, query: PackedCodes, expression: str, least: int | None, most: int | None, enough: int | None
) -> QueryHits:
    """Return all hits of one query, or those of smallest id until there are ``enough``.

    A window of ids with too many hits is cut at the median of the hits it returned. Each half has fewer, so this ends.
    """
    parts: list[QueryHits] = []
    windows = [(0, LARGEST_ID)]
    while windows and (enough is None or sum(len(ids) for ids, _ in parts) < enough):
        first, last = windows.pop()
        window = f"id >= {first} and id <= {last}"
        if last == LARGEST_ID:
            window = f"(id >= {first} or id == {FIRST_KEY})"
        inside = f"{expression} and {window}".removeprefix(" and ")
        part = ask(query, MAX_HITS, inside, least, most)[0]
        if len(part[0]) < MAX_HITS:
            parts.append(part)
            continue
        middle = int(np.sort(part[0])[MAX_HITS // 2])
        windows += [(middle + 1, last), (first, middle)]
    return joined(parts)
