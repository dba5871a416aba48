"""FSDH (Gui et al.): codes are regressed on the labels, so that every step has a closed form."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.hashers.in_memory import KernelParameters, linear
from hashlearn.hashers.sums import GramSums, LearnedFunction, SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, fitted, parameter
from hashlearn.progress import steps
from hashlearn.rows.reduce import FitContext
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.rounds import Rounds, SignStep, keep_codes


class FSDHGui(KernelParameters, SumsHasher):
    """Fast supervised discrete hashing: min |B - Y G|^2 + reg |G|^2 + nu (|B - X P|^2 + ridge |P|^2), B in {-1, +1}.

    This is SDH with the regression in the other direction: B <- sgn(Y G + nu X P), then G and P by ridge regression.
    With the authors' tiny ``nu`` the code of a class is the majority of the random bits that its rows started with, so
    it is a random code and one round is as good as five. A tied vote keeps each row's bit; in the authors' code the bit
    becomes 0. ``codes_`` are B, which derive from the labels; ``encode(X)`` hashes the database, as the authors do.
    """

    info = MethodInfo(
        name="fsdh-gui",
        title="FSDH (Gui)",
        reference="Gui, Liu, Sun, Tao and Tan, Fast Supervised Discrete Hashing (TPAMI 2018)",
        kind="class codes",
        cost="O(n p^2 + T n m (c + p)), p landmarks, T rounds",
        verified=True,
        passes=3,
        rounds=True,
        database="learned",
    )

    kernel: str | None = "rbf-fixed"
    reg: float = parameter(POSITIVE, "Weight of |G|^2 (the paper's lambda).", default=1.0)
    nu: float = parameter(NON_NEGATIVE, "Weight of the hash function's error.", default=1e-05)
    ridge: float = parameter(POSITIVE, "Ridge of the hash function.", default=0.01)
    max_iter: int = parameter(COUNT, "Rounds.", default=5)

    objective_: FloatArray = fitted(
        "(3 max_iter + 1,) The objective at the start and after each step for B, G and P; it never rises."
    )

    n_iter_: int = fitted("Rounds made.")

    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> LearnedFunction:
        rounds = Rounds(training, sums, self.features_.center_, self.n_bits_, self.ridge, context, intercept=True)
        label_gram = linalg.cho_factor(sums.yy + self.reg * np.eye(len(sums.yy)))
        B = rounds.run(None, "start codes")
        objective: list[float] = []

        def record() -> None:
            residual = sums.count * self.n_bits_ - 2 * np.sum(G * rounds.by_label(B)) + np.sum((sums.yy @ G) * G)
            label_loss = residual + self.reg * np.sum(G**2)
            objective.append(float(label_loss + self.nu * rounds.hash_loss(B, P)))

        G, P = linalg.cho_solve(label_gram, rounds.by_label(B)), rounds.regression(B)
        record()
        for k in steps(self.max_iter, "rounds"):
            B = rounds.run(SignStep(P.astype(np.float32), training.labels @ G, self.nu), f"round {k + 1}")
            record()
            G = linalg.cho_solve(label_gram, rounds.by_label(B))
            record()
            P = rounds.regression(B)
            record()
        keep_codes(rounds, context)
        attributes = {"objective_": np.asarray(objective), "n_iter_": k + 1}
        return LearnedFunction(linear(P[:-1], P[-1]), attributes=attributes, coded=True)
