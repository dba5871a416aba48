"""Candidates of a draw: the rows that it may take, kept while rows pass by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.fitting.parts import stack
from hashlearn.rowkeys import Keys
from hashlearn.typing import Int64Array, IntArray, Matrix

SLACK = 24
"""How many more candidates than expected are kept; with this many a draw is almost surely complete."""
HIGHEST_KEY = np.uint64(2**64 - 1)

LEAST_ANCHORS, ANCHORS_PER_CLASS, ANCHORS_OF_SETS = 1000, 2, 3000


def anchor_count(n_anchors: int | str, n_groups: int, sets: sparse.csr_matrix | None) -> int:
    """Return the number of anchors for so many groups of rows, whose label sets are ``sets`` (None for classes).

    "auto" is two per class, so that every class takes part in learning, and at least 1,000; 3,000 for label sets.
    """
    if not isinstance(n_anchors, str):
        return n_anchors
    if sets is not None and np.any(np.diff(sets.indptr) > 1):
        return ANCHORS_OF_SETS
    return max(LEAST_ANCHORS, ANCHORS_PER_CLASS * n_groups)


@dataclass
class Candidates:
    """Rows that a draw may take.

    Attributes
    ----------
    key, row : key and number of each.
    below : all rows with keys below this one are among the candidates; for anchors, one key per label set.
    features : the rows themselves in blocks, if they are carried along.
    identity : the identities of the rows' label sets, for anchors.
    """

    key: Keys
    row: Int64Array
    below: Keys
    features: list[Matrix] = field(default_factory=list)
    identity: NDArray[Any] | None = None

    @classmethod
    def none(cls, by_label_set: bool) -> Candidates:
        """No candidates yet."""
        key, row = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        return cls(key, row, key) if by_label_set else cls(key, row, np.array([HIGHEST_KEY]))

    def select(self, places: IntArray) -> Candidates:
        """Return those at ``places``."""
        features = [stack(self.features)[places]] if self.features else []
        identity = None if self.identity is None else self.identity[places]
        return Candidates(self.key[places], self.row[places], self.below, features, identity)

    def joined(self, other: Candidates, below: Keys) -> Candidates:
        """Return both together."""
        if not len(self.key):
            return replace(other, below=below)
        if not len(other.key):
            return replace(self, below=below)
        identity = None
        if self.identity is not None and other.identity is not None:
            identity = np.concatenate([self.identity, other.identity])
        key, row = np.concatenate([self.key, other.key]), np.concatenate([self.row, other.row])
        return Candidates(key, row, below, self.features + other.features, identity)


def lowest_of_groups(
    group: IntArray, keys: Keys, counts: Int64Array, n_drawn: int, n_seen: int, slack: int
) -> tuple[IntArray, Keys]:
    """Choose the candidates of a draw of ``n_drawn`` rows that is even over groups.

    Parameters
    ----------
    group, keys : of rows, sorted by group and key.
    counts : rows of each group.
    n_seen : labeled rows seen so far.

    Returns
    -------
    places of the candidates, and for every group the lowest key that was discarded.
    """
    expected = counts * (n_drawn / n_seen) * (slack / SLACK)
    most = expected + 8 * np.sqrt(expected) + slack
    first = np.searchsorted(group, np.arange(len(counts)))
    rank = np.arange(len(group)) - first[group]
    share = min(1.0, slack * n_drawn / n_seen)
    limit = HIGHEST_KEY if share >= 1 else np.uint64(share * 2.0**64)
    # A common label set has as many candidates as its share needs. A rare one has at most ``slack`` of them, and only
    # rows whose keys are low among those of all rows.
    keep = (rank < most[group]) & (keys <= limit)
    below = np.full(len(counts), HIGHEST_KEY)
    np.minimum.at(below, group[~keep], keys[~keep])
    return np.flatnonzero(keep), below
