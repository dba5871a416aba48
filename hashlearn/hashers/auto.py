"""AutoHasher: the estimator to take first. It chooses between compositions of the library's hashers by validation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from hashlearn.constraints import NON_NEGATIVE, POSITIVE, Anything
from hashlearn.fitting.advice import is_about_codes, muted
from hashlearn.fitting.base import BaseHasher
from hashlearn.fitting.frames.row_updates import RowUpdates, available_while
from hashlearn.fitting.grouping import GivenGroups, LabelReader
from hashlearn.fitting.job import Job
from hashlearn.fitting.passes import hash_blocks
from hashlearn.fitting.sources import AnySource, memory_source
from hashlearn.fitting.survey import SurveyPlan, survey
from hashlearn.hashers.ccaitq import CCAITQ
from hashlearn.hashers.gsdhp import GSDHP
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.joined import JoinedHasher
from hashlearn.hashers.lsh import LSH
from hashlearn.hashers.pcarr import PCARR
from hashlearn.hashers.sh import SH
from hashlearn.kernel import PlainFeatures
from hashlearn.labels import Classes, as_labels, group_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import fitted, parameter
from hashlearn.progress import verbose_listening
from hashlearn.selection.candidates import Candidate, Part, labeled_candidates, unlabeled_candidates
from hashlearn.selection.choice import choose
from hashlearn.selection.report import SelectionReport
from hashlearn.selection.sample import LabeledRows, Sample, draw_sample
from hashlearn.selection.splits import make_splits, split_unlabeled
from hashlearn.selection.trial import Result, Trial, label_score, neighbor_score
from hashlearn.timing import PhaseTimer
from hashlearn.typing import IntArray, Matrix

TRIAL_LANDMARKS = 1000
"""Trials compare candidates with at most this many landmarks; the chosen one is fitted with as many as it takes."""
LEAST_UNLABELED = 20
"""With fewer rows and no labels there is nothing to compare."""


def _updated_parts(hasher: AutoHasher) -> list[RowUpdates]:
    """Return the parts of a fitted hasher that ``partial_fit`` updates."""
    return [part for part in hasher.hasher_.hashers_ if isinstance(part, RowUpdates)]


def _keeps_sums(hasher: AutoHasher) -> bool:
    """Whether ``partial_fit`` can go on: after ``fit``, which keeps no sums over its rows, the method is missing."""
    return not hasattr(hasher, "hasher_") or all(hasattr(part, "sums_") for part in _updated_parts(hasher))


class AutoHasher(BaseHasher):
    """The hasher to take first: it chooses its bits by what they find among rows and classes left out of training.

    Bits learned from labels find rows of known classes far better than floats do. Bits that keep the structure of the
    features find rows of classes that nobody labeled. AutoHasher tries divisions of the code between both, on a sample
    of at most 12,000 rows: it leaves out rows, and an eighth of the classes, fits candidates on the others, and lets
    the left-out rows search each other. The candidate that is best on unknown classes, among those that lose next to
    nothing on known ones, is then fitted on all rows. ``print(hasher.report_)`` shows what was tried.

    Without labels it takes the unsupervised code that finds most of the nearest rows. With few labels, label bits learn
    from the labeled rows and structure bits from all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import AutoHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = AutoHasher(n_bits=32, random_state=0).fit(X[:600], y[:600])
    >>> hasher.encode(X[600:]).shape
    (1197, 4)
    >>> bool(hasher.score(X[600:], y[600:]) > 0.85)
    True
    """

    info = MethodInfo(
        name="auto",
        title="AutoHasher",
        reference="hashlearn: bits for labels and structure, chosen by validation",
        year=2026,
        kind="composition",
        supervision=("classes", "label sets"),
        cost="trials on 12,000 rows, then the chosen hashers",
        verified=True,
        passes="8",
    )

    unknown_cost: float = parameter(
        NON_NEGATIVE,
        "How much of its score on known classes (MAP, or NDCG for label sets) a code may lose to become better on "
        "unknown classes.",
        default=0.01,
    )
    time_budget: float | None = parameter(
        [None, POSITIVE],
        "Seconds for the whole fit. Half of them are for trials: what has not been tried by then is left out, and "
        "``report_`` says so, so the result then depends on the machine. None tries everything.",
        default=None,
    )
    unlabeled: Any = parameter(
        Anything(), "Besides None and NaN, the class that marks a row as unlabeled, -1 for example.", default=None
    )

    hasher_: BaseHasher = fitted("The chosen hasher, fitted on all rows.")
    report_: SelectionReport = fitted("What was tried, the scores, the choice and the reason.")
    seconds_: dict[str, float] = fitted("Seconds of each phase of the fit.")

    @property
    def _uses_labels(self) -> bool:
        return False  # it uses labels if there are any

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Choose and learn.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : classes (n,), label sets (n, c) of 0/1, a list or set of tags per row, or None
            Without labels the best unsupervised code is chosen.

        Returns
        -------
        self
        """
        began, timer = time.monotonic(), PhaseTimer()
        X = self._validate(X)
        labels = None if y is None else self._label_sets(X, y)
        known, group = _labeled_rows(X, labels)
        source, job, rng = memory_source(X, group), Job(n_jobs=self.n_jobs), self._rng()
        with verbose_listening(self.verbose):
            hasher = self._choose(source, known, job, rng, timer, began)
            with timer("fit"), muted():
                self.hasher_ = hasher.fit(X, labels)
            self._finish(source, job, timer)
        return self

    @available_while(_keeps_sums)
    def partial_fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from more rows, of known and of new classes, without the rows of earlier calls.

        The first call is ``fit``. Further calls update the bits that GSDH_P learned from labels, as
        ``GSDHP.partial_fit`` does; the choice and the bits that keep the structure of the features stay. Stored codes
        stay valid.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : classes (n,)

        Returns
        -------
        self
        """
        first = not hasattr(self, "hasher_")
        labels = as_labels(y, self._unlabeled)
        if not isinstance(labels, Classes):
            raise ValueError("AutoHasher.partial_fit learns from one class per row, not from label sets.")
        if first:
            self.fit(X, y)
        parts = _updated_parts(self)
        if not parts:
            raise ValueError(
                "No bits of this AutoHasher were learned by GSDH_P, so more rows change nothing: fit anew."
            )
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        for part in parts:
            if first:
                part._begin_sums(X, labels, part.encode_queries(X))
            else:
                part.partial_fit(X, y)
        if not first:
            self.codes_ = np.concatenate([self.codes_, self.encode(X)])
        return self

    def _fit_source(self, source: AnySource, job: Job, rng: np.random.RandomState) -> None:
        began, timer = time.monotonic(), PhaseTimer()
        with timer("sample"):
            reader = LabelReader(self.unlabeled) if source.labels else None
            found = survey(source, SurveyPlan.of(source, PlainFeatures(), reader, any_variety=True), job)
        self._advise(found.advice(self.n_bits_))
        known = LabeledRows(found.n_rows, found.table, found.counts, found.groups)
        hasher = self._choose(source, known, job, rng, timer, began)
        with timer("fit"), muted():
            self.hasher_ = hasher._fit_part(source, job.part("chosen", codes=False))
        self._finish(source, job, timer)

    def _choose(
        self,
        source: AnySource,
        known: LabeledRows,
        job: Job,
        rng: np.random.RandomState,
        timer: PhaseTimer,
        began: float,
    ) -> BaseHasher:
        """Try candidates on a sample, write the report, and return the chosen hasher, which is not fitted yet."""
        sample_seed, trial_seed, fit_seed = (int(seed) for seed in rng.randint(2**31, size=3))
        if (saved := job.checkpoint.load("choice")) is not None:
            self.report_ = SelectionReport.from_json(str(saved["report"]))
            return self._compose(Candidate.from_json(str(saved["candidate"])), fit_seed)
        with timer("sample"):
            sample = draw_sample(source, known, sample_seed, job)
        with timer("trials"), muted():
            deadline = None if self.time_budget is None else began + self.time_budget / 2
            score, results = self._trials(sample, trial_seed, deadline)
        choice = choose(results, self.unknown_cost, score)
        self.report_ = SelectionReport.of(
            results, choice, f"Scores: {score} of searches among rows left out of training"
        )
        saved = {"report": np.array(self.report_.to_json()), "candidate": np.array(choice.candidate.to_json())}
        job.checkpoint.save("choice", saved)
        return self._compose(choice.candidate, fit_seed)

    def _trials(self, sample: Sample, seed: int, deadline: float | None) -> tuple[str, list[Result]]:
        """Return what the scores are, and the scores of all candidates."""

        def make(part: Part) -> BaseHasher:
            return self._part(part, seed, trial=True)

        known, n_bits, n_rows = sample.labeled_rows, self.n_bits_, sample.rows.shape[0]
        if known.n_groups >= 2:
            spreads = {name: one.spreads for name, one in LABEL_METHODS.items() if known.plain or one.label_sets}
            candidates = labeled_candidates(n_bits, spreads, STRUCTURE)
            splits, scores = make_splits(sample, seed), label_score(sample, self.n_jobs)
            score = "MAP" if known.plain else "NDCG@50"
        else:
            candidates = unlabeled_candidates(n_bits, UNSUPERVISED)
            splits = [split_unlabeled(n_rows, seed)] if n_rows >= LEAST_UNLABELED else []
            scores = neighbor_score(sample, self.n_jobs)
            score = "recall of the 10 nearest rows"
        return score, Trial(sample, splits, make, scores).run(candidates, deadline)

    def _part(self, part: Part, seed: int, trial: bool = False) -> BaseHasher:
        """Return an unfitted hasher of some bits."""
        if part.method not in LABEL_METHODS:
            return UNSUPERVISED[part.method](part.n_bits, n_jobs=self.n_jobs, random_state=seed)
        hasher = LABEL_METHODS[part.method].make(part.n_bits, self.n_jobs, seed)
        return hasher.set_params(n_landmarks=TRIAL_LANDMARKS) if trial else hasher.set_params(unlabeled=self.unlabeled)

    def _compose(self, candidate: Candidate, seed: int) -> BaseHasher:
        """Return the unfitted hasher of a candidate."""
        return JoinedHasher([self._part(part, seed) for part in candidate.parts], spread=candidate.spread)

    def _finish(self, source: AnySource, job: Job, timer: PhaseTimer) -> None:
        """Code the rows as a database holds them, and complete the report."""
        self.calibration_ = self.hasher_.calibration_
        # Advice about the labels was given before the trials.
        self._advise([sentence for sentence in self.hasher_.advice_ if is_about_codes(sentence)])
        self.confidence_ = self.hasher_.confidence_
        self.__dict__.pop("thresholds_", None)
        if hasattr(self.hasher_, "thresholds_"):
            self.thresholds_ = self.hasher_.thresholds_
        with timer("code"):
            hash_blocks(source, self._database_projection(), self.n_bits_, job)
            self._store_codes(job, source="hashed")
            # Codes that the hashers learned for themselves would only make model files larger.
            for hasher in (self.hasher_, *self.hasher_.hashers_):
                hasher.__dict__.pop("codes_", None)
        self.seconds_ = timer.seconds
        self.report_.seconds, self.report_.advice = dict(timer.seconds), list(self.advice_)

    def _block_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        return self.hasher_._block_projection()

    def _project(self, X: Matrix) -> NDArray[np.float32]:
        return self.hasher_._project(X)


def _linear(n_bits: int, n_jobs: int | None, seed: int) -> BaseHasher:
    return GSDHP(n_bits, n_jobs=n_jobs, random_state=seed)


def _posterior(n_bits: int, n_jobs: int | None, seed: int) -> BaseHasher:
    return GSDHP(n_bits, function="posterior", n_jobs=n_jobs, random_state=seed)


def _cca_itq(n_bits: int, n_jobs: int | None, seed: int) -> BaseHasher:
    return CCAITQ(n_bits, kernel="rbf", n_landmarks="auto", n_jobs=n_jobs, random_state=seed)


@dataclass(frozen=True)
class LabelMethod:
    """A method that learns from labels.

    Attributes
    ----------
    make : from bits, threads and seed to an unfitted hasher.
    spreads : widths of thresholds to try. Those of CCA-ITQ stay at 0: its bits are no estimates of learned bits.
    label_sets : whether it learns from label sets too, not only from classes.
    """

    make: Callable[[int, int | None, int], BaseHasher]
    spreads: tuple[float, ...] = (0.0, 0.75)
    label_sets: bool = True


LABEL_METHODS = {
    "GSDH_P": LabelMethod(_linear),
    "posterior": LabelMethod(_posterior, label_sets=False),
    "CCA-ITQ": LabelMethod(_cca_itq, spreads=(0.0,)),
}
"""What learns from labels, by its name in the report; the first one is taken if nothing can be tried."""
STRUCTURE = "ITQ"
UNSUPERVISED: dict[str, type[BaseHasher]] = {"ITQ": ITQ, "PCA-RR": PCARR, "SH": SH, "LSH": LSH}


def _labeled_rows(X: Matrix, labels: sparse.csr_matrix | None) -> tuple[LabeledRows, IntArray | None]:
    """Return what is known about the labels of rows in memory, and the group of every row."""
    if labels is None:
        return LabeledRows(X.shape[0]), None
    group, first = group_rows(labels)
    counts = np.bincount(group[group >= 0], minlength=len(first))
    return LabeledRows(X.shape[0], labels[first], counts, GivenGroups()), group
