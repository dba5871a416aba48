"""A warning when many rows get the same code, because codes alone cannot tell such rows apart."""

from __future__ import annotations

import warnings

from hashlearn.fitting.advice import collapsed
from hashlearn.typing import PackedCodes


def warn_of_collapse(codes: PackedCodes, n_bits: int, stacklevel: int) -> bool:
    """Warn when there are fewer distinct codes than a tenth of the rows, or of the possible codes.

    Returns whether it warned.
    """
    found = collapsed(codes, n_bits)
    if found is None:
        return False
    distinct, looked_at = found
    of = "" if looked_at == len(codes) else f" of {len(codes):,}, taken as a sample"
    warnings.warn(
        f"The codes collapse: {distinct:,} distinct codes for {looked_at:,} rows{of}. Rows with equal codes are "
        "found in the order of their ids: keep vectors (store_vectors=True) and search with rescore=True, or use a "
        "hasher that tells more rows apart.",
        stacklevel=stacklevel + 1,
    )
    return True
