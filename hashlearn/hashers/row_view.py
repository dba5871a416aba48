"""What the pass over the rows sees of a block before any code is known: its labelled rows' features and their sums.

The first blocks can be seen while the anchors are still learned, by the cores that learning leaves idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.chunks.grouping import Groups
from hashlearn.chunks.job import Job
from hashlearn.chunks.sources import AnySource, Cut
from hashlearn.hashers.sums import block_rows
from hashlearn.kernel import FeatureMap
from hashlearn.parallel import one_blas_thread, row_blocks, thread_count

AHEAD_ROWS = 8192  # whose features may wait for the anchors: as many as two large blocks have


@dataclass
class Block:
    """Centred features ``x`` of the rows that have a label, their groups, and sums that the hash function needs."""

    supervised: NDArray[np.intp]
    group: NDArray[np.intp]
    x: NDArray[np.float32]
    xx: NDArray[np.float32]
    total: NDArray[np.float64]
    """Of the features of all rows."""


@dataclass
class View:
    """How tasks see rows: their groups, and their features minus a provisional centre, a block at a time."""

    features: FeatureMap
    groups: Groups
    block_rows: int
    center: Future[NDArray[np.float32]] = field(default_factory=Future)
    """Comes from the anchors' features, so it may be waited for."""
    ahead: dict[int, Future[Block]] = field(default_factory=dict)
    """Blocks under way or seen already, by their first row."""

    @classmethod
    def of(cls, source: AnySource, features: FeatureMap, groups: Groups) -> Self:
        assert source.n_rows is not None
        return cls(features, groups, block_rows(source.n_rows))

    def __getstate__(self) -> dict[str, Any]:
        """For other processes, which get the centre and see all blocks themselves."""
        return {**self.__dict__, "center": self.center.result(), "ahead": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, center=Future())
        self.center.set_result(state["center"])

    def block(self, cut: Cut, rows: slice) -> Block:
        early = self.ahead.pop(rows.start, None)
        return self._see(cut, rows) if early is None or early.cancelled() else early.result()

    def _see(self, cut: Cut, rows: slice) -> Block:
        with one_blas_thread():
            group = self.groups.of(cut.read_labels(rows.start, rows.stop))
            x = self.features.map_block(cut.read(rows.start, rows.stop))
            x -= self.center.result()
            total = x.sum(axis=0, dtype=np.float64)
            supervised = np.flatnonzero(group >= 0)
            if len(supervised) < len(x):
                x = x[supervised]
            return Block(supervised, group[supervised], x, x.T @ x, total)

    @contextmanager
    def head_start(self, source: AnySource, job: Job) -> Iterator[None]:
        """While the caller learns the anchors, one thread less than the job has sees the first blocks.

        Only of rows that this process can read piece by piece, and that no checkpoint may have done with already.
        """
        threads = thread_count(job.n_jobs) - 1
        if threads < 1 or job.executor is not None or job.checkpoint.path is not None or not source.cheap:
            yield
            return
        assert source.n_rows is not None
        count = max(threads, AHEAD_ROWS // self.block_rows)
        pool = ThreadPoolExecutor(threads)
        try:
            for rows in row_blocks(source.n_rows, self.block_rows)[:count]:
                cut = next(source.cuts(self.block_rows, rows.start, rows.stop))
                self.ahead[rows.start] = pool.submit(self._see, cut, rows)
            yield
        except BaseException as error:
            if not self.center.done():
                self.center.set_exception(error)
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
