"""Multi-index hashing: hash tables over substrings of the codes, searched for every pattern of a few flipped bits.

The implementation of faiss spends about 260 ns per candidate on a set of the rows that were found already. This one
needs no such set: an earlier table has found a row exactly if that substring of the row differs in few enough bits.
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
RadiusRule = Callable[[NDArray[np.uint16]], int]

MAX_SUBSTRING_BITS = 24
_BATCH_QUERIES = 32  # with fewer queries the overhead of NumPy matters, with more nothing is gained
_MAX_CANDIDATES = 2**20  # of all queries that are handled together
_SCAN_SHARE = 8  # scanning is faster for a query whose candidates are more than 1 in so many rows
_SCAN_ROWS = 2**20
_DENSE_RATIO = 8  # a table has an entry for every possible key if these are at most so many per row


class Matches(NamedTuple):
    """Rows found for the queries in the slice ``queries``, each once per query; ``query`` counts from its start."""

    queries: slice
    query: NDArray[np.intp]
    distance: NDArray[np.int64]
    row: NDArray[np.int64]


class SubstringTables:
    """The rows of ``codes`` sorted by each of ``n_substrings`` disjoint substrings of ``substring_bits`` bits."""

    def __init__(self, codes: PackedCodes, n_substrings: int, substring_bits: int) -> None:
        self.n_substrings, self.substring_bits = n_substrings, substring_bits
        self._words = as_words(codes)
        self._tables = [_Table(self._substring(self._words, number), substring_bits) for number in range(n_substrings)]
        self._patterns: dict[int, Words] = {}

    def __len__(self) -> int:
        return len(self._words)

    @property
    def size(self) -> int:
        """Memory in bytes."""
        return sum(table.size for table in self._tables)

    def _worthwhile(self, flips: int) -> bool:
        """Whether searching the tables for all patterns of so many flips is less work than scanning the rows."""
        patterns = sum(comb(self.substring_bits, count) for count in range(min(flips, self.substring_bits) + 1))
        return self.n_substrings * patterns <= len(self)

    def candidates(self, queries: PackedCodes, flips: int, choose_radius: RadiusRule) -> Iterator[Matches]:
        """Yield, by parts of the queries, the rows with a substring that differs in at most ``flips`` bits.

        Where a query has so many of them that a scan is faster, it gets instead all rows within a radius.
        ``choose_radius`` returns that radius from the distances of all rows.
        """
        if not self._worthwhile(flips):
            yield from (self._scan(number, query, choose_radius) for number, query in enumerate(as_words(queries)))
            return
        words, patterns = as_words(queries), self._flipped(min(flips, self.substring_bits))
        for start in range(0, len(words), _BATCH_QUERIES):
            part = words[start : start + _BATCH_QUERIES]
            found = [
                table.bucket_ranges(self._substring(part, number), patterns)
                for number, table in enumerate(self._tables)
            ]
            totals = np.sum([counts.sum(axis=1) for _, counts in found], axis=0)
            for first, end in _query_ranges(totals, _MAX_CANDIDATES):
                if end - first == 1 and totals[first] > len(self) // _SCAN_SHARE:
                    yield self._scan(start + first, part[first], choose_radius)
                    continue
                near = [(begins[first:end], counts[first:end]) for begins, counts in found]
                yield self._matches(slice(start + first, start + end), part[first:end], near, flips)

    def _matches(self, place: slice, queries: Words, near: list[tuple[NDArray, NDArray]], flips: int) -> Matches:
        parts = []
        for number, (begins, counts) in enumerate(near):
            rows, query = self._tables[number].rows(begins, counts)
            difference = self._words[rows] ^ queries[query]
            for earlier in range(number):
                new = np.bitwise_count(self._substring(difference, earlier)) > flips
                rows, query, difference = rows[new], query[new], difference[new]
            parts.append((query, np.bitwise_count(difference).sum(axis=1, dtype=np.int64), rows.astype(np.int64)))
        query, distance, row = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Matches(place, query, distance, row)

    def _scan(self, number: int, query: Words, choose_radius: RadiusRule) -> Matches:
        blocks = row_blocks(len(self), _SCAN_ROWS)
        distances = np.concatenate([word_distances(query[None], self._words[block])[0] for block in blocks])
        rows = np.flatnonzero(distances <= choose_radius(distances))
        return Matches(
            slice(number, number + 1), np.zeros(len(rows), dtype=np.intp), distances[rows].astype(np.int64), rows
        )

    def _substring(self, words: Words, number: int) -> Words:
        """Return the bits of one substring as a number. Any bits will do as long as substrings are disjoint."""
        word, shift = divmod(number * self.substring_bits, 64)
        value = words[:, word] >> np.uint64(shift)
        if shift + self.substring_bits > 64:
            value = value | (words[:, word + 1] << np.uint64(64 - shift))
        return value & np.uint64((1 << self.substring_bits) - 1)

    def _flipped(self, flips: int) -> Words:
        if flips not in self._patterns:
            places = range(self.substring_bits)
            values = [
                sum(1 << bit for bit in bits) for count in range(flips + 1) for bits in combinations(places, count)
            ]
            self._patterns[flips] = np.array(values, dtype=np.uint64)
        return self._patterns[flips]


class _Table:
    """Row numbers sorted by key. The rows of one key form a bucket."""

    def __init__(self, keys: Words, key_bits: int) -> None:
        order = np.argsort(keys.astype(np.uint32), kind="stable")
        self._order = order.astype(np.int32 if len(keys) < 2**31 else np.int64)
        self._starts: NDArray | None = None
        self._keys: NDArray | None = None
        if 1 << key_bits <= _DENSE_RATIO * len(keys):
            counts = np.bincount(keys.astype(np.int64), minlength=1 << key_bits)
            self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(self._order.dtype)
        else:
            self._keys = keys[order].astype(np.uint32)

    @property
    def size(self) -> int:
        return self._order.nbytes + sum(array.nbytes for array in (self._starts, self._keys) if array is not None)

    def bucket_ranges(self, keys: Words, patterns: Words) -> tuple[NDArray, NDArray]:
        """Return begin and size (queries, patterns) of the bucket of every key with every pattern of bits flipped."""
        flipped = keys[:, None] ^ patterns
        if self._starts is not None:
            begins, ends = self._starts[flipped], self._starts[flipped + np.uint64(1)]
        else:
            assert self._keys is not None
            wanted = flipped.astype(np.uint32)
            begins, ends = np.searchsorted(self._keys, wanted), np.searchsorted(self._keys, wanted, side="right")
        return begins, ends - begins

    def rows(self, begins: NDArray, counts: NDArray) -> tuple[NDArray, NDArray[np.intp]]:
        """Return the rows in the buckets of ``bucket_ranges``, and the query of each."""
        hit = np.flatnonzero(counts)
        query, begins, counts = hit // counts.shape[1], begins.ravel()[hit], counts.ravel()[hit]
        ends = np.cumsum(counts, dtype=np.int64)
        places = np.repeat(begins - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
        return self._order[places], np.repeat(query, counts)


def _query_ranges(totals: NDArray, most: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges of queries that have at most ``most`` candidates in total, or are a single query."""
    first, total = 0, 0
    for number, count in enumerate(totals):
        if number > first and total + count > most:
            yield first, number
            first, total = number, 0
        total += int(count)
    yield first, len(totals)
