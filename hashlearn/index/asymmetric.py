"""Asymmetric search: real-valued query projections q against packed codes h in {-1, +1}, ranked by -q.h.

The score of a code is a sum of one table entry a byte (256 entries each), added in float64 and returned as float32;
rows with equal float32 scores are ranked by id. Equal codes are scored once. Most codes are not scored at all:
faiss scans a copy of the codes with tables rounded to 8 bits, one nibble a step, in registers. The rounding
error has a bound, and with the bound the best of that scan either prove to hold the exact answer or are not used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import as_words
from hashlearn.index.results import Codes, Ids
from hashlearn.parallel import row_blocks

Scores = NDArray[np.float32]

_BLOCK_ROWS = 65536
_FEWEST_FOR_FAST = 8192  # fewer codes are scored as quickly as they are scanned
_MOST_CANDIDATES = 16384
_CANDIDATES_TOGETHER = 2**16  # of the queries that are ranked at once

# The signs of the 16 values of a nibble, lowest bit first.
_SIGNS = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1, count=4, bitorder="little") * 2.0 - 1.0


class Lookup:
    """Distinct codes, the rows that hold each of them, and the copy that the fast scan reads."""

    def __init__(self, ids: Ids, codes: Codes, bitorder: str) -> None:
        self._bitorder = bitorder
        self._ids = ids
        words = as_words(codes)
        order = np.lexsort(words.T)  # stable: equal codes stay in the order of their ids
        words = words[order]
        first = np.ones(len(words), dtype=bool)
        first[1:] = (words[1:] != words[:-1]).any(axis=1)
        self._order = order.astype(np.int32 if len(ids) < 2**31 else np.int64)
        self._starts = np.append(np.flatnonzero(first), len(ids))
        self._codes = codes[order[first]]
        self._fast = _fast_scan(self._codes) if len(self._codes) >= _FEWEST_FOR_FAST else None

    @property
    def size(self) -> int:
        copies = 1 if self._fast is None else 2
        return self._order.nbytes + self._starts.nbytes + copies * self._codes.nbytes

    def search(self, projections: NDArray[np.float32], k: int) -> tuple[Ids, Scores]:
        """Ids and scores (queries, k) for k up to the number of rows."""
        queries = self._by_place(projections)
        ids = np.empty((len(queries), k), dtype=np.int64)
        scores = np.empty((len(queries), k), dtype=np.float32)
        open_ = np.arange(len(queries))
        for count in (2 * k + 64, 16 * k + 512):
            if self._fast is not None and count <= min(_MOST_CANDIDATES, len(self._codes)):
                left = []
                for block in row_blocks(len(open_), max(1, _CANDIDATES_TOGETHER // count)):
                    part = open_[block]
                    proved, found, near = self._from_candidates(queries[part], k, count)
                    ids[part[proved]], scores[part[proved]] = found, near
                    left.append(part[~proved])
                open_ = np.concatenate([*left, open_[:0]])
        for number in open_:
            ids[number], scores[number] = self._scan(_tables(queries[number : number + 1]), k)
        return ids, scores

    def _by_place(self, projections: NDArray[np.float32]) -> NDArray[np.float32]:
        """Columns padded to whole bytes and ordered by the place value of their bit."""
        width = self._codes.shape[1]
        queries = np.zeros((len(projections), 8 * width), dtype=np.float32)
        queries[:, : projections.shape[1]] = projections
        if self._bitorder == "big":
            queries = queries.reshape(len(queries), width, 8)[:, :, ::-1].reshape(len(queries), 8 * width)
        return np.ascontiguousarray(queries)

    def _from_candidates(
        self, queries: NDArray[np.float32], k: int, count: int
    ) -> tuple[NDArray[np.bool_], Ids, Scores]:
        """Which answers the best ``count`` codes of the fast scan prove, and those answers."""
        assert self._fast is not None
        near, places = self._fast.search(queries, count)
        proved = places[:, -1] >= 0  # for a query of zeros it finds nothing
        queries, near, places = queries[proved], near[proved], places[proved]
        ids, scores = self._expand(_scores(self._codes[places], _tables(queries)), places, k)
        # Rounding moves each entry by half a step at most; twice that leaves room for the float32 sums of faiss.
        size = np.abs(queries, dtype=np.float64)
        nibbles = size.reshape(len(queries), size.shape[1] // 4, 4).sum(axis=2)
        error = nibbles.shape[1] * 2 * nibbles.max(axis=1) / 255 + 1e-5 * size.sum(axis=1)
        sure = scores[:, -1] < -near[:, -1].astype(np.float64) - error
        proved[proved] = sure
        return proved, ids[sure], scores[sure]

    def _scan(self, tables: NDArray[np.float64], k: int) -> tuple[Ids, Scores]:
        """The answer from the scores of all codes, block by block."""
        best, where = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)
        for block in row_blocks(len(self._codes), _BLOCK_ROWS):
            scores = _scores(self._codes[None, block], tables)[0]
            good = np.flatnonzero(scores <= _kth(best, k))
            best = np.concatenate([best, scores[good]])
            where = np.concatenate([where, good + block.start])
            keep = best <= _kth(best, k)
            best, where = best[keep], where[keep]
        ids, scores = self._expand(best[None], where[None], k)
        return ids[0], scores[0]

    def _expand(self, scores: Scores, places: Ids, k: int) -> tuple[Ids, Scores]:
        """The k best rows (queries, k) of some codes (queries, codes), which have at least k, by (score, id)."""
        order = np.argsort(scores, axis=1, kind="stable")
        scores, places = np.take_along_axis(scores, order, axis=1), np.take_along_axis(places, order, axis=1)
        # A code can give no more than its k smallest ids; every code that ties with the last needed one counts.
        counts = np.minimum(self._starts[places + 1] - self._starts[places], k)
        last = (np.cumsum(counts, axis=1) < k).sum(axis=1, keepdims=True)
        query, column = np.nonzero(scores <= np.take_along_axis(scores, last, axis=1))
        scores, places, counts = scores[query, column], places[query, column], counts[query, column]
        begins = np.repeat(self._starts[places] - (np.cumsum(counts) - counts), counts)
        ids = self._ids[self._order[begins + np.arange(len(begins))]]
        query, scores = np.repeat(query, counts), np.repeat(scores, counts)
        order = np.lexsort((ids, scores, query))
        first = np.searchsorted(query, np.arange(len(last)))
        order = order[first[:, None] + np.arange(k)]
        return ids[order], scores[order]


def _tables(projections: NDArray[np.float32]) -> NDArray[np.float64]:
    """Entry [q, b, v]: what the value v of byte b adds to -q.h."""
    queries = projections.reshape(len(projections), projections.shape[1] // 8, 8).astype(np.float64)
    tables = np.empty((*queries.shape[:2], 256))
    tables[..., 0] = queries.sum(axis=2)  # all signs -1
    for bit in range(8):  # with the bit set, the same sums less 2 q; a matrix product takes several times as long
        half = 1 << bit
        np.subtract(tables[..., :half], 2 * queries[..., bit : bit + 1], out=tables[..., half : 2 * half])
    return tables


def _scores(codes: Codes, tables: NDArray[np.float64]) -> Scores:
    """Scores of codes (queries, codes, bytes). One order of additions, so that a code has one score however found."""
    n_queries, n_bytes = tables.shape[:2]
    entries, begins = tables.ravel(), (256 * n_bytes * np.arange(n_queries))[:, None]
    scores = entries.take(codes[..., 0] + begins)
    for byte in range(1, n_bytes):
        scores += entries.take(codes[..., byte] + (begins + 256 * byte))
    return scores.astype(np.float32)


def _kth(scores: Scores, k: int) -> float:
    return float(np.partition(scores, k - 1)[k - 1]) if len(scores) >= k else np.inf


def _fast_scan(codes: Codes) -> Any:
    """A faiss product quantiser whose 16 centroids a nibble are the 16 sign patterns: its distances are q.h."""
    import faiss

    n_nibbles = 2 * codes.shape[1]
    quantiser: Any = faiss.IndexPQ(4 * n_nibbles, n_nibbles, 4, faiss.METRIC_INNER_PRODUCT)
    patterns = _SIGNS.astype(np.float32)
    faiss.copy_array_to_vector(np.tile(patterns, (n_nibbles, 1)).ravel(), quantiser.pq.centroids)
    faiss.copy_array_to_vector(codes.ravel(), quantiser.codes)
    quantiser.ntotal, quantiser.is_trained = len(codes), True
    return faiss.IndexPQFastScan(quantiser)
