"""Linear hash functions, and the ridge regression that learns them from sums over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

import hashlearn.rowkeys as rowkeys
from hashlearn.functions.calibration import Calibration
from hashlearn.kernel import FeatureMap
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.rows.reduce import AdditiveSums, GroupSums
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix


class HashFunction(Protocol):
    """Maps features of rows to real projections; the bits are their signs."""

    def project(self, features: NDArray[Any]) -> NDArray[Any]: ...


def block_precision(X: Matrix) -> Any:
    """Return the precision in which a block of rows is projected: its own if that is float32 or float64."""
    return X.dtype if X.dtype in (np.float32, np.float64) else np.float32


def project_block(features: FeatureMap, function: HashFunction, X: Matrix) -> NDArray[Any]:
    """Project a block of rows by a function of their features."""
    mapped = features.map_block(X, dtype=block_precision(X))
    mapped -= features.center_
    return function.project(mapped)


def database_signs(project: Callable[[Matrix], NDArray[Any]], shift: Float32Array, X: Matrix) -> NDArray[Any]:
    """Bits of a block of rows as signs: 1 where a projection is at least ``shift``, in the precision of ``encode``."""
    projections = np.asarray(project(X), dtype=np.float32)
    # Not the difference, which may round to 0.
    return np.where(projections >= shift, np.float32(1), np.float32(-1))


# A block of this many rows of X'X fits in the processor's cache.
CACHED_ROWS = 32


class LinearFunction:
    """Projections (x - center) W + intercept.

    Attributes
    ----------
    weights_ : float32 (n_features, n_bits)
    intercept_ : float32 (n_bits,)
    ridge_ : float
        The ridge that the weights were solved with; 0 if they were not learned by ridge regression.
    """

    def __init__(self, weights: FloatArray, ridge: float = 0.0, intercept: FloatArray | None = None) -> None:
        self.weights_ = weights.astype(np.float32)
        self.intercept_ = np.zeros(weights.shape[1], dtype=np.float32)
        if intercept is not None:
            self.intercept_[:] = intercept
        self.ridge_ = ridge

    @classmethod
    def solve(cls, sums: RidgeSums, ridge: float | str) -> LinearFunction:
        """Learn W = (X'X + ridge I)^-1 X'T for all bits from one factorization.

        Parameters
        ----------
        sums : RidgeSums
            Sums over the rows, of centered features.
        ridge : float

        Raises
        ------
        ValueError
            If ``ridge`` is not above 0.
        """
        if isinstance(ridge, str) or not ridge > 0:
            raise ValueError(f"The 'ridge' parameter must be a number above 0 here. Got {ridge!r} instead.")
        with one_blas_thread():
            return cls(RidgeFactor(sums.xx, float(ridge)).solve(sums.xt), float(ridge))

    def project(self, features: NDArray[Any]) -> NDArray[Any]:
        """Compute the projections of centered features."""
        projections = features @ self.weights_
        projections += self.intercept_
        return projections


@dataclass
class RidgeSums(AdditiveSums):
    """Sums over rows of features x and targets t: all that ridge regression needs to know of the rows.

    The mean of the features is known only after the last row. So features are counted from a provisional center, and
    ``recentered`` moves the finished sums to the mean.
    """

    count: int
    x: FloatArray
    xx: FloatArray
    xt: FloatArray
    t: FloatArray
    tt: FloatArray

    @classmethod
    def from_rows(cls, x: NDArray[np.floating], t: NDArray[np.floating]) -> RidgeSums:
        """Sum over one block of rows: products in the precision of the rows, sums of blocks in double precision."""
        return cls(
            len(x),
            x.sum(axis=0, dtype=np.float64),
            (x.T @ x).astype(np.float64),
            (x.T @ t).astype(np.float64),
            t.sum(axis=0, dtype=np.float64),
            np.einsum("ij,ij->j", t, t, dtype=np.float64),
        )

    def __sub__(self, other: RidgeSums) -> RidgeSums:
        """Return the sums without those of some of the rows."""
        names = ("x", "xx", "xt", "t", "tt")
        return RidgeSums(self.count - other.count, *(getattr(self, name) - getattr(other, name) for name in names))

    def recentered(self, shift: FloatArray) -> RidgeSums:
        """Return the sums for the features x - shift."""
        xx = np.empty_like(self.xx)
        for rows in row_blocks(len(xx), CACHED_ROWS):
            part = np.subtract(self.xx[rows], np.outer(self.x[rows], shift), out=xx[rows])
            part -= np.outer(shift[rows], self.x)
            part += self.count * np.outer(shift[rows], shift)
        xt = self.xt - np.outer(shift, self.t)
        return RidgeSums(self.count, self.x - self.count * shift, xx, xt, self.t, self.tt)


@dataclass
class FeatureSums(AdditiveSums):
    """Sums over rows: ``total`` of the features of all rows, ``sums`` with the targets of those that have any."""

    n_rows: int
    total: FloatArray
    sums: RidgeSums

    @property
    def mean(self) -> FloatArray:
        return self.total / self.n_rows


@dataclass
class GroupedFeatureSums(FeatureSums):
    """Sums over all rows, and the sums of the features by group."""

    groups: GroupSums


class RidgeFactor:
    """X'X + ridge I, factored once for any number of targets.

    Rounding can make X'X indefinite, and Cholesky then fails. In that case the eigenvalues below 0 are set to 0.
    """

    def __init__(self, xx: FloatArray, ridge: float) -> None:
        self.ridge = ridge
        lifted = np.array(xx)
        np.fill_diagonal(lifted, lifted.diagonal() + ridge)
        try:
            # The transpose of a lower factor in C order is an upper factor in LAPACK's order, which needs no copy.
            self._cholesky: NDArray[Any] | None = np.linalg.cholesky(lifted.T).T
        except np.linalg.LinAlgError:
            self._cholesky = None
            self._values, self._vectors = linalg.eigh(xx, check_finite=False)

    def solve(self, xt: FloatArray) -> FloatArray:
        """Compute weights (n_features, n_targets) from X'T."""
        if self._cholesky is not None:
            return linalg.cho_solve((self._cholesky, False), xt, check_finite=False)
        values = np.maximum(self._values, 0) + self.ridge
        return self._vectors @ ((self._vectors.T @ xt) / values[:, None])


def least_place(error: Callable[[int], float], count: int) -> int:
    """Return the place, of 0 ... count - 1, of the least error, if errors fall to one minimum and rise again.

    The search begins at place 1, which is near the minimum for ridges.
    """
    errors, best = {1: error(1)}, 1
    for step in (1, -1):
        while 0 <= best + step < count and best + step not in errors:
            errors[best + step] = error(best + step)
            if errors[best + step] >= errors[best]:
                break
            best += step
    return best


MOST_HELD_OUT = 2048
"""Rows held out at most; a fifth of the rows if they are fewer."""
FEW_ROWS, N_FOLDS = 2500, 5
"""With fewer labeled rows than this, every row is held out once, in one of the folds."""
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Ridges to choose from, as shares of the mean eigenvalue of X'X. The search climbs from the least."""
LEAST_SLOPE = 1e-6
"""Slope of a bit that rows left out say nothing about, at projections of size 1: its sign stays, its weight is tiny."""


@dataclass
class HeldOutPlan:
    """Which rows are held out: the ``count`` labeled rows with the lowest keys, none of which is above ``limit``."""

    seed: int
    count: int
    n_folds: int
    limit: np.uint64

    @classmethod
    def for_rows(cls, n_labeled: int, seed: int) -> HeldOutPlan:
        """Return the plan for a number of labeled rows: every row once in one of five folds if they are few."""
        few = n_labeled < FEW_ROWS
        count = n_labeled if few else min(MOST_HELD_OUT, n_labeled // N_FOLDS)
        return cls(seed, count, min(N_FOLDS, n_labeled) if few else 1, rowkeys.limit(count, n_labeled))


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


# Products round differently with other numbers of BLAS threads, so that the answer would depend on the machine.
@one_blas_thread()
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
    scale = float(np.trace(sums.recentered(mean).xx)) / len(mean) or 1.0
    parts = [(rows, (sums - RidgeSums.from_rows(held.x[rows], held.t[rows])).recentered(mean)) for rows in held.folds]

    def project(place: int) -> FloatArray:
        z = np.empty(held.t.shape)
        for rows, part in parts:
            weights = RidgeFactor(part.xx, RIDGES[place] * scale).solve(part.xt)
            z[rows] = (held.x[rows] - mean.astype(np.float32)) @ weights + part.t / max(part.count, 1)
        return z

    projections, best, least_wrong = np.empty(0), 0, np.inf
    # The first two ridges are always tried, so they are tried together.
    for place, found in enumerate(chain(ordered_map(project, (0, 1), n_jobs), map(project, range(2, len(RIDGES))))):
        wrong = np.mean((found >= 0) != (held.codes > 0))
        if wrong >= least_wrong:
            break
        projections, best, least_wrong = found, place, wrong
    calibration = Calibration.fit(projections, held.codes)
    least = LEAST_SLOPE / np.maximum(np.sqrt(np.mean(projections**2, axis=0)), 1e-300)
    slopes = np.maximum(calibration.slopes_, least)
    offsets = np.where(calibration.slopes_ > least, calibration.offsets_, 0.0)
    ridge, whole = RIDGES[best] * scale, sums.recentered(mean)
    weights = RidgeFactor(whole.xx, ridge).solve(whole.xt)
    return LinearFunction(weights * slopes, ridge, slopes * whole.t / whole.count + offsets)
