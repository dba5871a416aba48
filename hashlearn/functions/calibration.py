"""What a projection says about its bit: from z to the expected bit e(z) in [-1, 1], with two numbers per bit.

A projection is no probability, and projections of different hashers differ in size. A logistic curve per bit,
P(bit = 1 | z) = 1 / (1 + exp(-(slope z + offset))), puts all of them on one scale: e = 2 P - 1 is near -1 or +1 where
the bit is sure and near 0 where it is not. Real-valued queries are e(q); the bits of a calibrated hasher are sgn(e).

What the "bit" is depends on the hasher. One that learns codes has its learned bit as the target, best on rows that its
function has not seen. One whose codes are sgn(z) has no other target than its own sign, which says nothing; what a
query needs there is the bit of a *relevant row*, so the target is the bit of a near neighbor (``neighbor_pairs``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.typing import FloatArray, IntArray

MAX_STEPS = 50
HALVINGS = 20
TOLERANCE = 1e-10
PAIR_ROWS, PAIR_NEIGHBORS = 2048, 5


class Calibration:
    """Slope and offset of every bit.

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
        """The most likely curves for projections (n, n_bits) and bits (n, n_bits): {0, 1}, booleans or {-1, +1}.

        Targets are Platt's, (n_1 + 1) / (n_1 + 2) for a 1 and 1 / (n_0 + 2) for a 0, so curves stay finite where
        projections separate the bits and where a bit is constant. ``offset=False`` keeps offsets at 0: then sgn(e) is
        sgn(z), as hashers need whose codes are defined so.
        """
        z = np.asarray(projections, dtype=np.float64)
        targets = _targets(np.asarray(bits) > 0)
        # In units of their size, all bits can share one tolerance. A projection that is always 0 says nothing.
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

    def expected_bits(self, projections: NDArray[Any]) -> NDArray[Any]:
        """e(z) = tanh((slope z + offset) / 2) in [-1, 1], in the precision of the projections."""
        z = np.asarray(projections)
        dtype = z.dtype if z.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        half = z * (0.5 * self.slopes_)
        half += 0.5 * self.offsets_
        return np.tanh(half, out=half).astype(dtype, copy=False)


def neighbor_pairs(rows: NDArray[Any], n_neighbors: int = PAIR_NEIGHBORS) -> tuple[IntArray, IntArray]:
    """Every row with each of its nearest other rows (Euclidean): two arrays of places, ``n_neighbors`` per row.

    All distances are made at once, so pass a sample of about ``PAIR_ROWS`` rows.
    """
    rows = np.asarray(rows, dtype=np.float64)
    n_neighbors = min(n_neighbors, len(rows) - 1)
    if n_neighbors < 1:
        raise ValueError(f"Neighbors need at least 2 rows. Got {len(rows)} instead.")
    centered = rows - rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", centered, centered)
    distances = squares[None, :] - 2 * (centered @ centered.T)  # less the row's own square, which orders nothing
    np.fill_diagonal(distances, np.inf)
    # A stable sort of all, so that of equal distances the first row wins on every machine.
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :n_neighbors]
    return np.repeat(np.arange(len(rows)), n_neighbors), nearest.ravel()


def spread_thresholds(n_bits: int, width: float, seed: int) -> FloatArray:
    """Thresholds for the bits of database rows: an even grid on [-width, width], shuffled over the bits.

    bit_j = sgn(e_j - t_j). Averaged over bits, sgn(e - t) is e / width, so a row that is unsure agrees with every query
    a little and ranks behind sure ones. Queries keep e, or the plain signs of it.
    """
    return np.random.default_rng(seed).permutation(np.linspace(-width, width, n_bits))


def _targets(ones: NDArray[np.bool_]) -> FloatArray:
    n_ones = ones.sum(axis=0)
    high, low = (n_ones + 1) / (n_ones + 2), 1 / (len(ones) - n_ones + 2)
    return np.where(ones, high, low)


def _most_likely(x: FloatArray, targets: FloatArray, offset: bool) -> tuple[FloatArray, FloatArray]:
    """Slopes and offsets of least mean log loss, by Newton steps for all bits at once."""
    slopes, offsets = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    loss = _log_loss(x, targets, slopes, offsets)
    for _ in range(MAX_STEPS):
        slope_step, offset_step = _newton_step(x, targets, slopes, offsets, offset)
        # The loss is convex, but far from its minimum a whole step may overshoot: each bit halves its own.
        share = np.ones(x.shape[1])
        for _ in range(HALVINGS):
            moved = _log_loss(x, targets, slopes + share * slope_step, offsets + share * offset_step)
            worse = moved > loss
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
    # Where all x are equal or all weights vanish the curvature is 0: the step then stays 0 rather than 0 / 0.
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
    """Mean over rows of log(1 + exp(v)) - target v, with v = slope x + offset."""
    v = slopes * x + offsets
    return np.mean(np.logaddexp(0.0, v) - targets * v, axis=0)
