"""FSDH (Gui et al.): codes are regressed on the labels, so that every step has a closed form."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.hashers.in_memory import Learned
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, fitted, parameter
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.rounds import Rounds, RoundsHasher, SignStep


class FSDHGui(RoundsHasher):
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

    intercept = True

    kernel: str | None = "rbf-fixed"
    reg: float = parameter(POSITIVE, "Weight of |G|^2 (the paper's lambda).", default=1.0)
    nu: float = parameter(NON_NEGATIVE, "Weight of the hash function's error.", default=1e-05)
    ridge: float = 0.01
    max_iter: int = parameter(COUNT, "Rounds.", default=5)

    objective_: FloatArray = fitted(
        "(3 max_iter + 1,) The objective at the start and after each step for B, G and P; it never rises."
    )

    def _learn_rounds(self, rounds: Rounds, rng: Rng) -> Learned:
        labels, yy = rounds.training.labels, rounds.sums.yy
        label_gram = linalg.cho_factor(yy + self.reg * np.eye(len(yy)))
        objective: list[float] = []

        def record() -> None:
            residual = rounds.count * self.n_bits_ - 2 * np.sum(G * rounds.by_label()) + np.sum((yy @ G) * G)
            label_loss = residual + self.reg * np.sum(G**2)
            objective.append(float(label_loss + self.nu * rounds.hash_loss(P)))

        rounds.run(None, "start codes")
        G, P = linalg.cho_solve(label_gram, rounds.by_label()), rounds.regression()
        record()
        for phase in rounds.repeat():
            rounds.run(SignStep(P.astype(np.float32), labels @ G, self.nu), phase)
            record()
            G = linalg.cho_solve(label_gram, rounds.by_label())
            record()
            P = rounds.regression()
            record()
        return rounds.learned(P, objective_=objective)
