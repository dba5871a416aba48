"""LFH: real factors whose inner products explain which rows are similar, then their signs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import iadd

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import expit

from hashlearn import codes
from hashlearn.functions.linalg import top_eigenvectors
from hashlearn.hashers.in_memory import KernelParameters, Learned, linear
from hashlearn.hashers.sums import SumsHasher, Training
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, fitted, parameter
from hashlearn.progress import report
from hashlearn.rows.reduce import AdditiveSums, FeatureReader, FitContext, RowBlock, reduce_rows
from hashlearn.rows.source import RowRange
from hashlearn.typing import Float32Array, FloatArray, IntArray, PackedCodes, Rng
from hashlearn.zoo.bases.two_step import groups_of_all_rows, scaled_ridge, take_rows


class LFH(KernelParameters, SumsHasher):
    """Latent factor hashing: max sum over pairs of s t - log(1 + e^t), t = u.u' / 2, minus |U|^2 / (2 beta').

    s is 1 if two rows share a label, otherwise 0. A round samples m rows and moves all others by one Newton-like step
    with a bound on the curvature, so their score against the sample never falls; the score over all pairs may fall.
    Codes are the signs of U, and the hash function regresses U itself. Features are scaled to unit variance on the
    training rows alone. With more bits than features, the factors beyond the principal components start as random
    projections; the authors' code repeats features, but equal columns would stay equal. The authors' code learns on the
    rows themselves (``kernel=None``); kernel features retrieve better. ``codes_`` are the signs of U, which derive from
    the labels; ``encode(X)`` hashes the database.
    """

    info = MethodInfo(
        name="lfh",
        reference="Zhang, Zhang, Li and Guo, Supervised Hashing with Latent Factor Models (SIGIR 2014)",
        kind="pairwise",
        cost="O(T n m^2 + n d^2), T rounds",
        verified=True,
        passes=3,
        database="learned",
    )

    draws_rows = False

    kernel: str | None = None
    beta: float = parameter(POSITIVE, "Spread of the factors: beta' = beta / n_bits.", default=30.0)
    ridge: float = parameter(POSITIVE, "Ridge of the hash function as a multiple of rows / features.", default=1.0)
    max_iter: int = parameter(COUNT, "Rounds.", default=50)

    objective_: FloatArray = fitted(
        "(max_iter, 2) The score of the rows outside the sample before and after each round."
    )

    n_iter_: int = fitted("Rounds made.")

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> Learned:
        context.open_codes(training.n_rows, self.n_bits_, needed=True)
        group = groups_of_all_rows(training, context)
        n, width = training.n_rows - training.n_unlabeled, training.n_features
        extra = rng.standard_normal((width, max(0, self.n_bits_ - width))) / np.sqrt(width)
        samples = np.array([rng.choice(n, min(self.n_bits_, n), replace=False) for _ in range(self.max_iter)])
        if training.n_unlabeled:
            samples = np.flatnonzero(group >= 0)[samples]
        sampled = np.unique(samples)
        found = take_rows(training, sampled, context)
        shift, spread = self._set_center(training, found.mean), found.spread(training.center + found.mean)
        gram = found.sums.recentered(shift).xx
        _, components = top_eigenvectors(gram / np.outer(spread, spread), min(self.n_bits_, width))
        start = (np.hstack([components, extra]) / spread[:, None]).astype(np.float32)
        rounds = SampledRounds(training.labels, self.n_bits_ / self.beta)
        rounds.run((np.concatenate(found.taken) - self.features_.center_) @ start, sampled, samples, group[sampled])
        plan = training.centered_at(self.features_.center_), start, rounds
        moved = reduce_rows(training.source, move_rows, plan, context, "move rows", MovedSums)
        weights = scaled_ridge(gram, moved.xu, spread, self.ridge * n / width)
        learned = Learned(linear(weights), objective_=moved.objective, n_iter_=len(moved.objective))
        learned.in_context = True
        return learned


class SampledRounds:
    """Sampled rows and their factors, round by round, which is all that any other row needs to move by itself.

    A row moves by the factors that the sampled rows have in that round. So the rows that are ever sampled go through
    all rounds first, together, and every other row goes through them alone.
    """

    def __init__(self, labels: LabelMatrix, prior: float) -> None:
        self.labels, self.prior = labels, prior
        self.samples: list[IntArray] = []
        self.groups: list[NDArray[np.integer]] = []
        self.factors: list[FloatArray] = []

    def run(
        self,
        start: Float32Array,
        rows: IntArray,
        samples: IntArray,
        group: NDArray[np.integer],
    ) -> None:
        """Move ``rows`` through all rounds from the factors ``start``; ``samples`` are those sampled in each round."""
        U = start.astype(np.float64)
        for k, sample in enumerate(samples):
            chosen = np.searchsorted(rows, sample)
            self.samples.append(sample)
            self.groups.append(group[chosen])
            self.factors.append(U[chosen])
            self.move(U, rows, group, k)
            report("rounds", k + 1, len(samples))

    def move(self, U: FloatArray, rows: IntArray, group: NDArray[np.integer], k: int) -> tuple[float, float]:
        """Round k of rows of these numbers and groups, in place; their score before and after."""
        V = self.factors[k]
        known, place = np.unique(group, return_inverse=True)
        similar = (self.labels[known] @ self.labels[self.groups[k]].T).toarray() > 0
        others = ~np.isin(rows, self.samples[k])
        shared, theirs = similar[place[others]], U[others]
        U[others] = ascend(theirs, V, shared, self.prior)
        return score(theirs, V, shared, self.prior), score(U[others], V, shared, self.prior)


@dataclass
class MovedSums(AdditiveSums):
    """Sums of products of features and factors, and of the score before and after each round."""

    xu: FloatArray
    objective: FloatArray


def move_rows(
    plan: tuple[FeatureReader, Float32Array, SampledRounds], rows: RowRange
) -> tuple[MovedSums, slice, PackedCodes]:
    """Run one task: factors, from where they start through all rounds, and codes of its rows with labels."""
    view, start, rounds = plan
    packed = np.zeros((rows.stop - rows.start, codes.n_bytes(start.shape[1])), dtype=np.uint8)

    def move(block: RowBlock) -> MovedSums:
        labeled, first = block.labeled, block.rows.start
        x, group = block.x[labeled], block.group[labeled]
        U = (x @ start).astype(np.float64)
        objective = [rounds.move(U, labeled + first, group, k) for k in range(len(rounds.factors))]
        packed[labeled + first - rows.start] = codes.pack(U >= 0)
        return MovedSums(x.astype(np.float64).T @ U, np.array(objective))

    return reduce(iadd, map(move, view.blocks(rows))), slice(rows.start, rows.stop), packed


def score(U: FloatArray, V: FloatArray, similar: NDArray[np.bool_], prior: float) -> float:
    """Log posterior of the rows U given the rows V; each pair counts twice, once from each side."""
    theta = U @ V.T / 2
    return float(2 * (similar * theta - np.logaddexp(0, theta)).sum() - prior / 2 * (U**2).sum())


def ascend(U: FloatArray, V: FloatArray, similar: NDArray[np.bool_], prior: float) -> FloatArray:
    """Move every row of U up its score. V'V / 8 + prior I bounds the curvature, which is at most 1/4 for a logistic."""
    gradient = (similar - expit(U @ V.T / 2)) @ V - prior * U
    curvature = V.T @ V / 8 + prior * np.eye(V.shape[1])
    # An inverse is safe because the prior keeps eigenvalues away from zero, and eight times faster for many rows.
    return U + gradient @ linalg.inv(curvature)
