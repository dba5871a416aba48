"""FSSH: similarity as a product of projected features and projected labels, both near the codes."""

from __future__ import annotations

import numpy as np

from hashlearn.functions.linear import RidgeFactor
from hashlearn.hashers.in_memory import Learned
from hashlearn.hashers.sums import GramSums, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import POSITIVE, fitted, parameter
from hashlearn.similarity import LabelSimilarity
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.primitives import LabelProduct
from hashlearn.zoo.bases.rounds import Rounds, RoundsHasher, SignStep

LABEL_RIDGE = 1e-6  # share of the mean diagonal of Y'Y, which is singular where labels repeat each other


class FSSH(RoundsHasher):
    """Fast scalable supervised hashing: min |m S - X W (Y G)'|^2 + mu |B - Y G|^2 + theta |B - X W|^2.

    All steps are closed forms. With A = Y G and H = X W, W = (X'X + ridge I)^-1 (m X'S A + theta X'B)
    (A'A + theta I)^-1, G alike, and B = sgn(mu Y G + theta X W). S appears only in X'SY, which is computed once from
    sums by label set. In the objective that these steps lower, X'X + ridge I stands for X'X.

    We know the method from notes (``verified`` is False). ``codes_`` are B; the hash function is a ridge regression of
    B, the two-step variant of the paper.
    """

    info = MethodInfo(
        name="fssh",
        reference="Luo et al., Fast Scalable Supervised Hashing (SIGIR 2018)",
        kind="pairwise, discrete",
        cost="O(n p^2 + p^3 + T n m (p + c))",
        passes=3,
        rounds=True,
        database="learned",
        remark="from notes",
    )

    by_group = True

    label_weight: float = parameter(POSITIVE, "mu as a share of n.", default=1.0)
    fit_weight: float = parameter(POSITIVE, "theta as a share of n.", default=1.0)
    max_iter: int = 5

    objective_: FloatArray = fitted(
        "(3 rounds,) The objective less the constant |m S|^2, after every step for W, G and B; it never rises."
    )

    def _learn_rounds(self, rounds: Rounds, rng: Rng) -> Learned:
        sums, labels, n_entries = rounds.sums, rounds.training.labels, rounds.count * self.n_bits_
        mu, theta = self.label_weight * sums.count, self.fit_weight * sums.count
        label_ridge = LABEL_RIDGE * float(np.trace(sums.yy)) / len(sums.yy)
        xx, yy = sums.xx + self.ridge * np.eye(len(sums.xx)), sums.yy + label_ridge * np.eye(len(sums.yy))
        label_factor, identity = RidgeFactor(sums.yy, label_ridge), np.eye(self.n_bits_)
        xsy = similar_sums(rounds.training, sums, self.n_bits_)
        objective: list[float] = []

        def record() -> None:
            hh, aa = W.T @ xx @ W, G.T @ yy @ G
            value = np.sum(hh * aa) - 2 * np.sum(W * (xsy @ G))
            value += mu * (n_entries - 2 * np.sum(G * rounds.by_label()) + np.trace(aa))
            objective.append(float(value + theta * (n_entries - 2 * np.sum(W * B.xb) + np.trace(hh))))

        B = rounds.run(None, "start codes")
        G = label_factor.solve(rounds.by_label())
        for phase in rounds.repeat():
            W = rounds.solve(xsy @ G + theta * B.xb) @ np.linalg.inv(G.T @ yy @ G + theta * identity)
            record()
            G = label_factor.solve(xsy.T @ W + mu * rounds.by_label()) @ np.linalg.inv(W.T @ xx @ W + mu * identity)
            record()
            B = rounds.run(SignStep(theta * W, mu * (labels @ G)), phase)
            record()
            if rounds.stable:
                break
        return rounds.learned(rounds.regression(), objective_=objective)


def similar_sums(training: Training, sums: GramSums, n_bits: int) -> FloatArray:
    """m X'SY (d, c) from sums by label set, because rows with equal labels have equal rows of S."""
    similarity = LabelProduct(LabelSimilarity(np.arange(training.n_groups), training.labels))
    counted = training.labels.multiply(training.sizes[:, None]).toarray()
    scale = n_bits / similarity.similarity.largest
    return scale * (sums.groups.T @ (similarity @ counted))
