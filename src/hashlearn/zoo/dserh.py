"""DSeRH: codes whose inner products follow a ranking of classes, by adaptive discrete minimization."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import iadd
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linalg import top_eigenvectors
from hashlearn.hashers.in_memory import KernelParameters, linear
from hashlearn.hashers.sums import GramSums, LearnedFunction, SumPlan, SumsHasher, Training, centered_sums, sum_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, Interval, IsArrayLike, fitted, parameter
from hashlearn.progress import steps
from hashlearn.rowkeys import Keys
from hashlearn.rows.advice import SampledCodes
from hashlearn.rows.reduce import AdditiveSums, FeatureReader, FitContext, RowBlock, reduce_rows
from hashlearn.rows.source import SAMPLE_ROWS, AnySource, RowRange
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng
from hashlearn.zoo.bases.primitives import rank_weights
from hashlearn.zoo.bases.rounds import Rounds, SignStep, keep_codes


class DSeRH(KernelParameters, SumsHasher):
    """Discrete semantic ranking hashing: min -tr(H' Theta H) / m + mu (|H - X W|^2 + ridge |W|^2), H in {-1, +1}.

    Theta_qi = 2 (#rows less - #rows more relevant to q than i is), made symmetric and scaled to spectral norm 1;
    it is kept between label sets, never between rows. A step is H <- sgn(H - eta grad) with W fitted by ridge
    regression in between. Steps start large and shrink whenever the objective would rise.

    We had only the paper's abstract, so the formula is our reconstruction. The paper ranks classes by word embeddings
    of their names; pass the similarities of such embeddings as ``class_relevance``. Without it, plain classes give
    Theta the low rank that also limits RSH. ``codes_`` are learned for the rows learned from, and hashed for the
    others.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import DSeRH
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=100)
    >>> X = rng.normal(size=(100, 20)) + y[:, None]
    >>> near = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.1], [0.0, 0.1, 1.0]])
    >>> DSeRH(n_bits=16, class_relevance=near, random_state=0).fit(X, y).encode(X).shape
    (100, 2)
    """

    info = MethodInfo(
        name="dserh",
        title="DSeRH",
        reference="Liu et al., Discretely Coding Semantic Rank Orders for Image Hashing (CVPR 2017)",
        kind="ranking, discrete",
        cost="O(n d^2 + G^3 + T (n d m + G^2 m)), G label sets",
        passes=2,
        database="learned",
        slow=True,
        remark="reconstruction: label orders, lambda chosen by us",
    )

    class_relevance: ArrayLike | None = parameter(
        [IsArrayLike(), None],
        "(c, c) How relevant class b is to class a, classes in sorted order; a pair of label sets gets the sum "
        "over its pairs of labels. None for the number of shared labels.",
        default=None,
    )
    mu: float = parameter(
        POSITIVE,
        "Weight of the hash function's fit. Many bits need a small weight: at 0.1 the fit to the first codes "
        "outweighs the ranking from 64 bits on.",
        default=0.01,
    )
    ridge: float = parameter(POSITIVE, "Ridge of the hash function.", default=0.001)
    max_iter: int = parameter(COUNT, "Rounds at most; the fit ends when no bit changes.", default=50)
    n_samples: int | None = parameter(
        [None, Interval(int, 2)],
        "Rows to learn from, drawn at random; None for all. Their features and the table between their label "
        "sets are held in memory; with None the table alone, but then every round is a pass over the rows.",
        default=10000,
    )
    kernel: str | None = None

    objective_: FloatArray = fitted("The objective at the start and after every step of H and of W; it never rises.")

    by_group: ClassVar[bool] = True

    n_iter_: int = fitted("Rounds made.")

    def _check_training(self, training: Training) -> None:
        self._relevance(training.labels.shape[1])

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> LearnedFunction:
        if self.n_samples is None:
            return super()._learn_rows(training, context, rng)
        n_labeled = training.n_rows - training.n_unlabeled
        found = find_candidates(training.source, training.view, self.n_samples, n_labeled, training.seed, context)
        self._set_center(training, found.mean)
        rows, group, features = found.draw(self.n_samples)
        sample = training.on_sample(group, features, self.features_.center_)
        # In this process, because it already holds the rows.
        inner = FitContext(n_jobs=context.n_jobs, checkpoint=context.checkpoint)
        inner.codes_out = np.zeros((len(rows), codes.n_bytes(self.n_bits_)), dtype=np.uint8)
        sums = reduce_rows(sample.source, sum_rows, SumPlan(sample, by_group=True), inner, "add up sample")
        learned = self._learn_sums(sample, centered_sums(sums, sample, np.zeros(features.shape[1])), inner, rng)
        learned.coded, learned.row_codes = False, (rows, inner.codes_out)
        few, _, own = found.draw(min(SAMPLE_ROWS, self.n_samples))
        bits = codes.unpack(inner.codes_out[np.searchsorted(rows, few)], self.n_bits_)
        projections = learned.function.project(own - self.features_.center_)
        learned.calibration = Calibration.fit(projections, bits, offset=False)
        self._advise_on_codes(SampledCodes(few, codes.pack(projections >= 0), self.n_bits_))
        return learned

    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> LearnedFunction:
        n_bits, mu = self.n_bits_, self.mu
        order = RankOrder(training.labels, self._relevance(training.labels.shape[1]), training.counts)
        rounds = Rounds(training, sums, self.features_.center_, n_bits, self.ridge, context, reversible=True)
        directions = self._directions(sums.groups, order, rng)
        H = rounds.run(SignStep(directions, np.zeros((training.n_groups, n_bits))), "start codes")
        weights = rounds.regression(H)
        # The share of the old code in a step, 1 / eta; with ``safe`` each step minimizes a majorizer.
        safe = 2 * max(0.0, -order.lowest) / n_bits
        inertia = safe / 10

        def objective(weights: FloatArray) -> float:
            return float(mu * rounds.hash_loss(H, weights) - order.agreement(H.groups.all()) / n_bits)

        trace = [objective(weights)]
        for k in steps(self.max_iter, "rounds"):
            pull = 2 / n_bits * (order @ H.groups.all())
            while True:
                H = rounds.run(SignStep(2 * mu * weights, pull, inertia=inertia), f"round {k + 1}")
                value = objective(weights)
                if value <= trace[-1] or inertia >= safe:
                    break
                inertia = min(2 * inertia, safe)
                rounds.undo()
            weights = rounds.regression(H)
            trace += [value, objective(weights)]
            if H.changed == 0:
                break
        keep_codes(rounds, context)
        attributes = {"objective_": np.asarray(trace), "n_iter_": k + 1}
        return LearnedFunction(linear(weights), attributes=attributes, coded=True)

    def _directions(self, sums: FloatArray, order: RankOrder, rng: Rng) -> FloatArray:
        """Top eigenvectors of X' Theta X; bits beyond the number of features start as random mixtures of them."""
        top = top_eigenvectors(sums.T @ (order @ sums), self.n_bits_)[1]
        return np.hstack([top, top @ rng.standard_normal((top.shape[1], self.n_bits_ - top.shape[1]))])

    def _relevance(self, n_classes: int) -> FloatArray:
        if self.class_relevance is None:
            return np.eye(n_classes)
        relevance = np.asarray(self.class_relevance, dtype=np.float64)
        if relevance.shape != (n_classes, n_classes):
            raise ValueError(
                f"class_relevance must have one row and one column per class: ({n_classes}, {n_classes}). "
                f"Got {relevance.shape} instead."
            )
        return relevance


