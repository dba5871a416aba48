"""GSDH_P: greedy symmetric discrete hashing, one bit of a batch at a time, for any pairwise loss.

``PairwiseHasher`` is the fit that GSDH_P and SDH_P share; ``_learn`` is the whole method in a few lines. The steps are
in the files beside this one, in reading order: ``supervision`` (groups of rows with equal labels, anchors), ``solver``
with ``greedy`` or ``symmetric`` (codes of the anchors), ``row_pass`` (codes of all other rows).

All draws come from ``random_state``, in this order: landmarks, anchors, start (directions, then a rotation and batches
for each start), rows held out, function. ``fit_pairs`` and ``fit_neighbors`` draw the anchors in another way, but also
before the start. The order is part of what a fit computes: another order gives other codes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.functions import fit_to_bits
from hashlearn.functions.linear import HeldOutPlan
from hashlearn.hashers.base import LabelCodes
from hashlearn.kernel import FeatureMap, LandmarkKernel, PlainFeatures, dense_rows
from hashlearn.labels import check_variety, group_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.pairwise.greedy import Greedy
from hashlearn.pairwise.losses import LOSSES, Loss, get_loss
from hashlearn.pairwise.partial_fit import PartialFitMixin
from hashlearn.pairwise.row_pass import (
    SUMMED_FUNCTIONS,
    ClassPassSums,
    RowPass,
    RowPassSums,
    code_rows,
    fit_function,
    log_odds,
)
from hashlearn.pairwise.solver import LearnedAnchors, PairwiseSolver
from hashlearn.pairwise.supervision import Supervision, anchor_count
from hashlearn.parallel import one_blas_thread
from hashlearn.parameters import (
    CALLABLE,
    COUNT,
    POSITIVE,
    Anything,
    HasMethods,
    Instance,
    Interval,
    Options,
    fitted,
    parameter,
)
from hashlearn.rows.groups import LabelReader
from hashlearn.rows.reduce import FeatureReader, FitContext, hash_rows, reduce_rows
from hashlearn.rows.source import SAMPLE_ROWS, SAMPLE_SEED, AnySource, Source
from hashlearn.rows.survey import SurveyPlan, survey
from hashlearn.similarity import (
    RELEVANCES,
    LabelSimilarity,
    MatrixSimilarity,
    check_similarity,
    from_pairs,
    neighbor_similarity,
)
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix, Rng


class PairwiseHasher(PartialFitMixin):
    """Base of SDHP and GSDHP; see their docstrings for parameters and attributes."""

    default_solver: ClassVar[type[PairwiseSolver]]
    """The solver of ``solver=None``."""

    n_anchors: int | str = parameter(
        [Options("auto"), COUNT],
        "Rows in the second factor of the objective (p in the paper), drawn from every group in proportion. 'auto' is "
        "two per class and at least 1,000, and 3,000 for label sets.",
        default="auto",
    )
    solver: PairwiseSolver | None = parameter(
        [None, Instance(PairwiseSolver)], "How the codes of the anchors are learned.", default=None
    )
    dissimilar: float | str | None = parameter(
        [None, Options("floor"), Interval(float, None, 0, closed="right")],
        "S of a pair that shares no label, as a share of the largest relevance (alpha / r_max in the paper), at most "
        "0. None is -1 for classes and -1/2 for label sets; 'floor' is the released code's -floor(r_max / 2).",
        default=None,
    )
    relevance: Any = parameter(
        [Options(*RELEVANCES), CALLABLE],
        "S of a pair that shares labels. A callable takes two dense 0/1 arrays of label sets (a, c), (b, c) and "
        "returns (a, b).",
        default="count",
    )
    unlabeled: Any = parameter(
        Anything(), "Besides None and NaN, the class that marks a row as unlabeled, -1 for example.", default=None
    )
    kernel: Any = parameter(
        [None, Options("rbf"), HasMethods("fit_landmarks", "map_block")],
        "Features of the linear hash function: RBF features of landmarks ('rbf', or a LandmarkKernel with other "
        "settings), or the rows themselves (None).",
        default="rbf",
    )
    n_landmarks: int | str = parameter(
        [Options("auto"), COUNT],
        "Landmarks of kernel='rbf'; 'auto' is two fifths of the rows, from 1,000 to 3,000. A LandmarkKernel has its "
        "own number of them.",
        default="auto",
    )
    function: Any = parameter(
        [Options("linear", "posterior", "trees", "network"), HasMethods("fit")],
        "The hash function. 'posterior' (for classes) gives the code that a row has in expectation over its class "
        "posteriors: it finds more of known classes that are hard to tell apart, and less of unknown ones. 'trees' or "
        "BoostedTrees, 'network' or deep.Network, and scikit-learn estimators learn the bits of the codes from the "
        "rows themselves.",
        default="linear",
    )
    ridge: float | str = parameter(
        [Options("auto"), POSITIVE],
        "Regularization of the linear function. 'auto' chooses it, and the threshold of every bit, by the bits of rows "
        "held out; the projections are then log odds of the bits. A number, as in the paper, leaves thresholds at 0.",
        default="auto",
    )
    projection: str = parameter(
        Options("auto", "anchors", "rows"),
        "Weight of a row's own code in the target of the linear function: from the anchors (as printed) or from all "
        "rows (as released, closer to the codes themselves). 'auto' is anchors for classes with loss 'ksh' or 'bre', "
        "otherwise rows.",
        default="rows",
    )
    anchor_indices_: IntArray = fitted("Row numbers of the anchors.")
    objective_: FloatArray = fitted("Objective of the anchors after every round.")
    changes_: IntArray = fitted("Number of bits that changed in every round.")
    n_iter_: int = fitted("Rounds made.")
    seconds_: dict[str, float] = fitted("Seconds of each phase of the fit.")

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from labels.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : classes (n,), label sets (n, c) of 0/1, dense or sparse, or a list or set of tags per row
            Unlabeled rows (None, NaN, ``unlabeled`` or empty label sets) take no part in learning, and the learned
            function codes them.

        Returns
        -------
        self
        """
        X = self._validate(X)
        read = self._read_labels(X, y)
        labels = read.sets
        with FitContext(n_jobs=self.n_jobs, verbose=self.verbose) as context:
            rng = self._rng()
            features = self._fit_features(X, rng, context)
            with context.timer("similarity"):
                group, first = group_rows(labels)
                check_variety(len(first))
                similarity = LabelSimilarity(group, labels[first], self.relevance, self.dissimilar)
                count = anchor_count(self.n_anchors, len(first), labels[first])
                anchors = rowkeys.draw_evenly(group, count, int(rng.randint(2**31)))
            return self._learn(Supervision.from_array(X, features, similarity, anchors, read.names), context, rng)

    def fit_pairs(self, X: Matrix, similar: ArrayLike, dissimilar: ArrayLike) -> Self:
        """Learn from listed pairs of rows.

        The rows with most pairs become anchors. The learned function codes rows that no pair links to an anchor. Pairs
        that are not listed are unknown: the quadratic losses pull them to inner product 0, as in the paper.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        similar, dissimilar : int (k, 2)
            Row numbers; one of them may be empty.

        Returns
        -------
        self
        """
        X = self._validate(X)
        with FitContext(n_jobs=self.n_jobs, verbose=self.verbose) as context:
            rng = self._rng()
            with context.timer("similarity"):
                S = from_pairs(X.shape[0], similar, dissimilar)
                degree = np.diff(S.indptr)
                busiest = np.lexsort((rng.permutation(len(degree)), -degree))
                count = min(anchor_count(self.n_anchors, 0, None), int(np.count_nonzero(degree)))
                anchors = np.sort(busiest[:count])
                similarity = MatrixSimilarity(S[:, anchors], anchors)
            features = self._fit_features(X, rng, context)
            return self._learn(Supervision.from_array(X, features, similarity, anchors), context, rng)

    def fit_similarity(self, X: Matrix, S: Any, anchors: ArrayLike) -> Self:
        """Learn from similarities between rows and anchors.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        S : array or sparse matrix (n, p)
            How similar each row is to each anchor, 0 if unknown. It must be symmetric between anchors.
        anchors : int (p,)
            Row numbers.

        Returns
        -------
        self
        """
        X = self._validate(X)
        S, places = check_similarity(S, anchors, X.shape[0])
        with FitContext(n_jobs=self.n_jobs, verbose=self.verbose) as context:
            rng = self._rng()
            similarity = MatrixSimilarity(S, places)
            features = self._fit_features(X, rng, context)
            return self._learn(Supervision.from_array(X, features, similarity, places), context, rng)

    def fit_neighbors(self, X: Matrix, n_neighbors: int = 50, far_quantile: float = 0.5) -> Self:
        """Learn without labels, from distances between rows.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        n_neighbors : int, default=50
            The number of nearest anchors of a row that are similar to it.
        far_quantile : float, default=0.5
            Anchors beyond this quantile of the distances between anchors are dissimilar to a row. The similarity to
            all other anchors is unknown.

        Returns
        -------
        self
        """
        X = self._validate(X)
        with FitContext(n_jobs=self.n_jobs, verbose=self.verbose) as context:
            rng = self._rng()
            features = self._fit_features(X, rng, context)
            with context.timer("similarity"):
                count = anchor_count(self.n_anchors, 0, None)
                anchors = np.sort(rng.permutation(X.shape[0])[:count]).astype(np.intp)
                S = neighbor_similarity(dense_rows(X), anchors, n_neighbors, far_quantile)
            similarity = MatrixSimilarity(S, anchors)
            return self._learn(Supervision.from_array(X, features, similarity, anchors), context, rng)

    def _fit_source(self, source: AnySource, context: FitContext, rng: Rng) -> None:
        """Fit to rows in chunks: a first pass over them finds the label sets and draws anchors and landmarks."""
        features = self._new_features(rng)
        with context.timer("features"):
            n_anchors, seed = partial(anchor_count, self.n_anchors), int(rng.randint(2**31))
            plan = SurveyPlan.for_source(source, features, LabelReader(self.unlabeled), n_anchors, seed)
            found = survey(source, plan, context)
            features.set_landmarks(found.landmark_rows, found.total, found.squares, found.n_rows)
            self._advise(found.advice(self.n_bits_))
        assert found.table is not None
        assert found.groups is not None
        # Only the anchors' groups are held in memory, not those of all rows.
        similarity = LabelSimilarity(found.anchor_groups, found.table, self.relevance, self.dissimilar)
        places = np.arange(len(found.anchors))
        anchors = places, found.anchors, found.anchor_rows
        names = found.groups.names
        supervision = Supervision(
            source, found.groups, found.n_unlabeled, features, similarity, *anchors, found.sample, names
        )
        self._learn(supervision, context, rng)

    def _learn(self, supervision: Supervision, context: FitContext, rng: Rng) -> Self:
        """Learn codes of the anchors, code all other rows in one pass, and fit the hash function to its sums."""
        if self.function == "posterior" and supervision.similarity.classes is None:
            raise ValueError(f"{type(self).__name__}(function='posterior') needs one class per row: use 'linear' here.")
        anchors = self._solver.learn(supervision, self._loss(), self.n_bits_, rng, context.timer)
        plan = self._plan_pass(supervision, anchors, rng)
        with context.timer("rows"):
            context.open_codes(supervision.rows.n_rows, self.n_bits_)
            kind = ClassPassSums if plan.n_classes else RowPassSums
            sums = reduce_rows(supervision.rows, code_rows, plan, context, "code rows", kind)
        with context.timer("function"):
            held_codes = self._fit_function(supervision, plan, sums, context, rng)
        return self._finish(supervision, anchors, held_codes, context)

    def _plan_pass(self, supervision: Supervision, anchors: LearnedAnchors, rng: Rng) -> RowPass:
        """Plan the pass: what it sums, and whose features and codes it keeps to judge functions or to calibrate."""
        n_rows = supervision.rows.n_rows
        n_labeled = n_rows - supervision.n_unlabeled
        if log_odds(self.function, self.ridge, self.n_bits_) is not None:
            held_out = HeldOutPlan.for_rows(n_labeled, int(rng.randint(2**31)))
        else:  # the rows of ``supervision.sample``
            held_out = HeldOutPlan(SAMPLE_SEED, SAMPLE_ROWS, 1, rowkeys.limit(SAMPLE_ROWS, n_labeled))
        reader = FeatureReader(supervision.features, anchors.center, supervision.groups, n_rows)
        n_classes = supervision.similarity.n_groups if self.function == "posterior" else 0
        return RowPass(reader, anchors, held_out, n_classes)

    def _fit_function(
        self, supervision: Supervision, plan: RowPass, sums: RowPassSums, context: FitContext, rng: Rng
    ) -> Float32Array:
        """Fit the hash function to the sums, or to rows and codes; returns the codes of the rows held out."""
        if self.function not in SUMMED_FUNCTIONS:
            self._fit_to_codes(supervision, context, int(rng.randint(2**31)))
            return sums.held_out_rows(plan.held_out, 0.0).codes
        self.features_ = supervision.features
        self.features_.center_ = (plan.anchors.center + sums.mean).astype(np.float32)
        weight = self._code_weight(plan.anchors, sums, supervision.similarity.graded)
        held = sums.held_out_rows(plan.held_out, weight)
        classes = sums.class_sums() if isinstance(sums, ClassPassSums) else None
        fitted_to = sums.ridge_sums(weight), held, sums.mean, classes
        self.function_ = fit_function(self.function, self.ridge, *fitted_to, self.n_jobs)
        return held.codes

    def _code_weight(self, anchors: LearnedAnchors, sums: RowPassSums, graded: bool) -> float:
        """Return the weight of a row's own code in the target of the linear function, gain + weight * code."""
        projection = self.projection
        if projection == "auto":
            # If dissimilar pairs are not pulled fully apart, gains are a poor target for the function.
            apart = not graded and self._loss() in (LOSSES["ksh"], LOSSES["bre"])
            projection = "anchors" if apart else "rows"
        if projection == "anchors":
            return anchors.coder.code_weight
        with one_blas_thread():
            return float(np.linalg.eigvalsh(sums.code_gram)[-1]) + 1e-9 - len(anchors.rows)

    def _fit_to_codes(self, supervision: Supervision, context: FitContext, seed: int) -> None:
        """Fit a nonlinear function to the labeled rows themselves and their codes; ``fit_chunks`` refuses these."""
        assert context.codes_out is not None
        assert isinstance(supervision.rows, Source)
        labeled = np.flatnonzero(supervision.similarity.group >= 0)
        rows = dense_rows(supervision.rows.rows[labeled])
        self.features_ = PlainFeatures()
        self.features_.center_ = np.zeros(rows.shape[1], dtype=np.float32)
        bits = codes.unpack(context.codes_out[labeled], self.n_bits_)
        self.function_ = fit_to_bits(self.function, rows, bits, seed, self.n_jobs)

    def _finish(
        self, supervision: Supervision, anchors: LearnedAnchors, held_codes: Float32Array, context: FitContext
    ) -> Self:
        """Code the rows without labels, calibrate the bits, and keep the codes of all rows and of the labels."""
        if supervision.n_unlabeled:
            with context.timer("unlabeled"):
                hash_rows(supervision.rows, self._block_projection(), context, supervision.groups)
        with context.timer("calibrate"):
            calibration = log_odds(self.function, self.ridge, self.n_bits_)
            self._calibrate(supervision.sample, codes.pack(held_codes > 0), calibration)
        self.anchor_indices_, self.n_iter_ = supervision.anchors, len(anchors.changes)
        self.objective_, self.changes_ = np.asarray(anchors.objective), np.asarray(anchors.changes)
        self._store_codes(context, source="learned")
        for name in ("sums_", "label_codes_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        similarity, names = supervision.similarity, supervision.names
        # Names that a model file cannot hold are not kept.
        plain = names is None or all(isinstance(name, (str, int, float)) for name in names)
        if isinstance(similarity, LabelSimilarity) and plain:
            group = similarity.group[supervision.places]
            self.label_codes_ = LabelCodes.from_rows(names, similarity.labels, group, anchors.codes)
        self.seconds_ = context.timer.seconds
        return self

    def _fit_features(self, X: Matrix, rng: Rng, context: FitContext) -> FeatureMap:
        features = self._new_features(rng)
        with context.timer("features"):
            features.fit_landmarks(X)
        return features

    def _new_features(self, rng: Rng) -> FeatureMap:
        if self.kernel is None:
            return PlainFeatures()
        seed = int(rng.randint(2**31))
        if isinstance(self.kernel, str):
            return LandmarkKernel(self.n_landmarks, n_jobs=self.n_jobs, random_state=seed)
        features = clone(self.kernel)
        if getattr(features, "random_state", 0) is None:
            # All draws of a fit depend on the hasher's random_state.
            features.set_params(random_state=seed)
        return features

    def _check_chunked(self) -> None:
        wrong = None
        if self.function not in SUMMED_FUNCTIONS:
            wrong = "function other than 'linear' and 'posterior'"
        elif not (self.kernel is None or isinstance(self.kernel, str) or hasattr(self.kernel, "set_landmarks")):
            wrong = "kernel without set_landmarks"
        if wrong:
            raise ValueError(f"{type(self).__name__} with a {wrong} needs all rows in memory: use fit, or change it.")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name; with ``deep`` also those of the solver, as ``solver__beta``."""
        params: dict[str, Any] = super().get_params(deep)
        if deep and self.solver is None:
            params |= {f"solver__{name}": value for name, value in self._solver.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, also those of the solver, as ``solver__beta``."""
        if self.solver is None and "solver" not in params and any(name.startswith("solver__") for name in params):
            self.solver = self.default_solver()
        return super().set_params(**params)

    @property
    def _solver(self) -> PairwiseSolver:
        return self.default_solver() if self.solver is None else self.solver

    def _loss(self) -> Loss:
        """Return what a pair costs."""
        return LOSSES["ksh"]


class GSDHP(PairwiseHasher):
    """GSDH_P: pairwise discrete hashing that updates one bit of a batch of rows at a time.

    Labels say which rows are similar. GSDH_P looks for codes whose inner products match, min |H H_A' - lambda S|^2 over
    H in {-1, +1}, with a set of anchors as second factor, and then fits a hash function to them. The defaults are those
    that find most on rows that training never saw; ``GSDHP.paper(n_bits)`` has the settings of the paper.

    References
    ----------
    X. Shi et al., A Scalable Optimization Mechanism for Pairwise based Discrete Hashing. Differences: anchors are
    learned first; starting directions come from the anchors alone; anchors that would undo each other's gain do
    not flip together, so the objective never rises (full residual); every batch is updated, the last one too.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import GSDHP
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = GSDHP(n_bits=32, n_landmarks=200, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 4)
    >>> bool(hasher.score(X[1000:], y[1000:]) > 0.9)
    True
    """

    info = MethodInfo(
        name="gsdhp",
        title="GSDH_P",
        reference="Shi et al., A Scalable Optimization Mechanism for Pairwise based Discrete Hashing (2020)",
        kind="pairwise, discrete",
        supervision=("classes", "label sets", "pairs", "similarity"),
        cost="O(n (d p + p^2 + m^2))",
        verified=True,
        passes=2,
        database="learned",
    )
    default_solver = Greedy
    PAPER: ClassVar[dict[str, Any]] = {
        "n_anchors": 1000,
        "n_landmarks": 1000,
        "ridge": 1e-3,
        "projection": "auto",
        "solver__start": "leading",
    }
    """The settings of the paper that are not the defaults."""

    loss: Any = parameter(
        [Options(*LOSSES), CALLABLE],
        "What a pair costs. 'bre' is the printed loss (with classes it gives the KSH codes), 'bre-released' the one in "
        "the authors' code, which pulls dissimilar pairs to distance n_bits / 2, 'ee' is elastic embedding "
        "(``hashlearn.pairwise.losses.ElasticEmbedding``). A callable ``loss(s, u)`` takes arrays of similarities and "
        "inner products.",
        default="ksh",
    )
    solver: Greedy | None = parameter(
        [None, Instance(Greedy)],
        "How the codes of the anchors are learned; None for ``Greedy()``. Its parameters can be set as "
        "``solver__beta``.",
        default=None,
    )

    @classmethod
    def paper(cls, n_bits: int = 64, **changes: Any) -> Self:
        """Return a GSDHP with the settings of the paper, which its tables are reproduced with.

        Parameters
        ----------
        n_bits : int, default=64
        **changes : any other parameters by name, as in ``set_params``

        Examples
        --------
        >>> from hashlearn import GSDHP
        >>> GSDHP.paper(16, random_state=0).n_anchors
        1000
        """
        return cls(n_bits).set_params(**cls.PAPER | changes)

    def _loss(self) -> Loss:
        return get_loss(self.loss)
