"""What the pass over the rows sees of a block before any code is known: its labelled rows' features and their sums.

The first blocks can be seen while the anchors are still learned. Of few rows all are seen before any is coded, and what
the hash function needs of their features alone is worked out beside the codes: else cores would be idle at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.fitting.grouping import Groups
from hashlearn.fitting.job import Job
from hashlearn.fitting.sources import AnySource, Cut
from hashlearn.fitting.sums import block_rows
from hashlearn.functions.linear import Gram, RidgeFactor, factorised
from hashlearn.kernel import FeatureMap
from hashlearn.parallel import one_blas_thread, row_blocks, thread_count

AHEAD_ROWS = 8192  # whose features may wait for the anchors: as many as two large blocks have
FEW_ROWS = 16384  # so few that the features of all of them may wait


@dataclass
class Block:
    """Centred features ``x`` of the rows that have a label, their groups, and sums that the hash function needs."""

    supervised: NDArray[np.intp]
    group: NDArray[np.intp]
    x: NDArray[np.float32]
    gram: Gram
    n_rows: int
    total: NDArray[np.float64]
    """Of all rows, with a label or not, and of their features."""


@dataclass
class View:
    """How tasks see rows: their groups, and their features minus a provisional centre, a block at a time."""

    features: FeatureMap
    groups: Groups
    block_rows: int
    center: Future[NDArray[np.float32]] = field(default_factory=Future)
    """Comes from the anchors' features, so it may be waited for."""
    ahead: dict[int, Future[Block]] = field(default_factory=dict)
    """Blocks that the pass has not asked for yet, by their first row."""
    factor: Future[RidgeFactor] | None = None
    """Of the features of all rows, where somebody gathers them: the pass need not."""
    then: Callable[[], None] | None = None
    """What to do as soon as the centre is known."""

    @classmethod
    def of(cls, source: AnySource, features: FeatureMap, groups: Groups) -> Self:
        assert source.n_rows is not None
        return cls(features, groups, block_rows(source.n_rows))

    def __getstate__(self) -> dict[str, Any]:
        """For other processes, which get the centre and see all blocks themselves."""
        return {"view": (self.features, self.groups, self.block_rows), "center": self.center.result()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["view"])  # type: ignore[misc]
        self.center.set_result(state["center"])

    def set_center(self, center: NDArray[np.float32]) -> None:
        self.center.set_result(center)
        if self.then is not None:
            self.then()

    def block(self, cut: Cut, rows: slice) -> Block:
        early = self.ahead.pop(rows.start, None)
        return self._see(cut, rows) if early is None else early.result()

    def _see(self, cut: Cut, rows: slice) -> Block:
        with one_blas_thread():
            group = self.groups.of(cut.read_labels(rows.start, rows.stop))
            x = self.features.map_block(cut.read(rows.start, rows.stop))
            x -= self.center.result()
            supervised = np.flatnonzero(group >= 0)
            if len(supervised) == len(x):
                gram = Gram.of(x)
                return Block(supervised, group, x, gram, len(x), gram.x)
            labelled = x[supervised]
            total = x.sum(axis=0, dtype=np.float64)
            return Block(supervised, group[supervised], labelled, Gram.of(labelled), len(x), total)

    @contextmanager
    def head_start(self, source: AnySource, job: Job, ridge: float | str | None) -> Iterator[None]:
        """While the caller learns the anchors, the job's threads see the first blocks, and go on with the job after it.

        Only of rows that this process can read piece by piece, and that no checkpoint may have done with already.
        ``ridge`` is None where no factor is needed.
        """
        threads = thread_count(job.n_jobs)
        if threads < 2 or job.executor is not None or job.checkpoint.path is not None or not source.cheap:
            yield
            return
        assert source.n_rows is not None
        blocks = row_blocks(source.n_rows, self.block_rows)
        few = source.n_rows <= FEW_ROWS
        if not few:
            blocks = blocks[: max(threads, AHEAD_ROWS // self.block_rows)]
        with ThreadPoolExecutor(threads) as pool, ThreadPoolExecutor(1) as gatherer:

            def see(some: list[slice]) -> None:
                for rows in some:
                    cut = next(source.cuts(self.block_rows, rows.start, rows.stop))
                    self.ahead[rows.start] = pool.submit(self._see, cut, rows)

            def see_rest() -> None:
                see(blocks[threads - 1 :])
                if few and ridge is not None:
                    self.factor = gatherer.submit(self._gather, deque(self.ahead.values()), ridge)

            try:
                # All wait for the centre, which the caller works out: until then one core is left to that.
                see(blocks[: threads - 1])
                self.then, job.pool = see_rest, pool
                yield
            except BaseException as error:
                if not self.center.done():
                    self.center.set_exception(error)
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                self.then = job.pool = None

    def _gather(self, seen: deque[Future[Block]], ridge: float | str) -> RidgeFactor:
        """Added up in the order of the blocks, as the pass would."""
        with one_blas_thread():
            n_rows, total, sums = 0, np.zeros(1), None
            while seen:
                block = seen.popleft().result()
                n_rows += block.n_rows
                if sums is None:
                    total = block.total.copy()
                    sums = Gram(block.gram.count, block.gram.x.copy(), block.gram.xx.astype(np.float64))
                else:
                    total += block.total
                    sums += block.gram
                # The pass does not ask for it: room for the next ones.
                block.gram.xx = np.empty((0, 0))
            assert sums is not None
            return factorised(sums.recentred(total / n_rows, out=sums.xx), ridge)
