"""SCDH: codes that match a balanced, uncorrelated factor of the similarity, and a projection of the features."""

from __future__ import annotations

import numpy as np

from hashlearn.codes import sign
from hashlearn.functions.linear import RidgeFactor
from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.agh import balanced
from hashlearn.zoo.bases.primitives import LabelProduct, keep_sign, labeled_rows


class SCDH(KernelParameters, InMemoryHasher):
    """Strongly constrained discrete hashing: min |Z B' - m S|^2 + l (|B - X P|^2 + ridge |P|^2) + a |B - Z|^2.

    Z is balanced and uncorrelated, Z'1 = 0 and Z'Z = n I, which makes |Z B'|^2 constant. So each step is exact: P is a
    ridge regression, Z = argmax tr(Z'(m S B + a B)) comes from a singular value decomposition, and
    B = sgn(m S Z + l X P + a Z). S is never written down.

    We know the method from notes (``verified`` is False). ``codes_`` are B, ``encode`` hashes by P. There must be more
    labeled rows than bits.
    """

    info = MethodInfo(
        name="scdh",
        reference="Chen et al., Strongly Constrained Discrete Hashing (TIP 2020)",
        kind="pairwise, discrete",
        cost="O(n p^2 + T n m (p + m + c))",
        database="learned",
        remark="from notes",
    )

    fit_weight: float = parameter(NON_NEGATIVE, "l as a share of m n.", default=0.01)
    balance_weight: float = parameter(NON_NEGATIVE, "a as a share of m n.", default=0.001)
    ridge: float = parameter(POSITIVE, "Ridge of the hash function.", default=0.001)
    max_iter: int = parameter(COUNT, "Rounds at most; the fit ends when no bit changes.", default=10)

    objective_: FloatArray = fitted(
        "(3 rounds,) The objective less its constant terms, after every step for P, Z and B; it never rises."
    )
    n_iter_: int = fitted("Rounds made.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        known, bits = labeled_rows(labels), self.n_bits_
        if bits >= len(known):
            raise ValueError(f"SCDH needs more labeled rows than bits. Got {len(known)} rows and n_bits={bits}.")
        X, similarity = features[known], LabelProduct.from_labels(labels[known])
        scale = bits / similarity.similarity.largest
        fit, balance = (share * bits * len(known) for share in (self.fit_weight, self.balance_weight))
        gram = (X.T @ X).astype(np.float64)
        factor = RidgeFactor(gram, self.ridge)
        B = sign(X @ rng.standard_normal((X.shape[1], bits)).astype(np.float32)).astype(np.float64)
        Z = balanced(scale * (similarity @ B) + balance * B, rng)
        objective: list[float] = []

        def record() -> None:
            hash_loss = B.size - 2 * np.sum(P * (X.T @ B)) + np.sum((gram @ P) * P) + self.ridge * np.sum(P**2)
            pull = -2 * np.sum(B * (scale * (similarity @ Z) + balance * Z))
            objective.append(float(pull + fit * hash_loss))

        for step in steps(self.max_iter, "rounds"):
            P = factor.solve(X.T @ B)
            record()
            Z = balanced(scale * (similarity @ B) + balance * B, rng)
            record()
            new = keep_sign(scale * (similarity @ Z) + fit * (X @ P) + balance * Z, B)
            done, B = step > 0 and np.array_equal(new, B), new
            record()
            if done:
                break
        P = factor.solve(X.T @ B)
        return Learned(linear(P), B, objective_=objective, n_iter_=step + 1)
