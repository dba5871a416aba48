"""The frame of SDH_P and GSDH_P.

A fit has these steps: supervision (groups of rows with equal labels, and anchors drawn from them), codes of the
anchors, one pass that codes all other rows and adds up what the hash function needs, the hash function, and codes of
unlabeled rows. ``fit`` and its variants find the supervision of an array, ``fit_chunks`` that of any source; from there
on they share ``_learn``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.constraints import (
    COUNT,
    POSITIVE,
    Anything,
    HasMethods,
    Instance,
    Interval,
    IsCallable,
    Options,
)
from hashlearn.deprecation import warn_deprecated
from hashlearn.fitting.advice import SampledCodes
from hashlearn.fitting.calibration_sample import CalibrationSample
from hashlearn.fitting.candidates import anchor_count
from hashlearn.fitting.clusters import feature_clusters
from hashlearn.fitting.frames.anchors import Supervision, learn_anchors, rows_of_array
from hashlearn.fitting.frames.other_supervision import OtherSupervision
from hashlearn.fitting.frames.row_updates import RowUpdates
from hashlearn.fitting.grouping import GivenGroups, LabelReader
from hashlearn.fitting.job import Job
from hashlearn.fitting.passes import RowView, add_up, hash_rows
from hashlearn.fitting.row_pass import ClassPassSums, HeldOutPlan, RowPassPlan, RowPassSums, code_rows
from hashlearn.fitting.sources import AnySource, memory_source
from hashlearn.fitting.survey import SurveyPlan, survey
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.from_codes import fit_to_bits
from hashlearn.functions.held_out import calibrated_ridge
from hashlearn.functions.linear import LinearFunction
from hashlearn.functions.posterior import fit_posterior
from hashlearn.kernel import AnchorKernel, FeatureMap, PlainFeatures, dense_rows
from hashlearn.labels import check_variety, group_rows, one_hot
from hashlearn.parallel import one_blas_thread
from hashlearn.parameters import fitted, parameter
from hashlearn.progress import verbose_listening
from hashlearn.relevance import RELEVANCES
from hashlearn.similarity import LabelSimilarity, Similarity
from hashlearn.solvers.losses import Loss, get_loss
from hashlearn.solvers.rows import RowCoder
from hashlearn.solvers.solver import PairwiseSolver
from hashlearn.timing import PhaseTimer
from hashlearn.typing import FloatArray, IntArray, Matrix


class PairwiseHasher(RowUpdates, OtherSupervision):
    """Base of SDHP and GSDHP; see their docstrings for parameters and attributes."""

    default_solver: ClassVar[type[PairwiseSolver]]
    """The solver of ``solver=None``."""

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
        [Options(*RELEVANCES), IsCallable()],
        "S of a pair that shares labels. A callable takes two dense 0/1 arrays of label sets (a, c), (b, c) and "
        "returns (a, b).",
        default="count",
    )
    unlabeled: Any = parameter(
        Anything(), "Besides None and NaN, the class that marks a row as unlabeled, -1 for example.", default=None
    )
    structure: int = parameter(
        Interval(int, 0),
        "If positive, this many clusters of the features join the label sets: codes keep more of what the labels do "
        "not say, for classes that nobody labeled, and rows without labels supervise too.",
        default=0,
    )
    kernel: Any = parameter(
        [None, Options("rbf"), HasMethods("fit_landmarks", "map_block")],
        "Features of the linear hash function: RBF features of landmarks ('rbf', or an AnchorKernel with settings of "
        "its own), or the rows themselves (None).",
        default="rbf",
    )
    n_landmarks: int | str = parameter(
        [Options("auto"), COUNT],
        "Landmarks of kernel='rbf'; 'auto' is two fifths of the rows, from 1,000 to 3,000. An AnchorKernel has its own "
        "number.",
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
        "left out; the projections are then log odds of the bits. A number, as in the paper, leaves thresholds at 0.",
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
            function codes them. With ``structure`` their feature cluster is their label set.

        Returns
        -------
        self
        """
        X = self._validate(X)
        labels = self._label_sets(X, y)
        rng, timer = self._rng(), PhaseTimer()
        with verbose_listening(self.verbose):
            features = self._fit_features(X, rng, timer)
            if self.structure:
                new = "JoinedHasher([GSDHP(48), ITQ(16)]) or AutoHasher, which are ahead of it"
                warn_deprecated(f"the parameter 'structure' of {type(self).__name__}", new, since="0.3")
                with timer("clusters"):
                    clusters = feature_clusters(X, features, self.structure, rng, self.n_jobs)
                    labels = sparse.hstack([labels, one_hot(clusters)], format="csr")
            with timer("similarity"):
                group, first = group_rows(labels)
                check_variety(len(first))
                similarity = LabelSimilarity(group, labels[first], self.relevance, self.dissimilar)
                count = anchor_count(self.n_anchors, len(first), labels[first])
                anchors = rowkeys.draw_evenly(similarity.group, count, int(rng.randint(2**31)))
            return self._fit_array(X, features, similarity, anchors, rng, timer)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep`` also those of the solver, as ``solver__beta``."""
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
        """What a pair costs."""
        return get_loss("ksh")

    def _fit_array(
        self,
        X: Matrix,
        features: FeatureMap,
        similarity: Similarity,
        anchors: IntArray,
        rng: np.random.RandomState,
        timer: PhaseTimer,
    ) -> Self:
        """Fit to rows in memory, whose supervision is known."""
        n_unlabeled = int(np.count_nonzero(similarity.group < 0))
        sample = CalibrationSample.of_array(X, similarity.group >= 0)
        supervision = Supervision(similarity, anchors, anchors, X[anchors], GivenGroups(), n_unlabeled, sample)
        source = memory_source(X, similarity.group)
        self._learn(source, features, supervision, Job(n_jobs=self.n_jobs), rng, timer)
        return self

    def _fit_source(self, source: AnySource, job: Job, rng: np.random.RandomState) -> None:
        """Fit to rows in chunks: a first pass over them finds the label sets and draws anchors and landmarks."""
        timer = PhaseTimer()
        features = self._new_features(rng)
        with timer("features"):
            anchor_seed = int(rng.randint(2**31))
            plan = SurveyPlan.of(source, features, LabelReader(self.unlabeled), self.n_anchors, anchor_seed)
            found = survey(source, plan, job)
            features.set_landmarks(found.landmark_rows, found.total, found.squares, found.n_rows)
            self._advise(found.advice(self.n_bits_))
        assert found.table is not None
        assert found.groups is not None
        # Only the anchors' groups are held in memory, not those of all rows.
        similarity = LabelSimilarity(found.anchor_groups, found.table, self.relevance, self.dissimilar)
        places = np.arange(len(found.anchors))
        supervision = Supervision(
            similarity, places, found.anchors, found.anchor_rows, found.groups, found.n_unlabeled, found.sample
        )
        self._learn(source, features, supervision, job, rng, timer)

    def _learn(
        self,
        source: AnySource,
        features: FeatureMap,
        supervision: Supervision,
        job: Job,
        rng: np.random.RandomState,
        timer: PhaseTimer,
    ) -> None:
        """Learn from rows of any source: codes of the anchors, codes of all other rows in one pass, hash function."""
        assert source.n_rows is not None
        self._forget_sums()
        similarity = supervision.similarity
        held_out, posterior = None, self._is("posterior")
        if posterior and similarity.classes is None:
            raise ValueError(f"{type(self).__name__}(function='posterior') needs one class per row: use 'linear' here.")
        anchors = learn_anchors(source, features, supervision, self._solver, self._loss(), self.n_bits_, rng, timer)
        self.anchor_indices_ = supervision.anchors
        self.objective_, self.changes_ = np.asarray(anchors.trace.objective), np.asarray(anchors.trace.changes)
        self.n_iter_ = len(anchors.trace.changes)
        if posterior or (self._is("linear") and self.ridge == "auto"):
            held_out = HeldOutPlan.of(source.n_rows - supervision.n_unlabeled, int(rng.randint(2**31)))
        with timer("rows"):
            job.open_codes(source.n_rows, self.n_bits_, supervision.sample.numbers)
            view = RowView(features, anchors.center, supervision.groups, source.n_rows)
            n_classes = similarity.n_groups if posterior else 0
            plan = RowPassPlan(view, anchors.start, anchors.coder, held_out, n_classes)
            sums = add_up(source, code_rows, plan, job, "code rows", ClassPassSums if posterior else RowPassSums)
        with timer("function"):
            if posterior or self._is("linear"):
                self.features_ = features
                self.features_.center_ = (anchors.center + sums.mean).astype(np.float32)
                self._fit_sums(sums, held_out, self._own_weight(anchors.coder, sums, similarity.graded))
            else:
                assert job.codes_out is not None
                labeled = np.flatnonzero(similarity.group >= 0)
                rows = dense_rows(rows_of_array(source, labeled))
                # Such functions are nonlinear, so they get the rows themselves.
                self.features_ = PlainFeatures()
                self.features_.center_ = np.zeros(rows.shape[1], dtype=np.float32)
                bits, seed = codes.unpack(job.codes_out[labeled], self.n_bits_), int(rng.randint(2**31))
                self.function_ = fit_to_bits(self.function, rows, bits, seed, self.n_jobs)
        if supervision.n_unlabeled:
            with timer("unlabeled"):
                hash_rows(source, self.features_, self.function_, supervision.groups, job)
        with timer("calibrate"):
            if held_out is None:
                self._calibrate(supervision.sample, job.codes_of(supervision.sample.numbers))
            else:
                # The projections are log odds already.
                self._set_calibration(Calibration(np.ones(self.n_bits_), np.zeros(self.n_bits_)))
                projections = self._project(supervision.sample.rows)
                self._keep_confidence(projections)
                packed = codes.pack(projections >= 0)
                self._advise_on_codes(SampledCodes(supervision.sample.numbers, packed, self.n_bits_))
        self._store_codes(job, source="learned")
        self.seconds_ = timer.seconds

    def _check_chunked(self) -> None:
        wrong = None
        if not (self._is("linear") or self._is("posterior")):
            wrong = "function other than 'linear' and 'posterior'"
        elif self._solver.order != "anchors-first":
            wrong = f"solver whose order is {self._solver.order!r}"
        elif self.structure:
            wrong = f"structure={self.structure}"
        elif not (self.kernel is None or isinstance(self.kernel, str) or hasattr(self.kernel, "set_landmarks")):
            wrong = "kernel without set_landmarks"
        if wrong:
            raise ValueError(f"{type(self).__name__} with a {wrong} needs all rows in memory: use fit, or change it.")

    def _own_weight(self, coder: RowCoder, sums: RowPassSums, graded: bool) -> float:
        """Return the weight of a row's own code in the target of the linear function."""
        if self._projection(graded) != "rows":
            return coder.own_weight
        with one_blas_thread():
            top = float(np.linalg.eigvalsh(sums.code_gram)[-1])
        return top + 1e-9 - len(self.anchor_indices_)

    def _fit_sums(self, sums: RowPassSums, held_out: HeldOutPlan | None, own_weight: float) -> None:
        """Fit the function to the sums of the pass; what it chooses, it chooses by the rows left out."""
        if held_out is None:
            recentered = sums.projection_sums(own_weight).recentered(sums.mean)
            self.function_ = LinearFunction.solve(recentered, self.ridge)
            return
        rows = sums.held_out(held_out, own_weight)
        if isinstance(sums, ClassPassSums):
            self.function_ = fit_posterior(*sums.class_sums(len(sums.mean)), rows, sums.mean)
        else:
            self.function_ = calibrated_ridge(sums.projection_sums(own_weight), rows, sums.mean, self.n_jobs)

    def _is(self, function: str) -> bool:
        return isinstance(self.function, str) and self.function == function

    def _projection(self, graded: bool) -> str:
        if self.projection != "auto":
            return self.projection
        return "rows" if graded else "anchors"

    def _fit_features(self, X: Matrix, rng: np.random.RandomState, timer: PhaseTimer) -> FeatureMap:
        features = self._new_features(rng)
        with timer("features"):
            features.fit_landmarks(X)
        return features

    def _new_features(self, rng: np.random.RandomState) -> FeatureMap:
        if self.kernel is None:
            return PlainFeatures()
        seed = int(rng.randint(2**31))
        if isinstance(self.kernel, str):
            return AnchorKernel(self.n_landmarks, n_jobs=self.n_jobs, random_state=seed)
        features = clone(self.kernel)
        if getattr(features, "random_state", 0) is None:
            # All draws of a fit depend on the hasher's random_state.
            features.set_params(random_state=seed)
        return features
