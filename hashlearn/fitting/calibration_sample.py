"""The training rows from which a hasher learns the calibration of its bits.

They are the rows with the lowest keys (see ``rowkeys``), of a fixed seed, so the sample is the same in memory and in
chunks. With labels, only rows that have some are drawn, because other rows have no learned code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import hashlearn.rowkeys as rowkeys
from hashlearn.functions.calibration import PAIR_ROWS
from hashlearn.typing import IntArray, Matrix

SAMPLE_ROWS, SAMPLE_SEED = PAIR_ROWS, 0


@dataclass
class CalibrationSample:
    """Drawn rows.

    Attributes
    ----------
    numbers : of the rows, ascending.
    rows : the rows themselves.
    groups : their groups, None without labels.
    """

    numbers: IntArray
    rows: Matrix
    groups: IntArray | None = None

    @classmethod
    def of_array(cls, X: Matrix, labeled: NDArray[np.bool_] | None = None) -> CalibrationSample:
        """Draw rows of an array, of those that are ``labeled`` if this is given."""
        keys = rowkeys.row_keys(SAMPLE_SEED, rowkeys.SAMPLE, 0, X.shape[0])
        numbers = np.arange(X.shape[0]) if labeled is None else np.flatnonzero(labeled)
        numbers = numbers[rowkeys.lowest(keys[numbers], SAMPLE_ROWS)]
        return cls(numbers, X[numbers])
