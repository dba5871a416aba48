"""OpenHasher: codes that say what a row is like and which label it has, weighed when a query is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from hashlearn import codes
from hashlearn.codes import check_codes
from hashlearn.functions.linear import RidgeSums
from hashlearn.hashers.base import BaseHasher
from hashlearn.index import ScoreTables
from hashlearn.kernel import LandmarkKernel, dense_rows, validated_rows
from hashlearn.labels import Classes, as_labels, check_variety, sets_by_name
from hashlearn.methodinfo import MethodInfo
from hashlearn.metrics import evaluate_scores
from hashlearn.opencode.coder import LabelPart, LabelWords, NibbleQuantizer, OpenCoder, emphasis_number
from hashlearn.opencode.labels import Familiarity, LabelScores
from hashlearn.opencode.learn import PassPlan, RowSums, UnitRows, code_range, learn_coder, sum_rows
from hashlearn.opencode.metric import LabelMetric, LearnedMetric
from hashlearn.opencode.report import OpenReport, advice_of
from hashlearn.opencode.updates import KeptSums, migrated_coder, updated
from hashlearn.pairwise.supervision import anchor_count
from hashlearn.parallel import BLOCK_ROWS, one_blas_thread, ordered_map, row_blocks
from hashlearn.parameters import COUNT, Anything, Interval, fitted, parameter
from hashlearn.progress import PhaseTimer, report, verbose_listening
from hashlearn.rows.groups import LabelReader
from hashlearn.rows.reduce import FitContext, range_rows, reduce_rows
from hashlearn.rows.source import AnySource, Source
from hashlearn.rows.survey import Survey, SurveyPlan, survey
from hashlearn.typing import Matrix, PackedCodes

Part = TypeVar("Part")
QUERY_ROWS = 256
"""Queries per block: the label tables of 2,048 queries take 32 MB."""
MOST_FEATURES = 8192
"""The covariance of more features takes more than half a gigabyte, and its eigenvectors minutes."""


def _no_hamming(hasher: OpenHasher) -> NoReturn:
    raise AttributeError(
        "OpenHasher has no decision_function, expected_bits and encode_queries: query(X) makes the score "
        "tables by which its codes are searched. For bits that are compared by Hamming distance take AutoHasher."
    )


class OpenHasher(BaseHasher):
    """The hasher to take first for search in hashlearn: one stored code answers "most alike" and "same label".

    A code has two parts. The label word (12 bits) says how probable each label is. The other bits, four by four, say
    where the row is in a metric that the labels teach, which serves rows of unknown labels, too. Queries are score
    tables, and ``emphasis`` says when a query is asked how much labels count: "alike" (0) finds the most alike rows,
    "label" (1) rows of the same label, and "auto" (0.5) weighs labels by how well the query fits any known label.

    Labels may be missing: rows without labels take part in everything but the label scores. Without any labels the
    codes are content only. A row with an empty label set counts as unlabeled.

    The codes are for ``hashlearn.Index`` and for collections in a folder or in memory. Their bits have no meaning by
    Hamming distance: for engines that have nothing else take AutoHasher.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import OpenHasher
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = OpenHasher(n_bits=64, random_state=0).fit(X[:600], y[:600])
    >>> hasher.encode(X[600:]).shape
    (1197, 8)
    >>> hasher.query(X[600:602], emphasis="label").words.shape
    (2, 4096)
    """

    info = MethodInfo(
        name="open",
        title="OpenHasher",
        reference="hashlearn: label words and nibbles in a metric taught by labels (2026)",
        kind="composition",
        cost="O(n p (p + d + c) + p^3 + d^3)",
        verified=True,
        passes=3,
        remark="searched by tables, not by Hamming distance",
        components=(
            OpenCoder,
            LabelPart,
            LabelMetric,
            LearnedMetric,
            LabelScores,
            LabelWords,
            NibbleQuantizer,
            Familiarity,
            OpenReport,
            KeptSums,
            RidgeSums,
        ),
    )

    searched_by_tables = True

    n_bits: int = parameter(
        Interval(int, 16, codes.MAX_BITS, closed="both"),
        "Length of a code, a multiple of 8: 12 bits for labels, the others for content.",
        default=128,
        kw_only=False,
    )
    n_landmarks: int = parameter(
        COUNT, "Labeled rows that span the label scores; all if there are fewer.", default=3000
    )
    unlabeled: Any = parameter(
        Anything(), "Besides None and NaN, the class that marks a row as unlabeled, -1 for example.", default=None
    )

    coder_: OpenCoder = fitted("Metric, label scores, label words and nibbles.")
    classes_: NDArray[Any] = fitted("Names of the labels; numbers of the columns for label sets without names.")
    report_: OpenReport = fitted("What labels explain, how sure label scores are, and what the bits are for.")
    seconds_: dict[str, float] = fitted("Seconds of each phase of the fit.")
    sums_: KeptSums = fitted("Sums over all rows so far, if ``partial_fit`` was used.")
    previous_: BaseHasher | None = fitted("The hasher that a collection had before its migration.")
    previous_vector_size_: int | None = fitted(
        "The size of the vectors that a collection kept before its migration; None if it kept none."
    )

    decision_function = expected_bits = encode_queries = property(_no_hamming)

    @property
    def _uses_labels(self) -> bool:
        return False  # it uses labels if there are any

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from rows and the labels that are known.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : classes (n,), label sets (n, c) of 0/1, a list or set of tags per row, or None
            Without labels codes are content only.

        Returns
        -------
        self
        """
        X = self._validate(X)
        labels = reader = names = None
        if y is not None:
            read = as_labels(y, self.unlabeled)
            check_consistent_length(X, read.sets)
            labels, names = (read.numbers, read.names) if isinstance(read, Classes) else (read.sets, read.names)
            reader = LabelReader(-1)  # classes are numbers now, and -1 stands for no label
        with verbose_listening(self.verbose), FitContext(n_jobs=self.n_jobs) as context:
            self._learn(Source(X, labels), reader, names, context, self._rng())
        return self

    def partial_fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from more rows and new labels, without the rows of earlier calls.

        The first call is ``fit``, and keeps sums over its rows. Further calls add theirs and compute the label scores
        from all of them. Metric, nibbles and label words stay, so stored codes stay valid; new labels get label words.

        The sums take 8 p^2 bytes for p landmarks (72 MB for 3,000), so ``fit`` and ``fit_chunks`` do not keep them. The
        first call after these therefore takes their rows again, together with the new ones: at least some rows of
        every known label.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : labels of the kind of the first call
            New classes and tags become new labels; a 0/1 matrix may have more columns than before.

        Returns
        -------
        self
            ``codes_`` grows by the codes of the rows; after ``fit`` it becomes those of the rows of this call.
        """
        first, n_known = not hasattr(self, "coder_"), len(getattr(self, "classes_", ()))
        if first:
            self.fit(X, y)
        part, X = self.coder_.labels, self._check_rows(X)
        if part is None and first:
            return self
        if part is None:
            raise ValueError(
                "This OpenHasher was fitted without labels, so its codes have no label word and partial_fit has "
                "nothing to update: fit a new hasher to all rows and labels, and encode the rows again."
            )
        labels, names = self._sets_by_name(y, X.shape[0], grows=True)
        goes_on = hasattr(self, "sums_")
        missing = np.flatnonzero(np.asarray(labels[:, :n_known].sum(axis=0)).ravel() == 0)
        if not goes_on and len(missing):
            raise ValueError(
                f"fit keeps no sums over its rows, so the first partial_fit after it needs rows of every known label "
                f"again, with the new ones. There are none of {len(missing)} of the {n_known} labels, such as "
                f"{names[missing[0]]!r}."
            )
        sums = (self.sums_ if goes_on else KeptSums.none(part)).with_rows(part, dense_rows(X), labels, self.n_jobs)
        if first:
            self.sums_ = sums
            return self
        coder = updated(self.coder_, sums, self.n_jobs)
        packed = self._by_blocks(lambda block: coder.encode(X[block], labels[block]), X.shape[0])
        if hasattr(self, "codes_"):
            self.codes_ = np.concatenate([self.codes_, *packed] if goes_on else packed)
        self.coder_, self.sums_, self.classes_ = coder, sums, _name_array(names)
        return self

    def migrated(self, X: Matrix, packed: PackedCodes, n_landmarks: int, seed: int) -> Self:
        """Return a hasher for a new embedding model, learned from new embeddings X of rows and their stored codes."""
        result = clone(self)
        X = result._validate(X)
        kernel = LandmarkKernel(n_landmarks, random_state=seed)
        kernel.fit_landmarks(X)
        result.coder_ = migrated_coder(self.coder_, kernel, X, packed, self.n_jobs)
        result.classes_, result.codes_ = self.classes_, packed
        return result

    def _sets_by_name(self, y: Any, n_rows: int, grows: bool) -> tuple[sparse.csr_matrix, list[Any]]:
        """Return label sets over the labels of the fit, followed by labels that are new, and the names of all.

        ``grows`` says that labels may be new, and then they must be of the kind of the fit.
        """
        read, known = as_labels(y, self.unlabeled), self.classes_.tolist()
        if read.sets.shape[0] != n_rows:
            raise ValueError(f"There are {read.sets.shape[0]} labels for {n_rows} rows.")
        part = self.coder_.labels
        if grows and part is not None and isinstance(read, Classes) != (part.scores.temperature_ is not None):
            raise ValueError(f"partial_fit takes labels of the kind of the first call. Got {read.form} labels now.")
        if read.names is not None:
            return sets_by_name(read, known, ("y", "the fit"))
        width = read.sets.shape[1]
        if known != list(range(len(known))):
            raise ValueError(f"The fit had labels by name, such as {known[0]!r}. Got a matrix of 0 and 1 instead.")
        if known and width != len(known) and not grows:
            raise ValueError(f"The fit had label sets of {len(known)} columns. Got {width} instead.")
        names, sets = list(range(max(width, len(known)))), read.sets.copy()
        sets.resize(n_rows, len(names))
        return sets, names

    def _validate(self, X: Matrix) -> Matrix:
        X = super()._validate(X)
        self._check_size(X.shape[1])
        return X

    def _check_size(self, n_features: int) -> None:
        if self.n_bits % 8:
            raise ValueError(
                f"The 'n_bits' parameter of OpenHasher must be a multiple of 8. Got {self.n_bits} instead."
            )
        if n_features > MOST_FEATURES:
            raise ValueError(
                f"OpenHasher learns from rows of at most {MOST_FEATURES:,} features. Got {n_features:,}: reduce them "
                "first, for example with sklearn.decomposition.TruncatedSVD in a pipeline."
            )

    def _check_labels(self, source: AnySource) -> None:
        """Accept chunks without labels."""

    def _fit_source(self, source: AnySource, context: FitContext, rng: np.random.RandomState) -> None:
        self._check_size(source.n_features)
        self._learn(source, LabelReader(self.unlabeled) if source.has_labels else None, None, context, rng)

    def _learn(
        self,
        source: AnySource,
        reader: LabelReader | None,
        names: list[Any] | None,
        context: FitContext,
        rng: np.random.RandomState,
    ) -> None:
        """Learn from a survey, one pass that adds up over all rows, and a sample of the rows; then code all rows."""
        timer = PhaseTimer()
        anchor_seed, sample_seed = (int(seed) for seed in rng.randint(2**31, size=2))
        with timer("survey"):
            count = partial(anchor_count, self.n_landmarks)
            wanted = SurveyPlan.for_source(source, UnitRows(), reader, count, anchor_seed, any_variety=True)
            found = survey(source, wanted, context)
            if found.table is not None:
                check_variety(found.table.shape[0])
        with timer("add up"):
            plan = PassPlan.after(found, sample_seed)
            sums = reduce_rows(source, sum_rows, plan, context, "add up rows", RowSums)
        with timer("learn"), one_blas_thread():
            coder, learned = learn_coder(sums, plan, self.n_bits_, rng, self.n_jobs)
        with timer("code"):
            context.open_codes(plan.n_rows, self.n_bits_)
            if context.codes_out is not None:
                for rows, packed in context.run(code_range, (coder, plan), source.ranges(range_rows(source))):
                    context.put_codes(rows, packed)
                    report("code rows", rows.stop, plan.n_rows)
        self.__dict__.pop("sums_", None)
        self.coder_, self.seconds_ = coder, timer.seconds
        self.classes_ = _class_names(found, names)
        self.report_ = replace(learned, seconds=dict(timer.seconds), advice=advice_of(learned, self.n_bits_))
        self._store_codes(context, source="learned")
        self._advise(self.report_.advice)

    def encode(self, X: Matrix, y: Any = None) -> PackedCodes:
        """Hash rows of a database to packed codes.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : labels as in ``fit``, or None
            Labels that are known. They take the place of predicted ones. Rows without a label, with an empty label
            set, or with a class that the hasher does not know get predicted ones.

        Returns
        -------
        uint8 (n, n_bits / 8)
            The label word is the first 12 bits.
        """
        X = self._check_rows(X)
        coder, labels = self.coder_, None
        if y is not None:
            labels = self._sets_by_name(y, X.shape[0], grows=False)[0][:, : len(self.classes_)]

        def codes_of(block: slice) -> PackedCodes:
            return coder.encode(X[block], None if labels is None else labels[block])

        return np.concatenate(self._by_blocks(codes_of, X.shape[0]))

    def transform(self, X: Matrix) -> NDArray[np.uint8]:
        """Hash rows to the bits of ``encode``.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)

        Returns
        -------
        uint8 (n, n_bits)
            In {0, 1}.
        """
        return codes.unpack(self.encode(X), self.n_bits_)

    def query(self, X: Matrix, emphasis: str | float = "auto") -> ScoreTables:
        """Make score tables of queries, for ``Index.search``.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        emphasis : "alike", "auto", "label" or a number from 0 to 1, default="auto"
            How much labels count: 0 is "alike", 0.5 "auto" and 1 "label". Up to 0.5 their weight grows as the square
            of the number. From there on, a query needs to fit known labels less and less for them to count.

        Returns
        -------
        ScoreTables
        """
        X, weight = self._check_rows(X), emphasis_number(emphasis)
        return _joined(self._by_blocks(lambda block: self.coder_.tables(X[block], weight), X.shape[0], QUERY_ROWS))

    def query_codes(self, codes: Any, emphasis: str | float = "auto") -> ScoreTables:
        """Make score tables that ask for rows like stored ones, from their packed codes.

        Parameters
        ----------
        codes : uint8 array (n, n_bits / 8)
        emphasis : as in ``query``

        Returns
        -------
        ScoreTables
        """
        check_is_fitted(self)
        packed, weight = check_codes(codes, self.n_bits_), emphasis_number(emphasis)
        tables = self.coder_.tables_of_codes
        return _joined(self._by_blocks(lambda block: tables(packed[block], weight), len(packed), QUERY_ROWS))

    def score(self, X: Matrix, y: Any) -> float:
        """Compute the mean average precision on held-out rows.

        Odd rows search even rows with emphasis "auto", and vice versa.
        Labels are those that the hasher predicts, so this is what an unlabeled database gets. AP is over the whole
        ranking. Unlabeled rows and rows with empty label sets are left out.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : labels, as in ``fit``

        Returns
        -------
        float
        """
        X, labels = self._check_rows(X), as_labels(y, self.unlabeled).sets
        packed = self.encode(X)
        check_consistent_length(packed, labels)
        labeled = np.flatnonzero(np.diff(labels.indptr))
        if len(labeled) < 2:
            raise ValueError(f"score needs at least 2 labeled rows: one searches the other. Got {len(labeled)}.")
        total, halves = 0.0, (labeled[::2], labeled[1::2])
        for queries, database in (halves, halves[::-1]):
            for block in row_blocks(len(queries), QUERY_ROWS):
                rows = queries[block]
                scores = self.query(X[rows]).scores(packed[database])
                precision = evaluate_scores(scores, labels[rows], labels[database], at=None).map
                total += precision * (len(rows) / len(queries))
        return float(total / 2)

    def _block_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        return partial(_code_signs, self.coder_)

    def _check_rows(self, X: Matrix) -> Matrix:
        check_is_fitted(self)
        return validated_rows(self, X, at_least=0)

    def _by_blocks(self, work: Callable[[slice], Part], n_rows: int, size: int = BLOCK_ROWS) -> list[Part]:
        """Return the results of blocks of rows, computed on threads; no rows are one empty block."""
        return list(ordered_map(work, row_blocks(n_rows, size) or [slice(0, 0)], self.n_jobs))


def _joined(parts: list[ScoreTables]) -> ScoreTables:
    words = [part.words for part in parts if part.words is not None]
    return ScoreTables(np.concatenate([part.nibbles for part in parts]), np.concatenate(words) if words else None)


def _code_signs(coder: OpenCoder, X: Matrix) -> NDArray[np.int8]:
    """Return the bits of a block of rows as -1 and +1."""
    return np.unpackbits(coder.encode(X), axis=1).view(np.int8) * np.int8(2) - np.int8(1)


def _class_names(found: Survey, names: list[Any] | None) -> NDArray[Any]:
    """Return the names of the labels; without names, their column numbers."""
    if found.table is None or found.groups is None:
        return np.empty(0, dtype=np.intp)
    if names is not None:
        return _name_array(names)
    # The identities of classes are the classes themselves, those of label sets random numbers.
    return np.arange(found.table.shape[1]) if found.groups.names is None else np.array(found.groups.identity)


def _name_array(names: list[Any]) -> NDArray[Any]:
    """Return names as an array of numbers or texts if they are such, otherwise as an array of objects."""
    result = np.array(names)
    if result.ndim == 1 and result.dtype.kind in "biufU":
        return result
    result = np.empty(len(names), dtype=object)
    result[:] = names
    return result
