"""Calibration of projections: it maps z to the expected bit e(z) in [-1, 1], with two numbers per bit.

A projection is not a probability, and projections of different hashers differ in size. A logistic curve per bit,
P(bit = 1 | z) = 1 / (1 + exp(-(slope z + offset))), puts all of them on one scale: e = 2 P - 1 is near -1 or +1 where
the bit is certain and near 0 where it is not. Real-valued queries are e(q); the bits of a calibrated hasher are sgn(e).

The target of the calibration depends on the hasher. For a hasher that learns codes it is the learned bit, preferably on
rows that its function was not fitted to. For a hasher whose codes are sgn(z), the learned bit is the sign itself and
carries no information. A query needs the bit of a *relevant row* there, so the target is the bit of a near neighbor
(``fit_neighbors``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.typing import FloatArray, IntArray

MAX_STEPS = 50
HALVINGS = 20
TOLERANCE, ROUNDING = 1e-10, 1e-13
PAIR_NEIGHBORS = 5
LEAST_SLOPE = 1e-6


class Calibration:
    """Logistic curves of all bits.

    Attributes
    ----------
    slopes_, offsets_ : float64 (n_bits,)
        Slopes are never negative, so a larger projection never makes a 1 less likely.
    """

    def __init__(self, slopes: ArrayLike, offsets: ArrayLike) -> None:
        self.slopes_: FloatArray = np.array(slopes, dtype=np.float64)
        self.offsets_: FloatArray = np.array(offsets, dtype=np.float64)

    @classmethod
    def fit(cls, projections: NDArray[Any], bits: NDArray[Any], *, offset: bool = True) -> Calibration:
        """Fit the most likely curves to projections (n, n_bits) and bits (n, n_bits): {0, 1}, booleans or {-1, +1}.

        Targets are Platt's, (n_1 + 1) / (n_1 + 2) for a 1 and 1 / (n_0 + 2) for a 0, so curves stay finite where
        projections separate the bits and where a bit is constant. ``offset=False`` keeps offsets at 0. Then sgn(e) is
        sgn(z), which hashers with codes sgn(z) need.
        """
        return cls._fit_targets(projections, _targets(np.asarray(bits) > 0), offset)

    @classmethod
    def fit_neighbors(cls, projections: NDArray[Any], rows: NDArray[Any]) -> Calibration:
        """Fit curves without offset to the bits sgn(z) of the nearest other rows, for hashers whose codes are sgn(z).

        Parameters
        ----------
        projections, rows : (n, n_bits), (n, d)
            Of a sample of about 2,048 rows: all distances between them are computed.
        """
        bits = np.asarray(projections) >= 0
        near = bits[nearest_rows(rows)]
        # All pairs of a row have the same projection, so one row with the mean of their targets is as good.
        return cls._fit_targets(projections, _targets(near).mean(axis=1), offset=False)

    @classmethod
    def _fit_targets(cls, projections: NDArray[Any], targets: FloatArray, offset: bool) -> Calibration:
        z = np.asarray(projections, dtype=np.float64)
        # Projections are divided by their size, so that one tolerance suits all bits. A projection may always be 0.
        size = np.sqrt(np.mean(z**2, axis=0))
        size[size == 0] = 1.0
        slopes, offsets = _most_likely(z / size, targets, offset)
        falling = slopes < 0
        if falling.any():
            slopes[falling] = 0.0
            if offset:
                shares = targets[:, falling].mean(axis=0)
                offsets[falling] = np.log(shares / (1 - shares))
        return cls(slopes / size, offsets)

    def keeping_signs(self) -> Calibration:
        """Return curves with sgn(e) = sgn(z): without offsets, and with slopes of at least ``LEAST_SLOPE``.

        A slope of 0 would make all bits of a column 1. The least positive one keeps the sign and next to no weight.
        """
        return Calibration(np.maximum(self.slopes_, LEAST_SLOPE), np.zeros(len(self.slopes_)))

    def expected_bits(self, projections: NDArray[Any]) -> NDArray[Any]:
        """Return e(z) = tanh((slope z + offset) / 2) in [-1, 1], in the precision of the projections."""
        z = np.asarray(projections)
        dtype = z.dtype if z.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        half = z * (0.5 * self.slopes_)
        half += 0.5 * self.offsets_
        return np.tanh(half, out=half).astype(dtype, copy=False)


def nearest_rows(rows: NDArray[Any], n_neighbors: int = PAIR_NEIGHBORS) -> IntArray:
    """Return the numbers (n, n_neighbors) of the nearest other rows (Euclidean) of every row, in ascending order.

    All distances are computed at once, so pass a sample of about 2,048 rows. Of equally near rows the first
    ones win.
    """
    rows = np.asarray(rows, dtype=np.float64)
    n_neighbors = min(n_neighbors, len(rows) - 1)
    if n_neighbors < 1:
        raise ValueError(f"Neighbors need at least 2 rows. Got {len(rows)} instead.")
    centered = rows - rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", centered, centered)
    # Without the row's own square, which does not change the order.
    distances = squares[None, :] - 2 * (centered @ centered.T)
    np.fill_diagonal(distances, np.inf)
    farthest = np.partition(distances, n_neighbors - 1, axis=1)[:, n_neighbors - 1 : n_neighbors]
    near = distances <= farthest
    for row in np.flatnonzero(near.sum(axis=1) > n_neighbors):
        kept = np.argsort(distances[row], kind="stable")[:n_neighbors]
        near[row] = False
        near[row, kept] = True
    return np.flatnonzero(near).reshape(len(rows), n_neighbors) % len(rows)


def spread_thresholds(n_bits: int, width: float, seed: int) -> FloatArray:
    """Return thresholds t for the bits of database rows: an even grid on [-width, width], shuffled over the bits.

    A bit is sgn(e_j - t_j). The mean of sgn(e - t) over bits is e / width, so a row with uncertain bits agrees a little
    with every query and ranks behind rows with certain bits. Queries use e, or its signs.
    """
    return np.random.default_rng(seed).permutation(np.linspace(-width, width, n_bits))


def _targets(ones: NDArray[np.bool_]) -> FloatArray:
    """Return Platt's targets of bits (..., n_bits)."""
    counted = ones.reshape(-1, ones.shape[-1])
    n_ones = counted.sum(axis=0)
    high, low = (n_ones + 1) / (n_ones + 2), 1 / (len(counted) - n_ones + 2)
    return np.where(ones, high, low)


