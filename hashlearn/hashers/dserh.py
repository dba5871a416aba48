"""DSeRH: codes whose inner products follow a ranking of classes, by adaptive discrete minimization."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse

from hashlearn import codes
from hashlearn.constraints import COUNT, POSITIVE, Interval, IsArrayLike
from hashlearn.deprecation import renamed_parameters
from hashlearn.fitting.advice import SampledCodes
from hashlearn.fitting.calibration_sample import SAMPLE_ROWS
from hashlearn.fitting.frames.gram import GramHasher, LearnedFunction
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.frames.kernel_parameters import KernelParameters
from hashlearn.fitting.frames.rounds import Rounds, SignStep, keep_codes
from hashlearn.fitting.frames.training import GramSums, SumPlan, Training, centered_sums, sum_rows
from hashlearn.fitting.job import Job
from hashlearn.fitting.passes import add_up
from hashlearn.fitting.row_sample import find_candidates
from hashlearn.functions.calibration import Calibration
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import fitted, parameter
from hashlearn.primitives import rank_weights, steps, top_eigenvectors
from hashlearn.typing import FloatArray


@renamed_parameters(since="0.3", n_iter="max_iter")
class DSeRH(KernelParameters, GramHasher):
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
        year=2017,
        kind="ranking, discrete",
        supervision=("classes", "label sets"),
        cost="O(n d^2 + G^3 + T (n d m + G^2 m)), G label sets",
        verified=False,
        passes="2; 7 + max_iter if n_samples is None",
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

    def _learn_rows(self, training: Training, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        if self.n_samples is None:
            return super()._learn_rows(training, job, rng)
        n_labeled = training.n_rows - training.n_unlabeled
        found = find_candidates(training.source, training.view, self.n_samples, n_labeled, training.seed, job)
        self._set_center(training, found.mean)
        rows, group, features = found.draw(self.n_samples)
        sample = training.of_sample(group, features, self.features_.center_)
        # In this process, because it already holds the rows.
        inner = Job(n_jobs=job.n_jobs, checkpoint=job.checkpoint)
        inner.codes_out = np.zeros((len(rows), codes.n_bytes(self.n_bits_)), dtype=np.uint8)
        sums = add_up(sample.source, sum_rows, SumPlan(sample, by_group=True), inner, "add up sample")
        learned = self._learn_sums(sample, centered_sums(sums, sample, np.zeros(features.shape[1])), inner, rng)
        learned.coded, learned.row_codes = False, (rows, inner.codes_out)
        few, _, own = found.draw(min(SAMPLE_ROWS, self.n_samples))
        bits = codes.unpack(inner.codes_out[np.searchsorted(rows, few)], self.n_bits_)
        projections = learned.function.project(own - self.features_.center_)
        learned.calibration = Calibration.fit(projections, bits, offset=False)
        self._advise_on_codes(SampledCodes(few, codes.pack(projections >= 0), self.n_bits_))
        return learned

    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        n_bits, mu = self.n_bits_, self.mu
        order = RankOrder(training.labels, self._relevance(training.labels.shape[1]), training.counts)
        rounds = Rounds(training, sums, self.features_.center_, n_bits, self.ridge, job, reversible=True)
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
        keep_codes(rounds, job)
        attributes = {"objective_": np.asarray(trace), "n_iter_": k + 1}
        return LearnedFunction(linear(weights), attributes=attributes, coded=True)

    def _directions(self, sums: FloatArray, order: RankOrder, rng: np.random.RandomState) -> FloatArray:
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
