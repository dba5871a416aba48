"""The linear function whose ridge and thresholds come from rows that were left out of its fit.

A function that is judged on the rows it was fitted to looks too certain. Sums over rows can be taken apart again: the
sums of all rows minus those of the rows left out are the sums of the others. So one pass over the rows suffices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import LinearFunction, RidgeFactor, RidgeSums
from hashlearn.parallel import one_blas_thread, ordered_map
from hashlearn.typing import Float32Array, FloatArray, IntArray

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Ridges to choose from, as shares of the mean eigenvalue of X'X. The search climbs from the least."""
LEAST_SLOPE = 1e-6
"""Of a bit that cannot be told on rows left out, for projections of size 1: it keeps its sign and next to no weight."""


@dataclass
class HeldOutRows:
    """Rows that are left out: features, targets, learned codes in {-1, +1}, and the fold of each.

    The rows of a fold are left out together. ``group`` is the class of each row.
    """

    x: Float32Array
    t: Float32Array
    codes: Float32Array
    group: IntArray
    fold: IntArray

    @property
    def folds(self) -> list[IntArray]:
        """Places of the rows of each fold."""
        return [np.flatnonzero(self.fold == fold) for fold in range(int(self.fold.max()) + 1)]


def calibrated_ridge(sums: RidgeSums, held: HeldOutRows, mean: FloatArray, n_jobs: int | None) -> LinearFunction:
    """Learn a linear function whose projections are log odds of the bits.

    The ridge is the one with the fewest wrong bits on the rows left out. One slope and one offset per bit make log odds
    of their projections. The function is then fitted to all rows with that ridge, those slopes and offsets.

    Parameters
    ----------
    sums : over all rows, the rows left out included, with features counted from a provisional center.
    held : with features counted from the same center.
    mean : of the features, counted from that center.
    """
    # Products round differently with other numbers of BLAS threads, so that the answer would depend on the machine.
    with one_blas_thread():
        return _calibrated_ridge(sums, held, mean, n_jobs)


def _calibrated_ridge(sums: RidgeSums, held: HeldOutRows, mean: FloatArray, n_jobs: int | None) -> LinearFunction:
    scale = float(np.trace(sums.recentered(mean).xx)) / len(mean) or 1.0
    parts = [(rows, (sums - RidgeSums.of(held.x[rows], held.t[rows])).recentered(mean)) for rows in held.folds]
    found: dict[int, FloatArray] = {}

    def project(place: int) -> FloatArray:
        z = np.empty(held.t.shape)
        for rows, part in parts:
            weights = RidgeFactor(part.xx, RIDGES[place] * scale).solve(part.xt)
            z[rows] = (held.x[rows] - mean.astype(np.float32)) @ weights + part.t / max(part.count, 1)
        return z

    def wrong(place: int) -> float:
        return float(np.mean((found[place] >= 0) != (held.codes > 0)))

    found |= dict(zip((0, 1), ordered_map(project, (0, 1), n_jobs), strict=True))
    best = 0
    while best + 1 < len(RIDGES) and wrong(best + 1) < wrong(best):
        best += 1
        if best + 1 < len(RIDGES):
            found[best + 1] = project(best + 1)
    calibration = Calibration.fit(found[best], held.codes)
    least = LEAST_SLOPE / np.maximum(np.sqrt(np.mean(found[best] ** 2, axis=0)), 1e-300)
    slopes = np.maximum(calibration.slopes_, least)
    offsets = np.where(calibration.slopes_ > least, calibration.offsets_, 0.0)
    ridge, whole = RIDGES[best] * scale, sums.recentered(mean)
    weights = RidgeFactor(whole.xx, ridge).solve(whole.xt)
    return LinearFunction(weights * slopes, ridge, slopes * whole.t / whole.count + offsets)
