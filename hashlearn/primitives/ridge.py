"""Ridge regression with one factorisation and any number of right-hand sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn.typing import FloatArray


class RidgeSolver:
    """(X'X + ridge I)^-1 X' T for many T; X'X is factored once, in row blocks and double precision."""

    def __init__(self, features: NDArray[np.floating], ridge: float) -> None:
        if not ridge > 0:
            raise ValueError(f"The ridge must be above 0. Got {ridge} instead.")
        self.features = features
        width = features.shape[1]
        self.gram = np.zeros((width, width))
        for start in range(0, len(features), 4096):
            block = features[start : start + 4096].astype(np.float64)
            self.gram += block.T @ block
        self._factor = linalg.cho_factor(self.gram + ridge * np.eye(width), lower=True)

    def solve(self, targets: NDArray[np.floating]) -> FloatArray:
        """Weights for targets (n, k)."""
        cross = np.zeros((self.features.shape[1], targets.shape[1]))
        for start in range(0, len(self.features), 4096):
            rows = slice(start, start + 4096)
            cross += self.features[rows].astype(np.float64).T @ targets[rows].astype(np.float64)
        return self.solve_cross(cross)

    def solve_cross(self, cross: NDArray[np.floating]) -> FloatArray:
        """Weights from X'T."""
        return linalg.cho_solve(self._factor, np.asarray(cross, dtype=np.float64))
