"""Sums over the rows of each group, for methods that need more of the labels than one sum over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from hashlearn.fitting.passes import AdditiveSums, FeatureSums
from hashlearn.typing import FloatArray, IntArray


@dataclass
class GroupSums(AdditiveSums):
    """Sums of values over the rows of each group: one line for each of the groups ``ids``, which are sorted.

    A task meets few of many label sets, and only the sums of those travel.
    """

    n_groups: int
    ids: IntArray
    values: FloatArray

    @classmethod
    def of(cls, group: IntArray, values: FloatArray, n_groups: int) -> Self:
        """Sum ``values`` (n, k) over the rows of each group."""
        ids, place = np.unique(group, return_inverse=True)
        members = sparse.csr_matrix((np.ones(len(place)), (place, np.arange(len(place)))), (len(ids), len(place)))
        return cls(n_groups, ids, np.asarray(members @ values))

    def __iadd__(self, other: Self) -> Self:
        if len(self.ids) < self.n_groups:
            ids = np.union1d(self.ids, other.ids)
            # With half of the groups present, lines for all are allocated at once instead of again and again.
            self._widen(np.arange(self.n_groups) if 2 * len(ids) > self.n_groups else ids)
        self.values[np.searchsorted(self.ids, other.ids)] += other.values
        return self

    def all(self) -> FloatArray:
        """Return one line for every group."""
        self._widen(np.arange(self.n_groups))
        return self.values

    def _widen(self, ids: IntArray) -> None:
        if len(ids) > len(self.ids):
            values = np.zeros((len(ids), self.values.shape[1]))
            values[np.searchsorted(ids, self.ids)] = self.values
            self.ids, self.values = ids, values


@dataclass
class GroupedFeatureSums(FeatureSums):
    """Sums over all rows, and the sums of the features by group."""

    groups: GroupSums
