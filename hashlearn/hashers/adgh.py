"""ADGH: codes of rows and codes of anchors, tied by a label graph between the two."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from hashlearn.fitting.frames.gram import GramHasher, GramSums, LearnedFunction, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.frames.rounds import Rounds, SignStep, keep_codes
from hashlearn.fitting.job import Job
from hashlearn.primitives import class_numbers, keep_sign, metric_procrustes, steps, top_generalised
from hashlearn.primitives.procrustes import inverse_root

METRIC_RIDGE = 1e-6  # share of the mean diagonal of K'K, which is singular when landmarks repeat


class ADGH(GramHasher):
    """Asymmetric discrete graph hashing: max tr(B' A P) + w tr(B' K W) subject to W'K'KW = n I.

    B are the codes of n rows, P those of anchors, both in {-1, +1}; A joins rows and anchors of one class, normalised
    by row and column sums. Each of the three steps P = sgn(A'B), B = sgn(A P + w K W) and W (orthogonal Procrustes)
    maximises exactly.

    Only the paper's abstract was at hand: the objective is a reconstruction (``verified`` is False). An anchor enters
    through its class alone, so P is kept once a class and no anchor is ever drawn: with n_k rows and p_k anchors in
    class k, A P repeats sqrt(p_k / n_k) P_k. ``codes_`` are the learned codes.

    Parameters
    ----------
    n_bits : int, default=64
        At most the number of landmarks.
    n_anchors : int, default=1000
        Shared equally by the classes; a class gives no more than it has rows.
    weight : float, default=0.1
        w, of the projection against the graph (whose largest singular value is 1).
    refit : bool, default=True
        Hash by ridge regression on B; False for W itself, whose bits beyond the number of classes mean little.
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
    objective_ : ndarray (3 rounds,), the objective after every step; never falls.
    projection_ : ndarray (n_landmarks, n_bits), W.
    anchor_codes_ : ndarray (n_classes, n_bits), P, one row a class.
    n_iter_ : int, the rounds made.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import ADGH
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> ADGH(n_bits=16, random_state=0).fit(X, np.arange(100) % 4).encode(X).shape
    (100, 2)
    """

    title: ClassVar[str] = "ADGH"
    reference: ClassVar[str] = "Shi et al., Asymmetric Discrete Graph Hashing (AAAI 2017)"
    year: ClassVar[int] = 2017
    kind: ClassVar[str] = "graph, discrete"
    supervision: ClassVar[str] = "classes"
    cost: ClassVar[str] = "O(n p^2 + p^3 + T n p m)"
    verified: ClassVar[bool] = False
    passes: ClassVar[str | None] = "3 + max_iter"
    by_group: ClassVar[bool] = True
    multilabel: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GramHasher._parameter_constraints,
        "n_anchors": [Interval(numbers.Integral, 1, None, closed="left")],
        "weight": [Interval(numbers.Real, 0, None, closed="left")],
        "refit": ["boolean"],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_anchors: int = 1000,
        weight: float = 0.1,
        refit: bool = True,
        max_iter: int = 20,
        ridge: float = 1e-3,
        kernel: str | None = "rbf",
        n_landmarks: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.weight = weight
        self.refit = refit
        self.max_iter = max_iter
        self.ridge = ridge
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_training(self, training: Training) -> None:
        class_numbers(training.labels, "ADGH")
        width, bits = training.n_features, self.n_bits_
        if bits > width:
            raise ValueError(f"ADGH needs as many features (landmarks) as bits. Got {width} features for {bits} bits.")

    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        classes = class_numbers(training.labels, "ADGH")
        count, width, bits, own = sums.count, len(sums.xx), self.n_bits_, sums.groups
        assert training.counts is not None
        sizes = training.counts
        anchors = np.minimum(sizes, max(1, round(self.n_anchors / len(sizes))))
        strength = np.sqrt(anchors / sizes)[:, None]

        rounds = Rounds(training, sums, self.features_.center_, bits, self.ridge, job)
        metric = sums.xx + max(METRIC_RIDGE * np.trace(sums.xx) / width, 1e-12) * np.eye(width)
        root = inverse_root(metric)
        # A A' = sum over classes of 1 1' / n_k, so K'A A'K needs the class sums of K only.
        means = own / np.sqrt(sizes)[:, None]
        _, directions = top_generalised(means.T @ means, metric, bits, ridge=0.0)
        projection = np.sqrt(count) * directions
        anchor_codes, objective = np.ones((len(sizes), bits)), []
        B = rounds.run(SignStep(projection, np.zeros_like(anchor_codes)), "start codes")

        def value() -> float:
            graph = strength * anchor_codes * B.groups.all()
            return float(graph.sum() + self.weight * (B.xb * projection).sum())

        for step in steps(self.max_iter, "rounds"):
            anchor_codes = keep_sign(B.groups.all(), anchor_codes)
            objective.append(value())
            B = rounds.run(SignStep(self.weight * projection, strength * anchor_codes), f"round {step + 1}")
            objective.append(value())
            if step and B.changed == 0:
                break
            projection = metric_procrustes(root, B.xb, count)
            objective.append(value())
        keep_codes(rounds, job)
        trace = {"objective_": np.asarray(objective), "n_iter_": step + 1}
        return LearnedFunction(
            linear(rounds.regression(B) if self.refit else projection),
            attributes={**trace, "projection_": projection, "anchor_codes_": anchor_codes[np.argsort(classes)]},
            coded=True,
        )
