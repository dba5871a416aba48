"""Exact Hamming search: faiss scans packed codes, and Python threads share the queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from hashlearn.parallel import ordered_map, thread_count
from hashlearn.typing import Ids, PackedCodes

PartResult = TypeVar("PartResult")

_MAX_QUERIES = 1024  # per task; the results of a task are copied once more


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Limit faiss to the calling thread: on a busy machine its OpenMP threads were measured to be 50 times slower."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # for the calling thread only
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def over_queries(work: Callable[[Any], PartResult], queries: np.ndarray, n_jobs: int | None) -> list[PartResult]:
    """Call ``work`` on consecutive parts of the queries in threads and return the results in order."""
    size = max(1, min(_MAX_QUERIES, -(-len(queries) // thread_count(n_jobs))))
    parts = [queries[start : start + size] for start in range(0, len(queries), size)]

    def work_alone(part: np.ndarray) -> PartResult:
        with one_openmp_thread():
            return work(part)

    if len(parts) == 1:
        return [work_alone(parts[0])]
    return list(ordered_map(work_alone, parts, n_jobs))


def nearest(queries: PackedCodes, codes: PackedCodes, k: int) -> tuple[np.ndarray, Ids]:
    """Return distances (int32) and row numbers of the k nearest rows; ties are ranked by row number."""
    import faiss

    # The heap variant breaks ties by row number, also at the k-th place (tests/index compares it with brute force).
    # It reads any contiguous memory, so a mapped file needs no copy.
    distances, places = faiss.knn_hamming(queries, codes, k, variant="hc")
    return distances, places


def ball(queries: PackedCodes, codes: PackedCodes, radius: int) -> tuple[Ids, np.ndarray, Ids]:
    """Return lims, distances and row numbers of all rows at most ``radius`` away, in no particular order."""
    import faiss

    found = faiss.RangeSearchResult(len(queries))
    # faiss finds distances strictly below its radius.
    faiss.hamming_range_search(
        faiss.swig_ptr(queries), faiss.swig_ptr(codes), len(queries), len(codes), radius + 1, codes.shape[1], found
    )
    lims = faiss.rev_swig_ptr(found.lims, len(queries) + 1).astype(np.int64)
    total = int(lims[-1])
    if not total:
        return lims, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
    distances = faiss.rev_swig_ptr(found.distances, total).astype(np.int32)  # faiss returns floats
    return lims, distances, faiss.rev_swig_ptr(found.labels, total).astype(np.int64)
