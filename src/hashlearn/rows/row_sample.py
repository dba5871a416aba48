"""A sample of labeled and unlabeled rows of any source: all rows if they are few, otherwise a draw by row keys.

Keys depend on row numbers alone (see ``rowkeys``), so the sample is the same in memory and in chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import hashlearn.rowkeys as rowkeys
from hashlearn.files.read import stack_rows
from hashlearn.labels import LabelMatrix, group_rows
from hashlearn.progress import report
from hashlearn.rowkeys import Keys
from hashlearn.rows.groups import Groups
from hashlearn.rows.reduce import FitContext, range_rows, read_groups
from hashlearn.rows.source import AnySource, RowRange
from hashlearn.typing import Int64Array, IntArray, Matrix

LABELED_SHARE = 0.8
"""Share of the labeled rows in a sample, if there are more rows of both kinds than it holds."""
FEW_ROWS = 50
"""Classes with fewer rows than this on average are sampled as whole classes: part of one could find nothing."""


@dataclass(frozen=True)
class LabeledRows:
    """What is known about the labels of all rows.

    Attributes
    ----------
    table : the label set of every group of rows with equal labels, (n_groups, n_labels).
    counts : rows of every group.
    groups : the group of any row, from its labels in the source; None without labels.
    """

    n_rows: int
    table: sparse.csr_matrix | None = None
    counts: Int64Array | None = None
    groups: Groups | None = None

    @classmethod
    def from_labels(cls, n_rows: int, labels: LabelMatrix | None) -> LabeledRows:
        """Return what is known of rows in memory by their label sets, which are empty for unlabeled rows."""
        if labels is None:
            return cls(n_rows)
        group, first = group_rows(labels)
        return cls(n_rows, labels[first], np.bincount(group[group >= 0], minlength=len(first)), group)

    @property
    def n_labeled(self) -> int:
        return 0 if self.counts is None else int(self.counts.sum())

    @property
    def n_groups(self) -> int:
        return 0 if self.table is None else int(self.table.shape[0])

    @property
    def plain(self) -> bool:
        """Whether every row has one class, rather than a set of labels."""
        return self.table is not None and bool(np.all(np.diff(self.table.indptr) == 1))


@dataclass(frozen=True)
class Sample:
    """Rows with their groups (-1 without labels), in row order."""

    rows: Matrix
    group: IntArray
    labeled_rows: LabeledRows

    @property
    def label_sets(self) -> sparse.csr_matrix:
        """Labels as sets, which every method takes; a row without labels has an empty set."""
        assert self.labeled_rows.table is not None
        empty = sparse.csr_matrix((1, self.labeled_rows.table.shape[1]))
        return sparse.vstack([self.labeled_rows.table, empty], format="csr")[self.group]


@dataclass
class _Plan:
    """Which rows may be in the sample: labeled ones of the chosen groups and unlabeled ones, with keys up to limits."""

    groups: Groups | None
    chosen: NDArray[np.bool_]
    seed: int
    labeled_limit: np.uint64
    unlabeled_limit: np.uint64


def draw_sample(source: AnySource, known: LabeledRows, n_rows: int, seed: int, context: FitContext) -> Sample:
    """Draw at most ``n_rows`` rows, labeled ones before unlabeled ones."""
    n_unlabeled = known.n_rows - known.n_labeled
    n_labeled = min(known.n_labeled, max(int(LABELED_SHARE * n_rows), n_rows - n_unlabeled))
    unlabeled = min(n_unlabeled, n_rows - n_labeled)
    chosen = _chosen_groups(known, n_labeled, seed)
    assert known.counts is not None or n_labeled == 0
    available = int(known.counts[chosen].sum()) if known.counts is not None else 0
    plan = _Plan(
        known.groups,
        np.append(chosen, False),
        seed,
        rowkeys.limit(n_labeled, max(available, 1)),
        rowkeys.limit(unlabeled, max(n_unlabeled, 1)),
    )
    parts = []
    for part in context.run(_candidates, plan, source.ranges(range_rows(source))):
        parts.append(part)
        report("sample rows", part[3], known.n_rows)
    keys, group = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    places = [
        which[rowkeys.lowest(keys[which], count)]
        for which, count in ((np.flatnonzero(group >= 0), n_labeled), (np.flatnonzero(group < 0), unlabeled))
    ]
    drawn = np.sort(np.concatenate(places))
    return Sample(stack_rows([part[2] for part in parts])[drawn], group[drawn], known)


def _chosen_groups(known: LabeledRows, n_labeled: int, seed: int) -> NDArray[np.bool_]:
    """Return which groups the sample takes rows from: all, or as many whole small classes as fit into it."""
    if known.counts is None:
        return np.zeros(0, dtype=bool)
    chosen = np.ones(len(known.counts), dtype=bool)
    if known.plain and known.n_labeled > n_labeled and known.n_labeled < FEW_ROWS * len(chosen):
        order = np.argsort(rowkeys.row_keys(seed, rowkeys.ANCHORS, 0, len(chosen)), kind="stable")
        chosen[order[np.cumsum(known.counts[order]) > n_labeled]] = False
    return chosen


def _candidates(plan: _Plan, rows: RowRange) -> tuple[Keys, IntArray, Matrix, int]:
    """Run one task: keys, groups and features of the rows that may be in the sample, and where the range ends."""
    keys = rowkeys.row_keys(plan.seed, rowkeys.SAMPLE, rows.start, rows.stop)
    group = np.full(len(keys), -1, dtype=np.intp)
    if plan.groups is not None:
        group = read_groups(plan.groups, rows, rows.start, rows.stop)
    labeled = plan.chosen[group] & (keys <= plan.labeled_limit)
    wanted = np.flatnonzero(labeled | ((group < 0) & (keys <= plan.unlabeled_limit)))
    features = rows.read(rows.start, rows.stop)[wanted]
    return keys[wanted], group[wanted], features, rows.stop
