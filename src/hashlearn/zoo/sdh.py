"""SDH: codes that predict the labels by a linear function. FSDH (Gui et al.): codes that the labels predict."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hashlearn.hashers.in_memory import Learned
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, fitted, parameter
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.rounds import Rounds, RoundsHasher, SignStep, SweepStep


class LabelRegressionHasher(RoundsHasher):
    """Base of methods that regress codes on labels or labels on codes, and codes on features."""

    intercept = True

    kernel: str | None = "rbf-fixed"
    reg: float = parameter(POSITIVE, "Weight of |G|^2 (the paper's lambda).", default=1.0)
    nu: float = parameter(NON_NEGATIVE, "Weight of the hash function's error.", default=1e-05)
    ridge: float = 0.01

    objective_: FloatArray = fitted("The objective at the start and after each step for B, G and P; it never rises.")


class SDH(LabelRegressionHasher):
    """Supervised discrete hashing: min |Y - B G|^2 + reg |G|^2 + nu (|B - X P|^2 + ridge |P|^2), B in {-1, +1}.

    B is found bit by bit, G and P by ridge regression, in turn. With the authors' tiny ``nu`` the rows of a class (or
    of a label set) end up with almost the same code, whatever their features. Unlike in the authors' code, X'X is
    factored once, and a bit whose update is a tie keeps its value instead of becoming 0. The squared loss is
    implemented, the hinge loss is not. ``codes_`` are B, which derive from the labels; the authors' evaluation hashes
    the database instead, which is ``encode(X)``.
    """

    info = MethodInfo(
        name="sdh",
        reference="Shen, Shen, Liu and Shen, Supervised Discrete Hashing (CVPR 2015)",
        kind="classification",
        cost="O(n p^2 + T n (m c + m^2)), p landmarks, T sweeps",
        verified=True,
        passes=3,
        rounds=True,
        database="learned",
    )

    max_iter: int = parameter(COUNT, "Rounds at most; the fit ends when P hardly changes.", default=5)
    inner_iter: int = parameter(COUNT, "Passes over the bits per round at most.", default=10)

    def _learn_rounds(self, rounds: Rounds, rng: Rng) -> Learned:
        labels, label_squares = rounds.training.labels, float(np.trace(rounds.sums.yy))
        objective: list[float] = []

        def record() -> None:
            residual = label_squares - 2 * np.sum(G * rounds.by_label().T) + np.sum((B.bb @ G) * G)
            label_loss = residual + self.reg * np.sum(G**2)
            objective.append(float(label_loss + self.nu * rounds.hash_loss(P)))

        def fit_labels() -> FloatArray:
            return linalg.solve(B.bb + self.reg * np.eye(self.n_bits_), rounds.by_label().T, assume_a="pos")

        B = rounds.run(None, "start codes")
        G, P = fit_labels(), rounds.regression()
        record()
        for phase in rounds.repeat():
            B = rounds.run(SweepStep(P.astype(np.float32), labels @ G.T, G @ G.T, self.inner_iter, self.nu), phase)
            record()
            G = fit_labels()
            record()
            P, before = rounds.regression(), P
            record()
            if np.linalg.norm(P - before) < 1e-5 * np.linalg.norm(before):
                break
        return rounds.learned(P, objective_=objective)


class FSDHGui(LabelRegressionHasher):
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

    max_iter: int = parameter(COUNT, "Rounds.", default=5)

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