class RankOrder:
    """Theta between rows, held as a table between their label sets: rows enter by their sums over each set.

    Parameters
    ----------
    sets : label sets (G, c).
    class_relevance : (c, c)
    sizes : number of rows of each set, None for one each.

    Attributes
    ----------
    table : (G, G), Theta between label sets.
    lowest : the smallest eigenvalue of Theta between rows.
    """

    def __init__(
        self, sets: sparse.csr_matrix, class_relevance: FloatArray, sizes: NDArray[np.integer] | None = None
    ) -> None:
        labels = sets.toarray()
        counts = np.ones(len(labels)) if sizes is None else sizes.astype(np.float64)
        weights = 2 * rank_weights(labels @ class_relevance @ labels.T, counts)
        self.table = (weights + weights.T) / 2
        # Rows of one label set are equal, so Theta has the spectrum of the table scaled by the sizes of the sets, and
        # zeros.
        root = np.sqrt(counts)
        spectrum = linalg.eigvalsh(root[:, None] * self.table * root)
        norm = float(np.abs(spectrum).max())
        if norm == 0:
            raise ValueError("DSeRH has nothing to rank: every row is equally relevant to every other.")
        self.table /= norm
        self.lowest = float(min(spectrum[0], 0.0)) / norm

    def __matmul__(self, sums: FloatArray) -> FloatArray:
        """Theta H of a row of each set (G, m), from the sums of H by set."""
        return self.table @ sums

    def agreement(self, sums: FloatArray) -> float:
        """tr(H' Theta H)."""
        return float((sums * (self.table @ sums)).sum())


