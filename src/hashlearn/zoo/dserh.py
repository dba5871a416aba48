"""DSeRH: codes whose inner products follow a ranking of classes, by adaptive discrete minimization."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linalg import top_eigenvectors
from hashlearn.hashers.in_memory import Learned
from hashlearn.hashers.sums import GramSums, Training, sum_rows
from hashlearn.kernel import PlainFeatures
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import POSITIVE, Interval, IsArrayLike, fitted, parameter
from hashlearn.rows.advice import SampledCodes
from hashlearn.rows.reduce import FeatureReader, FitContext, reduce_rows
from hashlearn.rows.source import SAMPLE_ROWS, Source
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.primitives import rank_weights, with_mixtures
from hashlearn.zoo.bases.rounds import Rounds, RoundsHasher, SignStep
from hashlearn.zoo.bases.two_step import groups_of_all_rows, take_rows


class DSeRH(RoundsHasher):
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

    by_group = True

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
    max_iter: int = 50
    n_samples: int | None = parameter(
        [None, Interval(int, 2)],
        "Rows to learn from, drawn at random; None for all. Their features and the table between their label "
        "sets are held in memory; with None the table alone, but then every round is a pass over the rows.",
        default=10000,
    )
    kernel: str | None = None

    objective_: FloatArray = fitted("The objective at the start and after every step of H and of W; it never rises.")

    def _check_training(self, training: Training) -> None:
        self._relevance(training.labels.shape[1])

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> Learned:
        if self.n_samples is None:
            return super()._learn_rows(training, context, rng)
        group = groups_of_all_rows(training, context)
        keys = rowkeys.row_keys(training.seed, rowkeys.SAMPLE, 0, training.n_rows)
        limit = rowkeys.limit(self.n_samples, training.n_rows - training.n_unlabeled)
        rows = np.flatnonzero((group >= 0) & (keys <= limit))
        rows = rows[rowkeys.lowest(keys[rows], self.n_samples)]
        keys = keys[rows]
        found = take_rows(training, rows, context, products=False)
        self._set_center(training, found.mean)
        features, center = np.concatenate(found.taken), self.features_.center_
        present, own = np.unique(group[rows], return_inverse=True)
        view = FeatureReader(PlainFeatures(), center, own, len(rows))
        sample = Training(Source(features), view, training.labels[present], np.bincount(own), seed=training.seed)
        # In this process, because it already holds the rows.
        inner = FitContext(n_jobs=context.n_jobs, checkpoint=context.checkpoint)
        inner.codes_out = np.zeros((len(rows), codes.n_bytes(self.n_bits_)), dtype=np.uint8)
        added = reduce_rows(sample.source, sum_rows, (sample, True), inner, "add up sample")
        learned = self._learn_sums(sample, GramSums.centered(added, sample, np.zeros(len(center))), inner, rng)
        learned.in_context, learned.row_codes = False, (rows, inner.codes_out)
        few = rowkeys.lowest(keys, SAMPLE_ROWS)
        projections = learned.function.project(features[few] - center)
        bits = codes.unpack(inner.codes_out[few], self.n_bits_)
        learned.calibration = Calibration.fit(projections, bits, offset=False)
        self._advise_on_codes(SampledCodes(rows[few], codes.pack(projections >= 0), self.n_bits_))
        return learned

    def _learn_rounds(self, rounds: Rounds, rng: Rng) -> Learned:
        training, own, n_bits, mu = rounds.training, rounds.sums.groups, self.n_bits_, self.mu
        order = RankOrder(training.labels, self._relevance(training.labels.shape[1]), training.counts)
        start = with_mixtures(top_eigenvectors(own.T @ (order @ own), n_bits)[1], n_bits, rng)
        rounds.reversible = True
        rounds.run(SignStep(start, np.zeros((training.n_groups, n_bits))), "start codes")
        weights = rounds.regression()
        # The share of the old code in a step, 1 / eta; with ``safe`` each step minimizes a majorizer.
        safe = 2 * max(0.0, -order.lowest) / n_bits
        inertia = safe / 10

        def objective() -> float:
            return float(mu * rounds.hash_loss(weights) - order.agreement(rounds.by_group()) / n_bits)

        trace = [objective()]
        for phase in rounds.repeat():
            pull = 2 / n_bits * (order @ rounds.by_group())
            while True:
                rounds.run(SignStep(2 * mu * weights, pull, inertia=inertia), phase)
                value = objective()
                if value <= trace[-1] or inertia >= safe:
                    break
                inertia = min(2 * inertia, safe)
                rounds.undo()
            weights = rounds.regression()
            trace += [value, objective()]
            if rounds.codes.changed == 0:
                break
        return rounds.learned(weights, objective_=trace)

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