def _most_likely(x: FloatArray, targets: FloatArray, offset: bool) -> tuple[FloatArray, FloatArray]:
    """Find slopes and offsets of least mean log loss by Newton steps for all bits at once."""
    slopes, offsets = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    loss = _log_loss(x, targets, slopes, offsets)
    for _ in range(MAX_STEPS):
        slope_step, offset_step = _newton_step(x, targets, slopes, offsets, offset)
        # The loss is convex, but far from its minimum a full step may overshoot, so each bit halves its own step.
        share = np.ones(x.shape[1])
        for _ in range(HALVINGS):
            moved = _log_loss(x, targets, slopes + share * slope_step, offsets + share * offset_step)
            worse = moved > loss + ROUNDING
            if not worse.any():
                break
            share[worse] /= 2
        share[worse] = 0.0
        slopes, offsets = slopes + share * slope_step, offsets + share * offset_step
        gain, loss = loss - moved, np.where(worse, loss, moved)
        if np.all(worse | (gain < TOLERANCE)):
            break
    return slopes, offsets


def _newton_step(
    x: FloatArray, targets: FloatArray, slopes: FloatArray, offsets: FloatArray, offset: bool
) -> tuple[FloatArray, FloatArray]:
    p = 0.5 * (1 + np.tanh(0.5 * (slopes * x + offsets)))
    rest, weight = targets - p, p * (1 - p)
    by_slope, slope_slope = np.mean(rest * x, axis=0), np.mean(weight * x * x, axis=0)
    # If all x are equal or all weights are 0, the curvature is 0. The step is then 0 instead of 0 / 0.
    tiny = np.finfo(np.float64).tiny
    if not offset:
        return by_slope / (slope_slope + tiny), np.zeros_like(offsets)
    by_offset, offset_offset, both = np.mean(rest, axis=0), np.mean(weight, axis=0), np.mean(weight * x, axis=0)
    determinant = slope_slope * offset_offset - both**2
    flat = determinant <= 1e-12 * slope_slope * offset_offset
    determinant[flat] = 1.0
    slope_step = (offset_offset * by_slope - both * by_offset) / determinant
    offset_step = (slope_slope * by_offset - both * by_slope) / determinant
    return np.where(flat, 0.0, slope_step), np.where(flat, by_offset / (offset_offset + tiny), offset_step)


def _log_loss(x: FloatArray, targets: FloatArray, slopes: FloatArray, offsets: FloatArray) -> FloatArray:
    """Return the mean over rows of log(1 + exp(v)) - target v, with v = slope x + offset."""
    v = slopes * x + offsets
    return np.mean(np.logaddexp(0.0, v) - targets * v, axis=0)
