"""Feature maps: they turn the rows of a user into the features of a linear hash function."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

import hashlearn.rowkeys as rowkeys
from hashlearn.labels import refuse_masked
from hashlearn.parallel import map_blocks, one_blas_thread, ordered_map, row_blocks
from hashlearn.typing import Float32Array, FloatArray, Matrix

LEAST_LANDMARKS, MOST_LANDMARKS = 1000, 3000


def as_matrix(X: Any, name: str = "X") -> Any:
    """Return a column of vectors, as pandas, polars and Arrow hold them, as a matrix, and other rows as they are.

    ValueError if entries are masked, or vectors are missing or of several lengths.
    """
    refuse_masked(X, name)
    library, shape = type(X).__module__.partition(".")[0], getattr(X, "shape", (0,))
    of_objects = isinstance(X, np.ndarray) and X.dtype == object
    if not (of_objects or library in ("pandas", "polars", "pyarrow")) or shape[1:] not in ((), (1,)):
        return X
    column = np.asarray(X)
    if column.dtype != object:
        return column if column.ndim > len(shape) else X
    vectors = column.ravel()
    if not any(isinstance(vector, (np.ndarray, list, tuple)) for vector in vectors[:1]):
        return X
    lengths = [len(vector) if isinstance(vector, (np.ndarray, list, tuple)) else None for vector in vectors]
    for row, length in enumerate(lengths):
        if length != lengths[0]:
            got = "none" if length is None else f"{length}"
            raise ValueError(
                f"{name} is a column of vectors, which must all have as many numbers as the first, {lengths[0]}. Got "
                f"{got} in row {row}."
            )
    return np.stack([np.asarray(vector) for vector in vectors])


def validated_rows(estimator: Any, X: Any, *, reset: bool = False, at_least: int = 1) -> Matrix:
    """Check rows as scikit-learn does. They become float32 or float64 numbers; sparse rows stay sparse."""
    return validate_data(
        estimator,
        as_matrix(X),
        accept_sparse="csr",
        dtype=[np.float32, np.float64],
        ensure_min_samples=at_least,
        reset=reset,
    )


def dense_rows(X: Matrix, dtype: Any = np.float32) -> NDArray[Any]:
    """Return a block of rows as a dense array in C order, float32 by default.

    Sums round differently in another order, so without one order the codes of a Fortran array or a DataFrame would
    differ from those of the same rows in a C array.
    """
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=dtype, order="C")


def landmark_count(n_landmarks: int | str, n_rows: int) -> int:
    """Return the number of landmarks for ``n_rows`` rows. "auto" is two fifths of them, from 1,000 to 3,000."""
    if isinstance(n_landmarks, str):
        return min(MOST_LANDMARKS, max(LEAST_LANDMARKS, 2 * n_rows // 5))
    return n_landmarks


def row_sums(X: Matrix) -> FloatArray:
    """Return the sum of the rows in double precision."""
    rows = X if sparse.issparse(X) else np.asarray(X, order="C")
    return np.asarray(rows.sum(axis=0, dtype=np.float64)).ravel()


class LandmarkKernel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """RBF features of rows x and landmark rows l: exp(-|x - l|^2 / (2 tau)), minus their training mean.

    Rows are first scaled to unit length and centered. tau is the mean squared distance between rows and landmarks
    unless it is given.

    Parameters
    ----------
    n_landmarks : int or "auto", default=1000
        Number of rows that are drawn at random as landmarks; all rows if there are fewer. "auto" is two fifths of the
        rows, at least 1,000 and at most 3,000.
    bandwidth : float or None, default=None
        tau; None for the mean squared distance.
    normalize : bool, default=True
        Scale rows to unit length first.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    landmarks_ : ndarray (n_landmarks, n_features)
        Landmark rows, scaled and centered.
    mean_ : ndarray (n_features,)
        Mean of the scaled training rows.
    bandwidth_ : float
        tau.
    center_ : ndarray (n_landmarks,)
        Training mean of each kernel feature.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import LandmarkKernel
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> LandmarkKernel(n_landmarks=20, random_state=0).fit_transform(X).shape
    (100, 20)
    """

    def __init__(
        self,
        n_landmarks: int | str = 1000,
        *,
        bandwidth: float | None = None,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.bandwidth = bandwidth
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Draw landmarks from the rows X (n, n_features), and learn bandwidth and means. ``y`` is ignored."""
        X = validated_rows(self, X, reset=True)
        self.fit_landmarks(X)
        total = np.zeros(len(self.landmarks_))
        for part in ordered_map(lambda block: row_sums(self.map_block(X[block])), row_blocks(X.shape[0]), self.n_jobs):
            total += part
        self.center_ = (total / X.shape[0]).astype(np.float32)
        return self

    def transform(self, X: Matrix) -> Float32Array:
        """Return the centered kernel features (n, n_landmarks) of rows X."""
        check_is_fitted(self)
        X = validated_rows(self, X)
        result = np.empty((X.shape[0], len(self.landmarks_)), dtype=np.float32)
        blocks = row_blocks(X.shape[0])
        features = ordered_map(lambda block: self.map_block(X[block]) - self.center_, blocks, self.n_jobs)
        for block, part in zip(blocks, features, strict=True):
            result[block] = part
        return result

    def fit_landmarks(self, X: Matrix) -> None:
        """Fit everything but ``center_``, for callers that compute that mean in another pass."""
        n_rows = X.shape[0]
        total, squares = np.zeros(X.shape[1]), 0.0
        for sums, square in map_blocks(self.moments, X, self.n_jobs):
            total += sums
            squares += square
        count = landmark_count(self.n_landmarks, n_rows)
        drawn = rowkeys.draw_rows(self.draw_seed(), rowkeys.LANDMARKS, n_rows, count)
        self.set_landmarks(X[drawn], total, squares, n_rows)

    def draw_seed(self) -> int:
        """Return the seed of the keys that choose the landmarks."""
        wrong = self.n_landmarks != "auto" if isinstance(self.n_landmarks, str) else self.n_landmarks < 1
        if wrong:
            raise ValueError(
                f"The 'n_landmarks' parameter must be 'auto' or at least 1. Got {self.n_landmarks!r} instead."
            )
        return int(check_random_state(self.random_state).randint(2**31))

    def set_landmarks(self, rows: Matrix, total: FloatArray, squares: float, n_rows: int) -> None:
        """Set landmarks to the drawn rows, and mean and bandwidth from the sums of ``moments`` over all rows."""
        mean = total / n_rows
        self.mean_ = mean.astype(np.float32)
        self.landmarks_ = self._unit(dense_rows(rows)) - self.mean_
        # The mean of all |x - l|^2 follows from moments, because the centered rows have mean zero.
        spread = squares / n_rows - float(mean @ mean)
        tau = spread + float((self.landmarks_.astype(np.float64) ** 2).sum(axis=1).mean())
        self.bandwidth_ = float(self.bandwidth if self.bandwidth is not None else tau)
        if not self.bandwidth_ > 1e-12:
            # All rows are equal, so every bandwidth gives the same constant features.
            self.bandwidth_ = 1.0
        self._n_features_out = len(self.landmarks_)

    def add_landmarks(self, rows: Matrix, ridge: float) -> FloatArray:
        """Make more rows landmarks, and return weights (n_landmarks, n_before) from the features before to those after.

        For the new features the weights are those of the Nyström method: they are exact for rows that are landmarks
        already, and close for rows like them. So sums over rows that are gone can be kept. ``center_`` is left to the
        caller. ``ridge`` is added to the kernel between landmarks, which is singular where landmarks repeat.
        """
        new = self._unit(dense_rows(rows)) - self.mean_
        with one_blas_thread():
            known = self._kernel(self.landmarks_, np.float64)
            known.flat[:: len(known) + 1] += ridge
            weights = linalg.solve(known, self._kernel(new, np.float64).T, assume_a="pos", check_finite=False).T
        self.landmarks_ = np.concatenate([self.landmarks_, new])
        self._n_features_out = len(self.landmarks_)
        return np.vstack([np.eye(len(known)), weights])

    def map_block(self, X: Matrix, dtype: Any = np.float32) -> NDArray[Any]:
        """Return the kernel features of a block of rows, not centered.

        The exponent x.l/tau - |x|^2/(2 tau) - |l|^2/(2 tau) is one matrix product of rows and landmarks with two more
        columns each, and exp works in place, so no further passes over the block are needed.
        """
        return self._kernel(self._unit(dense_rows(X, dtype)) - self.mean_, dtype)

    def typical(self) -> Float32Array:
        """Return the mean features of the landmarks. It estimates the mean of all rows without a pass over them."""
        with one_blas_thread():
            return self._kernel(self.landmarks_, np.float32).mean(axis=0)

    def _kernel(self, rows: NDArray[Any], dtype: Any) -> NDArray[Any]:
        left = np.empty((len(rows), rows.shape[1] + 2), dtype=dtype)
        left[:, :-2] = rows
        left[:, -2] = -0.5 / self.bandwidth_ * np.einsum("ij,ij->i", rows, rows)
        left[:, -1] = 1.0
        landmarks = self.landmarks_.astype(dtype)
        width = landmarks.shape[1]
        factors = np.empty((len(landmarks), width + 2), dtype=dtype)
        factors[:, :width] = landmarks / factors.dtype.type(self.bandwidth_)
        factors[:, width] = 1.0
        factors[:, width + 1] = -0.5 / self.bandwidth_ * np.einsum("ij,ij->i", landmarks, landmarks)
        exponent = left @ factors.T
        return np.exp(exponent, out=exponent)

    def _unit(self, rows: NDArray[Any]) -> NDArray[Any]:
        if not self.normalize:
            return rows
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        norms[norms == 0] = 1.0
        return rows / norms[:, None].astype(rows.dtype)

    def moments(self, X: Matrix) -> tuple[FloatArray, float]:
        """Return the sum of a block's scaled rows, and the sum of their squared lengths."""
        rows = self._unit(dense_rows(X))
        return rows.sum(axis=0, dtype=np.float64), float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))


class PlainFeatures:
    """The feature map of ``kernel=None``: features are the rows themselves."""

    center_: Float32Array

    n_landmarks: int | str = 0

    def fit_landmarks(self, X: Matrix) -> None:
        """Do nothing, because there are no landmarks."""

    def draw_seed(self) -> int:
        return 0

    def set_landmarks(self, rows: Matrix, total: FloatArray, squares: float, n_rows: int) -> None:
        """Do nothing, because there are no landmarks."""

    def moments(self, X: Matrix) -> tuple[FloatArray, float]:
        """Return the sum of a block's rows, and 0 for the squared lengths, which are not needed."""
        return row_sums(X), 0.0

    def map_block(self, X: Matrix, dtype: Any = np.float32) -> NDArray[Any]:
        # A copy, because callers subtract the center in place.
        return dense_rows(X, dtype).copy()


FeatureMap = LandmarkKernel | PlainFeatures
