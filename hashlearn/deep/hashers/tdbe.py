"""TDBE: codes that fulfill triplets first, bit by bit, then a network that learns them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn import codes
from hashlearn.constraints import COUNT, POSITIVE
from hashlearn.deep.codes_network import CodeLoss
from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.losses import Loss
from hashlearn.labels import group_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import fitted, parameter
from hashlearn.primitives import sample_triplets, steps
from hashlearn.typing import FloatArray, IntArray, Matrix


class TDBE(DeepHasher):
    """Triplet-based deep binary embedding: min [d(h_i, h_j) - d(h_i, h_k) + margin]_+, then a network for the bits.

    i shares more labels with j than with k. Rows with equal label sets share one code. Given all other bits, the loss
    of a triplet takes three values, so it is a quadratic function of the bits of i, j and k; a bit of all label sets is
    then a binary quadratic problem, solved by flipping one label set at a time while that lowers the loss.

    We know the method from notes (``verified`` is False). The authors' code solves the binary problems by graph cuts
    and learns one bit after the other once; here sweeps over the bits begin with random codes. ``codes_`` of labeled
    rows are the codes learned first, ``encode`` gives those of the network.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = hl.deep.TDBE(n_bits=16, n_epochs=3, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 2)
    """

    info = MethodInfo(
        name="tdbe",
        title="TDBE",
        reference="Zhuang, Lin, Shen and Reid, Fast Training of Triplet-Based Deep Binary Embedding Networks "
        "(CVPR 2016)",
        year=2016,
        kind="deep, two-step",
        supervision=("classes", "label sets"),
        cost="O(S m t + T n F), S sweeps, t triplets, T epochs, F a pass of the network",
        verified=False,
        database="learned",
    )

    margin: float | None = parameter([None, POSITIVE], "In bits; None is n_bits / 2.", default=None)
    n_triplets: int = parameter(COUNT, "Triplets that the codes are learned from.", default=100000)
    max_iter: int = parameter(COUNT, "Sweeps over the bits at most; they end when no bit changes.", default=3)

    objective_: FloatArray = fitted(
        "Mean loss of a triplet at the start and after each bit of each sweep; never rises."
    )

    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        group, first = group_rows(labels)
        triplets = group[np.stack(sample_triplets(labels, self.n_triplets, rng)[:3])]
        margin = self.n_bits_ / 2 if self.margin is None else float(self.margin)
        book, objective = triplet_codes(triplets, len(first), self.n_bits_, margin, self.max_iter, rng)
        self.objective_ = np.asarray(objective)
        return CodeLoss(book[group])

    def _keep_codes(self, loss: Any, training: NDArray[np.intp]) -> None:
        self.codes_[training] = codes.pack(loss.bits.cpu().numpy())


def triplet_codes(
    triplets: IntArray, n_items: int, n_bits: int, margin: float, max_iter: int, rng: np.random.RandomState
) -> tuple[FloatArray, list[float]]:
    """Codes (n_items, n_bits) in {-1, +1} for triplets (3, t) of items, and the objective after every bit."""
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
    """A hollow symmetric A with z'A z / 2 = sum of [rest + e]_+ over triplets, up to a constant.

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
