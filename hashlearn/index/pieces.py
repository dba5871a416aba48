"""Multi-index hashing: tables over pieces of the codes, looked up with every pattern of a few flipped bits.

Written out because the one in faiss spends about 260 ns a candidate on a set of rows seen before. Here a row that an
earlier piece has found already is known by its bits: that piece differs in few enough of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import as_words, word_distances
from hashlearn.parallel import row_blocks
from hashlearn.typing import PackedCodes

Words = NDArray[np.uint64]
Reach = Callable[[NDArray[np.uint16]], int]

MOST_PIECE_BITS = 24
_TOGETHER = 32  # queries: below, numpy's overhead shows; above, nothing is gained
_MOST_CANDIDATES = 2**20  # of queries that are worked on together
_SCANNED_SHARE = 8  # a query with more candidates than one row in so many is quicker by a scan
_SCAN_ROWS = 2**20
_DENSE = 8  # a table has a place for every key when there are at most so many a row


class Matches(NamedTuple):
    """Rows found for the queries ``queries``, each row once a query; ``query`` counts from the first of them."""

    queries: slice
    query: NDArray[np.intp]
    distance: NDArray[np.int64]
    row: NDArray[np.int64]


class PieceTables:
    """The rows of ``codes`` sorted by each of ``n_pieces`` pieces of ``piece_bits`` bits."""

    def __init__(self, codes: PackedCodes, n_pieces: int, piece_bits: int) -> None:
        self.n_pieces, self.piece_bits = n_pieces, piece_bits
        self._words = as_words(codes)
        self._tables = [_Table(self._piece(self._words, number), piece_bits) for number in range(n_pieces)]
        self._patterns: dict[int, Words] = {}

    def __len__(self) -> int:
        return len(self._words)

    @property
    def size(self) -> int:
        return sum(table.size for table in self._tables)

    def _worthwhile(self, flips: int) -> bool:
        """Whether looking up all patterns of so many flips is less work than scanning the rows."""
        patterns = sum(comb(self.piece_bits, count) for count in range(min(flips, self.piece_bits) + 1))
        return self.n_pieces * patterns <= len(self)

    def candidates(self, queries: PackedCodes, flips: int, reach: Reach) -> Iterator[Matches]:
        """Rows that agree with a query in a piece up to ``flips`` bits, for parts of the queries in order.

        A query with so many that a scan is quicker gets the rows within the radius that ``reach`` gives for the
        distances of all rows.
        """
        if not self._worthwhile(flips):
            yield from (self._scan(number, query, reach) for number, query in enumerate(as_words(queries)))
            return
        words, patterns = as_words(queries), self._flipped(min(flips, self.piece_bits))
        for start in range(0, len(words), _TOGETHER):
            part = words[start : start + _TOGETHER]
            found = [table.look_up(self._piece(part, number), patterns) for number, table in enumerate(self._tables)]
            totals = np.sum([counts.sum(axis=1) for _, counts in found], axis=0)
            for first, end in _portions(totals, _MOST_CANDIDATES):
                if end - first == 1 and totals[first] > len(self) // _SCANNED_SHARE:
                    yield self._scan(start + first, part[first], reach)
                    continue
                near = [(begins[first:end], counts[first:end]) for begins, counts in found]
                yield self._matches(slice(start + first, start + end), part[first:end], near, flips)

    def _matches(self, place: slice, queries: Words, near: list[tuple[NDArray, NDArray]], flips: int) -> Matches:
        parts = []
        for number, (begins, counts) in enumerate(near):
            rows, query = self._tables[number].rows(begins, counts)
            difference = self._words[rows] ^ queries[query]
            for earlier in range(number):
                new = np.bitwise_count(self._piece(difference, earlier)) > flips
                rows, query, difference = rows[new], query[new], difference[new]
            parts.append((query, np.bitwise_count(difference).sum(axis=1, dtype=np.int64), rows.astype(np.int64)))
        query, distance, row = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Matches(place, query, distance, row)

    def _scan(self, number: int, query: Words, reach: Reach) -> Matches:
        blocks = row_blocks(len(self), _SCAN_ROWS)
        distances = np.concatenate([word_distances(query[None], self._words[block])[0] for block in blocks])
        rows = np.flatnonzero(distances <= reach(distances))
        return Matches(
            slice(number, number + 1), np.zeros(len(rows), dtype=np.intp), distances[rows].astype(np.int64), rows
        )

    def _piece(self, words: Words, number: int) -> Words:
        """The bits of one piece as a number. Which bits those are does not matter, as long as pieces are disjoint."""
        word, shift = divmod(number * self.piece_bits, 64)
        value = words[:, word] >> np.uint64(shift)
        if shift + self.piece_bits > 64:
            value = value | (words[:, word + 1] << np.uint64(64 - shift))
        return value & np.uint64((1 << self.piece_bits) - 1)

    def _flipped(self, flips: int) -> Words:
        if flips not in self._patterns:
            places = range(self.piece_bits)
            values = [
                sum(1 << bit for bit in bits) for count in range(flips + 1) for bits in combinations(places, count)
            ]
            self._patterns[flips] = np.array(values, dtype=np.uint64)
        return self._patterns[flips]


class _Table:
    """Row numbers sorted by key, and where the rows of a key begin."""

    def __init__(self, keys: Words, key_bits: int) -> None:
        order = np.argsort(keys.astype(np.uint32), kind="stable")
        self._order = order.astype(np.int32 if len(keys) < 2**31 else np.int64)
        self._starts: NDArray | None = None
        self._keys: NDArray | None = None
        if 1 << key_bits <= _DENSE * len(keys):
            counts = np.bincount(keys.astype(np.int64), minlength=1 << key_bits)
            self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(self._order.dtype)
        else:
            self._keys = keys[order].astype(np.uint32)

    @property
    def size(self) -> int:
        return self._order.nbytes + sum(array.nbytes for array in (self._starts, self._keys) if array is not None)

    def look_up(self, keys: Words, patterns: Words) -> tuple[NDArray, NDArray]:
        """Where the rows of every flipped key begin, and how many they are: (queries, patterns) each."""
        flipped = keys[:, None] ^ patterns
        if self._starts is not None:
            begins, ends = self._starts[flipped], self._starts[flipped + np.uint64(1)]
        else:
            assert self._keys is not None
            wanted = flipped.astype(np.uint32)
            begins, ends = np.searchsorted(self._keys, wanted), np.searchsorted(self._keys, wanted, side="right")
        return begins, ends - begins

    def rows(self, begins: NDArray, counts: NDArray) -> tuple[NDArray, NDArray[np.intp]]:
        """The rows of all those places, and the query of each."""
        hit = np.flatnonzero(counts)
        query, begins, counts = hit // counts.shape[1], begins.ravel()[hit], counts.ravel()[hit]
        ends = np.cumsum(counts, dtype=np.int64)
        places = np.repeat(begins - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
        return self._order[places], np.repeat(query, counts)


def _portions(totals: NDArray, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of queries whose candidates together stay below ``most``, or single queries."""
    first, total = 0, 0
    for number, count in enumerate(totals):
        if number > first and total + count > most:
            yield first, number
            first, total = number, 0
        total += int(count)
    yield first, len(totals)
