"""Rankings of the database for blocks of queries, computed by threads.

Keys describe a ranking: one number per query and database row. A smaller key is nearer, and equal keys are ties. Keys
exist for one block of queries at a time, and only rows that can reach the cut-off are kept after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import as_words, word_distances
from hashlearn.kernel import as_matrix
from hashlearn.parallel import ordered_map, thread_count
from hashlearn.typing import IntArray, Metric

Progress = Callable[[int, int], None]
Result = TypeVar("Result")

# MEMORY_BYTES is for all blocks that are computed at the same time; a block has a few arrays (queries, database).
MEMORY_BYTES = 256 * 2**20
BLOCK_BYTES = 32 * 2**20
# Memory traffic limits XOR and popcount, so a tile of 64-bit words should fit in the cache.
_TILE_WORDS = 2**18
_TILE_COLUMNS = 2**16
# The cut-off distance is estimated from about this many database rows.
_SAMPLE_ROWS = 2048


class Keys(NamedTuple):
    """Distances by block of queries. ``exact`` says whether they are small non-negative integers."""

    n_queries: int
    n_database: int
    exact: bool
    block: Callable[[int, int], NDArray[Any]]


def hamming_keys(query_codes: NDArray[np.uint8], database_codes: NDArray[np.uint8]) -> Keys:
    """Return the Hamming distances between packed codes."""
    words = as_words(query_codes)
    # Column-major, because word_distances reads one word of all rows at a time.
    database = np.asfortranarray(as_words(database_codes))
    # Distances up to 255 fit in one byte, which halves the memory traffic of every later step.
    dtype = np.uint8 if 8 * query_codes.shape[1] <= 255 else np.uint16
    n_database = len(database)

    def block(start: int, stop: int) -> NDArray[Any]:
        keys = np.empty((stop - start, n_database), dtype=dtype)
        columns = max(1, min(_TILE_COLUMNS, n_database))
        rows = max(1, _TILE_WORDS // columns)
        for row in range(start, stop, rows):
            queries = words[row : min(row + rows, stop)]
            for column in range(0, n_database, columns):
                tile = word_distances(queries, database[column : column + columns])
                keys[row - start : row - start + len(queries), column : column + columns] = tile
        return keys

    return Keys(len(words), n_database, exact=True, block=block)


def float_keys(queries: NDArray[Any], database: NDArray[Any], metric: Metric) -> Keys:
    """Return negated similarities (or squared distances up to a constant per query) between float rows.

    Products are computed from the rows as given and norms are applied afterwards, so that rows of ±1 have exactly the
    ties of their codes.
    """
    if metric not in get_args(Metric):
        raise ValueError(f"metric must be 'cosine', 'euclidean' or 'dot'. Got {metric!r} instead.")
    norms = np.linalg.norm(database, axis=1)
    # A zero row has no direction, so its similarity to every row is 0.
    scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    offset = np.einsum("ij,ij->i", database, database) / 2

    def block(start: int, stop: int) -> NDArray[Any]:
        keys = queries[start:stop] @ database.T
        if metric == "cosine":
            keys *= scale
        np.negative(keys, out=keys)
        if metric == "euclidean":
            keys += offset
        return keys

    return Keys(len(queries), len(database), exact=False, block=block)


def check_floats(rows: ArrayLike, name: str) -> NDArray[Any]:
    """Check that rows are a finite 2-D array. float32 stays float32; other types become float64."""
    array = np.asarray(as_matrix(rows, name))
    if array.ndim != 2:
        raise ValueError(f"{name} must be a 2-D array. Got {array.ndim}-D instead.")
    if array.dtype != np.float32:
        array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must not contain NaN or infinity.")
    return array


def nearest(keys: NDArray[Any], need: int, at_least: int | None = None) -> tuple[IntArray, IntArray] | None:
    """Find the ``need`` smallest keys of each row with all their ties: their number per row, and their places.

    Keys up to ``at_least`` are included too. Places are those of the flattened keys, ascending. None means all places.
    The cut-off is estimated from a sample of the row and then checked; a full selection runs only where the estimate
    is too small.
    """
    n = keys.shape[1]
    stride = max(1, n // _SAMPLE_ROWS)
    sample = keys[:, ::stride]
    expected = need / stride
    # Three standard deviations above the expected rank, so that the estimate is seldom too small.
    rank = int(expected + 3 * np.sqrt(expected)) + 3
    # Selecting rows costs more than it saves if most of them are selected.
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
    """Return the number of true values per row, and their places in the flattened mask."""
    places = np.flatnonzero(mask)
    # Counting from the few places is much faster than count_nonzero along an axis.
    bounds = np.searchsorted(places, np.arange(len(mask) + 1) * mask.shape[1])
    return np.diff(bounds), places


def map_blocks(
    n_queries: int,
    bytes_per_query: int,
    work: Callable[[int, int], Result],
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Call ``work(start, stop)`` for blocks of queries and return the results in order.

    ``progress(done, total)`` is called after each block.
    """
    workers = thread_count(n_jobs)
    step = max(1, min(BLOCK_BYTES, MEMORY_BYTES // workers) // max(1, bytes_per_query))
    # Every worker gets a block, also where memory allows larger ones.
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
