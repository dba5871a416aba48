"""The types that several modules share, each defined once."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Float32Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Int64Array = NDArray[np.int64]

Rng = np.random.RandomState
"""The source of random numbers of a fit."""

Matrix = Any
"""Rows of features: a dense array or a SciPy sparse matrix."""

PackedCodes = NDArray[np.uint8]
"""Codes as bytes, (n, ceil(n_bits / 8)), bit 0 in the most significant place."""

Ids = NDArray[np.int64]
"""Ids of stored rows; -1 fills the places of results that do not exist."""

Arrays = dict[str, NDArray[Any]]
"""Arrays by name, as model files and checkpoints hold them."""

Metric = Literal["cosine", "euclidean", "dot"]
"""How float vectors are compared."""
