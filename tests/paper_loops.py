"""The paper's loops, written plainly over an explicit S_A. They are slow; tests compare the solvers with them.

``phases`` is a list of functions that make batches; each phase runs until no bit changes or ``max_iter`` iterations are
done. The paper's order is one phase over all rows. The order "anchors first" is two phases, the anchors and then the
other rows.

These loops differ from the printed ones in one point: anchors that flip together may undo each other's gain, so a step
that would lower h' R h is retried with the half of its flips that has the largest |gain|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hashlearn.pairwise.solver import Batches, keeps_ground
from hashlearn.typing import FloatArray, IntArray

PairLoss = Callable[[FloatArray, FloatArray], FloatArray]


def sgn(values: FloatArray) -> FloatArray:
    return np.where(values >= 0, 1.0, -1.0)


def sdhp(
    S: FloatArray,
    anchors: IntArray,
    H: FloatArray,
    phases: Sequence[Batches],
    *,
    scale: float,
    beta: float,
    max_iter: int = 20,
    inner_iter: int = 3,
) -> FloatArray:
    """Algorithm 1 of the paper."""
    H = H.copy()
    for batches in phases:
        for iteration in range(max_iter):
            before = H.copy()
            for idx in batches(iteration):
                H_A = H[anchors]
                M = H_A.T @ H_A
                gamma = float(np.linalg.eigvalsh(M)[-1]) + beta
                for _ in range(inner_iter):
                    new = sgn(scale * (S[idx] @ H_A) + gamma * H[idx] - H[idx] @ M)
                    if np.array_equal(new, H[idx]):
                        break
                    H[idx] = new
            if np.array_equal(H, before):
                break
    return H


def gsdhp(
    S: FloatArray,
    anchors: IntArray,
    H: FloatArray,
    phases: Sequence[Batches],
    *,
    scale: float,
    beta: float,
    residual: str = "full",
    max_iter: int = 20,
    inner_iter: int = 3,
) -> FloatArray:
    """Algorithm 2 with the KSH loss. ``residual="stagewise"`` subtracts only the bits before j."""

    def gain_of(H: FloatArray, idx: IntArray, j: int) -> Callable[[FloatArray], FloatArray]:
        others = [k for k in range(H.shape[1]) if k != j and (residual == "full" or k < j)]

        def gain(bit: FloatArray) -> FloatArray:
            result = scale * (S[idx] @ bit[anchors])
            for row, i in enumerate(idx):
                result[row] -= sum(H[i, k] * (H[anchors, k] @ bit[anchors]) for k in others)
            return result

        return gain

    return _bitwise(gain_of, anchors, H, phases, beta, max_iter, inner_iter)


def gsdhp_loss(
    S: FloatArray,
    anchors: IntArray,
    H: FloatArray,
    phases: Sequence[Batches],
    loss: PairLoss,
    *,
    beta: float,
    residual: str = "full",
    max_iter: int = 20,
    inner_iter: int = 3,
) -> FloatArray:
    """Section 4 of the paper: Algorithm 2 with any loss l(s, u), computed for each pair."""

    def gain_of(H: FloatArray, idx: IntArray, j: int) -> Callable[[FloatArray], FloatArray]:
        others = [k for k in range(H.shape[1]) if k != j and (residual == "full" or k < j)]
        rest = H[idx][:, others] @ H[anchors][:, others].T
        slope = (loss(S[idx], rest + 1) - loss(S[idx], rest - 1)) / 4
        return lambda bit: -(slope @ bit[anchors])

    return _bitwise(gain_of, anchors, H, phases, beta, max_iter, inner_iter)


def _bitwise(
    gain_of: Callable[[FloatArray, IntArray, int], Callable[[FloatArray], FloatArray]],
    anchors: IntArray,
    H: FloatArray,
    phases: Sequence[Batches],
    beta: float,
    max_iter: int,
    inner_iter: int,
) -> FloatArray:
    H = H.copy()
    is_anchor = np.zeros(len(H), dtype=bool)
    is_anchor[anchors] = True
    for batches in phases:
        for iteration in range(max_iter):
            before = H.copy()
            for idx in batches(iteration):
                for j in range(H.shape[1]):
                    H[:, j] = _move_bit(gain_of(H, idx, j), H[:, j].copy(), idx, is_anchor, beta, inner_iter)
            if np.array_equal(H, before):
                break
    return H


def _move_bit(
    gain: Callable[[FloatArray], FloatArray],
    bit: FloatArray,
    idx: IntArray,
    is_anchor: NDArray[np.bool_],
    beta: float,
    inner_iter: int,
) -> FloatArray:
    """Repeat h[idx] <- sgn(gain + beta h[idx]); the gain uses the new bits of the anchors at once."""
    for _ in range(inner_iter):
        here = gain(bit)
        flips = sgn(here + beta * bit[idx]) != bit[idx]
        free = idx[flips & ~is_anchor[idx]]
        bit[free] = -bit[free]
        flips &= is_anchor[idx]
        accepted = False
        while flips.any() and not accepted:
            trial = bit.copy()
            trial[idx[flips]] *= -1
            there = gain(trial)
            accepted = keeps_ground((trial - bit)[idx], here, there)
            if accepted:
                bit = trial
            else:
                flips &= np.abs(here) > np.median(np.abs(here[flips]))
        if not accepted:
            break
    return bit
