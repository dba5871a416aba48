"""LSH: signs of random projections, the baseline that needs no training."""

from __future__ import annotations

import numpy as np

from hashlearn.hashers.in_memory import Learned, linear
from hashlearn.hashers.sums import SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.rows.reduce import FitContext
from hashlearn.typing import Rng


class LSH(SumsHasher):
    """Locality-sensitive hashing by random hyperplanes through the mean of the data.

    Two rows at angle t (seen from the mean) agree on a bit with probability 1 - t / pi.
    """

    info = MethodInfo(
        name="lsh",
        reference="Charikar, Similarity Estimation Techniques from Rounding Algorithms (2002)",
        kind="random projection",
        supervision=(),
        cost="O(n d m)",
        verified=True,
        passes=1,
        remark="unsupervised, untrained",
    )

    draws_rows = False

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> Learned:
        self._set_center(training, np.zeros(training.n_features))
        return Learned(linear(rng.standard_normal((training.n_features, self.n_bits_))))
