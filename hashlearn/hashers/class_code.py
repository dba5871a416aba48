"""ClassCode: a classifier dressed as a hasher, the yardstick for figures measured on labelled databases."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from hashlearn.fitting.frames.gram import GramHasher, GramSums, LearnedFunction, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.job import Job
from hashlearn.functions.linear import LinearFunction, RidgeFactor
from hashlearn.hashers.fsdh import class_codes
from hashlearn.primitives import class_numbers


class ClassCodeFunction:
    """The code of the class with the largest score."""

    def __init__(self, scores: LinearFunction, codes: NDArray[np.int8]) -> None:
        self.scores_ = scores
        self.codes_ = codes.astype(np.float32)

    def project(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Codes in {-1, +1}; they are no distances to anything."""
        return self.codes_[self.scores_.project(features).argmax(axis=1)]


class ClassCode(GramHasher):
    """Kernel ridge regression predicts the class, and the class's code is the code.

    Not a method to use but one to compare with. When the database is the labelled training set and its codes derive
    from the labels, a query finds what its predicted class is worth, and mean average precision is little more than
    classification accuracy. A hasher that does not beat this figure on such a database has shown that it classifies,
    not that its codes order rows within or across classes; see Sablayrolles et al. It knows nothing of classes it
    was not trained on. The codes are as far apart as those of FSDH, so more bits change nothing.

    Database protocol: learned. ``codes_`` are those of the true classes; ``encode(X)`` gives those of predicted ones.

    Parameters
    ----------
    n_bits : int, default=64
    kernel : {"rbf", "rbf-fixed"} or None, default="rbf"
    n_landmarks : int, default=1000
    ridge : float, default=1e-2
        Ridge of the classifier.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    class_codes_ : int8 ndarray (n_classes, n_bits) in {-1, +1}, the code of each class in sorted order.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import ClassCode
    >>> X, y = load_digits(return_X_y=True)
    >>> ClassCode(n_bits=16, n_landmarks=100, random_state=0).fit(X, y).encode(X).shape
    (1797, 2)
    """

    title: ClassVar[str] = "Class code"
    reference: ClassVar[str] = (
        "after Sablayrolles, Douze, Usunier and Jégou, How Should We Evaluate Supervised Hashing? (ICASSP 2017)"
    )
    year: ClassVar[int] = 2017
    kind: ClassVar[str] = "class codes"
    supervision: ClassVar[str] = "classes"
    cost: ClassVar[str] = "O(n p^2 + n p c), p landmarks"
    verified: ClassVar[bool] = False
    passes: ClassVar[str | None] = "2"
    multilabel: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GramHasher._parameter_constraints,
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        kernel: str | None = "rbf",
        n_landmarks: int = 1000,
        ridge: float = 1e-2,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.ridge = ridge
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        classes = class_numbers(training.labels, "ClassCode")
        codes = class_codes(training.labels.shape[1], self.n_bits_, rng)
        mean, shares = sums.x / sums.count, sums.y / sums.count
        spread = sums.xx - np.outer(sums.x, mean)
        weights = RidgeFactor(spread, self.ridge).solve(sums.xy - np.outer(sums.x, shares))
        scores = linear(weights, shares - mean @ weights)
        return LearnedFunction(ClassCodeFunction(scores, codes), codes[classes], {"class_codes_": codes})
