"""Find the codes that can be among the best of an asymmetric search by a scan with tables rounded to 8 bits.

Both scans look up one nibble of many codes at once in processor registers, and both report up to which score their
answer is complete. The compiled scan (``_nibbles.c``) is several times as fast as the scan of faiss. The latter is used
where the package was installed without a compiler or the processor has no AVX2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.compiled import compiled_part
from hashlearn.typing import Float32Array, Ids, PackedCodes

_nibbles = compiled_part("hashlearn.index._nibbles")

Tables = NDArray[np.float64]

ATTEMPTS = 2
_MIN_CODES = 8192  # scoring fewer codes takes no longer than scanning them
_LANES = 32
_SAMPLE = 4096  # codes; a multiple of _LANES
_MAX_CANDIDATES = 16384
_BATCH_CANDIDATES = 2**16  # of all queries that are ranked in one batch

# The signs of the 16 values of a nibble, lowest bit first.
_SIGNS = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1, count=4, bitorder="little") * 2.0 - 1.0


@dataclass
class Candidates:
    """Places and scores (queries, candidates) of codes; a query with fewer candidates has infinite scores at the end.

    Every code that scores below ``complete`` (queries,) is among the candidates. ``complete`` is -inf where the scan
    proves nothing.
    """

    places: Ids
    scores: Float32Array
    complete: NDArray[np.float64]


def fast_scan(codes: PackedCodes) -> CompiledScan | FaissScan | None:
    """Return the fastest scan that can run here, or None if there are too few codes for a scan to save time."""
    if len(codes) < _MIN_CODES:
        return None
    return CompiledScan(codes) if compiled() else FaissScan(codes)


def compiled() -> bool:
    """Whether the compiled scan can run on this machine."""
    return _nibbles is not None and _nibbles.usable()


class CompiledScan:
    """Scan that scores codes that may be among the k best; a sample of the codes gives the first threshold."""

    def __init__(self, codes: PackedCodes) -> None:
        self._count = len(codes)
        self._planes = _in_planes(codes)
        self._sample = _in_planes(codes[:: len(codes) // _SAMPLE][:_SAMPLE])

    def batch_size(self, k: int, attempt: int) -> int:
        """Number of queries per call of ``candidates``; 0 if scoring all codes takes no longer."""
        return max(1, _BATCH_CANDIDATES // self._capacity(k)) if 8 * k <= self._count else 0

    def _capacity(self, k: int) -> int:
        return 2 * k + 1024

    def candidates(self, queries: NDArray[np.float32], tables: Tables, k: int, attempt: int) -> Candidates:
        shape = (len(queries), self._capacity(k))
        places, scores = np.zeros(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
        found = np.empty(len(queries), dtype=np.int64)
        known = (self._planes, self._count, self._sample)
        _nibbles.nearest(*known, queries, tables, k, 8.0**attempt, places, scores, found)
        most = max(int(found.max()), 1)
        places, scores = places[:, :most], scores[:, :most]
        scores[np.arange(most) >= found[:, None]] = np.inf
        return Candidates(places, scores, np.where(found >= 0, np.inf, -np.inf))


def _in_planes(codes: PackedCodes) -> NDArray[np.uint8]:
    """Arrange codes in blocks of 32, padded with zeros; in a block, byte 0 of all codes comes first, then byte 1."""
    whole = len(codes) // _LANES
    planes = np.zeros((-(-len(codes) // _LANES), codes.shape[1], _LANES), dtype=np.uint8)
    planes[:whole] = codes[: whole * _LANES].reshape(whole, _LANES, codes.shape[1]).transpose(0, 2, 1)
    rest = codes[whole * _LANES :].T
    planes[whole:, :, : rest.shape[1]] = rest
    return planes


class FaissScan:
    """Scan by a faiss product quantizer whose 16 centroids per nibble are the 16 sign patterns: its distances are q.h.

    It returns the best codes by their rounded scores. The error of the rounding has a known bound.
    """

    def __init__(self, codes: PackedCodes) -> None:
        import faiss

        self._codes = codes
        n_nibbles = 2 * codes.shape[1]
        quantizer: Any = faiss.IndexPQ(4 * n_nibbles, n_nibbles, 4, faiss.METRIC_INNER_PRODUCT)
        patterns = _SIGNS.astype(np.float32)
        faiss.copy_array_to_vector(np.tile(patterns, (n_nibbles, 1)).ravel(), quantizer.pq.centroids)
        faiss.copy_array_to_vector(codes.ravel(), quantizer.codes)
        quantizer.ntotal, quantizer.is_trained = len(codes), True
        self._index = faiss.IndexPQFastScan(quantizer)

    def batch_size(self, k: int, attempt: int) -> int:
        """Number of queries per call of ``candidates``; 0 if there are too few codes or too many candidates."""
        count = self._capacity(k, attempt)
        return max(1, _BATCH_CANDIDATES // count) if count <= min(_MAX_CANDIDATES, len(self._codes)) else 0

    def _capacity(self, k: int, attempt: int) -> int:
        return (2 * k + 64, 16 * k + 512)[attempt]

    def candidates(self, queries: NDArray[np.float32], tables: Tables, k: int, attempt: int) -> Candidates:
        near, places = self._index.search(queries, self._capacity(k, attempt))
        # Rounding changes each entry by at most half a step. Twice that also covers the float32 sums of faiss.
        size = np.abs(queries, dtype=np.float64)
        nibbles = size.reshape(len(queries), size.shape[1] // 4, 4).sum(axis=2)
        error = nibbles.shape[1] * 2 * nibbles.max(axis=1) / 255 + 1e-5 * size.sum(axis=1)
        full = places[:, -1] >= 0  # faiss finds nothing for a query of zeros
        complete = np.where(full, -near[:, -1].astype(np.float64) - error, -np.inf)
        return Candidates(places, score_codes(self._codes[places], tables), complete)


def score_tables(projections: NDArray[np.float32]) -> Tables:
    """Return tables whose entry [q, b, v] is what the value v of byte b adds to -q.h."""
    queries = projections.reshape(len(projections), projections.shape[1] // 8, 8).astype(np.float64)
    tables = np.empty((*queries.shape[:2], 256))
    tables[..., 0] = queries.sum(axis=2)  # all signs -1
    for bit in range(8):  # setting a bit subtracts 2 q; a matrix product would take several times as long
        half = 1 << bit
        np.subtract(tables[..., :half], 2 * queries[..., bit : bit + 1], out=tables[..., half : 2 * half])
    return tables


def score_codes(codes: PackedCodes, tables: Tables) -> Float32Array:
    """Score codes (queries, codes, bytes). The order of additions is fixed, so equal codes always get equal scores."""
    n_queries, n_bytes = tables.shape[:2]
    entries, begins = tables.ravel(), (256 * n_bytes * np.arange(n_queries))[:, None]
    scores = entries.take(codes[..., 0] + begins)
    for byte in range(1, n_bytes):
        scores += entries.take(codes[..., byte] + (begins + 256 * byte))
    return scores.astype(np.float32)
