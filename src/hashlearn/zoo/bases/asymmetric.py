"""Base of methods with two encoders: one for queries, another for database rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hashlearn import codes
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import HashFunction, project_block
from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters
from hashlearn.kernel import validated_rows
from hashlearn.parameters import fitted
from hashlearn.rows.source import CalibrationSample
from hashlearn.typing import Float32Array, Matrix, PackedCodes


class AsymmetricHasher(KernelParameters, InMemoryHasher):
    """Base of methods with two encoders. ``_learn`` returns that of queries, and ``database_function_`` beside it.

    ``transform``, ``decision_function``, ``expected_bits`` and ``encode_queries`` are for queries, ``encode`` and
    ``codes_`` for database rows.
    """

    database_function_: HashFunction = fitted("The hash function of database rows, from features to projections.")

    def _database_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        return partial(project_block, self.features_, self.database_function_)

    def _database_codes(self, X: Matrix) -> PackedCodes:
        check_is_fitted(self)
        return self._codes_of(validated_rows(self, X))

    def _codes_of(self, X: Matrix) -> PackedCodes:
        return codes.pack(self._project_by(self._database_projection(), X) >= 0)

    def _hash(self, features: Float32Array) -> PackedCodes:
        return codes.pack(self.database_function_.project(features) >= 0)

    def _calibrate(
        self,
        sample: CalibrationSample,
        learned: PackedCodes | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Learn what a projection of a query says about the database bit of the same row."""
        learned = self._codes_of(sample.rows) if learned is None else learned
        super()._calibrate(sample, learned, calibration)
