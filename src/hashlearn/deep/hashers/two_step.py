"""Deep methods that find codes first and then train a network to give them: CNNH, GSDH_P* and TDBE."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from hashlearn import codes
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import CodeLoss, Loss
from hashlearn.hashers.base import BaseHasher
from hashlearn.labels import LabelMatrix, group_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.pairwise.gsdhp import GSDHP
from hashlearn.parameters import COUNT, FLAG, POSITIVE, Instance, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import FloatArray, IntArray, Matrix, Rng
from hashlearn.zoo.bases.pairs import sample_triplets


class CNNH(DeepHasher):
    """Two stages: codes H with H H' near n_bits S by coordinate descent, then a network that learns their bits.

    With classes, stage 1 ends near one codeword per class. The loss of stage 2 is ours, because the paper's is not
    confirmed.
    """

    info = MethodInfo(
        name="cnnh",
        title="CNNH",
        reference="Xia et al., Supervised Hashing for Image Retrieval via Image Representation Learning (AAAI 2014)",
        kind="deep, two-step",
        cost="O(S n m (m + G) + T n F), S sweeps, G label sets, T epochs, F a pass of the network",
    )

    classes: bool = parameter(FLAG, "CNNH+: the network also learns the labels, as further outputs.", default=False)
    max_iter: int = parameter(
        COUNT, "Sweeps of stage 1 at most; it ends early when one gains less than 0.1 %.", default=5
    )

    objective_: FloatArray = fitted("|H H' - n_bits S|^2 before and after every sweep of stage 1; it falls.")

    def _make_loss(self, labels: LabelMatrix, rng: Rng, rows: Matrix | None) -> Loss:
        targets, objective = similarity_codes(labels, self.n_bits, rng, self.max_iter)
        return CodeLoss(targets, classes=self.classes, objective=objective)

    def _n_outputs(self, n_labels: int) -> int:
        return self.n_bits_ + (n_labels if self.classes else 0)


class Stage1:
    """min |H H' - m S|^2 over H in [-1, 1], S in {-1, +1}, by Newton steps on one entry of H at a time.

    L = H H' - m S is never written down. A step needs L_i . H_j = H_i . G_j - m (S H)_ij with G = H'H, and rows with
    equal label sets share their row of S H: the cost of a step is O(m + groups), where L would need O(n).
    """

    def __init__(self, labels: LabelMatrix, n_bits: int, rng: Rng) -> None:
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
        """Take a Newton step on H_ij, cut to [-1, 1], and return the change."""
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

    def sweep(self, rng: Rng) -> None:
        """Update every entry once, in random order."""
        for place in rng.permutation(self.H.size).tolist():
            self.update(*divmod(place, self.n_bits))
        # Rounding adds up over many steps.
        self._renew()


def similarity_codes(
    labels: LabelMatrix, n_bits: int, rng: Rng, max_iter: int = 5, tol: float = 1e-3
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


class GSDHPStar(DeepHasher):
    """GSDH_P with a network: codes are learned from labels first, then each bit is a two-class problem of the network.

    The authors released no code of the network's training; its loss and settings here are ours. ``codes_`` of labeled
    training rows are the codes learned first, ``encode`` gives those of the network.
    """

    info = MethodInfo(
        name="gsdhp-star",
        title="GSDH_P*",
        reference="Shi et al., A Scalable Optimization Mechanism for Pairwise based Discrete Hashing (2020)",
        kind="deep, two-step",
        cost="O(n (p m + m^2) + T n F), p anchors, T epochs, F a pass of the network",
        database="learned",
    )
    # The authors do not give theirs: a usual training of AlexNet as a classifier.
    authors: ClassVar[dict[str, Any]] = {
        "optimizer": "sgd",
        "learning_rate": 1e-3,
        "weight_decay": 5e-4,
        "batch_size": 128,
        "n_epochs": 40,
        "schedule": [(2 / 3, 0.1)],
    }

    hasher: BaseHasher | None = parameter(
        [None, Instance(BaseHasher, words="a hasher")],
        "What learns the codes: any supervised hasher of hashlearn. It is cloned and gets n_bits and random_state of "
        "this one. It learns on the rows if they are features, and on random numbers if they are images. None is "
        "``GSDHP.paper(kernel=None)`` on random numbers, so that the labels alone decide.",
        default=None,
    )

    def _make_loss(self, labels: LabelMatrix, rng: Rng, rows: Matrix | None) -> Loss:
        hasher = GSDHP.paper(kernel=None) if self.hasher is None else clone(self.hasher)
        hasher.set_params(n_bits=self.n_bits, random_state=int(rng.randint(2**31)))
        if self.hasher is None or rows is None:
            # As many columns as bits, so that starting directions have full rank.
            rows = rng.standard_normal((labels.shape[0], self.n_bits)).astype(np.float32)
        return CodeLoss(codes.unpack(hasher.fit(rows, labels).codes_, self.n_bits))


class TDBE(DeepHasher):
    """Triplet-based deep binary embedding: min [d(h_i, h_j) - d(h_i, h_k) + margin]_+, then a network for the bits.

    i shares more labels with j than with k. Rows with equal label sets share one code. Given all other bits, the loss
    of a triplet takes three values, so it is a quadratic function of the bits of i, j and k; a bit of all label sets is
    then a binary quadratic problem, solved by flipping one label set at a time while that lowers the loss.

    We know the method from notes (``verified`` is False). The authors' code solves the binary problems by graph cuts
    and learns one bit after the other once; here sweeps over the bits begin with random codes. ``codes_`` of labeled
    rows are the codes learned first, ``encode`` gives those of the network.
    """

    info = MethodInfo(
        name="tdbe",
        title="TDBE",
        reference="Zhuang, Lin, Shen and Reid, Fast Training of Triplet-Based Deep Binary Embedding Networks "
        "(CVPR 2016)",
        kind="deep, two-step",
        cost="O(S m t + T n F), S sweeps, t triplets, T epochs, F a pass of the network",
        database="learned",
    )

    margin: float | None = parameter([None, POSITIVE], "In bits; None is n_bits / 2.", default=None)
    n_triplets: int = parameter(COUNT, "Triplets that the codes are learned from.", default=100000)
    max_iter: int = parameter(COUNT, "Sweeps over the bits at most; they end when no bit changes.", default=3)

    objective_: FloatArray = fitted(
        "Mean loss of a triplet at the start and after each bit of each sweep; never rises."
    )

    def _make_loss(self, labels: LabelMatrix, rng: Rng, rows: Matrix | None) -> Loss:
        group, first = group_rows(labels)
        triplets = group[np.stack(sample_triplets(labels, self.n_triplets, rng)[:3])]
        margin = float(self.margin or self.n_bits / 2)
        book, objective = triplet_codes(triplets, len(first), self.n_bits, margin, self.max_iter, rng)
        return CodeLoss(book[group], objective=objective)


def triplet_codes(
    triplets: IntArray, n_items: int, n_bits: int, margin: float, max_iter: int, rng: Rng
) -> tuple[FloatArray, list[float]]:
    """Return codes (n_items, n_bits) in {-1, +1} for triplets (3, t) of items, and the objective after every bit."""
    H = rng.choice([-1.0, 1.0], (n_items, n_bits))
    i, j, k = triplets
    # d(i, j) - d(i, k) of every triplet.
    gap = ((H[i] * (H[k] - H[j])).sum(axis=1)) / 2
    objective = [float(np.maximum(gap + margin, 0).mean())]
    for _ in steps(max_iter, "TDBE codes"):
        before = H.copy()
        for bit in range(n_bits):
            z = H[:, bit]
            rest = gap - z[i] * (z[k] - z[j]) / 2
            flip_down(z, quadratic_form(triplets, rest + margin, n_items))
            gap = rest + z[i] * (z[k] - z[j]) / 2
            objective.append(float(np.maximum(gap + margin, 0).mean()))
        if np.array_equal(H, before):
            break
    return H, objective


def quadratic_form(triplets: IntArray, rest: FloatArray, n_items: int) -> sparse.csr_matrix:
    """Return a hollow symmetric A with z'A z / 2 = sum of [rest + e]_+ over triplets, up to a constant.

    e = z_i (z_k - z_j) / 2 is -1, 0 or 1, and e^2 = (1 - z_j z_k) / 2.
    """
    low, middle, high = (np.maximum(rest + e, 0) for e in (-1, 0, 1))
    slope, bend = (high - low) / 2, (high + low) / 2 - middle
    i, j, k = triplets
    rows, columns = np.concatenate([i, i, j]), np.concatenate([k, j, k])
    values = np.concatenate([slope, -slope, -bend]) / 2
    pairs = sparse.coo_matrix((values, (rows, columns)), shape=(n_items, n_items)).tocsr()
    both = (pairs + pairs.T).tocoo()
    apart = both.row != both.col
    return sparse.csr_matrix((both.data[apart], (both.row[apart], both.col[apart])), shape=both.shape)


def flip_down(z: FloatArray, form: sparse.csr_matrix) -> None:
    """Flip single entries of z in place, in turn, while a flip lowers z'A z."""
    field = form @ z
    changed = True
    while changed:
        changed = False
        for item in range(len(z)):
            if z[item] * field[item] > 1e-12:
                z[item] = -z[item]
                own = slice(form.indptr[item], form.indptr[item + 1])
                field[form.indices[own]] += 2 * z[item] * form.data[own]
                changed = True
