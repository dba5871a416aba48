"""KSDH: one factor of the pairwise fit is discrete, the other a kernel projection."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from hashlearn.fitting.frames.gram import GramHasher, GramSums, LearnedFunction, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.frames.rounds import Rounds, SignStep, keep_codes
from hashlearn.fitting.job import Job
from hashlearn.primitives import LabelProduct, metric_procrustes, steps, top_generalised
from hashlearn.primitives.procrustes import inverse_root
from hashlearn.similarity import LabelSimilarity

METRIC_RIDGE = 1e-6  # share of the mean diagonal of K'K, which is singular when landmarks repeat


class KSDH(GramHasher):
    """Kernel-based supervised discrete hashing: min |B (KA)' - m S|^2 + w |B - KA|^2 subject to A'K'KA = n I.

    The constraint makes all quadratic terms constant, so with G = m S + w I each half-step maximises tr(B' G K A)
    exactly: B = sgn(G K A) ("B") and A by orthogonal Procrustes. The variant "H" ties B = sgn(K A) and has w = 0;
    its objective need not rise.

    The paper's text was not at hand: this follows notes on it (``verified`` is False). With more bits than classes the
    constraint forces A into directions without meaning, and hashing by A gets worse with every bit; ``refit`` replaces
    A by a ridge regression on G K A, which does not. ``codes_`` are learned for the variant "B" and hashed for "H".

    K enters by K'K, by its sums by label set (n_sets x n_landmarks numbers, held in memory) and by a pass a round.

    Parameters
    ----------
    n_bits : int, default=64
        At most the number of landmarks.
    variant : {"B", "H"}, default="B"
        Free codes, or codes tied to the projection.
    refit : bool, default=True
        Hash by ridge regression on the final G K A; False for A itself, as the objective has it.
    weight : float, default=0.01
        w as a share of m n; without effect for "H".
    max_iter : int, default=20
        Rounds at most; it ends when no bit changes.
    ridge : float, default=0.001
        Of the refit.
    kernel : {"rbf", "rbf-fixed"} or None, default="rbf"
    n_landmarks : int, default=1000
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    objective_ : ndarray (2 rounds,), tr(B' G K A) after every half-step; never falls for the variant "B".
    projection_ : ndarray (n_landmarks, n_bits), A.
    n_iter_ : int, the rounds made.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import KSDH
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> KSDH(n_bits=16, random_state=0).fit(X, np.arange(100) % 4).encode(X).shape
    (100, 2)
    """

    title: ClassVar[str] = "KSDH"
    reference: ClassVar[str] = "Shi et al., Kernel-Based Supervised Discrete Hashing for Image Retrieval (ECCV 2016)"
    year: ClassVar[int] = 2016
    kind: ClassVar[str] = "pairwise, discrete"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(n p^2 + p^3 + T n m (p + c))"
    verified: ClassVar[bool] = False
    passes: ClassVar[str | None] = "2 + max_iter"
    by_group: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GramHasher._parameter_constraints,
        "variant": [StrOptions({"B", "H"})],
        "refit": ["boolean"],
        "weight": [Interval(numbers.Real, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        variant: str = "B",
        refit: bool = True,
        weight: float = 0.01,
        max_iter: int = 20,
        ridge: float = 1e-3,
        kernel: str | None = "rbf",
        n_landmarks: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.variant = variant
        self.refit = refit
        self.weight = weight
        self.max_iter = max_iter
        self.ridge = ridge
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_training(self, training: Training) -> None:
        width, bits = training.n_features, self.n_bits_
        if bits > width:
            raise ValueError(f"KSDH needs as many features (landmarks) as bits. Got {width} features for {bits} bits.")

    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        count, width, bits, own = sums.count, len(sums.xx), self.n_bits_, sums.groups
        rounds = Rounds(training, sums, self.features_.center_, bits, self.ridge, job)
        # S between label sets: rows with equal labels enter by their sums alone.
        similarity = LabelProduct(LabelSimilarity(np.arange(len(own)), training.labels))
        free = self.variant == "B"
        scale = bits / similarity.similarity.largest
        weight = self.weight * bits * count if free else 0.0
        metric = sums.xx + max(METRIC_RIDGE * np.trace(sums.xx) / width, 1e-12) * np.eye(width)
        root = inverse_root(metric)
        _, directions = top_generalised(similarity.quadratic(own), metric, bits, ridge=0.0)
        projection, objective = np.sqrt(count) * directions, []
        for step in steps(self.max_iter, "rounds"):
            pull = scale * (similarity @ (own @ projection))
            targets = own.T @ pull + weight * (sums.xx @ projection)
            B = rounds.run(
                SignStep(weight * projection, pull) if free else SignStep(projection, np.zeros_like(pull)),
                f"round {step + 1}",
            )
            by_group = B.groups.all()
            objective.append(float((by_group * pull).sum() + weight * (B.xb * projection).sum()))
            if step and B.changed == 0:
                break
            cross = scale * (own.T @ (similarity @ by_group)) + weight * B.xb
            projection = metric_procrustes(root, cross, count)
            objective.append(float((projection * cross).sum()))
        if free:
            keep_codes(rounds, job)
        return LearnedFunction(
            linear(rounds.solve(targets) if self.refit else projection),
            attributes={"objective_": np.asarray(objective), "projection_": projection, "n_iter_": step + 1},
            coded=free,
        )
