"""Linear hash functions, and the ridge regression that learns them from sums over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn.parallel import one_blas_thread, row_blocks
from hashlearn.typing import FloatArray

# ridge="auto" searches between these shares of the mean eigenvalue of X'X.
AUTO_RANGE = (1e-10, 1e4)
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
        ridge : float or "auto"
            "auto" chooses the ridge by generalized cross-validation.

        Raises
        ------
        ValueError
            If ``ridge`` is neither "auto" nor above 0.
        """
        with one_blas_thread():
            if ridge == "auto":
                return cls(*cross_validated_ridge(sums))
            if isinstance(ridge, str) or not ridge > 0:
                raise ValueError(f"The 'ridge' parameter must be 'auto' or a number above 0. Got {ridge!r} instead.")
            return cls(RidgeFactor(sums.xx, float(ridge)).solve(sums.xt), float(ridge))

    def project(self, features: NDArray[Any]) -> NDArray[Any]:
        """Compute the projections of centered features."""
        projections = features @ self.weights_
        projections += self.intercept_
        return projections


@dataclass
class RidgeSums:
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
    def of(cls, x: NDArray[np.floating], t: NDArray[np.floating]) -> RidgeSums:
        """Sum over one block of rows: products in the precision of the rows, sums of blocks in double precision."""
        return cls(
            len(x),
            x.sum(axis=0, dtype=np.float64),
            (x.T @ x).astype(np.float64),
            (x.T @ t).astype(np.float64),
            t.sum(axis=0, dtype=np.float64),
            np.einsum("ij,ij->j", t, t, dtype=np.float64),
        )

    def __iadd__(self, other: RidgeSums) -> RidgeSums:
        self.count += other.count
        for name in ("x", "xx", "xt", "t", "tt"):
            ours = getattr(self, name)
            ours += getattr(other, name)
        return self

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


def cross_validated_ridge(sums: RidgeSums) -> tuple[FloatArray, float]:
    """Solve with the ridge of least generalized cross-validation error, added up over all targets.

    One eigendecomposition X'X = V diag(w) V' gives the error of every ridge r:
    GCV(r) = (mean squared residual) / (1 - sum w / (w + r) / n)^2.

    Returns
    -------
    weights, ridge
    """
    values, vectors = linalg.eigh(sums.xx, check_finite=False)
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ sums.xt
    energy = (rotated**2).sum(axis=1)
    scale = max(float(values.mean()), np.finfo(np.float64).tiny)
    candidates = scale * np.geomspace(*AUTO_RANGE, 113)
    errors = [_gcv(values, energy, float(sums.tt.sum()), sums.count, ridge) for ridge in candidates]
    ridge = float(candidates[int(np.argmin(errors))])
    return vectors @ (rotated / (values + ridge)[:, None]), ridge


def _gcv(values: FloatArray, energy: FloatArray, total: float, count: int, ridge: float) -> float:
    shrink = 1.0 / (values + ridge)
    residual = total - float((energy * shrink * (2.0 - values * shrink)).sum())
    freedom = 1.0 - float((values * shrink).sum()) / count
    if freedom <= 1e-9:
        return np.inf
    return max(residual, 0.0) / count / freedom**2
