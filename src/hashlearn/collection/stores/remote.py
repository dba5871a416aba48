"""What the stores on servers share: queries by Hamming distance alone, hits as arrays, and messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import pack, unpack_signs
from hashlearn.collection.rescore import DEFAULT_FACTOR, MAX_CANDIDATES, as_hits, nearest_with_ties, places_of, rescored
from hashlearn.collection.store import (
    Answer,
    CollectionError,
    CollectionSpec,
    Include,
    Query,
    StoredRows,
    UnsupportedByStoreError,
    Vectors,
    VerifyReport,
    arrays_only,
)
from hashlearn.collection.where import Condition
from hashlearn.index import Hits, RangeHits
from hashlearn.parallel import row_blocks
from hashlearn.progress import report
from hashlearn.typing import Ids, PackedCodes

QUERIES_AT_ONCE = 100
QueryHits = tuple[Ids, Ids]
"""Ids and distances of one query's rows, ordered by (distance, id)."""


class Searches(Protocol):
    """What a store on a server does itself: it compares codes with codes, and reads rows."""

    spec: CollectionSpec

    def nearest(self, codes: PackedCodes, k: int, where: Condition | None) -> Hits:
        """Return the k rows nearest to each code by Hamming distance."""

    def get(self, ids: Ids, vectors: bool = False) -> StoredRows:
        """Return those of these rows that exist, ordered by id."""


def answer(
    store: Searches, server: str, query: Query, k: int, where: Condition | None, include: Collection[Include]
) -> Answer:
    """Answer queries of any kind by a server that compares codes with codes only."""
    values, cut = arrays_only(query, server), 0

    def ask(asked: Any, limit: int) -> Hits:
        # Rescoring may also look near packed codes, whatever the queries themselves are.
        if asked.dtype == np.uint8:
            return store.nearest(asked, limit, where)
        return _rank_candidates(store, asked, limit, where)

    def read(ids: Ids) -> tuple[Ids, Vectors]:
        rows = store.get(ids, vectors=True)
        assert rows.vectors is not None
        return rows.ids, rows.vectors

    if query.rescoring is None:
        found = ask(values, k)
    else:
        found, cut = rescored(values, query.rescoring, k, ask, read)
    return Answer(found, details(store, found.ids, include), cut)


def details(store: Searches, ids: Ids, include: Collection[Include]) -> StoredRows | None:
    """Return the rows that were found, if anything was asked for; empty places have negative ids."""
    return store.get(np.unique(ids[ids >= 0]), "vector" in include) if include else None


def _rank_candidates(store: Searches, queries: NDArray[np.floating], k: int, where: Condition | None) -> Hits:
    """Return the rows of smallest -q.h among those nearest to sgn(q).

    Candidates are the ``DEFAULT_FACTOR`` k nearest rows of each query, and all that are as near as the last of them.
    """
    signs = pack(queries >= 0)
    nearest = max(k, min(DEFAULT_FACTOR * k, MAX_CANDIDATES - 1))
    ranked: list[tuple[Ids, NDArray[np.float32]]] = []
    for block in row_blocks(len(queries), QUERIES_AT_ONCE):
        found, _ = nearest_with_ties(
            lambda codes, limit: store.nearest(codes, limit, where),
            signs[block],
            nearest,
            max(MAX_CANDIDATES, nearest),
        )
        rows = store.get(np.unique(np.concatenate(found)))
        row_signs = unpack_signs(rows.codes, store.spec.n_bits).astype(np.float64)
        for query, ids in zip(queries[block], found, strict=True):
            chosen = places_of(rows.ids, ids)
            scores = (-(row_signs[chosen] @ query.astype(np.float64))).astype(np.float32)
            order = np.lexsort((rows.ids[chosen], scores))[:k]
            ranked.append((rows.ids[chosen][order], scores[order]))
    return as_hits(ranked, np.float32)


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
    """Return the k nearest of several lists, by (distance, id); None for all."""
    ids, distances = joined(found)
    order = np.lexsort((ids, distances))[:k]
    return ids[order], distances[order]


def joined(found: Sequence[QueryHits]) -> QueryHits:
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([ids for ids, _ in found]), np.concatenate([distances for _, distances in found])


def as_range_hits(found: Sequence[QueryHits]) -> RangeHits:
    offsets = np.cumsum([0, *(len(ids) for ids, _ in found)], dtype=np.int64)
    ids, distances = joined(found)
    return RangeHits(offsets, ids, distances.astype(np.int32))


def query_blocks(queries: PackedCodes, k: int, max_hits: int = 500_000) -> Iterator[PackedCodes]:
    """Yield blocks of queries, small enough that the answer of each fits in memory."""
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
    """Return what ``verify`` found, as a sentence that follows another one."""
    state = f"{len(found.problems)} problems, first: {found.problems[0]}" if found.problems else "all is well."
    return f"The {found.rows:,} rows of {place} were read: {state}"


def first_sentence(message: object, secret: str | None = None) -> str:
    """Return the first line of a server's message, as the end of one sentence and without the password."""
    lines = [line.strip() for line in str(message).splitlines() if line.strip()]
    text = (lines[0] if lines else "no reason given").rstrip(".")
    if secret:
        text = text.replace(secret, "***")
    return text if len(text) <= 300 else text[:300] + "…"
