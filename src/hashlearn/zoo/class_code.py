"""ClassCode: a classifier as a hasher, the baseline for figures measured on labeled databases."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.functions.linear import LinearFunction, RidgeFactor
from hashlearn.hashers.in_memory import KernelParameters, Learned, linear
from hashlearn.hashers.sums import GramSums, SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import POSITIVE, fitted, parameter
from hashlearn.rows.reduce import FitContext
from hashlearn.typing import Float32Array, Rng
from hashlearn.zoo.bases.primitives import class_numbers
from hashlearn.zoo.fsdh import class_codes


class ClassCodeFunction:
    """The code of the class with the largest score."""

    def __init__(self, scores: LinearFunction, codes: NDArray[np.int8]) -> None:
        self.scores_ = scores
        self.codes_ = codes.astype(np.float32)

    def project(self, features: Float32Array) -> Float32Array:
        """Return codes in {-1, +1}; their size has no meaning."""
        return self.codes_[self.scores_.project(features).argmax(axis=1)]


class ClassCode(KernelParameters, SumsHasher):
    """Kernel ridge regression predicts the class, and the class's code is the code.

    This is a baseline to compare with, not a method to use. If the database is the labeled training set and its codes
    derive from the labels, a query finds the rows of its predicted class, and mean average precision is little more
    than classification accuracy. A hasher that does not beat this figure on such a database has shown that it
    classifies, not that its codes order rows within or across classes; see Sablayrolles et al. The baseline knows
    nothing about classes that it was not trained on. Its codes are as far apart as those of FSDH, so more bits change
    nothing. ``codes_`` are those of the true classes; ``encode(X)`` gives those of the predicted ones.
    """

    info = MethodInfo(
        name="class-code",
        title="Class code",
        reference="after Sablayrolles et al., How Should We Evaluate Supervised Hashing? (ICASSP 2017)",
        kind="class codes",
        supervision=("classes",),
        cost="O(n p^2 + n p c), p landmarks",
        passes=2,
        database="learned",
        remark="baseline: a classifier",
        components=(ClassCodeFunction,),
    )

    ridge: float = parameter(POSITIVE, "Ridge of the classifier.", default=0.01)

    class_codes_: NDArray[np.int8] = fitted(
        "(n_classes, n_bits) Codes of the classes in {-1, +1}, in sorted order of the classes."
    )

    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> Learned:
        classes = class_numbers(training.labels, "ClassCode")
        codes = class_codes(training.labels.shape[1], self.n_bits_, rng)
        mean, shares = sums.x / sums.count, sums.y / sums.count
        spread = sums.xx - np.outer(sums.x, mean)
        weights = RidgeFactor(spread, self.ridge).solve(sums.xy - np.outer(sums.x, shares))
        scores = linear(weights, shares - mean @ weights)
        return Learned(ClassCodeFunction(scores, codes), codes[classes], class_codes_=codes)
