"""A warning when many rows get the same code, because codes alone cannot tell such rows apart."""

from __future__ import annotations

import warnings

import numpy as np

from hashlearn.typing import PackedCodes

_MIN_ROWS = 1000  # a smaller number of rows may have equal codes by chance
_SAMPLE_ROWS = 10_000  # enough to show a collapse; counting them takes far less time than adding the rows
_ROWS_PER_CODE = 10


def warn_of_collapse(codes: PackedCodes, n_bits: int, stacklevel: int) -> bool:
    """Warn when there are fewer distinct codes than a tenth of the rows, or of the possible codes.

    Returns whether it warned.
    """
    if len(codes) < _MIN_ROWS:
        return False
    # The sample is spread evenly, because neighboring rows are often of one class.
    sample = codes[np.linspace(0, len(codes) - 1, min(len(codes), _SAMPLE_ROWS)).astype(np.int64)]
    data, width = sample.tobytes(), sample.shape[1]
    distinct = len({data[start : start + width] for start in range(0, len(data), width)})
    if _ROWS_PER_CODE * distinct >= min(len(sample), 2.0**n_bits):
        return False
    of = "" if len(sample) == len(codes) else f" of {len(codes):,}, taken as a sample"
    warnings.warn(
        f"The codes collapse: {distinct:,} distinct codes for {len(sample):,} rows{of}. Rows with equal codes are "
        "found in the order of their ids: keep vectors (store_vectors=True) and search with rescore=True, or use a "
        "hasher that tells more rows apart.",
        stacklevel=stacklevel + 1,
    )
    return True
