"""Rows in groups, so that a search need not look at all of them: the lists of ``ivf``, or groups by leading word.

The codes of a group lie together, in a second copy. Rows that were added since that copy was made are searched one by
one until they are many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.index import scan
from hashlearn.index.scan import Best, Groups, ScoreTables
from hashlearn.index.sorted_rows import SomeIds, SortedRows
from hashlearn.parallel import row_blocks
from hashlearn.typing import Ids, PackedCodes

GroupNumbers = NDArray[np.uint16]
MAX_LISTS = 2**16

_MOST_ROWS = 2**32 - 1
_FEW_ROWS, _FEW_SHARE = 4096, 32  # rows beside the groups: up to the larger of this number and one in this many
_TRAINING_ROWS = 32  # per list
_TRAINING_ROUNDS = 6
_GROWTH = 4  # lists are learned again for this many times the rows they were learned from
_BLOCK_ROWS = 2**20


class GroupedRows:
    """A copy of the first rows of an index, sorted by (group, place)."""

    def __init__(self, codes: PackedCodes, numbers: GroupNumbers, n_groups: int) -> None:
        if len(codes) > _MOST_ROWS:
            raise ValueError(f"Rows can be grouped up to {_MOST_ROWS}. Got {len(codes)}: use a flat index.")
        order = np.argsort(numbers, kind="stable").astype(np.uint32)  # a radix sort
        self.codes = codes.take(order, axis=0)
        starts = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=n_groups))])
        self.groups = Groups(starts.astype(np.int64), order)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def size(self) -> int:
        """Memory in bytes."""
        return self.codes.nbytes + self.groups.numbers.nbytes + self.groups.starts.nbytes

    def outgrown(self, n_rows: int) -> bool:
        """Return whether the rows are too many for this copy of the first ones."""
        return n_rows - len(self) > max(_FEW_ROWS, len(self) // _FEW_SHARE)

    def nearest(
        self,
        codes: PackedCodes,
        queries: PackedCodes | ScoreTables,
        k: int,
        chosen: NDArray[np.int32] | None,
        n_jobs: int | None,
    ) -> Best:
        """Find the k best rows among ``codes``, of which this is a copy of the first ones."""
        found = scan.nearest(self.codes, queries, k, groups=self.groups._replace(chosen=chosen), n_jobs=n_jobs)
        if len(self) == len(codes):
            return found
        more = scan.nearest(codes[len(self) :], queries, k, n_jobs=n_jobs)
        rows = np.concatenate([found.rows, np.where(more.rows < 0, -1, more.rows + len(self))], axis=1)
        distances = np.concatenate([found.distances, more.distances], axis=1)
        order = np.lexsort((rows, distances, rows < 0), axis=1)[:, :k]
        best = np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)
        return Best(*best, found.skipped)


class Lists:
    """The lists of ``ivf``: centers, and the list of each row, whose center is the nearest one."""

    def __init__(self, centers: PackedCodes, by_id: SortedRows, n_learned: int) -> None:
        self.centers, self.by_id, self.n_learned = centers, by_id, n_learned

    @classmethod
    def learn(cls, ids: SomeIds, codes: PackedCodes, n_lists: int | None) -> Lists:
        """Learn centers from a sample of the rows by k-means with majorities of bits, and assign all rows."""
        n_lists = n_lists or max(1, min(int(2 * len(codes) ** 0.5), len(codes) // 16))
        n_lists = min(n_lists, len(codes), MAX_LISTS)
        rng = np.random.default_rng(0)
        sample = codes[np.sort(rng.permutation(len(codes))[: _TRAINING_ROWS * n_lists])]
        centers = sample[np.sort(rng.permutation(len(sample))[:n_lists])]
        for _ in range(_TRAINING_ROUNDS):
            nearest = scan.nearest(centers, sample, 1, n_jobs=None).rows[:, 0]
            centers = _majorities(sample, nearest, centers)
        lists = cls(np.ascontiguousarray(centers), SortedRows(2), len(codes))
        lists.by_id = SortedRows.from_sorted(ids, lists._assigned(codes))
        return lists

    def put(self, ids: Ids, codes: PackedCodes) -> None:
        """Assign rows with these sorted ids."""
        self.by_id.put(ids, self._assigned(codes))

    def _assigned(self, codes: PackedCodes) -> PackedCodes:
        """Return the list of each row, as its two bytes."""
        numbers = np.empty(len(codes), dtype=np.uint16)
        for block in row_blocks(len(codes), _BLOCK_ROWS):
            numbers[block] = scan.nearest(self.centers, codes[block], 1, n_jobs=None).rows[:, 0]
        return numbers.view(np.uint8).reshape(-1, 2)

    @property
    def numbers(self) -> GroupNumbers:
        """The list of each row in the order of ids."""
        return np.ascontiguousarray(self.by_id.all_rows()[1]).view(np.uint16)[:, 0]

    def outgrown(self, n_rows: int) -> bool:
        """Return whether lists should be learned again, given the number of rows."""
        return n_rows > _GROWTH * self.n_learned

    def chosen(self, queries: PackedCodes, n_probes: int, n_jobs: int | None) -> NDArray[np.int32]:
        """Return the nearest lists of each query."""
        found = scan.nearest(self.centers, queries, min(n_probes, len(self.centers)), n_jobs=n_jobs)
        return found.rows.astype(np.int32)


def _majorities(sample: PackedCodes, nearest: Ids, centers: PackedCodes) -> PackedCodes:
    """Return the codes of the majorities of the bits of each list; a list without rows keeps its center."""
    order = np.argsort(nearest, kind="stable")
    filled, starts, counts = np.unique(nearest[order], return_index=True, return_counts=True)
    centers = centers.copy()
    for byte in range(sample.shape[1]):
        bits = np.unpackbits(sample[order, byte : byte + 1], axis=1)
        ones = np.add.reduceat(bits, starts, axis=0, dtype=np.int64)
        centers[filled, byte] = np.packbits(2 * ones > counts[:, None], axis=1)[:, 0]
    return centers
