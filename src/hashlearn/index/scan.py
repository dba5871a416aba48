"""Exact search over rows of packed bytes: by Hamming distance, or by scores that are sums of table entries.

There is one layout: a C-contiguous uint8 array (rows, bytes), in memory or mapped from a file. The compiled scan
(``_scan.c``) reads it. Where hashlearn was installed without a C compiler, faiss finds the nearest of all rows, and
NumPy does the rest. Results are ordered by (distance, row); the distance of a search by tables is minus the score.
``allowed`` is a bitmap of the rows to search, as ``np.packbits(mask, bitorder="little")`` makes it. Threads share the
queries, or the rows if there are fewer queries than threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import BitOrder, hamming_distances
from hashlearn.compiled import compiled_part
from hashlearn.parallel import row_blocks, thread_count
from hashlearn.typing import Float32Array, Ids, PackedCodes

_scan = compiled_part("hashlearn.index._scan")

Bitmap = NDArray[np.uint8]
WORD_BITS = (8, 12, 16)

_VARIABLE = "HASHLEARN_SCAN"
_BLOCK_ROWS = 2**24 if _scan is not None else 2**17  # per call: Ctrl-C waits for one call only; NumPy needs memory
_THREAD_WORK = 2**25  # rows x queries x bytes per thread; starting a thread takes as long as scanning less
_PART_QUERIES = 256  # per call: the compiled scan holds some kilobytes per query
_NO_RANK = 2**32 - 1  # above every rank, because scores are finite
_ROW_BITS = np.uint64(32)
_ROW_MASK = np.uint64(2**32 - 1)
_NO_KEY = np.uint64(2**64 - 1)
_SIGN, _OTHER_BITS = np.uint32(2**31), np.uint32(2**31 - 1)


class ScanInfo(NamedTuple):
    """Which kernel scans, why, and all kernels that this processor can run, the fastest first."""

    kernel: str
    reason: str
    runnable: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """Queries whose score of a row is a sum of table entries: one per nibble, and one for the leading word if given.

    Scores are added in float64, first the entry of the word, then the two entries of each byte from left to right, and
    rounded to float32. Real-valued queries, 4-bit product quantizers and codes with a leading label are special cases.

    Parameters
    ----------
    nibbles : float array (queries, 2 * bytes, 16)
        What each value of each nibble (4 bits) of a row adds to its score. Nibble 2 i is the high half of byte i.
    words : float array (queries, 2 ** bits), default=None
        What each value of the leading 8, 12 or 16 bits of a row adds, the first bit most significant. The tables of
        nibbles count for these bits too.

    Raises
    ------
    ValueError
        If the shapes are others, or entries are not finite or have sums that float32 cannot hold.
    """

    nibbles: Float32Array
    words: Float32Array | None = None

    def __post_init__(self) -> None:
        nibbles = np.ascontiguousarray(self.nibbles, dtype=np.float32)
        if nibbles.ndim != 3 or nibbles.shape[1] % 2 or nibbles.shape[1] == 0 or nibbles.shape[2] != 16:
            raise ValueError(f"nibbles must have the shape (queries, 2 * bytes, 16). Got {nibbles.shape} instead.")
        largest = np.abs(nibbles).max(axis=2).sum(axis=1, dtype=np.float64)
        object.__setattr__(self, "nibbles", nibbles)
        if self.words is not None:
            words = np.ascontiguousarray(self.words, dtype=np.float32)
            sizes = [(len(nibbles), 2**bits) for bits in WORD_BITS]
            if words.shape not in sizes or (words.shape[1] > 256 and nibbles.shape[1] < 4):
                raise ValueError(
                    f"words must have one of the shapes {', '.join(map(str, sizes))}, for words of 8, 12 or 16 bits "
                    f"that are no longer than a row. Got {words.shape} for rows of {nibbles.shape[1] // 2} bytes."
                )
            largest += np.abs(words).max(axis=1)
            object.__setattr__(self, "words", words)
        if not (largest < np.finfo(np.float32).max).all():
            raise ValueError("Entries of ScoreTables must be finite, and their sums must fit float32.")

    @classmethod
    def from_bits(cls, values: ArrayLike, bit_order: BitOrder = "big") -> ScoreTables:
        """Make the tables by which a row of signs h in {-1, +1} scores q.h, for queries q (queries, bits).

        Each entry, a sum of up to four numbers, is rounded to float32.
        """
        queries = np.asarray(values)
        width = -(-queries.shape[1] // 8)
        padded = np.zeros((len(queries), 8 * width))
        padded[:, : queries.shape[1]] = queries
        bits = padded.reshape(len(queries), width, 8)
        bits = (bits if bit_order == "big" else bits[:, :, ::-1]).reshape(len(queries), 2 * width, 4)
        signs = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1)[:, 4:] * 2.0 - 1.0
        with np.errstate(over="ignore"):  # infinity is refused
            return cls((bits @ signs.T).astype(np.float32))

    @property
    def word_bits(self) -> int:
        """Bits of the leading word that has a table; 0 without one."""
        return 0 if self.words is None else self.words.shape[1].bit_length() - 1

    def __len__(self) -> int:
        return len(self.nibbles)

    def scores(self, codes: PackedCodes) -> Float32Array:
        """Return the scores of all rows (queries, rows), for few rows: a search finds the best of many."""
        return np.stack([_scores(codes, self, number) for number in range(len(self))]).astype(np.float32)


class Groups(NamedTuple):
    """Where the rows of each group begin, and the end; the number by which each row is known and ranked in ties.

    ``chosen`` (queries, any number) are the groups to search for each query. None searches all groups by tables whose
    leading word is the group, and skips those that cannot hold a result.
    """

    starts: NDArray[np.int64]
    numbers: NDArray[np.uint32]
    chosen: NDArray[np.int32] | None = None


class Best(NamedTuple):
    """The k best rows (queries, k). Empty places at the end have the row -1.

    ``distances`` are int32 with -1 in empty places, or, by tables, minus the scores: float32 with infinity there.
    ``skipped`` is the number of rows per query that were not looked at because of their group.
    """

    distances: NDArray[Any]
    rows: Ids
    skipped: Ids


class Inside(NamedTuple):
    """All rows inside a limit; those of query q are at ``offsets[q]:offsets[q + 1]``."""

    offsets: Ids
    distances: NDArray[Any]
    rows: Ids


def scan_info() -> ScanInfo:
    """Return which kernel scans and why. The environment variable HASHLEARN_SCAN forces another one.

    Raises
    ------
    ValueError
        If the variable names a kernel that this processor cannot run.
    """
    if _scan is None:
        return ScanInfo("faiss", "hashlearn was installed without a C compiler", ("faiss",))
    runnable, wanted = tuple(_scan.runnable()), os.environ.get(_VARIABLE)
    if not wanted:
        return ScanInfo(runnable[0], "it is the fastest that this processor can run", runnable)
    if wanted not in runnable:
        names = ", ".join(map(repr, runnable))
        raise ValueError(f"{_VARIABLE} must be one of {names} on this processor. Got {wanted!r} instead.")
    return ScanInfo(wanted, f"{_VARIABLE} is set", runnable)


def bitmap(rows: NDArray[np.integer], n_rows: int) -> Bitmap:
    """Return the bitmap of some of ``n_rows`` rows, which are in increasing order."""
    packed = [np.empty(0, dtype=np.uint8)]
    for block in row_blocks(n_rows, _BLOCK_ROWS):
        begin, end = np.searchsorted(rows, (block.start, block.stop))
        mask = np.zeros(block.stop - block.start, dtype=bool)
        mask[rows[begin:end] - block.start] = True
        packed.append(np.packbits(mask, bitorder="little"))
    return np.concatenate(packed)


def nearest(
    codes: PackedCodes,
    queries: PackedCodes | ScoreTables,
    k: int,
    allowed: Bitmap | None = None,
    groups: Groups | None = None,
    n_jobs: int | None = 1,
) -> Best:
    """Find the k rows of each query that are nearest or, by tables, have the highest scores."""
    search, skipped = _Search(codes, queries, allowed, groups), np.zeros(len(queries), dtype=np.int64)

    def best(part: _Part) -> _Table:
        held = _no_rows(part.n_queries, k)
        for number, rows in enumerate(part.blocks(groups)):
            looked = _look(search, part.queries, rows, np.ascontiguousarray(held[0][:, -1]), k)
            skipped[part.queries] += looked.skipped
            found = _table(looked, rows.start, k)
            held = _least([held, found], k) if number else found
        return held

    parts = _parts(codes, len(queries), groups, n_jobs) if k else []
    tables = _in_threads(best, parts, n_jobs)
    if len(parts) > 1 and parts[0].queries == parts[1].queries:  # threads shared the rows, not the queries
        tables = [_least(tables, k)]
    ranks, rows = map(np.concatenate, zip(*tables, strict=True)) if tables else _no_rows(len(queries), k)
    empty = np.float32(np.inf) if isinstance(queries, ScoreTables) else np.int32(-1)
    return Best(np.where(rows < 0, empty, _distances(queries, ranks)), rows, skipped)


def within(
    codes: PackedCodes,
    queries: PackedCodes | ScoreTables,
    limit: float,
    allowed: Bitmap | None = None,
    n_jobs: int | None = 1,
) -> Inside:
    """Find all rows at most ``limit`` bits away from each query or, by tables, all with at least this score."""
    search = _Search(codes, queries, allowed, None)
    limit_rank = 1 + (_rank(limit) if isinstance(queries, ScoreTables) else int(limit))

    def inside(part: _Part) -> list[tuple[Any, Any, Any]]:
        triples = []
        for block in part.blocks(None):
            found = _look(search, part.queries, block, np.full(part.n_queries, limit_rank), 0)
            query = np.repeat(np.arange(part.queries.start, part.queries.stop), found.numbers)
            triples.append((query, *_ranks_and_rows(found.keys, block.start)))
        return triples

    none = np.empty(0, dtype=np.int64)
    found = _in_threads(inside, _parts(codes, len(queries), None, n_jobs), n_jobs)
    triples = [(none, none, none)] + [triple for some in found for triple in some]
    query, ranks, rows = (np.concatenate(arrays) for arrays in zip(*triples, strict=True))
    order = np.lexsort((rows, ranks, query))
    offsets = np.searchsorted(query[order], np.arange(len(queries) + 1))
    return Inside(offsets, _distances(queries, ranks[order]), rows[order])


# ---- Looking at rows. A key is rank << 32 | row; less is better. ----

Keys = NDArray[np.uint64]

# Ranks and rows (queries, k), sorted; empty places have the row -1 and a rank above all others.
_Table = tuple[NDArray[np.int64], Ids]


class _Search(NamedTuple):
    """What is searched by what."""

    codes: PackedCodes
    queries: PackedCodes | ScoreTables
    allowed: Bitmap | None
    groups: Groups | None


class _Looked(NamedTuple):
    """The number of keys of each query, the keys of all queries in no order, and how many rows were skipped."""

    numbers: NDArray[np.int64]
    keys: Keys
    skipped: NDArray[np.int64] | int = 0


def _look(search: _Search, part: slice, rows: slice, limits: NDArray[np.int64], k: int) -> _Looked:
    """Find the keys of the k best of these rows (all if k is 0) for a part of the queries, with ranks below limits."""
    if _scan is not None:
        return _look_compiled(search, part, rows, limits, k)
    if not k or search.allowed is not None or search.groups is not None or isinstance(search.queries, ScoreTables):
        return _look_in_numpy(search, part, rows, limits, k)
    return _look_with_faiss(search.codes[rows], search.queries[part], limits, k)


def _look_compiled(search: _Search, part: slice, rows: slice, limits: NDArray[np.int64], k: int) -> _Looked:
    codes, queries, allowed, groups = search
    _scan.use(scan_info().kernel)
    starts, numbers, chosen = groups or (None, None, None)
    bits = None if allowed is None else allowed[rows.start // 8 : -(-rows.stop // 8)]
    arrays: list[Any] = [queries, None, None]
    if isinstance(queries, ScoreTables):
        arrays = [None, queries.nibbles, queries.words]
    asked = [None if array is None else array[part] for array in arrays]
    some = None if chosen is None else np.ascontiguousarray(chosen[part])
    found, keys, seen = _scan.scan(codes[rows], codes.shape[1], bits, numbers, *asked, starts, some, limits, k)
    skipped = rows.stop - rows.start - np.frombuffer(seen, dtype=np.int64)
    return _Looked(np.frombuffer(found, dtype=np.int64), np.frombuffer(keys, dtype=np.uint64), skipped)


def _look_with_faiss(codes: PackedCodes, queries: PackedCodes, limits: NDArray[np.int64], k: int) -> _Looked:
    """Find the k nearest of all rows: faiss orders ties by row."""
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # the queries are shared out already
    try:
        distances, places = faiss.knn_hamming(np.ascontiguousarray(queries), codes, min(k, len(codes)))
    finally:
        faiss.omp_set_num_threads(threads)
    near = distances < limits[:, None]
    keys = distances.astype(np.uint64) << _ROW_BITS | places.astype(np.uint64)
    return _Looked(near.sum(axis=1), keys[near])


def _look_in_numpy(search: _Search, part: slice, rows: slice, limits: NDArray[np.int64], k: int) -> _Looked:
    found, here, places, groups = [], search.codes[rows], None, search.groups
    if search.allowed is not None:
        bits = np.unpackbits(search.allowed[rows.start // 8 :], count=len(here), bitorder="little")
        places = np.flatnonzero(bits)
    for number, limit in zip(range(part.start, part.stop), limits, strict=True):
        if groups is not None and groups.chosen is not None:
            ends = [groups.starts[one : one + 2] for one in groups.chosen[number]]
            places = np.concatenate([np.arange(*both) for both in ends] + [np.arange(0)])
        ranks = _ranks(here if places is None else here[places], search.queries, number)
        near = np.flatnonzero(ranks < limit)
        known: NDArray[Any] = near if places is None else places[near]
        known = known if groups is None else groups.numbers[known]
        keys = ranks[near].astype(np.uint64) << _ROW_BITS | known.astype(np.uint64)
        found.append(np.partition(keys, k - 1)[:k] if 0 < k < len(keys) else keys)
    return _Looked(np.array([len(keys) for keys in found], dtype=np.int64), np.concatenate(found))


def _ranks(codes: PackedCodes, queries: PackedCodes | ScoreTables, number: int) -> NDArray[np.integer]:
    """Return the ranks of rows for one query."""
    if not isinstance(queries, ScoreTables):
        return hamming_distances(queries[number : number + 1], codes)[0]
    return _rank(_scores(codes, queries, number)).astype(np.int64)


def _scores(codes: PackedCodes, queries: ScoreTables, number: int) -> NDArray[np.float64]:
    """Return the scores of rows for one query, not rounded yet."""
    high, low = queries.nibbles[number, ::2].astype(np.float64), queries.nibbles[number, 1::2].astype(np.float64)
    entries = (high[:, :, None] + low[:, None, :]).reshape(-1, 256)
    scores = np.zeros(len(codes))
    if queries.words is not None:
        scores += queries.words[number, leading_words(codes, queries.word_bits)]
    for table, column in zip(entries, np.ascontiguousarray(codes.T), strict=True):
        scores += table[column]
    return scores


def leading_words(codes: PackedCodes, word_bits: int) -> NDArray[np.uint16]:
    """Return the leading bits of each row as a number."""
    if word_bits == 8:
        return codes[:, 0].astype(np.uint16)
    return (codes[:, 0].astype(np.uint16) << np.uint16(8) | codes[:, 1]) >> np.uint16(16 - word_bits)


def _rank(scores: Any) -> Any:
    """Return the ranks of scores rounded to float32: larger scores have smaller ranks (see rank_of in _scan.c)."""
    bits = (np.asarray(scores).astype(np.float32) + np.float32(0)).view(np.uint32)
    return np.where(bits & _SIGN, bits, bits ^ _OTHER_BITS).astype(np.int64)


def _distances(queries: PackedCodes | ScoreTables, ranks: NDArray[np.int64]) -> NDArray[Any]:
    if not isinstance(queries, ScoreTables):
        return ranks.astype(np.int32)
    bits = ranks.astype(np.uint32)
    return np.float32(0) - np.where(bits & _SIGN, bits, bits ^ _OTHER_BITS).astype(np.uint32).view(np.float32)


# ---- Parts of the work ----


class _Part(NamedTuple):
    """A task of one thread."""

    queries: slice
    first: int
    end: int

    @property
    def n_queries(self) -> int:
        return self.queries.stop - self.queries.start

    def blocks(self, groups: Groups | None) -> list[slice]:
        """Return the rows of each call: all if they have groups, otherwise from a multiple of 8 on, for filters."""
        size = _BLOCK_ROWS if groups is None else max(self.end, 1)
        return [slice(begin, min(begin + size, self.end)) for begin in range(self.first, self.end, size)]


def _parts(codes: PackedCodes, n: int, groups: Groups | None, n_jobs: int | None) -> list[_Part]:
    threads = min(thread_count(n_jobs), max(1, n * codes.size // _THREAD_WORK))
    if 0 < n < threads and groups is None:
        size = -(-len(codes) // threads // 64) * 64
        return [_Part(slice(0, n), begin, min(begin + size, len(codes))) for begin in range(0, len(codes), size)]
    size = min(_PART_QUERIES, max(1, -(-n // threads)))
    return [_Part(slice(begin, min(begin + size, n)), 0, len(codes)) for begin in range(0, n, size)]


def _in_threads(work: Callable[[_Part], Any], parts: list[_Part], n_jobs: int | None) -> list[Any]:
    threads = min(len(parts), thread_count(n_jobs))
    if threads <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))


def _ranks_and_rows(keys: Keys, first: int) -> tuple[NDArray[np.int64], Ids]:
    return (keys >> _ROW_BITS).astype(np.int64), (keys & _ROW_MASK).astype(np.int64) + first


def _no_rows(n_queries: int, k: int) -> _Table:
    return np.full((n_queries, k), _NO_RANK), np.full((n_queries, k), -1)


def _table(looked: _Looked, first: int, k: int) -> _Table:
    """Return sorted ranks and rows."""
    keys = np.full((len(looked.numbers), k), _NO_KEY)
    keys[np.arange(k) < looked.numbers[:, None]] = looked.keys
    keys.sort(axis=1)
    ranks, rows = _ranks_and_rows(keys, first)
    return ranks, np.where(keys == _NO_KEY, -1, rows)


def _least(found: list[_Table], k: int) -> _Table:
    """Merge the k best of several parts of the rows."""
    ranks, rows = (np.concatenate(arrays, axis=1) for arrays in zip(*found, strict=True))
    order = np.lexsort((rows, ranks), axis=1)[:, :k]
    return np.take_along_axis(ranks, order, axis=1), np.take_along_axis(rows, order, axis=1)