@dataclass
class SampleCandidates(AdditiveSums):
    """Rows that may be in the sample, and the sum over all rows.

    Attributes
    ----------
    total : of the features of all rows, minus the provisional center.
    rows, keys, groups, features : of the candidates, in blocks; their features are not centered.
    """

    n_rows: int
    total: FloatArray
    rows: list[IntArray]
    keys: list[Keys]
    groups: list[IntArray]
    features: list[Float32Array]

    @property
    def mean(self) -> FloatArray:
        return self.total / self.n_rows

    def draw(self, count: int) -> tuple[IntArray, IntArray, Float32Array]:
        """Return ``count`` rows, their groups and their features, in row order."""
        chosen = rowkeys.lowest(np.concatenate(self.keys), count)
        return (
            np.concatenate(self.rows)[chosen],
            np.concatenate(self.groups)[chosen],
            np.concatenate(self.features)[chosen],
        )


def find_candidates(
    source: AnySource, view: FeatureReader, count: int, n_labeled: int, seed: int, context: FitContext
) -> SampleCandidates:
    """Make the pass that finds the candidates of a sample of ``count`` labeled rows."""
    assert view.center is not None
    plan = SamplePlan(replace(view, center=None), view.center, seed, rowkeys.limit(count, n_labeled))
    return reduce_rows(source, candidates_of_range, plan, context, "draw rows", SampleCandidates)


@dataclass
class SamplePlan:
    """What every task of the pass needs; the view's features are not centered."""

    view: FeatureReader
    center: Float32Array
    seed: int
    limit: np.uint64


def candidates_of_range(plan: SamplePlan, rows: RowRange) -> tuple[SampleCandidates, slice, None]:
    """Run one task of the pass."""
    candidates = reduce(iadd, (_block_candidates(plan, block) for block in plan.view.blocks(rows)))
    return candidates, slice(rows.start, rows.stop), None


def _block_candidates(plan: SamplePlan, block: RowBlock) -> SampleCandidates:
    key = rowkeys.row_keys(plan.seed, rowkeys.SAMPLE, block.rows.start, block.rows.stop)
    chosen = np.flatnonzero((key <= plan.limit) & (block.group >= 0))
    features = block.x[chosen]
    block.x -= plan.center
    total = block.x.sum(axis=0, dtype=np.float64)
    rows, keys, groups = [chosen + block.rows.start], [key[chosen]], [block.group[chosen]]
    return SampleCandidates(len(block.x), total, rows, keys, groups, [features])
