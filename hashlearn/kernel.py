"""Feature maps: from the rows a user has to the features a linear hash function works on."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

import hashlearn.rowkeys as rowkeys
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.typing import Matrix


def dense_rows(X: Matrix, dtype: Any = np.float32) -> NDArray[Any]:
    """A block of rows as a dense array, float32 unless asked otherwise."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=dtype)


def row_sums(X: Matrix) -> NDArray[np.float64]:
    return np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()


class AnchorKernel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """RBF features against landmark rows: exp(-|x - l|^2 / (2 tau)), minus their training mean.

    Rows are scaled to unit length and centred first. tau is the mean squared distance between rows and
    landmarks unless given.

    Parameters
    ----------
    n_landmarks : int, default=1000
        Rows drawn at random to span the kernel; all rows when there are fewer.
    bandwidth : float or None, default=None
        tau. None for the mean squared distance.
    normalize : bool, default=True
        Scale rows to unit length first.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    landmarks_ : ndarray (n_landmarks, n_features), unit length and centred.
    mean_ : ndarray (n_features,), mean of the scaled training rows.
    bandwidth_ : float, tau.
    center_ : ndarray (n_landmarks,), training mean of each kernel feature.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import AnchorKernel
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> AnchorKernel(n_landmarks=20, random_state=0).fit_transform(X).shape
    (100, 20)
    """

    def __init__(
        self,
        n_landmarks: int = 1000,
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
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64])
        self.fit_landmarks(X)
        total = np.zeros(len(self.landmarks_))
        for part in ordered_map(lambda block: row_sums(self.map_block(X[block])), row_blocks(X.shape[0]), self.n_jobs):
            total += part
        self.center_ = (total / X.shape[0]).astype(np.float32)
        return self

    def transform(self, X: Matrix) -> NDArray[np.float32]:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        result = np.empty((X.shape[0], len(self.landmarks_)), dtype=np.float32)
        blocks = row_blocks(X.shape[0])
        features = ordered_map(lambda block: self.map_block(X[block]) - self.center_, blocks, self.n_jobs)
        for block, part in zip(blocks, features, strict=True):
            result[block] = part
        return result

    def fit_landmarks(self, X: Matrix) -> None:
        """Everything but ``center_``, for callers that take that mean in a pass of their own."""
        n_rows = X.shape[0]
        total, squares = np.zeros(X.shape[1]), 0.0
        for sums, square in ordered_map(lambda block: self.moments(X[block]), row_blocks(n_rows), self.n_jobs):
            total += sums
            squares += square
        self.set_landmarks(
            X[rowkeys.draw_rows(self.draw_seed(), rowkeys.LANDMARKS, n_rows, self.n_landmarks)], total, squares, n_rows
        )

    def draw_seed(self) -> int:
        """The seed of the keys by which landmarks are drawn."""
        if self.n_landmarks < 1:
            raise ValueError(f"The 'n_landmarks' parameter must be at least 1. Got {self.n_landmarks} instead.")
        return int(check_random_state(self.random_state).randint(2**31))

    def set_landmarks(self, rows: Matrix, total: NDArray[np.float64], squares: float, n_rows: int) -> None:
        """Landmarks from the drawn rows, mean and bandwidth from ``moments`` summed over all rows."""
        mean = total / n_rows
        self.mean_ = mean.astype(np.float32)
        self.landmarks_ = self._unit(dense_rows(rows)) - self.mean_
        # The mean of all |x - l|^2 follows from moments, because the centred rows have mean zero.
        spread = squares / n_rows - float(mean @ mean)
        tau = spread + float((self.landmarks_.astype(np.float64) ** 2).sum(axis=1).mean())
        self.bandwidth_ = float(self.bandwidth if self.bandwidth is not None else tau)
        if not self.bandwidth_ > 1e-12:
            # All rows are the same point: every bandwidth gives the same constant features.
            self.bandwidth_ = 1.0
        self._n_features_out = len(self.landmarks_)

    def map_block(self, X: Matrix, dtype: Any = np.float32) -> NDArray[Any]:
        """Kernel features of a block of rows, not centred.

        The exponent x.l/tau - |x|^2/(2 tau) - |l|^2/(2 tau) is one matrix product of rows and landmarks
        widened by two columns, and exp runs in place: no further passes over the block.
        """
        return self._kernel(self._unit(dense_rows(X, dtype)) - self.mean_, dtype)

    def typical(self) -> NDArray[np.float32]:
        """Mean features of the landmarks: about the mean of all rows' features, before any pass over them."""
        with one_blas_thread():
            return self._kernel(self.landmarks_, np.float32).mean(axis=0)

    def _kernel(self, rows: NDArray[Any], dtype: Any) -> NDArray[Any]:
        left = np.empty((len(rows), rows.shape[1] + 2), dtype=dtype)
        left[:, :-2] = rows
        left[:, -2] = -0.5 / self.bandwidth_ * np.einsum("ij,ij->i", rows, rows)
        left[:, -1] = 1.0
        exponent = left @ self._factors(dtype).T
        return np.exp(exponent, out=exponent)

    def _factors(self, dtype: Any) -> NDArray[Any]:
        landmarks = self.landmarks_.astype(dtype)
        width = landmarks.shape[1]
        factors = np.empty((len(landmarks), width + 2), dtype=dtype)
        factors[:, :width] = landmarks / factors.dtype.type(self.bandwidth_)
        factors[:, width] = 1.0
        factors[:, width + 1] = -0.5 / self.bandwidth_ * np.einsum("ij,ij->i", landmarks, landmarks)
        return factors

    def _unit(self, rows: NDArray[Any]) -> NDArray[Any]:
        if not self.normalize:
            return rows
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        norms[norms == 0] = 1.0
        return rows / norms[:, None].astype(rows.dtype)

    def moments(self, X: Matrix) -> tuple[NDArray[np.float64], float]:
        """Sum of a block's scaled rows, and of their squared lengths."""
        rows = self._unit(dense_rows(X))
        return rows.sum(axis=0, dtype=np.float64), float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))


class PlainFeatures:
    """The rows themselves, to be centred: what ``kernel=None`` uses."""

    center_: NDArray[np.float32]

    n_landmarks = 0

    def fit_landmarks(self, X: Matrix) -> None:
        """Nothing to choose."""

    def draw_seed(self) -> int:
        return 0

    def set_landmarks(self, rows: Matrix, total: NDArray[np.float64], squares: float, n_rows: int) -> None:
        """Nothing to keep."""

    def moments(self, X: Matrix) -> tuple[NDArray[np.float64], float]:
        """Sum of a block's rows."""
        return row_sums(X), 0.0

    def map_block(self, X: Matrix, dtype: Any = np.float32) -> NDArray[Any]:
        # A copy, because callers subtract the centre in place.
        return dense_rows(X, dtype).copy()


FeatureMap = AnchorKernel | PlainFeatures
