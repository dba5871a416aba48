"""LSH: signs of random projections, the baseline that needs no training."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from hashlearn import codes
from hashlearn.functions.linear import LinearFunction
from hashlearn.hashers.base import BaseHasher
from hashlearn.kernel import PlainFeatures, row_sums
from hashlearn.methodinfo import MethodInfo
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.rows.reduce import FitContext, hash_rows
from hashlearn.rows.source import AnySource, CalibrationSample
from hashlearn.rows.survey import SurveyPlan, survey
from hashlearn.typing import FloatArray, Matrix, Rng


class LSH(BaseHasher):
    """Locality-sensitive hashing by random hyperplanes through the mean of the data.

    Two rows at angle t (seen from the mean) agree on a bit with probability 1 - t / pi.
    """

    info = MethodInfo(
        name="lsh",
        title="LSH",
        reference="Charikar, Similarity Estimation Techniques from Rounding Algorithms (2002)",
        kind="random projection",
        supervision=(),
        cost="O(n d m)",
        verified=True,
        passes=1,
        remark="unsupervised, untrained",
    )

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Draw the hyperplanes. ``y`` is ignored."""
        X = self._validate(X)
        total = np.zeros(X.shape[1])
        for part in ordered_map(lambda block: row_sums(X[block]), row_blocks(X.shape[0]), self.n_jobs):
            total += part
        self._draw(total / X.shape[0], self._rng())
        self.codes_ = codes.pack(self._project(X) >= 0)
        self._calibrate(CalibrationSample.from_array(X))
        return self

    def _fit_source(self, source: AnySource, context: FitContext, rng: Rng) -> None:
        found = survey(source, SurveyPlan.for_source(source, PlainFeatures()), context)
        self._advise(found.advice(self.n_bits_))
        self._draw(found.total / found.n_rows, rng)
        context.open_codes(found.n_rows, self.n_bits_)
        hash_rows(source, self._block_projection(), context)
        self._calibrate(found.sample)
        self._store_codes(context, source="hashed")

    def _draw(self, mean: FloatArray, rng: Rng) -> None:
        self.features_ = PlainFeatures()
        self.features_.center_ = mean.astype(np.float32)
        self.function_ = LinearFunction(rng.standard_normal((len(mean), self.n_bits_)), ridge=0.0)
