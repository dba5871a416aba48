"""The parameters ``kernel`` and ``n_landmarks``, and the features that they stand for."""

from __future__ import annotations

import numpy as np

from hashlearn.constraints import COUNT, Options
from hashlearn.fitting.base import BaseHasher
from hashlearn.kernel import AnchorKernel, FeatureMap, PlainFeatures
from hashlearn.parameters import parameter

FIXED_BANDWIDTH = 0.4**2


class KernelParameters(BaseHasher):
    """Group of parameters of methods that can learn on kernel features; stands in front of the frame in the bases.

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

    def _feature_map(self, rng: np.random.RandomState) -> FeatureMap:
        if self.kernel is None:
            return PlainFeatures()
        bandwidth = FIXED_BANDWIDTH if self.kernel == "rbf-fixed" else None
        return AnchorKernel(
            self.n_landmarks, bandwidth=bandwidth, n_jobs=self.n_jobs, random_state=int(rng.randint(2**31))
        )
