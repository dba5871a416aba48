"""FSDH (Gui et al.): codes regressed on the labels, so that every step has a closed form."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from scipy import linalg
from sklearn.utils._param_validation import Interval

from hashlearn.fitting.frames.gram import GramHasher, GramSums, LearnedFunction, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.frames.rounds import Rounds, SignStep, keep_codes
from hashlearn.fitting.job import Job
from hashlearn.primitives import steps


class FSDHGui(GramHasher):
    """Fast supervised discrete hashing: min |B - Y G|^2 + reg |G|^2 + nu (|B - X P|^2 + ridge |P|^2), B in {-1, +1}.

    SDH with the regression turned round: B <- sgn(Y G + nu X P), then G and P by ridge regression. With the authors'
    tiny ``nu`` the code of a class is the majority of the random bits its rows began with, so it is a random code and
    one round is as good as five. A tied vote keeps each row's bit; in the authors' code it becomes 0.

    Database protocol: learned. ``codes_`` are B, which derive from the labels; ``encode(X)`` hashes the database, as
    the authors do.

    Parameters
    ----------
    n_bits : int, default=64
    kernel : {"rbf", "rbf-fixed"} or None, default="rbf-fixed"
    n_landmarks : int, default=1000
    reg : float, default=1.0
        Weight of |G|^2 (the paper's lambda).
    nu : float, default=1e-5
        Weight of the hash function's error.
    ridge : float, default=1e-2
        Ridge of the hash function.
    n_iter : int, default=5
        Rounds.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    objective_ : ndarray (3 n_iter + 1,), the objective at the start and after each step for B, G and P; never rises.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import FSDHGui
    >>> X, y = load_digits(return_X_y=True)
    >>> FSDHGui(n_bits=16, n_landmarks=100, random_state=0).fit(X, y).encode(X).shape
    (1797, 2)
    """

    title: ClassVar[str] = "FSDH (Gui)"
    reference: ClassVar[str] = "Gui, Liu, Sun, Tao and Tan, Fast Supervised Discrete Hashing (TPAMI 2018)"
    year: ClassVar[int] = 2018
    kind: ClassVar[str] = "class codes"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(n p^2 + T n m (c + p)), p landmarks, T rounds"
    verified: ClassVar[bool] = True
    passes: ClassVar[str | None] = "3 + n_iter"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GramHasher._parameter_constraints,
        "reg": [Interval(numbers.Real, 0, None, closed="neither")],
        "nu": [Interval(numbers.Real, 0, None, closed="left")],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        kernel: str | None = "rbf-fixed",
        n_landmarks: int = 1000,
        reg: float = 1.0,
        nu: float = 1e-5,
        ridge: float = 1e-2,
        n_iter: int = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.reg = reg
        self.nu = nu
        self.ridge = ridge
        self.n_iter = n_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        rounds = Rounds(training, sums, self.features_.center_, self.n_bits_, self.ridge, job, intercept=True)
        label_gram = linalg.cho_factor(sums.yy + self.reg * np.eye(len(sums.yy)))
        B = rounds.run(None, "start codes")
        objective: list[float] = []

        def record() -> None:
            residual = sums.count * self.n_bits_ - 2 * np.sum(G * rounds.by_label(B)) + np.sum((sums.yy @ G) * G)
            label_loss = residual + self.reg * np.sum(G**2)
            objective.append(float(label_loss + self.nu * rounds.hash_loss(B, P)))

        G, P = linalg.cho_solve(label_gram, rounds.by_label(B)), rounds.regression(B)
        record()
        for k in steps(self.n_iter, "rounds"):
            B = rounds.run(SignStep(P.astype(np.float32), training.labels @ G, self.nu), f"round {k + 1}")
            record()
            G = linalg.cho_solve(label_gram, rounds.by_label(B))
            record()
            P = rounds.regression(B)
            record()
        keep_codes(rounds, job)
        return LearnedFunction(linear(P[:-1], P[-1]), attributes={"objective_": np.asarray(objective)}, coded=True)
