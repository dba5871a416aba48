"""AutoHasher: bits for any engine that has Hamming distance, divided between labels and structure by trials."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashlearn.hashers.auto.report import SelectionReport, row_of
from hashlearn.hashers.auto.trial import SAMPLE_ROWS, Candidate, choose, run_trials, usual_division
from hashlearn.hashers.base import BaseHasher
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.joined import JoinedHasher
from hashlearn.hashers.metric_itq import MetricITQ
from hashlearn.kernel import PlainFeatures, validated_rows
from hashlearn.labels import Classes, as_labels
from hashlearn.methodinfo import MethodInfo
from hashlearn.pairwise.gsdhp import GSDHP
from hashlearn.pairwise.partial_fit import PartialFitMixin
from hashlearn.parameters import NON_NEGATIVE, Anything, fitted, parameter
from hashlearn.progress import PhaseTimer, verbose_listening
from hashlearn.rows.advice import SampledCodes, muted
from hashlearn.rows.groups import LabelReader
from hashlearn.rows.reduce import FitContext, hash_rows
from hashlearn.rows.source import AnySource, Source
from hashlearn.rows.survey import LabeledRows, SurveyPlan, draw_sample, survey
from hashlearn.typing import Float32Array, Matrix, Rng


class AutoHasher(BaseHasher):
    """The hasher for engines that have Hamming distance and nothing else: it divides its bits by trials.

    Bits that GSDH_P learns from labels find rows of known classes far better than floats do. Bits of ITQ, in the metric
    that the labels teach, find rows of classes that nobody labeled, and the most similar rows. AutoHasher tries a half,
    three quarters and all of the bits for labels, on a sample of at most 8,000 rows: it hides a quarter of the labels,
    fits the codes to seven rows of ten, and lets others search a database of known and hidden classes together. Of the
    codes that lose at most ``unknown_cost`` on known classes, it takes the one that is best on hidden ones, and fits it
    to all rows. ``print(hasher.report_)`` shows what was tried.

    Label bits learn from the labeled rows, structure bits from all. Without labels, or with a single class, all bits
    are ITQ's, and ``advice_`` says so.

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
        reference="hashlearn: bits for labels and structure, divided by trials (2026)",
        kind="composition",
        cost="trials on 8,000 rows, then GSDH_P",
        verified=True,
        passes=9,
    )

    _structure_bits = True

    unknown_cost: float = parameter(
        NON_NEGATIVE,
        "How much of its score on known classes (MAP, or NDCG for label sets) a code may lose to become better on "
        "unknown classes.",
        default=0.03,
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
            Without labels all bits are ITQ's.

        Returns
        -------
        self
        """
        X = self._validate(X)
        labels = None if y is None else self._read_labels(X, y).sets
        known, timer = LabeledRows.from_labels(X.shape[0], labels), PhaseTimer()
        source, context = Source(X), FitContext(n_jobs=self.n_jobs)
        with verbose_listening(self.verbose):
            hasher = self._choose(source, known, context, self._rng(), timer)
            with timer("fit"), muted() as sampled:
                self.hasher_ = hasher.fit(X, y)
            self._finish(source, context, timer, sampled)
        return self

    def partial_fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from more rows, of known and of new classes, without the rows of earlier calls.

        The first call is ``fit``. Further calls update the bits that GSDH_P learned from labels, as
        ``GSDHP.partial_fit`` does: the first one after ``fit`` takes its rows again. The choice and the bits that keep
        the structure of the features stay. Stored codes stay valid.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : classes (n,)

        Returns
        -------
        self
        """
        first, goes_on = not hasattr(self, "hasher_"), False
        labels = as_labels(y, self._unlabeled)
        if not isinstance(labels, Classes):
            raise ValueError("AutoHasher.partial_fit learns from one class per row, not from label sets.")
        if first:
            self.fit(X, y)
        parts = [part for part in self.hasher_.hashers_ if isinstance(part, PartialFitMixin)]
        if not parts:
            raise ValueError(
                "No bits of this AutoHasher were learned by GSDH_P, so more rows change nothing: fit again."
            )
        X = validated_rows(self, X)
        for part in parts:
            if first:
                part._begin_sums(X, labels, part.encode(X, y))
            else:
                goes_on = hasattr(part, "sums_")
                part.partial_fit(X, y)
        if not first:
            self.codes_ = np.concatenate([self.codes_, self.encode(X)]) if goes_on else self.encode(X)
        return self

    def _fit_source(self, source: AnySource, context: FitContext, rng: Rng) -> None:
        timer = PhaseTimer()
        with timer("sample"):
            reader = LabelReader(self.unlabeled) if source.has_labels else None
            found = survey(source, SurveyPlan.for_source(source, PlainFeatures(), reader, any_variety=True), context)
        self._advise(found.advice(self.n_bits_, structure=True))
        hasher = self._choose(source, found, context, rng, timer)
        with timer("fit"), muted() as sampled:
            self.hasher_ = hasher._fit_part(source, context.part("chosen", codes=False))
        self._finish(source, context, timer, sampled)

    def _choose(
        self,
        source: AnySource,
        known: LabeledRows,
        context: FitContext,
        rng: Rng,
        timer: PhaseTimer,
    ) -> BaseHasher:
        """Try candidates on a sample, write the report, and return the chosen hasher, which is not fitted yet."""
        sample_seed, trial_seed, fit_seed = (int(seed) for seed in rng.randint(2**31, size=3))
        if known.n_groups < 2:
            return self._unsupervised(known, fit_seed)
        if (saved := context.load("choice")) is not None:
            kept = json.loads(str(saved["choice"]))
            self.report_ = SelectionReport(**kept["report"])
            return self._compose(Candidate(**kept["candidate"]), fit_seed)
        with timer("sample"):
            sample = draw_sample(source, known, SAMPLE_ROWS, sample_seed, context)
        with timer("trials"), muted():
            results = run_trials(sample, self.n_bits_, self.unknown_cost, trial_seed, self.n_jobs)
        chosen = choose(results, self.unknown_cost)
        candidate = usual_division(self.n_bits_) if chosen is None else chosen.candidate
        metric = "MAP" if known.plain else "NDCG@50"
        self.report_ = SelectionReport.from_results(results, chosen, candidate.name, self.unknown_cost, metric)
        kept = {"report": asdict(self.report_), "candidate": asdict(candidate)}
        context.save("choice", {"choice": np.array(json.dumps(kept))})
        return self._compose(candidate, fit_seed)

    def _unsupervised(self, known: LabeledRows, seed: int) -> BaseHasher:
        """Return ITQ, and say that labels did not decide anything."""
        why = "No row has a label" if known.n_groups == 0 else "All labeled rows have the same label"
        reason = f"{why}, so all bits are ITQ's, which learns from the features alone."
        self.report_ = SelectionReport([row_of(f"{self.n_bits_} ITQ")], "There was nothing to compare", reason)
        self._advise([reason])
        return JoinedHasher([ITQ(self.n_bits_, n_jobs=self.n_jobs, random_state=seed)])

    def _compose(self, candidate: Candidate, seed: int) -> BaseHasher:
        """Return the unfitted hasher of a candidate."""
        shared = {"n_jobs": self.n_jobs, "random_state": seed, "unlabeled": self.unlabeled}
        parts: list[BaseHasher] = [GSDHP(candidate.label_bits, function=candidate.function, **shared)]
        if candidate.structure_bits:
            parts.append(MetricITQ(candidate.structure_bits, **shared))
        return JoinedHasher(parts, spread=candidate.spread)

    def _finish(self, source: AnySource, context: FitContext, timer: PhaseTimer, sampled: list[SampledCodes]) -> None:
        """Code the rows as a database holds them, and complete the report."""
        self.calibration_ = self.hasher_.calibration_
        # Advice about the labels was given before the trials, and that of the parts names this class as a remedy.
        self._advise_on_codes(sampled[-1])
        self.confidence_ = self.hasher_.confidence_
        self.__dict__.pop("thresholds_", None)
        if hasattr(self.hasher_, "thresholds_"):
            self.thresholds_ = self.hasher_.thresholds_
        with timer("code"):
            assert source.n_rows is not None
            context.open_codes(source.n_rows, self.n_bits_)
            hash_rows(source, self._database_projection(), context)
            self._store_codes(context, source="hashed")
            # Codes that the hashers learned for themselves would only make model files larger.
            for hasher in (self.hasher_, *self.hasher_.hashers_):
                hasher.__dict__.pop("codes_", None)
        self.seconds_ = timer.seconds
        self.report_.seconds, self.report_.advice = dict(timer.seconds), list(self.advice_)

    def _known_bits(self, y: Any, n_rows: int) -> NDArray[np.int8]:
        return self.hasher_._known_bits(y, n_rows)

    def _block_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        return self.hasher_._block_projection()

    def _project(self, X: Matrix) -> Float32Array:
        return self.hasher_._project(X)
