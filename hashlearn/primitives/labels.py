"""Labels in the forms that methods need: classes, label sets, and products with S that never form S."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.labels import group_rows, label_matrix
from hashlearn.similarity import LabelSimilarity
from hashlearn.typing import FloatArray

GROUP_BLOCK = 2048


def labeled_rows(labels: sparse.csr_matrix) -> NDArray[np.intp]:
    """Return the rows with at least one label; methods learn only from these."""
    return np.flatnonzero(np.diff(labels.indptr) > 0)


def class_numbers(labels: sparse.csr_matrix, method: str) -> NDArray[np.intp]:
    """Return the class of every row (-1 if unlabeled), for methods that allow one label per row."""
    sizes = np.diff(labels.indptr)
    if sizes.max(initial=0) > 1:
        raise ValueError(f"{method} takes one class per row. Got rows with several labels.")
    numbers = np.full(labels.shape[0], -1, dtype=np.intp)
    numbers[sizes == 1] = labels.indices
    return numbers


class LabelProduct:
    """Products S Z with the pairwise S of label sets, in O(n k + G^2 k) for G groups of rows with equal labels.

    ``similarity`` gives S: +1 or -1 for classes, relevance or alpha for label sets. S of unlabeled rows is 0.
    """

    def __init__(self, similarity: LabelSimilarity) -> None:
        self.similarity = similarity
        self.group = similarity.group
        self.n_groups = similarity.n_groups
        self._known = np.flatnonzero(self.group >= 0)

    @classmethod
    def of(cls, y: Any, **options: Any) -> LabelProduct:
        """Make a product from classes or label sets, with the options of ``hashlearn.similarity.LabelSimilarity``."""
        labels = label_matrix(y)
        group, representatives = group_rows(labels)
        return cls(LabelSimilarity(group, labels[representatives], **options))

    def group_sums(self, Z: NDArray[np.floating]) -> FloatArray:
        """Return the sums of the rows of Z by group (G, k)."""
        return np.asarray(self._indicator @ Z, dtype=np.float64)

    def between_groups(self, sums: FloatArray) -> FloatArray:
        """Return S between groups times ``sums`` (G, k), in blocks; an S that fits in one block is cached."""
        if self.n_groups <= GROUP_BLOCK:
            return self._small_table @ sums
        result = np.empty((self.n_groups, sums.shape[1]))
        all_groups = np.arange(self.n_groups)
        for start in range(0, self.n_groups, GROUP_BLOCK):
            rows = all_groups[start : start + GROUP_BLOCK]
            result[rows] = self.similarity.table(rows, all_groups) @ sums
        return result

    def __matmul__(self, Z: NDArray[np.floating]) -> FloatArray:
        """Return S Z (n, k)."""
        result = np.zeros((len(self.group), Z.shape[1]))
        result[self._known] = self.between_groups(self.group_sums(Z))[self.group[self._known]]
        return result

    def quadratic(self, X: NDArray[np.floating]) -> FloatArray:
        """Return X' S X (k, k), computed from group sums."""
        sums = self.group_sums(X)
        product = sums.T @ self.between_groups(sums)
        return (product + product.T) / 2

    @cached_property
    def _indicator(self) -> sparse.csr_matrix:
        return sparse.csr_matrix(
            (np.ones(len(self._known)), (self.group[self._known], self._known)),
            shape=(self.n_groups, len(self.group)),
        )

    @cached_property
    def _small_table(self) -> FloatArray:
        all_groups = np.arange(self.n_groups)
        return self.similarity.table(all_groups, all_groups)
