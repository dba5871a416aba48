"""Discrete coordinate descent over the columns of a sign matrix."""

from __future__ import annotations

import numpy as np

from hashlearn.typing import FloatArray


def keep_sign(values: FloatArray, previous: FloatArray) -> FloatArray:
    """Return signs in {-1, +1}; a zero keeps the previous sign, so that the objective stays monotone."""
    return np.where(values == 0, previous, np.where(values > 0, 1.0, -1.0))


def column_sweep(codes: FloatArray, linear: FloatArray, coupling: FloatArray, max_sweeps: int = 10) -> int:
    """Minimize tr(B C B') - 2 tr(B' Q) over B in {-1, +1}, column by column, in place.

    b_k <- sgn(q_k - B_{-k} C_{-k,k}) for a symmetric ``coupling`` C (m, m) and ``linear`` Q (n, m); the
    diagonal of C does not matter. Returns the number of sweeps; if it is below ``max_sweeps``, the last one changed
    nothing.
    """
    hollow = coupling - np.diag(np.diag(coupling))
    for sweep in range(1, max_sweeps + 1):
        changed = False
        for k in range(codes.shape[1]):
            column = keep_sign(linear[:, k] - codes @ hollow[:, k], codes[:, k])
            changed |= not np.array_equal(column, codes[:, k])
            codes[:, k] = column
        if not changed:
            return sweep
    return max_sweeps
