"""Stores on servers that compare codes with codes only: rescoring and real-valued queries are computed here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import pack, unpack_signs
from hashlearn.collection.rescore import DEFAULT_FACTOR, MAX_CANDIDATES, as_hits, nearest_with_ties, places_of, rescored
from hashlearn.collection.store import (
    Answer,
    Include,
    Query,
    Store,
    StoredRows,
    UnsupportedByStoreError,
    Vectors,
    VerifyReport,
    first_of_each,
    no_tables,
)
from hashlearn.collection.where import Condition
from hashlearn.index import Hits, RangeHits, ScoreTables
from hashlearn.parallel import row_blocks
from hashlearn.progress import report
from hashlearn.typing import Ids, PackedCodes

QUERIES_AT_ONCE = 100
QueryHits = tuple[Ids, Ids]
"""Ids and distances of one query's rows, ordered by (distance, id)."""


class RemoteStore(Store):
    """Base of these stores. A subclass finds rows by Hamming distance (``nearest``, ``ball``) and reads them."""

    takes_tables: ClassVar[bool] = False
    server: ClassVar[str]
    """What messages call the server."""
    kinds: ClassVar[Sequence[str]]
    """The kinds of index that the server has."""

    @abstractmethod
    def nearest(self, codes: PackedCodes, k: int, where: Condition | None) -> Hits:
        """Return the k rows nearest to each code by Hamming distance."""

    @abstractmethod
    def ball(self, codes: PackedCodes, radius: int, where: Condition | None) -> list[QueryHits]:
        """Return all rows at most ``radius`` bits away from each code, ordered by (distance, id)."""

    def search(self, query: Query, k: int) -> Answer[Hits]:
        values, cut = self._arrays(query), 0

        def ask(asked: Any, limit: int) -> Hits:
            # Rescoring may also look near packed codes, whatever the queries themselves are.
            find = self.nearest if asked.dtype == np.uint8 else self._rank_candidates
            return find(asked, limit, query.where)

        if query.rescoring is None:
            found = ask(values, k)
        else:
            found, cut = rescored(values, query.rescoring, k, ask, self._vectors_of)
        return Answer(found, self._details(found.ids, query.include), cut)

    def within(self, query: Query, radius: float, limit: int | None = None) -> Answer[RangeHits]:
        found = self.ball(self._arrays(query), int(radius), query.where)
        ids, distances = joined(found)
        offsets = np.cumsum([0, *(len(ids) for ids, _ in found)], dtype=np.int64)
        hits = first_of_each(RangeHits(offsets, ids, distances.astype(np.int32)), limit)
        return Answer(hits, self._details(hits.ids, query.include))

    def _arrays(self, query: Query) -> NDArray[Any]:
        """Return packed codes or expected bits; UnsupportedByStoreError for tables."""
        if isinstance(query.values, ScoreTables):
            raise no_tables(f"A collection on {self.server}", "this hasher")
        return query.values

    def _vectors_of(self, ids: Ids) -> tuple[Ids, Vectors]:
        rows = self.get(ids, vectors=True)
        assert rows.vectors is not None
        return rows.ids, rows.vectors

    def _details(self, ids: Ids, include: Collection[Include]) -> StoredRows | None:
        """Return the rows that were found, if anything was asked for; empty places have negative ids."""
        return self.get(np.unique(ids[ids >= 0]), "vector" in include) if include else None

    def _rank_candidates(self, queries: NDArray[np.floating], k: int, where: Condition | None) -> Hits:
        """Return the rows of smallest -q.h among those nearest to sgn(q).

        Candidates are the ``DEFAULT_FACTOR`` k nearest rows of each query, and all that are as near as the last of
        them.
        """
        signs = pack(queries >= 0)
        nearest = max(k, min(DEFAULT_FACTOR * k, MAX_CANDIDATES - 1))
        ranked: list[tuple[Ids, NDArray[np.float32]]] = []
        for block in row_blocks(len(queries), QUERIES_AT_ONCE):
            found, _ = nearest_with_ties(
                lambda codes, limit: self.nearest(codes, limit, where),
                signs[block],
                nearest,
                max(MAX_CANDIDATES, nearest),
            )
            rows = self.get(np.unique(np.concatenate(found)))
            row_signs = unpack_signs(rows.codes, self.spec.n_bits).astype(np.float64)
            for query, ids in zip(queries[block], found, strict=True):
                chosen = places_of(rows.ids, ids)
                scores = (-(row_signs[chosen] @ query.astype(np.float64))).astype(np.float32)
                order = np.lexsort((rows.ids[chosen], scores))[:k]
                ranked.append((rows.ids[chosen][order], scores[order]))
        return as_hits(ranked, np.float32)

    @classmethod
    def _require_kind(cls, kind: str) -> None:
        if kind not in cls.kinds:
            raise UnsupportedByStoreError(
                f"A collection on {cls.server} has the kinds {' and '.join(map(repr, cls.kinds))}. Got {kind!r} "
                "instead: keep the collection in a folder for that."
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
