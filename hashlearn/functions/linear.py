"""Linear hash functions by ridge regression, from sums that add up over any chunks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn.parallel import one_blas_thread, row_blocks
from hashlearn.typing import FloatArray

# Shares of the Gram matrix's mean eigenvalue between which ridge="auto" searches.
AUTO_RANGE = (1e-10, 1e4)
CACHED_ROWS = 32  # of a Gram matrix, changed while they are near the processor


@dataclass
class Gram:
    """Sums over rows of features x and of their products, which need no targets."""

    count: int
    x: FloatArray
    xx: NDArray[Any]

    @classmethod
    def of(cls, x: NDArray[np.floating]) -> Gram:
        return cls(len(x), x.sum(axis=0, dtype=np.float64), x.T @ x)

    def __iadd__(self, other: Gram) -> Gram:
        self.count += other.count
        self.x += other.x
        self.xx += other.xx
        return self

    def recentred(self, shift: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """The sums of products for features x - shift; ``out`` may be the sums themselves."""
        xx = np.empty(self.xx.shape) if out is None else out
        for rows in row_blocks(len(xx), CACHED_ROWS):
            part = np.subtract(self.xx[rows], np.outer(self.x[rows], shift), out=xx[rows])
            part -= np.outer(shift[rows], self.x)
            part += self.count * np.outer(shift[rows], shift)
        return xx


@dataclass
class RidgeSums:
    """Sums over rows of features x and targets t, all that ridge regression needs of them.

    Features come shifted by some provisional centre; ``recentred`` moves them to the true one afterwards.
    """

    count: int
    x: FloatArray
    xx: FloatArray
    xt: FloatArray
    t: FloatArray
    tt: FloatArray

    @classmethod
    def of(cls, x: NDArray[np.floating], t: NDArray[np.floating], gram: Gram | None = None) -> RidgeSums:
        """Of one block of rows; ``gram`` is theirs where it is known already."""
        gram = gram or Gram.of(x)
        return cls(
            gram.count,
            gram.x.copy(),
            gram.xx.astype(np.float64),
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

    def recentred(self, shift: FloatArray) -> RidgeSums:
        """The sums for features x - shift."""
        xx = Gram(self.count, self.x, self.xx).recentred(shift)
        xt = self.xt - np.outer(shift, self.t)
        return RidgeSums(self.count, self.x - self.count * shift, xx, xt, self.t, self.tt)


class LinearFunction:
    """Projections (x - center) W + intercept; by ridge regression, W = (X'X + ridge I)^-1 X'T.

    Attributes
    ----------
    weights_ : float32 (n_features, n_bits)
    intercept_ : float32 (n_bits,)
    ridge_ : the ridge used, the chosen one for ``ridge="auto"``; 0 where the weights come from elsewhere.
    """

    def __init__(self, weights: FloatArray, ridge: float = 0.0, intercept: FloatArray | None = None) -> None:
        self.weights_ = weights.astype(np.float32)
        self.intercept_ = np.zeros(weights.shape[1], dtype=np.float32)
        if intercept is not None:
            self.intercept_[:] = intercept
        self.ridge_ = ridge

    @classmethod
    def solve(cls, sums: RidgeSums, ridge: float | str, factor: RidgeFactor | None = None) -> LinearFunction:
        """One factorisation for all bits. ``ridge="auto"`` chooses by generalised cross-validation."""
        with one_blas_thread():
            return cls(*(factor or factorised(sums.xx, ridge)).solve(sums))

    def project(self, features: NDArray[Any]) -> NDArray[Any]:
        """Projections of centred features."""
        projections = features @ self.weights_
        projections += self.intercept_
        return projections


class RidgeFactor(Protocol):
    """X'X, factorised once for any targets."""

    def solve(self, sums: RidgeSums) -> tuple[FloatArray, float]:
        """Weights and the ridge."""
        ...


def factorised(xx: FloatArray, ridge: float | str) -> RidgeFactor:
    if ridge == "auto":
        return CrossValidated(xx)
    if isinstance(ridge, str) or not ridge > 0:
        raise ValueError(f"The 'ridge' parameter must be 'auto' or a number above 0. Got {ridge!r} instead.")
    return Regularised(xx, float(ridge))


class Regularised:
    """Cholesky; where rounding has made the matrix indefinite, its eigenvalues are lifted to the ridge."""

    def __init__(self, xx: FloatArray, ridge: float) -> None:
        self.ridge = ridge
        self._cholesky: NDArray[Any] | None = None
        diagonal = xx.diagonal().copy()
        # Changed for a moment, because a copy of it would take a tenth of the time.
        np.fill_diagonal(xx, diagonal + ridge)
        try:
            # NumPy's, because SciPy's lets no other thread work. Turned over, its rows are columns, as LAPACK has them.
            self._cholesky = np.linalg.cholesky(xx.T).T
        except np.linalg.LinAlgError:
            pass
        finally:
            np.fill_diagonal(xx, diagonal)
        if self._cholesky is None:
            self._values, self._vectors = linalg.eigh(xx, check_finite=False)

    def solve(self, sums: RidgeSums) -> tuple[FloatArray, float]:
        return self.weights(sums.xt), self.ridge

    def weights(self, xt: FloatArray) -> FloatArray:
        if self._cholesky is not None:
            return linalg.cho_solve((self._cholesky, False), xt, check_finite=False)
        lifted = np.maximum(self._values, 0) + self.ridge
        return self._vectors @ ((self._vectors.T @ xt) / lifted[:, None])


def regularised_solve(xx: FloatArray, xt: FloatArray, ridge: float) -> FloatArray:
    return Regularised(np.array(xx), ridge).weights(xt)


class CrossValidated:
    """The ridge with the least generalised cross-validation error, summed over all bits.

    One eigendecomposition X'X = V diag(w) V' prices every ridge:
    GCV(r) = (mean squared residual) / (1 - sum w / (w + r) / n)^2.
    """

    def __init__(self, xx: FloatArray) -> None:
        values, self.vectors = linalg.eigh(xx, check_finite=False)
        self.values = np.maximum(values, 0.0)

    def solve(self, sums: RidgeSums) -> tuple[FloatArray, float]:
        values = self.values
        rotated = self.vectors.T @ sums.xt
        energy = (rotated**2).sum(axis=1)
        scale = max(float(values.mean()), np.finfo(np.float64).tiny)
        candidates = scale * np.geomspace(*AUTO_RANGE, 113)
        errors = np.array([_gcv(values, energy, float(sums.tt.sum()), sums.count, r) for r in candidates])
        ridge = float(candidates[int(np.argmin(errors))])
        return self.vectors @ (rotated / (values + ridge)[:, None]), ridge


def _gcv(values: FloatArray, energy: FloatArray, total: float, count: int, ridge: float) -> float:
    shrink = 1.0 / (values + ridge)
    residual = total - float((energy * shrink * (2.0 - values * shrink)).sum())
    freedom = 1.0 - float((values * shrink).sum()) / count
    if freedom <= 1e-9:
        return np.inf
    return max(residual, 0.0) / count / freedom**2
