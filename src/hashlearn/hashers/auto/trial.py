"""Trials: codes with several shares of label bits search one database of known and unknown classes.

A quarter of the labels is hidden from a sample; the rows that have no other label stay, unlabeled. Candidates are
fitted to most of the rows. Of the others some search and the rest is the database, rows of known and of hidden labels
together. Queries with a known label and queries with a hidden one are scored apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn import codes
from hashlearn.functions.calibration import spread_thresholds
from hashlearn.hashers.metric_itq import TaughtAxes
from hashlearn.kernel import LandmarkKernel, dense_rows
from hashlearn.labels import Classes, LabelMatrix, group_rows
from hashlearn.metrics.engine import score_queries
from hashlearn.metrics.rankings import hamming_keys
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.rules import Rules
from hashlearn.pairwise.gsdhp import GSDHP
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.progress import report
from hashlearn.rows.survey import Sample
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix

SAMPLE_ROWS = 8000
LANDMARKS = 1000
"""Trials use at most this number of landmarks; the chosen hasher is fitted with as many as it takes."""
HIDDEN_SHARE = 1 / 4
FIT_TENTHS, QUERY_TENTHS = 7, 1
"""Of ten rows of a class seven are fitted, one searches and two are searched."""
MOST_QUERIES = 400
LEAST_QUERIES = 10
ROUNDS = {700: 3, 2500: 2}
"""Rounds with other rows and labels, until the choice is clear, where there are fewer labeled rows than the key."""
ROTATION_ROUNDS = 25
SPREAD = 0.75
"""Bits from class posteriors go with spread thresholds, without which they find less everywhere (docs/choices.md)."""


@dataclass(frozen=True)
class Candidate:
    """A division of the bits, and the function of the label bits ("linear" or "posterior")."""

    label_bits: int
    structure_bits: int
    function: str = "linear"

    @property
    def spread(self) -> float:
        """Width of the spread thresholds of the label bits."""
        return SPREAD if self.function == "posterior" else 0.0

    @property
    def name(self) -> str:
        label = f"{self.label_bits} {'GSDH_P' if self.function == 'linear' else 'posterior'}"
        return f"{label} + {self.structure_bits} MetricITQ" if self.structure_bits else label


@dataclass
class Side:
    """Scores of the queries of one kind, and the group of rows with equal labels that each is from."""

    values: FloatArray = field(default_factory=lambda: np.empty(0))
    groups: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def add(self, values: FloatArray, groups: IntArray) -> None:
        """Add the queries of one more round."""
        self.values, self.groups = np.concatenate([self.values, values]), np.concatenate([self.groups, groups])

    def __sub__(self, other: Side) -> Side:
        return Side(self.values - other.values, self.groups)

    @property
    def mean(self) -> float:
        return float(self.values.mean()) if len(self.values) else float("nan")

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the mean over groups, because queries of one group are alike."""
        _, place = np.unique(self.groups, return_inverse=True)
        sums = np.bincount(place, self.values - self.mean) if len(place) else np.empty(0)
        if len(sums) < 2:
            return float("inf")
        return 1.96 * float(np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1))) / len(self.values)


@dataclass
class Result:
    """Scores of one candidate; ``out`` says why it can no longer be chosen, or was not tried at all."""

    candidate: Candidate
    known: Side = field(default_factory=Side)
    unknown: Side = field(default_factory=Side)
    out: str = ""

    @property
    def tried(self) -> bool:
        return len(self.known.values) > 0


