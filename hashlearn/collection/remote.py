"""What the stores on servers share: hits as arrays, blocks of queries, and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import pack, unpack_signs
from hashlearn.collection.rescore import (
    DEFAULT_FACTOR,
    MAX_CANDIDATES,
    CandidatePlan,
    nearest_with_ties,
    places_of,
)
from hashlearn.collection.store import CollectionError, Store, StoredRows, UnsupportedByStoreError, VerifyReport
from hashlearn.collection.where import Condition
from hashlearn.index import Ball, Hits
from hashlearn.parallel import row_blocks
from hashlearn.progress import report
from hashlearn.typing import Ids, PackedCodes

QUERIES_AT_ONCE = 100
QueryHits = tuple[Ids, Ids]
"""Ids and distances of one query's rows, ordered by (distance, id)."""


def rank_candidates(store: Store, queries: NDArray[np.floating], k: int, where: Condition | None) -> Hits:
    """Return the rows of smallest -q.h among those nearest to sgn(q), because servers compare codes with codes only.

    Candidates are the ``DEFAULT_FACTOR`` k nearest rows of each query, and all that are as near as the last of them.
    """
    signs = pack(queries >= 0)
    nearest = max(k, min(DEFAULT_FACTOR * k, MAX_CANDIDATES - 1))
    plan = CandidatePlan(nearest, max(MAX_CANDIDATES, nearest))
    hits = Hits(np.full((len(queries), k), -1, dtype=np.int64), np.full((len(queries), k), np.inf, dtype=np.float32))
    for block in row_blocks(len(queries), QUERIES_AT_ONCE):
        found, _ = nearest_with_ties(lambda places, limit: store.search(signs[places], limit, where), block, plan)
        rows = store.get(np.unique(np.concatenate(found)))
        row_signs = unpack_signs(rows.codes, store.spec.n_bits).astype(np.float64)
        for place, ids in enumerate(found, block.start):
            chosen = places_of(rows.ids, ids)
            scores = (-(row_signs[chosen] @ queries[place].astype(np.float64))).astype(np.float32)
            order = np.lexsort((rows.ids[chosen], scores))[:k]
            hits.ids[place, : len(order)] = rows.ids[chosen][order]
            hits.distances[place, : len(order)] = scores[order]
    return hits


def require_writable(read_only: bool, place: str) -> None:
    if read_only:
        raise CollectionError(f"The collection {place} was opened for reading only.")


def require_kind(server: str, kind: str, offered: Sequence[str]) -> None:
    if kind not in offered:
        raise UnsupportedByStoreError(
            f"A collection on {server} has the kinds {' and '.join(map(repr, offered))}. Got {kind!r} instead: "
            "keep the collection in a folder for that."
        )


def best(found: Sequence[QueryHits], k: int | None) -> QueryHits:
    """The k nearest of several lists, by (distance, id); None for all."""
    ids, distances = joined(found)
    order = np.lexsort((ids, distances))[:k]
    return ids[order], distances[order]


def joined(found: Sequence[QueryHits]) -> QueryHits:
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([ids for ids, _ in found]), np.concatenate([distances for _, distances in found])


def as_hits(found: Sequence[QueryHits], k: int) -> Hits:
    ids = np.full((len(found), k), -1, dtype=np.int64)
    distances = np.full((len(found), k), -1, dtype=np.int32)
    for place, (row_ids, row_distances) in enumerate(found):
        ids[place, : len(row_ids)] = row_ids
        distances[place, : len(row_ids)] = row_distances
    return Hits(ids, distances)


def as_ball(found: Sequence[QueryHits]) -> Ball:
    lims = np.cumsum([0, *(len(ids) for ids, _ in found)], dtype=np.int64)
    ids, distances = joined(found)
    return Ball(lims, ids, distances.astype(np.int32))


def query_blocks(queries: PackedCodes, k: int, max_hits: int = 500_000) -> Iterator[PackedCodes]:
    """Blocks of queries, small enough that the answer of each fits in memory."""
    rows = max(1, min(100, max_hits // max(k, 1)))
    for start in range(0, len(queries), rows):
        yield queries[start : start + rows]


def verify_rows(batches: Iterable[StoredRows], total: int, check: Callable[[StoredRows], None]) -> VerifyReport:
    """Read every row, give each batch to ``check``, and count rows, payloads and vectors.

    The report has no problems yet: the caller adds those that ``check`` found.
    """
    rows = payloads = vectors = 0
    for batch in batches:
        check(batch)
        rows += len(batch.ids)
        payloads += sum(map(bool, batch.payloads))
        vectors += 0 if batch.vectors is None else len(batch.vectors)
        report("verifying rows", rows, max(rows, total))
    return VerifyReport(rows, payloads, vectors, ())


def report_sentence(found: VerifyReport, place: str) -> str:
    """What ``verify`` found, as a sentence that follows another one."""
    state = f"{len(found.problems)} problems, first: {found.problems[0]}" if found.problems else "all is well."
    return f"The {found.rows:,} rows of {place} were read: {state}"


def first_sentence(message: object, secret: str | None = None) -> str:
    """The first line of a server's message, as the end of one sentence and without the password."""
    lines = [line.strip() for line in str(message).splitlines() if line.strip()]
    text = (lines[0] if lines else "no reason given").rstrip(".")
    if secret:
        text = text.replace(secret, "***")
    return text if len(text) <= 300 else text[:300] + "…"
