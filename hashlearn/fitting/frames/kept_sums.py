"""More rows and new classes for a fitted hasher, without the rows it has learned from.

Rows of one class have one code, so a hash function needs of the rows only X'X, the sum of the features of each class
and the number of its rows: X'T follows from these for any codes of the classes. ``partial_fit`` keeps these sums. The
codes of known classes never change, so codes that are stored stay valid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import hashlearn.rowkeys as rowkeys
from hashlearn.fitting.row_pass import MOST_HELD_OUT, HeldOutPlan
from hashlearn.functions.held_out import HeldOutRows
from hashlearn.functions.linear import RidgeSums
from hashlearn.functions.posterior import ClassSums
from hashlearn.solvers.problem import sums_by_kind
from hashlearn.typing import Float32Array, FloatArray, IntArray

LEAST_CERTAINTY = 0.05
"""What the flip of a bit costs that is not certain at all."""
MOST_COMPARED = 1000


class KeptSums:
    """What a hasher keeps of the rows that it has seen.

    Attributes
    ----------
    names : list
        The classes, in the order of their numbers.
    codes : int8 (n_classes, n_bits)
        Their codes in {-1, +1}.
    center : float32 (d,)
        Features are counted from here.
    xx, by_class, counts : float64 (d, d), (n_classes, d), (n_classes,)
        X'X, the sums of the features of each class, and the numbers of rows.
    held_keys, held_x, held_classes : arrays
        Rows that may be left out to choose a ridge and thresholds: those with the lowest keys.
    seed : int
        Of the keys.
    """

    def __init__(self, names: list[Any], codes: NDArray[np.int8], center: Float32Array, seed: int) -> None:
        self.names = names
        self.codes = codes
        self.center = center
        self.seed = seed
        width = len(center)
        self.xx = np.zeros((width, width))
        self.by_class = np.zeros((len(names), width))
        self.counts = np.zeros(len(names))
        self.held_keys = np.zeros(0, dtype=np.uint64)
        self.held_x = np.zeros((0, width), dtype=np.float32)
        self.held_classes = np.zeros(0, dtype=np.intp)

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    def add_class(self, name: Any, code: NDArray[np.int8]) -> None:
        """Add a class that has no rows yet."""
        self.names = [*self.names, name]
        self.codes = np.vstack([self.codes, code])
        self.by_class = np.vstack([self.by_class, np.zeros(len(self.center))])
        self.counts = np.append(self.counts, 0.0)

    def add_rows(self, mapped: Float32Array, classes: IntArray) -> None:
        """Add a block of rows: features that are not centered, and the number of each row's class."""
        x = mapped - self.center
        keys = rowkeys.row_keys(self.seed, rowkeys.SAMPLE, self.n_rows, self.n_rows + len(x))
        self.xx += x.T @ x
        self.by_class += sums_by_kind(classes, x.astype(np.float64), len(self.names))
        self.counts += np.bincount(classes, minlength=len(self.names))
        keys = np.concatenate([self.held_keys, keys])
        lowest = rowkeys.lowest(keys, MOST_HELD_OUT)
        self.held_keys = keys[lowest]
        self.held_x = np.concatenate([self.held_x, x])[lowest]
        self.held_classes = np.concatenate([self.held_classes, classes])[lowest]

    @property
    def mean(self) -> FloatArray:
        """The mean of the features, counted from ``center``."""
        return self.by_class.sum(axis=0) / self.n_rows

    def ridge_sums(self) -> RidgeSums:
        """The sums for targets that are the codes of the classes."""
        codes = self.codes.astype(np.float64)
        totals = self.by_class.sum(axis=0)
        squares = np.full(codes.shape[1], float(self.n_rows))
        return RidgeSums(self.n_rows, totals, self.xx, self.by_class.T @ codes, self.counts @ codes, squares)

    def class_sums(self) -> ClassSums:
        """The sums for class posteriors."""
        return ClassSums(self.ridge_sums(), self.by_class, self.counts)

    def held_out(self) -> HeldOutRows:
        """The rows that are left out: as many as a fit to so many rows leaves out."""
        plan = HeldOutPlan.of(self.n_rows, self.seed)
        chosen = rowkeys.lowest(self.held_keys, plan.count)
        codes = self.codes[self.held_classes[chosen]].astype(np.float32)
        fold = np.arange(len(chosen)) % plan.n_folds
        return HeldOutRows(self.held_x[chosen], codes, codes, self.held_classes[chosen], fold)


def new_class_code(expected: FloatArray, codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """Choose the code of a new class: what the features predict, as far from the other classes as these are apart.

    It starts as the signs of the expected bits (n_bits,) of the class's rows. While other classes (rows of ``codes``)
    are nearer than classes usually are to their nearest one, the bit is flipped that brings most of them away for the
    least certainty. In the end, flips that are not needed are undone, beginning with the most certain bit.
    """
    predicted = np.where(expected >= 0, 1, -1).astype(np.int8)
    code, cost = predicted.copy(), np.abs(expected) + LEAST_CERTAINTY
    apart = _usual_distance(codes)
    while True:
        agree = codes == code
        distances = np.count_nonzero(~agree, axis=1)
        short = np.maximum(apart - distances, 0)
        flipped = np.maximum(apart - (distances[:, None] + np.where(agree, 1, -1)), 0)
        # Squares, so that the nearest class counts most.
        gain = (short**2).sum() - (flipped**2).sum(axis=0)
        gain[code != predicted] = 0
        if gain.max() <= 0:
            break
        bit = (gain / cost).argmax()
        code[bit] = -code[bit]
    if short.any():
        return code
    changed = np.flatnonzero(code != predicted)
    for bit in changed[np.argsort(-cost[changed])]:
        code[bit] = -code[bit]
        if (np.count_nonzero(codes != code, axis=1) < apart).any():
            code[bit] = -code[bit]
    return code


def _usual_distance(codes: NDArray[np.int8]) -> float:
    """The median distance of classes to their nearest one; of so many classes that their products fit in memory."""
    if len(codes) < 2:
        return float(codes.shape[1])
    some = codes[:MOST_COMPARED].astype(np.float32)
    products = some @ codes.T.astype(np.float32)
    np.fill_diagonal(products, -np.inf)
    return float(np.median((codes.shape[1] - products.max(axis=1)) / 2))
