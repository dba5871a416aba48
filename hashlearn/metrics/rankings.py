"""Who is near whom: blocks of queries against the database, run by threads.

A ranking is described by its keys: one number per query and database row, smaller is nearer, equal is
tied. Keys exist for one block of queries at a time, and only the rows that can reach the cut-off leave
the block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import as_words, unpack_signs, word_distances
from hashlearn.parallel import ordered_map, thread_count
from hashlearn.typing import IntArray

Metric = Literal["cosine", "euclidean", "dot"]
Progress = Callable[[int, int], None]
Result = TypeVar("Result")

# All blocks in flight together; a block holds a few arrays of (queries, database).
MEMORY_BYTES = 256 * 2**20
BLOCK_BYTES = 32 * 2**20
# XOR and popcount are bound by memory traffic: a tile of 64-bit words should stay in the cache.
_TILE_WORDS = 2**18
_TILE_COLUMNS = 2**16
# The cut-off distance is guessed from about this many database rows.
_SAMPLE_ROWS = 2048


class Keys(Protocol):
    """Distances by block. ``exact`` says that they are small non-negative integers."""

    n_queries: int
    n_database: int
    exact: bool

    def block(self, start: int, stop: int) -> NDArray[Any]: ...


class HammingKeys:
    """Hamming distances between packed codes."""

    exact = True

    def __init__(self, queries: NDArray[np.uint8], database: NDArray[np.uint8]) -> None:
        self.n_queries, self.n_database = len(queries), len(database)
        self._queries = as_words(queries)
        # Each word of all rows side by side, since word_distances reads one word at a time.
        self._database = np.asfortranarray(as_words(database))
        # Distances of up to 255 in one byte: every later pass reads half as much.
        self._dtype = np.uint8 if 8 * queries.shape[1] <= 255 else np.uint16

    def block(self, start: int, stop: int) -> NDArray[Any]:
        keys = np.empty((stop - start, self.n_database), dtype=self._dtype)
        columns = max(1, min(_TILE_COLUMNS, self.n_database))
        rows = max(1, _TILE_WORDS // columns)
        for row in range(start, stop, rows):
            queries = self._queries[row : min(row + rows, stop)]
            for column in range(0, self.n_database, columns):
                tile = word_distances(queries, self._database[column : column + columns])
                keys[row - start : row - start + len(queries), column : column + columns] = tile
        return keys


class FloatKeys:
    """Negated similarities (or squared distances up to a constant a query) between float rows.

    The products are taken on the rows as given, and norms applied afterwards, so that rows of ±1 tie exactly as
    their codes do.
    """

    exact = False

    def __init__(self, queries: NDArray[Any], database: NDArray[Any], metric: Metric) -> None:
        self.n_queries, self.n_database = len(queries), len(database)
        self._queries, self._database = queries, database
        self._offset: NDArray[Any] | None = None
        self._scale: NDArray[Any] | None = None
        if metric == "euclidean":
            self._offset = np.einsum("ij,ij->i", database, database) / 2
        elif metric == "cosine":
            norms = np.linalg.norm(database, axis=1)
            # A zero row has no direction: similarity 0 to everything.
            self._scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
        elif metric != "dot":
            raise ValueError(f"metric must be 'cosine', 'euclidean' or 'dot'. Got {metric!r} instead.")

    def block(self, start: int, stop: int) -> NDArray[Any]:
        keys = self._queries[start:stop] @ self._database.T
        if self._scale is not None:
            keys *= self._scale
        np.negative(keys, out=keys)
        if self._offset is not None:
            keys += self._offset
        return keys


def asymmetric_keys(queries: NDArray[Any], database: NDArray[np.uint8], n_bits: int) -> FloatKeys:
    """Real-valued queries against packed codes, ranked by −q·h."""
    return FloatKeys(queries, unpack_signs(database, n_bits).astype(queries.dtype), "dot")


def check_floats(rows: ArrayLike, name: str) -> NDArray[Any]:
    """The rows as a finite 2-D array; float32 stays float32, all else becomes float64."""
    array = np.asarray(rows)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a 2-D array. Got {array.ndim}-D instead.")
    if array.dtype != np.float32:
        array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must not contain NaN or infinity.")
    return array


def nearest(keys: NDArray[Any], need: int, at_least: int | None = None) -> tuple[IntArray, IntArray] | None:
    """Where the ``need`` smallest keys of each row are, with all their ties: how many in each row, and their places.

    Keys of up to ``at_least`` are included too. Places are those of the flattened keys, ascending. None stands for all
    places. The cut-off is guessed from a sample of the row, then checked: a full selection runs only where the guess
    was too small.
    """
    n = keys.shape[1]
    stride = max(1, n // _SAMPLE_ROWS)
    sample = keys[:, ::stride]
    expected = need / stride
    # Three standard deviations above the expected rank, so that the guess seldom fails.
    rank = int(expected + 3 * np.sqrt(expected)) + 3
    # Picking out rows costs more than it saves when most of them are picked.
    if 2 * need >= n or 2 * rank >= sample.shape[1]:
        return None
    cuts = np.partition(sample, rank, axis=1)[:, rank]
    if at_least is not None:
        cuts = np.maximum(cuts, min(at_least, np.iinfo(keys.dtype).max)).astype(keys.dtype)
    near = keys <= cuts[:, None]
    counts, places = true_places(near)
    short = np.flatnonzero(counts < need)
    if not len(short):
        return counts, places
    for row in short:
        near[row] = keys[row] <= np.partition(keys[row], need - 1)[need - 1]
    return true_places(near)


def true_places(mask: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """How many values of each row are true, and their places in the flattened mask."""
    places = np.flatnonzero(mask)
    # Counting from the places, which are few, is far cheaper than count_nonzero along an axis.
    bounds = np.searchsorted(places, np.arange(len(mask) + 1) * mask.shape[1])
    return np.diff(bounds), places


def map_blocks(
    n_queries: int,
    bytes_a_query: int,
    work: Callable[[int, int], Result],
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """``work(start, stop)`` over blocks of queries, in order. ``progress(done, total)`` after each block."""
    workers = thread_count(n_jobs)
    step = max(1, min(BLOCK_BYTES, MEMORY_BYTES // workers) // max(1, bytes_a_query))
    # Enough blocks for every worker, whatever memory would allow.
    step = min(step, -(-n_queries // workers))
    starts = range(0, n_queries, max(1, step))
    results = []
    for start, result in zip(
        starts, ordered_map(lambda start: work(start, min(start + step, n_queries)), starts, n_jobs), strict=True
    ):
        results.append(result)
        if progress is not None:
            progress(min(start + step, n_queries), n_queries)
    return results
