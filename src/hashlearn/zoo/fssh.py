"""FSSH: similarity as a product of projected features and projected labels, both near the codes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hashlearn.functions.linear import RidgeFactor
from hashlearn.hashers.in_memory import KernelParameters, linear
from hashlearn.hashers.sums import GramSums, LearnedFunction, SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, fitted, parameter
from hashlearn.progress import steps
from hashlearn.rows.reduce import FitContext
from hashlearn.similarity import LabelSimilarity
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.primitives import LabelProduct
from hashlearn.zoo.bases.rounds import Rounds, SignStep, keep_codes

LABEL_RIDGE = 1e-6  # share of the mean diagonal of Y'Y, which is singular where labels repeat each other


class FSSH(KernelParameters, SumsHasher):
    """Fast scalable supervised hashing: min |m S - X W (Y G)'|^2 + mu |B - Y G|^2 + theta |B - X W|^2.

    All steps are closed forms. With A = Y G and H = X W, W = (X'X + ridge I)^-1 (m X'S A + theta X'B)
    (A'A + theta I)^-1, G alike, and B = sgn(mu Y G + theta X W). S appears only in X'SY, which is computed once from
    sums by label set. In the objective that these steps lower, X'X + ridge I stands for X'X.

    We know the method from notes (``verified`` is False). ``codes_`` are B; the hash function is a ridge regression of
    B, the two-step variant of the paper.
    """

    info = MethodInfo(
        name="fssh",
        title="FSSH",
        reference="Luo et al., Fast Scalable Supervised Hashing (SIGIR 2018)",
        kind="pairwise, discrete",
        cost="O(n p^2 + p^3 + T n m (p + c))",
        passes=3,
        rounds=True,
        database="learned",
        remark="from notes",
    )

    label_weight: float = parameter(POSITIVE, "mu as a share of n.", default=1.0)
    fit_weight: float = parameter(POSITIVE, "theta as a share of n.", default=1.0)
    ridge: float = parameter(POSITIVE, "Ridge of W and of the hash function.", default=0.001)
    max_iter: int = parameter(COUNT, "Rounds at most; the fit ends when no bit changes.", default=5)

    objective_: FloatArray = fitted(
        "(3 rounds,) The objective less the constant |m S|^2, after every step for W, G and B; it never rises."
    )
    n_iter_: int = fitted("Rounds made.")

    by_group: ClassVar[bool] = True

    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> LearnedFunction:
        rounds = Rounds(training, sums, self.features_.center_, self.n_bits_, self.ridge, context)
        mu, theta = self.label_weight * sums.count, self.fit_weight * sums.count
        label_ridge = LABEL_RIDGE * float(np.trace(sums.yy)) / len(sums.yy)
        xx, yy = sums.xx + self.ridge * np.eye(len(sums.xx)), sums.yy + label_ridge * np.eye(len(sums.yy))
        label_factor, identity = RidgeFactor(sums.yy, label_ridge), np.eye(self.n_bits_)
        xsy = similar_sums(training, sums, self.n_bits_)
        B = rounds.run(None, "start codes")
        G = label_factor.solve(rounds.by_label(B))
        objective: list[float] = []

        def record() -> None:
            hh, aa, n_entries = W.T @ xx @ W, G.T @ yy @ G, sums.count * self.n_bits_
            value = np.sum(hh * aa) - 2 * np.sum(W * (xsy @ G))
            value += mu * (n_entries - 2 * np.sum(G * rounds.by_label(B)) + np.trace(aa))
            objective.append(float(value + theta * (n_entries - 2 * np.sum(W * B.xb) + np.trace(hh))))

        for step in steps(self.max_iter, "rounds"):
            W = rounds.solve(xsy @ G + theta * B.xb) @ np.linalg.inv(G.T @ yy @ G + theta * identity)
            record()
            G = label_factor.solve(xsy.T @ W + mu * rounds.by_label(B)) @ np.linalg.inv(W.T @ xx @ W + mu * identity)
            record()
            B = rounds.run(SignStep(theta * W, mu * (training.labels @ G)), f"round {step + 1}")
            record()
            if step and B.changed == 0:
                break
        keep_codes(rounds, context)
        attributes = {"objective_": np.asarray(objective), "n_iter_": step + 1}
        return LearnedFunction(linear(rounds.regression(B)), attributes=attributes, coded=True)


def similar_sums(training: Training, sums: GramSums, n_bits: int) -> FloatArray:
    """m X'SY (d, c) from sums by label set, because rows with equal labels have equal rows of S."""
    assert training.counts is not None
    similarity = LabelProduct(LabelSimilarity(np.arange(training.n_groups), training.labels))
    counted = training.labels.multiply(training.counts[:, None]).toarray()
    scale = n_bits / similarity.similarity.largest
    return scale * (sums.groups.T @ (similarity @ counted))
