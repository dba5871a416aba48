"""OpenHasher: codes that say what a row is like and which label it has, weighed when a query is asked."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import iadd
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.codes import check_codes
from hashlearn.functions.linear import RidgeSums
from hashlearn.hashers.base import BaseHasher
from hashlearn.index import ScoreTables
from hashlearn.kernel import LandmarkKernel, PlainFeatures, dense_rows
from hashlearn.labels import Classes, LabelSets, as_labels, check_variety
from hashlearn.methodinfo import MethodInfo
from hashlearn.metrics import evaluate_scores
from hashlearn.opencode.coder import EMPHASES, WORD_NIBBLES, OpenCoder
from hashlearn.opencode.familiarity import Familiarity
from hashlearn.opencode.label_scores import LabelRegression, LabelScores, best_temperature
from hashlearn.opencode.metric import LabelMetric, LabelSums, unit_rows
from hashlearn.opencode.quantizers import WORD_BITS, LabelWords, NibbleQuantizer
from hashlearn.opencode.report import OpenReport
from hashlearn.opencode.updates import MOST_ROWS, KeptSums, updated
from hashlearn.pairwise.partial_fit import available_while
from hashlearn.pairwise.supervision import anchor_count
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.parameters import COUNT, Anything, Interval, fitted, parameter
from hashlearn.progress import PhaseTimer, report, verbose_listening
from hashlearn.rows.groups import GroupLookup, LabelReader
from hashlearn.rows.reduce import AdditiveSums, FitContext, block_rows, range_rows, read_groups, reduce_rows
from hashlearn.rows.source import AnySource, RowRange, Source
from hashlearn.rows.survey import Survey, SurveyPlan, survey
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix, PackedCodes

SAMPLE_ROWS = 16_384
"""Axes, books and left-out scores are learned from at most this number of rows, drawn at random."""
LEFT_OUT_ROWS, LEAST_LEFT_OUT, MOST_PROBABILITIES = MOST_ROWS, 2048, 2**22
"""Rows of the sample that are scored as if left out, from which label words are learned; fewer with many labels."""
QUERY_ROWS = 256
"""Queries per block: the label tables of 2,048 queries take 32 MB."""
LEAST_LABELED, LEAST_RIGHT, MOST_DISTINCT_LABELS = 100, 0.5, 0.5
MOST_FEATURES = 8192
"""The covariance of more features takes more than half a gigabyte, and its eigenvectors minutes."""


class UnitRows(PlainFeatures):
    """Rows of unit length as features: what the moments of a survey are of."""

    def moments(self, X: Matrix) -> tuple[FloatArray, float]:
        rows = unit_rows(X)
        return rows.sum(axis=0, dtype=np.float64), float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))


class _ByTables:
    """An output of other hashers that this one does not have, because its bits are not searched one by one."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, hasher: Any, owner: type | None = None) -> NoReturn:
        raise AttributeError(
            f"OpenHasher has no {self.name}: query(X) makes the score tables by which its codes are searched. For bits "
            "that are compared by Hamming distance take AutoHasher."
        )


