"""Asymmetric search: real-valued query projections q against packed codes h in {-1, +1}, ranked by -q.h.

The score of a code is the sum of one table entry per byte (a table has 256 entries). Entries are added in float64 and
the score is returned as float32; rows with equal float32 scores are ranked by id. Equal codes are scored once. Most
codes are not scored at all: a scan with rounded tables (``fast_scan``) finds candidates, which are used only where they
are proved to contain the exact answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import as_words
from hashlearn.index.fast_scan import ATTEMPTS, Tables, fast_scan, score_codes, score_tables
from hashlearn.parallel import row_blocks
from hashlearn.typing import Float32Array, Ids, PackedCodes

_BLOCK_ROWS = 65536


class AsymmetricSearcher:
    """Search by projections over distinct codes, the rows that have each of them, and a copy for the fast scan."""

    def __init__(self, ids: Ids, codes: PackedCodes, bit_order: str) -> None:
        self._bit_order = bit_order
        self._ids = ids
        words = as_words(codes)
        order = np.lexsort(words.T)  # stable: equal codes stay in the order of their ids
        words = words[order]
        first = np.ones(len(words), dtype=bool)
        first[1:] = (words[1:] != words[:-1]).any(axis=1)
        self._order = order.astype(np.int32 if len(ids) < 2**31 else np.int64)
        self._starts = np.append(np.flatnonzero(first), len(ids))
        self._codes = codes[order[first]]
        self._fast = fast_scan(self._codes)

    @property
    def size(self) -> int:
        """Memory in bytes."""
        copies = 1 if self._fast is None else 2
        return self._order.nbytes + self._starts.nbytes + copies * self._codes.nbytes

    def search(self, projections: NDArray[np.float32], k: int) -> tuple[Ids, Float32Array]:
        """Return ids and scores (queries, k); k is at most the number of rows."""
        queries = self._by_place(projections)
        ids = np.empty((len(queries), k), dtype=np.int64)
        scores = np.empty((len(queries), k), dtype=np.float32)
        unanswered = np.arange(len(queries))
        for attempt in range(ATTEMPTS):
            batch_size = 0 if self._fast is None else self._fast.batch_size(k, attempt)
            if not batch_size:
                break
            left = []
            for block in row_blocks(len(unanswered), batch_size):
                part = unanswered[block]
                proved, found, near = self._from_candidates(queries[part], k, attempt)
                ids[part[proved]], scores[part[proved]] = found, near
                left.append(part[~proved])
            unanswered = np.concatenate([*left, unanswered[:0]])
        for number in unanswered:
            ids[number], scores[number] = self._scan(score_tables(queries[number : number + 1]), k)
        return ids, scores

    def _by_place(self, projections: NDArray[np.float32]) -> NDArray[np.float32]:
        """Pad the columns to whole bytes and order them by the place value of their bit."""
        width = self._codes.shape[1]
        queries = np.zeros((len(projections), 8 * width), dtype=np.float32)
        queries[:, : projections.shape[1]] = projections
        if self._bit_order == "big":
            queries = queries.reshape(len(queries), width, 8)[:, :, ::-1].reshape(len(queries), 8 * width)
        return np.ascontiguousarray(queries)

    def _from_candidates(
        self, queries: NDArray[np.float32], k: int, attempt: int
    ) -> tuple[NDArray[np.bool_], Ids, Float32Array]:
        """Return for which queries the candidates of the fast scan prove the answer, and those answers."""
        assert self._fast is not None
        seen = self._fast.candidates(queries, score_tables(queries), k, attempt)
        proved = seen.complete > -np.inf
        ids, scores = self._expand(seen.scores[proved], seen.places[proved], k)
        sure = scores[:, -1] < seen.complete[proved]
        proved[proved] = sure
        return proved, ids[sure], scores[sure]

    def _scan(self, tables: Tables, k: int) -> tuple[Ids, Float32Array]:
        """Find the answer from the scores of all codes, block by block."""
        best, where = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)
        for block in row_blocks(len(self._codes), _BLOCK_ROWS):
            scores = score_codes(self._codes[None, block], tables)[0]
            good = np.flatnonzero(scores <= _kth(best, k))
            best = np.concatenate([best, scores[good]])
            where = np.concatenate([where, good + block.start])
            keep = best <= _kth(best, k)
            best, where = best[keep], where[keep]
        ids, scores = self._expand(best[None], where[None], k)
        return ids[0], scores[0]

    def _expand(self, scores: Float32Array, places: Ids, k: int) -> tuple[Ids, Float32Array]:
        """Return the k best rows (queries, k) by (score, id) of codes (queries, codes) that have at least k rows."""
        order = np.argsort(scores, axis=1, kind="stable")
        scores, places = np.take_along_axis(scores, order, axis=1), np.take_along_axis(places, order, axis=1)
        # A code contributes at most its k smallest ids. All codes that tie with the last needed code must be compared.
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


def _kth(scores: Float32Array, k: int) -> float:
    return float(np.partition(scores, k - 1)[k - 1]) if len(scores) >= k else np.inf
