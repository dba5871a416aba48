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
        first = 2 * k + 64
        fast = self._candidates(queries, first) if len(queries) else None
        for number, query in enumerate(queries):
            tables = _tables(query)
            found = None
            if fast is not None:
                found = self._proved(query, tables, k, fast[0][number], fast[1][number])
                more = None if found is not None else self._candidates(queries[number : number + 1], 8 * first)
                if more is not None:
                    found = self._proved(query, tables, k, more[0][0], more[1][0])
            ids[number], scores[number] = self._scan(tables, k) if found is None else found
        return ids, scores

    def _by_place(self, projections: NDArray[np.float32]) -> NDArray[np.float32]:
        """Columns padded to whole bytes and ordered by the place value of their bit."""
        width = self._codes.shape[1]
        queries = np.zeros((len(projections), 8 * width), dtype=np.float32)
        queries[:, : projections.shape[1]] = projections
        if self._bitorder == "big":
            queries = queries.reshape(len(queries), width, 8)[:, :, ::-1].reshape(len(queries), 8 * width)
        return np.ascontiguousarray(queries)

    def _candidates(self, queries: NDArray[np.float32], count: int) -> Any:
        if self._fast is None or count > min(_MOST_CANDIDATES, len(self._codes)):
            return None
        return self._fast.search(queries, count)

    def _proved(
        self, query: NDArray[np.float32], tables: NDArray[np.float64], k: int, near: Scores, places: Ids
    ) -> tuple[Ids, Scores] | None:
        """The answer from candidates of the fast scan; None when a row that is not among them could belong to it."""
        if places[-1] < 0:
            return None
        scores = _scores(self._codes[places], tables)
        found = self._expand(scores, places, k)
        # Rounding moves each entry by half a step at most; twice that leaves room for the float32 sums of faiss.
        size = np.abs(query.astype(np.float64))
        nibbles = size.reshape(-1, 4).sum(axis=1)
        error = len(nibbles) * 2 * nibbles.max() / 255 + 1e-5 * size.sum()
        return found if found[1][-1] < -float(near[-1]) - error else None

    def _scan(self, tables: NDArray[np.float64], k: int) -> tuple[Ids, Scores]:
        """The answer from the scores of all codes, block by block."""
        best, where = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)
        for block in row_blocks(len(self._codes), _BLOCK_ROWS):
            scores = _scores(self._codes[block], tables)
            good = np.flatnonzero(scores <= _kth(best, k))
            best = np.concatenate([best, scores[good]])
            where = np.concatenate([where, good + block.start])
            keep = best <= _kth(best, k)
            best, where = best[keep], where[keep]
        return self._expand(best, where, k)

    def _expand(self, scores: Scores, places: Ids, k: int) -> tuple[Ids, Scores]:
        """The k best rows of some codes, ordered by (score, id). There may be fewer than k."""
        order = np.argsort(scores, kind="stable")
        scores, places = scores[order], places[order]
        # A code can give no more than its k smallest ids; every code that ties with the last needed one counts.
        counts = np.minimum(self._starts[places + 1] - self._starts[places], k)
        last = min(int(np.searchsorted(np.cumsum(counts), k)), len(counts) - 1)
        end = int(np.searchsorted(scores, scores[last], side="right"))
        scores, places, counts = scores[:end], places[:end], counts[:end]
        begins = np.repeat(self._starts[places] - (np.cumsum(counts) - counts), counts)
        ids = self._ids[self._order[begins + np.arange(len(begins))]]
        scores = np.repeat(scores, counts)
        order = np.lexsort((ids, scores))[:k]
        return ids[order], scores[order]


def _tables(projection: NDArray[np.float32]) -> NDArray[np.float64]:
    """Entry [b, v]: what the value v of byte b adds to -q.h."""
    query = projection.reshape(-1, 8).astype(np.float64)
    tables = np.empty((len(query), 256))
    tables[:, 0] = query.sum(axis=1)  # all signs -1
    for bit in range(8):  # with the bit set, the same sums less 2 q; a matrix product takes several times as long
        half = 1 << bit
        np.subtract(tables[:, :half], 2 * query[:, bit : bit + 1], out=tables[:, half : 2 * half])
    return tables


def _scores(codes: Codes, tables: NDArray[np.float64]) -> Scores:
    """Scores of codes. One order of additions, so that a code has one score however it was found."""
    scores = tables[0].take(codes[:, 0])
    for byte in range(1, len(tables)):
        scores += tables[byte].take(codes[:, byte])
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
