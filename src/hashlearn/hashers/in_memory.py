"""Base of methods that need the features of all rows in memory."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import HashFunction, LinearFunction
from hashlearn.hashers.base import BaseHasher
from hashlearn.kernel import FeatureMap, LandmarkKernel, PlainFeatures
from hashlearn.labels import check_variety, group_rows
from hashlearn.parallel import map_blocks, one_blas_thread
from hashlearn.parameters import COUNT, Options, fitted, parameter
from hashlearn.progress import PhaseTimer, verbose_listening
from hashlearn.rows.source import CalibrationSample
from hashlearn.typing import Float32Array, IntArray, Matrix, PackedCodes, Rng


class Learned:
    """What a method returns.

    Attributes
    ----------
    function : the hash function.
    codes : learned codes in {-1, +1} of all training rows or of the labeled ones, in a method that learns from sums of
        every group; None to hash the rows. Rows without labels are hashed in any case.
    attributes : fitted attributes by name, ``objective_`` for example; lists become arrays.
    in_context : whether a method that learns from sums has given the codes of the labeled rows to the context already.
    row_codes : numbers and packed codes of some rows, if only a sample has learned codes.
    database_function : the function that hashes rows without learned codes, if it is not ``function``.
    calibration : of the bits, if the method learns it itself.
    """

    in_context = False
    row_codes: tuple[IntArray, PackedCodes] | None = None
    database_function: HashFunction | None = None
    calibration: Calibration | None = None

    def __init__(self, function: HashFunction, codes: NDArray[Any] | None = None, **attributes: Any) -> None:
        self.function, self.codes = function, codes
        self.attributes = {name: np.asarray(v) if isinstance(v, list) else v for name, v in attributes.items()}


class InMemoryHasher(BaseHasher):
    """Base of methods that learn on features in memory. A subclass implements ``_learn``.

    The features are the centered rows, unless the method has the parameters of ``KernelParameters``.
    """

    seconds_: dict[str, float] = fitted("Seconds of each phase of the fit.")

    @abstractmethod
    def _learn(self, features: Float32Array, labels: Any, rng: Rng) -> Learned:
        """Learn from features (n, d) and label sets (n, c), empty for unlabeled rows; None if unsupervised."""

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from classes (n,) or label sets (n, c) of 0/1, dense or sparse; unsupervised methods ignore y."""
        X = self._validate(X)
        labels = None
        if self._uses_labels:
            labels = self._read_labels(X, y).sets
            check_variety(len(group_rows(labels)[1]))
        rng, timer = self._rng(), PhaseTimer()
        with verbose_listening(self.verbose):
            with timer("features"):
                features = self._map_rows(X, rng)
            with timer("learn"), one_blas_thread():
                learned = self._learn(features, labels, rng)
        self.function_ = learned.function
        for name, value in learned.attributes.items():
            setattr(self, name, value)
        with timer("code"):
            self.codes_ = self._hash(features)
            if learned.codes is not None:
                known = np.arange(len(features)) if labels is None else np.flatnonzero(np.diff(labels.indptr))
                own = learned.codes if len(learned.codes) == len(known) else learned.codes[known]
                self.codes_[known] = codes.pack(own > 0)
        with timer("calibrate"):
            sample = CalibrationSample.from_array(X, None if labels is None else np.diff(labels.indptr) > 0)
            self._calibrate(sample, None if learned.codes is None else self.codes_[sample.numbers])
        self.seconds_ = timer.seconds
        return self

    def _hash(self, features: Float32Array) -> NDArray[np.uint8]:
        return codes.pack(self.function_.project(features) >= 0)

    def _map_rows(self, X: Matrix, rng: Rng) -> Float32Array:
        """Return the features of all rows, centered as ``kernel`` says; sets ``features_``."""
        self.features_ = self._feature_map(rng)
        self.features_.fit_landmarks(X)
        mapped = np.concatenate(list(map_blocks(self.features_.map_block, X, self.n_jobs)))
        center = mapped.mean(axis=0, dtype=np.float64) if self._centers_features else np.zeros(mapped.shape[1])
        self.features_.center_ = center.astype(np.float32)
        mapped -= self.features_.center_
        return mapped

    @property
    def _centers_features(self) -> bool:
        """Whether the mean of the features is taken away."""
        return True

    def _feature_map(self, rng: Rng) -> FeatureMap:
        """Return the features to learn on, not fitted yet."""
        return PlainFeatures()


def linear(weights: NDArray[np.floating], intercept: NDArray[np.floating] | None = None) -> LinearFunction:
    """Return a hash function with these weights, for ``Learned``."""
    return LinearFunction(
        np.asarray(weights, dtype=np.float64),
        intercept=None if intercept is None else np.asarray(intercept, dtype=np.float64),
    )


FIXED_BANDWIDTH = 0.4**2


class KernelParameters(BaseHasher):
    """Group of parameters of methods that can learn on kernel features; it is listed before the base class.

    A method that does not name this group learns on the rows themselves.
    """

    kernel: str | None = parameter(
        [Options("rbf", "rbf-fixed"), None],
        "Features to learn on: RBF features of the landmarks, with the mean squared distance as bandwidth, centered "
        "('rbf'); with the fixed bandwidth 2 * 0.4^2, not centered, for rows of unit length ('rbf-fixed'); or the "
        "centered rows themselves (None).",
        default="rbf",
    )
    n_landmarks: int | str = parameter(
        [Options("auto"), COUNT],
        "Rows that span the kernel, drawn at random; 'auto' is two fifths of all, from 1,000 to 3,000.",
        default=1000,
    )

    @property
    def _centers_features(self) -> bool:
        return self.kernel != "rbf-fixed"

    def _feature_map(self, rng: Rng) -> FeatureMap:
        if self.kernel is None:
            return PlainFeatures()
        bandwidth = FIXED_BANDWIDTH if self.kernel == "rbf-fixed" else None
        return LandmarkKernel(
            self.n_landmarks, bandwidth=bandwidth, n_jobs=self.n_jobs, random_state=int(rng.randint(2**31))
        )