def _can_go_on(hasher: OpenHasher) -> bool:
    """Whether ``partial_fit`` can go on: after ``fit``, which keeps no sums over its rows, the method is missing."""
    first = not hasattr(hasher, "coder_")
    return first or hasattr(hasher, "sums_") or hasher.coder_.scores is None


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
        reference="hashlearn: label words and nibbles in a metric taught by labels",
        year=2026,
        kind="composition",
        supervision=("classes", "label sets"),
        cost="O(n p (p + d + c) + p^3 + d^3)",
        verified=True,
        passes=3,
        remark="searched by tables, not by Hamming distance",
        components=(
            OpenCoder,
            LabelMetric,
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

    decision_function = _ByTables()
    expected_bits = _ByTables()
    encode_queries = _ByTables()

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

    @available_while(_can_go_on)
    def partial_fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from more rows and new labels, without the rows of earlier calls.

        The first call is ``fit``, and keeps sums over its rows. Further calls add theirs and compute the label scores
        anew. Metric, nibbles and label words stay, so stored codes stay valid; new labels get words of their own.
        ``codes_`` grows by the codes of the rows.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : labels of the kind of the first call
            New classes and tags become new labels; a 0/1 matrix may have more columns than before.

        Returns
        -------
        self
        """
        if not hasattr(self, "coder_"):
            try:
                self._keeps_sums = True
                return self.fit(X, y)
            finally:
                del self._keeps_sums
        X = self._check_rows(X)
        names, labels = self._labels_with_new_ones(y, X.shape[0])
        sums = self.sums_.with_rows(self.coder_, dense_rows(X), labels, self.n_jobs)
        coder = updated(self.coder_, sums, self.n_jobs)
        blocks = row_blocks(X.shape[0])
        packed = list(ordered_map(lambda block: coder.encode(X[block], labels[block]), blocks, self.n_jobs))
        grown = np.concatenate([self.codes_, *packed]) if hasattr(self, "codes_") else None
        self.coder_, self.sums_, self.classes_ = coder, sums, names
        if grown is not None:
            self.codes_ = grown
        return self

    def _labels_with_new_ones(self, y: Any, n_rows: int) -> tuple[NDArray[Any], sparse.csr_matrix]:
        """Return the names of all labels, and label sets over them, of which the last ones may be new."""
        if self.coder_.scores is None:
            raise ValueError("The first rows of this OpenHasher had no labels: fit a new hasher to all rows.")
        read = as_labels(y, self.unlabeled)
        if read.sets.shape[0] != n_rows:
            raise ValueError(f"There are {read.sets.shape[0]} labels for {n_rows} rows.")
        if isinstance(read, Classes) != (self.coder_.scores.temperature_ is not None):
            raise ValueError(f"partial_fit takes labels of the kind of the first call. Got {read.form} labels now.")
        if read.names is None:
            width = max(read.sets.shape[1], len(self.classes_))
            sets = read.sets
            return np.arange(width), sparse.csr_matrix((sets.data, sets.indices, sets.indptr), (n_rows, width))
        column = {name: place for place, name in enumerate(self.classes_.tolist())}
        if read.names and isinstance(read.names[0], str) != isinstance(next(iter(column)), str):
            raise ValueError(
                f"y holds the label {read.names[0]!r}, and earlier calls had labels such as {next(iter(column))!r}: "
                "give all calls labels of one kind."
            )
        for name in read.names:
            column.setdefault(name, len(column))
        places = np.array([column[name] for name in read.names], dtype=np.intp)
        shape = (read.sets.shape[1], len(column))
        moved = sparse.csr_matrix((np.ones(len(places)), (np.arange(len(places)), places)), shape=shape)
        return _name_array(list(column)), (read.sets @ moved).tocsr()

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
        self.__dict__.pop("sums_", None)
        timer = PhaseTimer()
        anchor_seed, sample_seed = (int(seed) for seed in rng.randint(2**31, size=2))
        with timer("survey"):
            count = partial(anchor_count, self.n_landmarks)
            plan = SurveyPlan.for_source(source, UnitRows(), reader, count, anchor_seed, any_variety=True)
            found = survey(source, plan, context)
            if found.table is not None:
                check_variety(found.table.shape[0])
        with timer("add up"):
            view = RowView.of(found, sample_seed)
            sums = reduce_rows(source, sum_rows, view, context, "add up rows", RowSums)
        with timer("learn"), one_blas_thread():
            coder, learned = self._learn_coder(sums, view, rng)
        with timer("code"):
            context.open_codes(view.n_rows, self.n_bits_)
            if context.codes_out is not None:
                for rows, packed in context.run(code_range, (coder, view), source.ranges(range_rows(source))):
                    context.put_codes(rows, packed)
                    report("code rows", rows.stop, view.n_rows)
        self.coder_, self.seconds_ = coder, timer.seconds
        self.classes_ = class_names(found, names)
        self.report_ = replace(learned, seconds=dict(timer.seconds), advice=advice_of(learned, self.n_bits_))
        self._store_codes(context, source="learned")
        self._advise(self.report_.advice)

    def _learn_coder(self, sums: RowSums, view: RowView, rng: np.random.RandomState) -> tuple[OpenCoder, OpenReport]:
        """Learn the parts of the coder, each from what the parts before it make of the sample."""
        rows, group = sums.sample(SAMPLE_ROWS)
        metric = sums.metric(view.mean)
        blocks = row_blocks(len(rows))
        moments = ordered_map(lambda block: metric.moments(unit_rows(rows[block])), blocks, self.n_jobs)
        metric.set_axes(reduce(iadd, moments))
        vectors = np.concatenate(list(ordered_map(lambda block: metric.map_block(rows[block]), blocks, self.n_jobs)))
        n_nibbles = self.n_bits_ // 4 - (0 if view.kernel is None else WORD_NIBBLES)
        coder = OpenCoder(metric, NibbleQuantizer.learn(vectors, n_nibbles, rng, self.n_jobs))
        content = 4 * len(coder.quantizer.axes_)
        learned = OpenReport(view.n_rows, 0, 0, 0, content, vectors.shape[1], metric.explained_)
        if view.kernel is not None and view.table is not None:
            right, sure = self._learn_labels(coder, sums, view, rows, vectors, group, rng)
            assert coder.familiarity is not None
            counts = {"n_labeled": sums.labeled.count, "n_labels": view.table.shape[1], "label_bits": WORD_BITS}
            separation = coder.familiarity.separation_
            learned = replace(learned, **counts, right=right, sure=sure, separation=separation)
        return coder, learned

    def _learn_labels(
        self,
        coder: OpenCoder,
        sums: RowSums,
        view: RowView,
        rows: Float32Array,
        vectors: Float32Array,
        group: IntArray,
        rng: np.random.RandomState,
    ) -> tuple[float, float]:
        """Learn label scores from the sums, and what else is about labels from left-out scores of sampled rows.

        Return how often the best label of a left-out row is right, and its mean probability.
        """
        assert view.kernel is not None
        assert view.table is not None
        rows = rows[: min(LEFT_OUT_ROWS, max(LEAST_LEFT_OUT, MOST_PROBABILITIES // view.table.shape[1]))]
        known = group[: len(rows)] >= 0
        provisional = view.kernel.center_.copy()
        regression = LabelRegression(sums.kernel, view.kernel)
        labels = view.table[group[: len(rows)][known]].toarray()
        left_out = regression.left_out(rows[known], labels, self.n_jobs)
        scores = coder.scores = regression.scores
        if getattr(self, "_keeps_sums", False):
            kept = np.arange(len(rows))[:MOST_ROWS]
            sets = table_with_none(view.table)[group[kept]]
            self.sums_ = KeptSums(sums.kernel, provisional, view.n_rows, rows[kept], sets)
        if view.single:
            scores.temperature_ = best_temperature(left_out, labels.argmax(axis=1))
        coder.familiarity = Familiarity.learn(left_out.max(axis=1), vectors, group >= 0, self.n_jobs)
        others = rows[~known]
        blocks = row_blocks(len(others))
        unlabeled = ordered_map(lambda block: scores.scores(others[block]), blocks, self.n_jobs)
        # Words are for rows as they come: with labels that are predicted, or with labels that are given.
        given = labels[rng.permutation(len(labels))[: len(labels) // 4]].astype(np.float32)
        predicted = [scores.probabilities(part) for part in (left_out, *unlabeled)]
        coder.words = LabelWords.learn(np.concatenate([*predicted, given]), rng, self.n_jobs)
        best = predicted[0].argmax(axis=1)
        return float(labels[np.arange(len(best)), best].mean()), float(predicted[0].max(axis=1).mean())

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
        labels = None if y is None else self._known_labels(y, X.shape[0])
        blocks = row_blocks(X.shape[0])
        coder = self.coder_

        def code(block: slice) -> PackedCodes:
            return coder.encode(X[block], None if labels is None else labels[block])

        return np.concatenate(list(ordered_map(code, blocks, self.n_jobs)))

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
        coder = self.coder_
        blocks = row_blocks(X.shape[0], QUERY_ROWS)
        parts = ordered_map(lambda block: coder.tables(X[block], weight), blocks, self.n_jobs)
        return _joined(list(parts))

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
        coder = self.coder_
        blocks = row_blocks(len(packed), QUERY_ROWS)
        return _joined(
            list(ordered_map(lambda block: coder.tables_of_codes(packed[block], weight), blocks, self.n_jobs))
        )

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
        packed, labels = self.encode(X), as_labels(y, self.unlabeled).sets
        check_consistent_length(packed, labels)
        labeled = np.flatnonzero(np.diff(labels.indptr))
        if len(labeled) < 2:
            raise ValueError(f"score needs at least 2 labeled rows: one searches the other. Got {len(labeled)}.")
        found, halves = [], (labeled[::2], labeled[1::2])
        for queries, database in (halves, halves[::-1]):
            for block in row_blocks(len(queries), QUERY_ROWS):
                rows = queries[block]
                scores = self.query(X[rows]).scores(packed[database])
                found.append(
                    (evaluate_scores(scores, labels[rows], labels[database], at=None).map, len(rows) / len(queries))
                )
        return float(sum(value * share for value, share in found) / 2)

    def _block_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        return partial(code_signs, self.coder_)

    def _check_rows(self, X: Matrix) -> Matrix:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)

    def _known_labels(self, y: Any, n_rows: int) -> sparse.csr_matrix:
        """Return labels as sets over the labels of the fit; empty where they are not known."""
        read = as_labels(y, self.unlabeled)
        if read.sets.shape[0] != n_rows:
            raise ValueError(f"There are {read.sets.shape[0]} labels for {n_rows} rows.")
        n_labels = len(self.classes_)
        if isinstance(read, LabelSets) and read.names is None:
            if n_labels and read.sets.shape[1] != n_labels:
                raise ValueError(f"The fit had label sets of {n_labels} columns. Got {read.sets.shape[1]} instead.")
            return read.sets
        column = {name: place for place, name in enumerate(self.classes_.tolist())}
        places = np.array([column.get(name, -1) for name in read.names or []], dtype=np.intp)
        moves = np.flatnonzero(places >= 0)
        shape = (read.sets.shape[1], n_labels)
        return read.sets @ sparse.csr_matrix((np.ones(len(moves)), (moves, places[moves])), shape=shape)


def _joined(parts: list[ScoreTables]) -> ScoreTables:
    words = [part.words for part in parts if part.words is not None]
    return ScoreTables(np.concatenate([part.nibbles for part in parts]), np.concatenate(words) if words else None)


@dataclass
class RowView:
    """How tasks see rows.

    Attributes
    ----------
    mean : of the unit rows.
    groups, table : the group of any row and the label set of every group; None without labels.
    single : whether every row has one label at most.
    kernel : its landmarks are labeled rows; None without labels.
    seed, limit : rows with keys of this seed up to the limit may be in the sample.
    """

    n_rows: int
    mean: FloatArray
    groups: GroupLookup | None
    table: sparse.csr_matrix | None
    single: bool
    kernel: LandmarkKernel | None
    seed: int
    limit: np.uint64

    @classmethod
    def of(cls, found: Survey, seed: int) -> Self:
        """Prepare the view from what a survey found."""
        kernel, single = None, True
        if found.table is not None:
            single = bool((np.diff(found.table.indptr) == 1).all())
            kernel = LandmarkKernel()
            kernel.set_landmarks(found.anchor_rows, found.total, found.squares, found.n_rows)
            kernel.center_ = kernel.typical()  # until the mean is known
        limit = rowkeys.limit(SAMPLE_ROWS, found.n_rows)
        mean = found.total / found.n_rows
        return cls(found.n_rows, mean, found.groups, found.table, single, kernel, seed, limit)

    def blocks(self, rows: RowRange) -> Iterator[tuple[slice, Float32Array, IntArray]]:
        """Read a range block by block: rows, and their groups (-1 without labels)."""
        for block in row_blocks(rows.stop - rows.start, block_rows(self.n_rows)):
            start, stop = rows.start + block.start, rows.start + block.stop
            group = np.full(stop - start, -1, dtype=np.intp)
            if self.groups is not None:
                group = read_groups(self.groups, rows, start, stop)
            yield slice(start, stop), dense_rows(rows.read(start, stop)), group


@dataclass
class RowSums(AdditiveSums):
    """Sums over rows, and the rows that may be in the sample.

    Attributes
    ----------
    unlabeled : sum of x x' over unit rows x less their mean, of rows without labels.
    labeled : sums over the other rows.
    kernel : sums of the kernel features of labeled rows, from a provisional center.
    rows, keys, groups : of the candidates of the sample, in blocks.
    """

    n_rows: int
    unlabeled: FloatArray
    labeled: LabelSums
    kernel: RidgeSums
    rows: list[Float32Array]
    keys: list[rowkeys.Keys]
    groups: list[IntArray]

    def sample(self, count: int) -> tuple[Float32Array, IntArray]:
        """Return the sampled rows and their groups, in the order of their keys: the first of them are a sample too."""
        keys = np.concatenate(self.keys)
        chosen = rowkeys.lowest(keys, count)
        chosen = chosen[np.argsort(keys[chosen], kind="stable")]
        return np.concatenate(self.rows)[chosen], np.concatenate(self.groups)[chosen]

    def metric(self, mean: FloatArray) -> LabelMetric:
        """Learn the scales of the metric."""
        covariance = (self.unlabeled + self.labeled.xx) / self.n_rows
        return LabelMetric.learn(mean, covariance, self.labeled if self.labeled.count else None)


def sum_rows(view: RowView, rows: RowRange) -> tuple[RowSums, slice, None]:
    """One task: the sums of its rows."""
    return reduce(iadd, (_block_sums(view, *block) for block in view.blocks(rows))), slice(rows.start, rows.stop), None


def _block_sums(view: RowView, numbers: slice, rows: Float32Array, group: IntArray) -> RowSums:
    known = np.flatnonzero(group >= 0)
    centered = unit_rows(rows).astype(np.float64) - view.mean
    rest = np.delete(centered, known, axis=0)
    labels = sparse.csr_matrix((len(known), 0)) if view.table is None else view.table[group[known]]
    features = np.empty((len(known), 0), dtype=np.float32)
    if view.kernel is not None:
        features = view.kernel.map_block(rows[known]) - view.kernel.center_
    key = rowkeys.row_keys(view.seed, rowkeys.SAMPLE, numbers.start, numbers.stop)
    chosen = key <= view.limit
    return RowSums(
        len(rows),
        rest.T @ rest,
        LabelSums.of(centered[known], labels, view.single),
        RidgeSums.from_rows(features, labels.toarray().astype(np.float32)),
        [rows[chosen]],
        [key[chosen]],
        [group[chosen]],
    )


def code_range(plan: tuple[OpenCoder, RowView], rows: RowRange) -> tuple[slice, PackedCodes]:
    """One task: the codes of its rows, with the labels that are known."""
    coder, view = plan
    table = None if view.table is None else table_with_none(view.table)
    packed = [coder.encode(part, None if table is None else table[group]) for _, part, group in view.blocks(rows)]
    return slice(rows.start, rows.stop), np.concatenate(packed)


def code_signs(coder: OpenCoder, X: Matrix) -> NDArray[np.int8]:
    """Return the bits of a block of rows as -1 and +1."""
    return np.unpackbits(coder.encode(X), axis=1).view(np.int8) * np.int8(2) - np.int8(1)


def table_with_none(table: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return the label sets of groups with an empty one at the end, for the group -1."""
    return sparse.vstack([table, sparse.csr_matrix((1, table.shape[1]))]).tocsr()


def class_names(found: Survey, names: list[Any] | None) -> NDArray[Any]:
    """Return the names of the labels; without names, their column numbers."""
    if found.table is None or found.groups is None:
        return np.empty(0, dtype=np.intp)
    if names is None:
        # The identities of classes are the classes themselves, those of label sets random numbers.
        identity = found.groups.identity
        return np.arange(found.table.shape[1]) if identity.dtype == np.uint64 else np.array(identity)
    return _name_array(names)


def _name_array(names: list[Any]) -> NDArray[Any]:
    """Return names as an array of numbers or texts if they are such, otherwise as an array of objects."""
    result = np.array(names)
    if result.ndim == 1 and result.dtype.kind in "biufU":
        return result
    result = np.empty(len(names), dtype=object)
    result[:] = names
    return result


def advice_of(learned: OpenReport, n_bits: int) -> list[str]:
    """Return what to say about the training data of a fit."""
    advice = []
    if learned.right is not None and learned.n_labeled >= LEAST_LABELED:
        if learned.n_labels > MOST_DISTINCT_LABELS * learned.n_labeled:
            advice.append(
                f"The labels have {learned.n_labels:,} different values in {learned.n_labeled:,} rows, so they look "
                "like measurements or ids, and most rows share theirs with no other row: put values into classes, or "
                "fit without labels."
            )
        elif learned.right < LEAST_RIGHT:
            advice.append(
                f"Only {learned.right:.0%} of the rows left out have the label that is predicted for them: search with "
                "emphasis='alike', give more labels, or give the labels of stored rows to encode."
            )
    needed = 8 * -(-(learned.label_bits + 4 * learned.n_axes) // 8)
    if needed < n_bits and learned.n_rows >= LEAST_LABELED:
        advice.append(
            f"The rows vary along {learned.n_axes} axes only, for which n_bits={max(needed, 16)} is enough: the other "
            "bits are 0."
        )
    return advice


def emphasis_number(emphasis: str | float) -> float:
    """Return an emphasis as a number from 0 to 1."""
    if isinstance(emphasis, str) and emphasis in EMPHASES:
        return EMPHASES[emphasis]
    if isinstance(emphasis, numbers.Real) and not isinstance(emphasis, bool) and 0 <= emphasis <= 1:
        return float(emphasis)
    raise ValueError(f"emphasis must be 'alike', 'auto', 'label' or a number from 0 to 1. Got {emphasis!r} instead.")
