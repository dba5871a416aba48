"""CNNH: codes from the similarity matrix first (stage 1), then a network that learns them (stage 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.constraints import COUNT, FLAG
from hashlearn.deep.codes_network import CodeLoss
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss
from hashlearn.deprecation import renamed_parameters
from hashlearn.labels import group_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import fitted, parameter
from hashlearn.primitives import steps
from hashlearn.typing import FloatArray, Matrix


@renamed_parameters(since="0.3", n_sweeps="max_iter")
class CNNH(DeepHasher):
    """Two stages: codes H with H H' near n_bits S by coordinate descent, then a network that learns their bits.

    With classes, stage 1 ends near one codeword per class. The loss of stage 2 is ours, because the paper's is not
    confirmed.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.CNNH(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="cnnh",
        title="CNNH",
        reference="Xia et al., Supervised Hashing for Image Retrieval via Image Representation Learning (AAAI 2014)",
        year=2014,
        kind="deep, two-step",
        supervision=("classes", "label sets"),
        cost="O(S n m (m + G) + T n F), S sweeps, G label sets, T epochs, F a pass of the network",
        verified=False,
    )

    classes: bool = parameter(FLAG, "CNNH+: the network also learns the labels, as further outputs.", default=False)
    max_iter: int = parameter(
        COUNT, "Sweeps of stage 1 at most; it ends early when one gains less than 0.1 %.", default=5
    )

    objective_: FloatArray = fitted("|H H' - n_bits S|^2 before and after every sweep of stage 1; it falls.")

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        targets, objective = similarity_codes(labels, self.n_bits_, rng, self.max_iter)
        self.objective_ = np.asarray(objective)
        return CodeLoss(targets, classes=self.classes)

    def _n_outputs(self, n_labels: int) -> int:
        return self.n_bits_ + (n_labels if self.classes else 0)


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
    labels: sparse.csr_matrix, n_bits: int, rng: np.random.RandomState, max_iter: int = 5, tol: float = 1e-3
) -> tuple[NDArray[np.int8], list[float]]:
    """Stage 1's codes in {-1, +1}, in the order of the rows, and the objective before and after every sweep.

    Ends early when a sweep lowers the objective by less than ``tol`` of it.
    """
    stage = Stage1(labels, n_bits, rng)
    objective = [stage.objective()]
    for _ in steps(max_iter, "CNNH stage 1"):
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