def usual_division(n_bits: int) -> Candidate:
    """Return what is taken if nothing can be tried."""
    return Candidate(n_bits - n_bits // 4, n_bits // 4)


def run_trials(sample: Sample, n_bits: int, unknown_cost: float, seed: int, n_jobs: int | None) -> list[Result]:
    """Score all candidates, in one round or, with few labeled rows, until it is clear which one is to be chosen."""
    plain = sample.labeled_rows.plain
    divisions = list(dict.fromkeys((n_bits - bits, bits) for bits in (n_bits // 2, n_bits // 4, 0)))
    functions = ("linear", "posterior") if plain else ("linear",)
    results = [Result(Candidate(*division, function)) for function in functions for division in divisions]
    rng = np.random.default_rng(seed)
    n_labeled = np.count_nonzero(sample.group >= 0)
    rounds = next((rounds for limit, rounds in ROUNDS.items() if n_labeled < limit), 1)
    for number in range(rounds):
        trial = Round(sample, n_bits, rng, seed, n_jobs)
        if not trial.usable:
            break
        for function in functions:
            alive = [one for one in results if one.candidate.function == function and not one.out]
            best = max((one.known.mean for one in results if one.tried), default=0.0)
            if function == "posterior" and number == 0 and best >= 1 - unknown_cost:
                for one in alive:
                    one.out = "cannot gain"
                continue
            for one in alive:
                done = number * len(results) + results.index(one)
                report("try codes", done, rounds * len(results), partial(getattr, one.candidate, "name"))
                trial.score(one)
        _drop_clear_losers(results, unknown_cost)
        if sum(not one.out for one in results) == 1:
            break
    report("try codes", rounds * len(results), rounds * len(results))
    return results


def choose(results: Sequence[Result], unknown_cost: float) -> Result | None:
    """Return the best candidate on unknown labels of those within ``unknown_cost`` of the best one on known labels.

    Without unknown labels it is the best one on known labels; None if nothing was tried.
    """
    open_ones = [one for one in results if one.tried and not one.out]
    if not open_ones:
        return None
    best = max(open_ones, key=lambda one: one.known.mean)
    if not len(best.unknown.values):
        return best
    near = [one for one in open_ones if one.known.mean >= best.known.mean - unknown_cost]
    return max(near, key=lambda one: one.unknown.mean)


def _drop_clear_losers(results: Sequence[Result], unknown_cost: float) -> None:
    """Mark candidates that clearly cost too much, or are clearly behind one that clearly does not."""
    open_ones = [one for one in results if not one.out]
    best = max(open_ones, key=lambda one: one.known.mean)
    lost = {id(one): one.known - best.known for one in open_ones}
    safe = [one for one in open_ones if one is best or lost[id(one)].mean - lost[id(one)].margin > -unknown_cost]
    for one in open_ones:
        behind = lost[id(one)]
        if behind.mean + behind.margin < -unknown_cost:
            one.out = "costs too much"
        elif len(best.unknown.values) and one is not best:
            gains = (other.unknown - one.unknown for other in safe if other is not one)
            if any(gain.mean - gain.margin > 0 for gain in gains):
                one.out = "behind"


class Round:
    """One division of the sample into rows to fit, queries and database, with hidden labels.

    ``usable`` says whether the rows suffice for a comparison.
    """

    def __init__(self, sample: Sample, n_bits: int, rng: np.random.Generator, seed: int, n_jobs: int | None) -> None:
        self.sample, self.n_bits, self.seed, self.n_jobs = sample, n_bits, seed, n_jobs
        labels = sample.label_sets
        present = rng.permutation(np.unique(labels.indices))
        n_hidden = min(max(1, int(HIDDEN_SHARE * len(present))), max(0, len(present) - 2))
        hidden = np.isin(np.arange(labels.shape[1]), present[:n_hidden])
        self.known, self.hidden = _columns(labels, ~hidden), _columns(labels, hidden)
        self.fitted, queries, self.database = _divided(sample, rng)
        has_known, self.has_hidden = np.diff(self.known.indptr) > 0, np.diff(self.hidden.indptr) > 0
        self.known_queries = queries[has_known[queries]][:MOST_QUERIES]
        self.hidden_queries = queries[self.has_hidden[queries]][:MOST_QUERIES]
        self.labeled = self.fitted[has_known[self.fitted]]
        varied = len(group_rows(self.known[self.labeled])[1]) > 1
        self.usable = varied and len(self.database) > 0 and len(self.known_queries) >= LEAST_QUERIES
        self._label_bits: dict[str, Float32Array] = {}
        self._structure_bits: dict[int, NDArray[np.bool_]] = {}

    def score(self, result: Result) -> None:
        """Add the scores of a candidate.

        Label bits are learned once, and a candidate has the first of them: they are about as good as fewer bits
        learned by themselves.
        """
        candidate = result.candidate
        expected = self._labels(candidate.function)[:, : candidate.label_bits]
        bits: NDArray[np.bool_] = expected >= 0
        stored: NDArray[np.floating] = expected[self.database]
        if candidate.spread:
            stored = stored - spread_thresholds(candidate.label_bits, candidate.spread, 0)
        parts = [bits], [stored >= 0]
        if candidate.structure_bits:
            structure = self._structure(candidate.structure_bits)
            parts = [bits, structure], [stored >= 0, structure[self.database]]
        searching, database = (codes.pack(np.hstack(side)) for side in parts)
        for side, rows, sets in (
            (result.known, self.known_queries, self.known),
            (result.unknown, self.hidden_queries, self.hidden),
        ):
            if len(rows):
                values, answerable = self._scores(searching[rows], database, sets[rows], sets[self.database])
                side.add(values[answerable], self.sample.group[rows][answerable])

    def _scores(
        self, queries: NDArray[np.uint8], database: NDArray[np.uint8], query_y: Matrix, database_y: Matrix
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the score of every query, and whether anything in the database is relevant to it."""
        plain = self.sample.labeled_rows.plain
        rules = Rules(at=None, radius=None) if plain else Rules(at=50, radius=None)
        found = score_queries(hamming_keys(queries, database), Relevance(query_y, database_y), rules, self.n_jobs)
        return found["ap" if plain else "ndcg"], found["answerable"] > 0

    @cached_property
    def _features(self) -> Float32Array:
        """Kernel features of all rows."""
        rows, landmarks = self.sample.rows, min(LANDMARKS, max(2, len(self.fitted) // 3))
        kernel = LandmarkKernel(landmarks, n_jobs=self.n_jobs, random_state=self.seed)
        kernel.fit_landmarks(rows[self.fitted])
        mapped = ordered_map(lambda block: kernel.map_block(rows[block]), row_blocks(rows.shape[0]), self.n_jobs)
        return np.concatenate(list(mapped))

    @cached_property
    def _learner(self) -> GSDHP:
        """A hasher of the label bits, on the kernel features."""
        learner = GSDHP(self.n_bits, kernel=None, n_jobs=self.n_jobs, random_state=self.seed)
        return learner.fit(self._features[self.labeled], self.known[self.labeled])

    @cached_property
    def _axes(self) -> TaughtAxes:
        return TaughtAxes(self.sample.rows[self.fitted], self.known[self.fitted], self.n_bits // 2)

    def _labels(self, function: str) -> Float32Array:
        """Return the expected label bits of all rows by a function, "linear" before "posterior"."""
        if function not in self._label_bits:
            learner = self._learner
            if function == "posterior":
                # The sums over the rows and the codes of the classes give class posteriors as well.
                present, numbers = np.unique(self.known[self.labeled].indices, return_inverse=True)
                classes = Classes(numbers, present.tolist())
                learner._begin_sums(self._features[self.labeled], classes, learner.codes_)
                learner.function = "posterior"
                learner._fit_to_sums(learner.sums_, learner.features_)
            self._label_bits[function] = learner.expected_bits(self._features)
        return self._label_bits[function]

    def _structure(self, n_bits: int) -> NDArray[np.bool_]:
        """Return ``n_bits`` structure bits of all rows."""
        if n_bits not in self._structure_bits:
            weights = self._axes.rotated(n_bits, np.random.RandomState(self.seed), ROTATION_ROUNDS)
            rows = dense_rows(self.sample.rows)
            self._structure_bits[n_bits] = (rows - self._axes.center) @ weights.astype(np.float32) >= 0
        return self._structure_bits[n_bits]


def _columns(labels: LabelMatrix, chosen: NDArray[np.bool_]) -> sparse.csr_matrix:
    """Return label sets without the labels that are not chosen; the columns stay."""
    kept = sparse.csr_matrix(labels @ sparse.diags(chosen.astype(np.float64)))
    kept.eliminate_zeros()
    return kept


def _divided(sample: Sample, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
    """Return rows to fit, queries and database: tenths of each class, or of all rows if rows have sets of labels.

    Unlabeled rows are fitted. Among the queries the first ones of all classes come first, so that frequent classes do
    not outvote rare ones where there are too many queries.
    """
    labeled = rng.permutation(np.flatnonzero(sample.group >= 0))
    own = sample.group[labeled] if sample.labeled_rows.plain else np.zeros(len(labeled), dtype=np.intp)
    order = np.argsort(own, kind="stable")
    sizes = np.bincount(own)
    rank = np.empty(len(labeled), dtype=np.intp)
    rank[order] = np.arange(len(labeled)) - (np.cumsum(sizes) - sizes)[own[order]]
    tenths = 10 * (rank + 1)
    fitted = tenths <= FIT_TENTHS * sizes[own]
    searching = ~fitted & (tenths <= (FIT_TENTHS + QUERY_TENTHS) * sizes[own])
    first = np.zeros(len(sizes), dtype=np.intp)
    np.maximum.at(first, own[fitted], rank[fitted] + 1)
    queries = labeled[searching][np.argsort((rank - first[own])[searching], kind="stable")]
    fitted_rows = np.concatenate([labeled[fitted], np.flatnonzero(sample.group < 0)])
    return np.sort(fitted_rows), queries, labeled[~fitted & ~searching]
