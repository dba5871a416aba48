"""CNNH: codes from the similarity matrix first (stage 1), then a network that learns them (stage 2)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.nn import functional

from hashlearn.deep.losses.pairs import Loss
from hashlearn.labels import group_rows
from hashlearn.primitives import steps
from hashlearn.typing import FloatArray


class CNNHLoss(Loss):
    """Stage 2: mean cross-entropy of sigmoid(u) and the bits of stage 1.

    With ``classes`` (CNNH+) u has one more output a label behind the bits, and their softmax cross-entropy is added.
    """

    bits: Tensor

    def __init__(self, codes: NDArray[np.generic], *, classes: bool = False) -> None:
        super().__init__()
        self.classes = classes
        self.register_buffer("bits", torch.from_numpy(np.asarray(codes) > 0).float(), persistent=False)

    def forward(self, u: Tensor, Y: Tensor, step: int, idx: Tensor) -> Tensor:
        n_bits = self.bits.shape[1]
        fit = functional.binary_cross_entropy_with_logits(u[:, :n_bits], self.bits[idx].to(u.dtype))
        if not self.classes:
            return fit
        targets = Y / Y.sum(dim=1, keepdim=True).clamp(min=1.0)
        return fit + functional.cross_entropy(u[:, n_bits:], targets)


class Stage1:
    """min |H H' - m S|^2 over H in [-1, 1], S in {-1, +1}, by Newton steps on one entry of H at a time.

    L = H H' - m S is never written down. A step needs L_i . H_j = H_i . G_j - m (S H)_ij with G = H'H, and rows with
    equal label sets share their row of S H: the cost of a step is O(m + groups), where L would need O(n).
    """

    def __init__(self, labels: sparse.csr_matrix, n_bits: int, rng: np.random.RandomState) -> None:
        self.n_bits = n_bits
        self.group, first = group_rows(labels)
        shared = labels[first] @ labels[first].T
        self.table = np.where(shared.toarray() > 0, 1.0, -1.0)
        self.H: FloatArray = rng.uniform(-1.0, 1.0, (labels.shape[0], n_bits))
        self._renew()

    def _renew(self) -> None:
        sums = np.zeros((len(self.table), self.n_bits))
        np.add.at(sums, self.group, self.H)
        # Columns of S H as rows, because a step changes one of them.
        self.pulls = np.ascontiguousarray((self.table @ sums).T)
        self.gram = self.H.T @ self.H

    def objective(self) -> float:
        """|H H' - m S|^2."""
        pull = float(np.einsum("ij,ji->", self.H, self.pulls[:, self.group]))
        n_pairs = float(len(self.H)) ** 2
        return float((self.gram**2).sum()) - 2.0 * self.n_bits * pull + self.n_bits**2 * n_pairs

    def update(self, i: int, j: int) -> float:
        """A Newton step on H_ij, cut to [-1, 1]; returns the change."""
        row, group = self.H[i], self.group[i]
        slope = row @ self.gram[:, j] - self.n_bits * self.pulls[j, group]
        curvature = self.gram[j, j] + row[j] ** 2 + row @ row - self.n_bits
        if curvature <= 0:
            return 0.0
        change = min(max(-slope / curvature, -1.0 - row[j]), 1.0 - row[j])
        if change != 0.0:
            # The old row of H: the square of the change is added apart.
            self.gram[j] += change * row
            self.gram[:, j] += change * row
            self.gram[j, j] += change**2
            self.pulls[j] += change * self.table[group]
            row[j] += change
        return float(change)

    def sweep(self, rng: np.random.RandomState) -> None:
        """Every entry once, in random order."""
        for place in rng.permutation(self.H.size).tolist():
            self.update(*divmod(place, self.n_bits))
        # Rounding adds up over many steps.
        self._renew()


def similarity_codes(
    labels: sparse.csr_matrix, n_bits: int, rng: np.random.RandomState, n_sweeps: int = 5, tol: float = 1e-3
) -> tuple[NDArray[np.int8], list[float]]:
    """Stage 1's codes in {-1, +1}, in the order of the rows, and the objective before and after every sweep.

    Ends early when a sweep lowers the objective by less than ``tol`` of it.
    """
    stage = Stage1(labels, n_bits, rng)
    objective = [stage.objective()]
    for _ in steps(n_sweeps, "CNNH stage 1"):
        before = stage.H.copy()
        stage.sweep(rng)
        value = stage.objective()
        if value >= objective[-1]:
            stage.H = before
            break
        objective.append(value)
        if objective[-2] - value < tol * objective[-2]:
            break
    return np.where(stage.H >= 0, 1, -1).astype(np.int8), objective
