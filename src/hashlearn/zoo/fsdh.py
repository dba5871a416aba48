"""FSDH (Koutaki et al.) and ClassCode: a row of a Hadamard matrix as the code of each class."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn.functions.linear import LinearFunction, RidgeFactor
from hashlearn.hashers.in_memory import KernelParameters, Learned, linear
from hashlearn.hashers.sums import GramSums, SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import POSITIVE, fitted, parameter
from hashlearn.rows.reduce import FitContext
from hashlearn.typing import Float32Array, Int64Array, Rng
from hashlearn.zoo.bases.primitives import class_numbers

DRAWS = 100


class FSDH(KernelParameters, SumsHasher):
    """Fast supervised discrete hashing: codes of the classes by rule, P = (X'X + ridge I)^-1 X'B, no iterations.

    Without a weight on the features, SDH's objective is least if the codes of balanced classes are orthogonal, as the
    rows of a Hadamard matrix are. The authors' code takes the first rows of a matrix of order ``n_bits``: that fails
    with more classes than bits, needs a matrix of that order, repeats columns (the first 10 rows of order 32 or more
    have 16 different ones) and has a constant column. Here rows and their signs are drawn at random, and the best of
    many draws is kept. If no matrix of order ``n_bits`` with a row for each class is known, ``n_bits`` columns of a
    larger one are also drawn, and codes are then only nearly orthogonal. The authors' code has no ridge. ``codes_`` are
    those of the classes; ``encode(X)`` hashes the database, as the authors do.
    """

    info = MethodInfo(
        name="fsdh",
        reference="Koutaki, Shirai and Ambai, Fast Supervised Discrete Hashing and its Analysis (2016)",
        kind="class codes",
        supervision=("classes",),
        cost="O(n p^2 + n p m), p landmarks",
        verified=True,
        passes=2,
        database="learned",
    )

    kernel: str | None = "rbf-fixed"
    ridge: float = parameter(POSITIVE, "Ridge of the hash function.", default=0.01)

    class_codes_: NDArray[np.int8] = fitted(
        "(n_classes, n_bits) Codes of the classes in {-1, +1}, in sorted order of the classes."
    )

    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> Learned:
        classes = class_numbers(training.labels, "FSDH")
        codes = class_codes(training.labels.shape[1], self.n_bits_, rng)
        weights = RidgeFactor(sums.xx, self.ridge).solve(sums.xy @ codes)
        return Learned(linear(weights), codes[classes], class_codes_=codes)


def class_codes(n_classes: int, n_bits: int, rng: Rng) -> NDArray[np.int8]:
    """Distinct codes (n_classes, n_bits), orthogonal if a Hadamard matrix of order ``n_bits`` has enough rows.

    Among random draws the one with the least squared inner products is kept, and among equal ones the one with most
    different columns, because equal, opposite or constant columns add no information about the classes.
    """
    if n_bits < 64 and n_classes > 2**n_bits:
        needed = int(n_classes - 1).bit_length()
        raise ValueError(f"Codes of {n_classes} classes need at least {needed} bits. Got n_bits={n_bits} instead.")
    table = hadamard(max(n_classes, n_bits))
    most = min(n_bits, 2 ** min(n_classes - 1, 60) - 1)
    best, best_score = None, (np.inf, 0)
    for _ in range(DRAWS):
        rows = table[rng.choice(len(table), n_classes, replace=False)] * rng.choice([-1, 1], (n_classes, 1))
        draw = rows if n_bits == len(table) else rows[:, rng.choice(len(table), n_bits, replace=False)]
        products = draw.astype(np.float64) @ draw.T
        if (products >= n_bits).sum() > n_classes:
            continue  # two classes share a code
        different = useful_columns(draw)
        score = (float((products**2).sum()), -different)
        if score < best_score:
            best, best_score = draw, score
        if best_score == (n_classes * n_bits**2, -most):
            break
    return best.astype(np.int8) if best is not None else _random_codes(n_classes, n_bits, rng)


def useful_columns(codes: NDArray[Any]) -> int:
    """Count the columns that differ from one another even when flipped, without constant ones."""
    flipped = np.unique(codes * codes[:1], axis=1)
    return flipped.shape[1] - int((flipped == 1).all(axis=0).any())


def hadamard(least: int) -> Int64Array:
    """Make a Hadamard matrix of order >= ``least``, the least of 1, 2, 4, 8... and (q + 1) 2^k, q prime, q % 4 = 3."""
    for order in count(least):
        odd = order
        while True:
            if odd == 1 or (odd % 4 == 0 and _is_prime(odd - 1)):
                core = np.ones((1, 1), dtype=np.int64) if odd == 1 else _paley(odd - 1)
                return np.kron(linalg.hadamard(order // odd), core)
            if odd % 2:
                break
            odd //= 2
    raise AssertionError("unreachable: there is always a larger power of two")


def _paley(q: int) -> Int64Array:
    """Paley's Hadamard matrix of order q + 1, from the squares modulo a prime q with q % 4 = 3."""
    character = np.full(q, -1)
    character[np.arange(1, q) ** 2 % q] = 1
    character[0] = 0
    skew = np.zeros((q + 1, q + 1), dtype=np.int64)
    skew[0, 1:], skew[1:, 0] = 1, -1
    skew[1:, 1:] = character[(np.arange(q)[:, None] - np.arange(q)) % q]
    return skew + np.eye(q + 1, dtype=np.int64)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % k for k in range(2, int(number**0.5) + 1))


def _random_codes(n_classes: int, n_bits: int, rng: Rng) -> NDArray[np.int8]:
    """Distinct random codes, for numbers of classes at which drawn rows collide."""
    codes = np.empty((0, n_bits), dtype=np.int8)
    while len(codes) < n_classes:
        more = rng.choice(np.array([-1, 1], dtype=np.int8), (2 * n_classes, n_bits))
        codes = np.unique(np.concatenate([codes, more]), axis=0)
    return codes[rng.permutation(len(codes))[:n_classes]]


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
