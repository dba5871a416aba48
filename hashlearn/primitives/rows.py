"""Rows scaled for learning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def unit_rows(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows scaled to unit length; rows of zeros stay as they are."""
    norms = np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64))
    scaled: NDArray[np.float32] = features / np.where(norms > 0, norms, 1.0).astype(np.float32)[:, None]
    return scaled
