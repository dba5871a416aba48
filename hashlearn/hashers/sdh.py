"""SDH: codes from which the labels can be read linearly."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.utils._param_validation import Interval

from hashlearn.fitting.frames.gram import GramHasher, GramSums, LearnedFunction, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.frames.rounds import Rounds, SweepStep, keep_codes
from hashlearn.fitting.job import Job
from hashlearn.primitives import steps


class SDH(GramHasher):
    """Supervised discrete hashing: min |Y - B G|^2 + reg |G|^2 + nu (|B - X P|^2 + ridge |P|^2), B in {-1, +1}.

    B is found bit by bit, G and P by ridge regression, in turn. With the authors' tiny ``nu`` the rows of a class
    (or of a label set) end up with almost the same code, whatever their features. Unlike the authors' code, X'X is
    factored once, and a bit whose update is a tie keeps its value instead of becoming 0. The squared loss is the
    one implemented, not the hinge.

    Database protocol: learned. ``codes_`` are B, which derive from the labels; the authors' evaluation hashes the
    database instead, which is ``encode(X)``.

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
        Rounds at most; they end early when P hardly changes.
    max_sweeps : int, default=10
        Passes over the bits a round at most.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    objective_ : ndarray, the objective at the start and after each step for B, G and P; never rises.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import SDH
    >>> X, y = load_digits(return_X_y=True)
    >>> SDH(n_bits=16, n_landmarks=100, random_state=0).fit(X, y).encode(X).shape
    (1797, 2)
    """

    title: ClassVar[str] = "SDH"
    reference: ClassVar[str] = "Shen, Shen, Liu and Shen, Supervised Discrete Hashing (CVPR 2015)"
    year: ClassVar[int] = 2015
    kind: ClassVar[str] = "classification"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(n p^2 + T n (m c + m^2)), p landmarks, T sweeps"
    verified: ClassVar[bool] = True
    passes: ClassVar[str | None] = "3 + n_iter"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GramHasher._parameter_constraints,
        "reg": [Interval(numbers.Real, 0, None, closed="neither")],
        "nu": [Interval(numbers.Real, 0, None, closed="left")],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_sweeps": [Interval(numbers.Integral, 1, None, closed="left")],
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
        max_sweeps: int = 10,
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
        self.max_sweeps = max_sweeps
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        rounds = Rounds(training, sums, self.features_.center_, self.n_bits_, self.ridge, job, intercept=True)
        B = rounds.run(None, "start codes")
        label_squares = float(np.trace(sums.yy))
        objective: list[float] = []

        def record() -> None:
            residual = label_squares - 2 * np.sum(G * rounds.by_label(B).T) + np.sum((B.bb @ G) * G)
            label_loss = residual + self.reg * np.sum(G**2)
            objective.append(float(label_loss + self.nu * rounds.hash_loss(B, P)))

        def fit_labels() -> NDArray[np.float64]:
            return linalg.solve(B.bb + self.reg * np.eye(self.n_bits_), rounds.by_label(B).T, assume_a="pos")

        G, P = fit_labels(), rounds.regression(B)
        record()
        for k in steps(self.n_iter, "rounds"):
            step = SweepStep(P.astype(np.float32), training.labels @ G.T, G @ G.T, self.max_sweeps, self.nu)
            B = rounds.run(step, f"round {k + 1}")
            record()
            G = fit_labels()
            record()
            P, before = rounds.regression(B), P
            record()
            if np.linalg.norm(P - before) < 1e-5 * np.linalg.norm(before):
                break
        keep_codes(rounds, job)
        return LearnedFunction(linear(P[:-1], P[-1]), attributes={"objective_": np.asarray(objective)}, coded=True)
