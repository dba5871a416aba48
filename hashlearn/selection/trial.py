"""Trials: the parts of candidates are fitted on splits, and the candidates are scored by what they find."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn import codes, metrics
from hashlearn.fitting.base import BaseHasher
from hashlearn.functions.calibration import spread_thresholds
from hashlearn.kernel import dense_rows
from hashlearn.progress import report
from hashlearn.selection.candidates import Candidate, Part
from hashlearn.selection.sample import Sample
from hashlearn.selection.splits import Search, Split
from hashlearn.typing import Float32Array, FloatArray

NEIGHBORS, LOOKED_AT = 10, 100
"""Without labels a search should find the ten nearest rows among the first hundred."""

BEHIND = 0.02
"""A method with a lower score on known classes than the best one by more than this is not tried at other lengths."""

Maker = Callable[[Part], BaseHasher]
ScoreOf = Callable[[NDArray[Any], NDArray[np.uint8], Search], float]


@dataclass
class Result:
    """Scores of one candidate: means over the splits of (Hamming, real-valued queries), by part of the split.

    ``scores`` is empty if the candidate was not tried, and ``not_tried`` then says why in a word or two. ``seconds`` is
    the time of fitting its parts.
    """

    candidate: Candidate
    scores: dict[str, FloatArray] = field(default_factory=dict)
    seconds: float = 0.0
    not_tried: str = ""

    def mean(self, part: str) -> float:
        """Return the mean of both kinds of search; NaN if the part was not searched."""
        return float(np.mean(self.scores[part])) if part in self.scores else float("nan")


class Trial:
    """Fits parts on all splits when they are first needed, and keeps their expected bits of the rows left out."""

    def __init__(self, sample: Sample, splits: Sequence[Split], make: Maker, score: ScoreOf) -> None:
        self.sample, self.splits, self.make, self.score = sample, splits, make, score
        self._expected: dict[Part, list[dict[str, tuple[Float32Array, Float32Array]]]] = {}
        self._seconds: dict[Part, float] = {}

    def run(self, candidates: Sequence[Candidate], deadline: float | None) -> list[Result]:
        """Score candidates. Those that would need another fit after ``deadline`` are not tried.

        Methods that learn from labels are compared at one length first. Those that are clearly behind on known classes
        are not tried at other lengths.
        """
        if not self.splits:
            return [Result(candidates[0], not_tried="few rows")]
        lengths: dict[str, int] = {}
        for one in candidates:
            if one.labels is not None:
                lengths.setdefault(one.labels.method, one.labels.n_bits)
        first = [one for one in candidates if one.labels is None or one.labels.n_bits == lengths[one.labels.method]]
        results = {one: self._result(one, deadline, number, len(candidates)) for number, one in enumerate(first)}
        best: dict[str, float] = {}
        for one, result in results.items():
            if one.labels is not None and result.scores:
                best[one.labels.method] = max(best.get(one.labels.method, 0.0), result.mean("known"))
        for one in candidates:
            if one.labels is not None and one not in results:
                if best.get(one.labels.method, 0.0) < max(best.values(), default=0.0) - BEHIND:
                    results[one] = Result(one, not_tried="behind")
                else:
                    results[one] = self._result(one, deadline, len(results), len(candidates))
        report("try candidates", len(candidates), len(candidates))
        return [results[one] for one in candidates]

    def _result(self, candidate: Candidate, deadline: float | None, done: int, total: int) -> Result:
        report("try candidates", done, total, lambda: candidate.name)
        late = deadline is not None and time.monotonic() > deadline
        if late and any(part not in self._expected for part in candidate.parts):
            return Result(candidate, not_tried="no time")
        for part in candidate.parts:
            self._fit(part)
        scores: dict[str, list[list[float]]] = {}
        for number, split in enumerate(self.splits):
            for name in split.searches:
                scores.setdefault(name, []).append(self._scores(candidate, number, name))
        means = {name: np.mean(found, axis=0) for name, found in scores.items()}
        return Result(candidate, means, sum(self._seconds[part] for part in candidate.parts))

    def _fit(self, part: Part) -> None:
        if part in self._expected:
            return
        began = time.monotonic()
        labels = None if self.sample.labeled_rows.table is None else self.sample.label_sets
        self._expected[part] = []
        for split in self.splits:
            y = None if labels is None else labels[split.fit]
            hasher = self.make(part).fit(self.sample.rows[split.fit], y)
            self._expected[part].append(
                {
                    name: (
                        hasher.expected_bits(self.sample.rows[search.queries]),
                        hasher.expected_bits(self.sample.rows[search.database]),
                    )
                    for name, search in split.searches.items()
                }
            )
        self._seconds[part] = time.monotonic() - began

    def _scores(self, candidate: Candidate, number: int, name: str) -> list[float]:
        """Score one search by Hamming distance and by real-valued queries."""
        expected = [self._expected[part][number][name] for part in candidate.parts]
        queries, database = (np.hstack([sides[side] for sides in expected]) for side in (0, 1))
        if candidate.spread:
            n_bits = candidate.parts[0].n_bits
            database[:, :n_bits] -= spread_thresholds(n_bits, candidate.spread, 0)
        packed, search = codes.pack(database >= 0), self.splits[number].searches[name]
        return [self.score(given, packed, search) for given in (codes.pack(queries >= 0), queries)]


def label_score(sample: Sample, n_jobs: int | None) -> ScoreOf:
    """Score by labels: MAP of the whole ranking for classes, NDCG of the first 50 rows for label sets."""
    plain = sample.labeled_rows.plain
    labels = sample.group if plain else sample.label_sets

    def score(queries: NDArray[Any], database: NDArray[np.uint8], search: Search) -> float:
        given = (queries, database, labels[search.queries], labels[search.database])
        if plain:
            return metrics.mean_average_precision(*given, at=None, empty_queries="drop", n_jobs=n_jobs)
        return metrics.ndcg(*given, at=50, empty_queries="drop", n_jobs=n_jobs)

    return score


def neighbor_score(sample: Sample, n_jobs: int | None) -> ScoreOf:
    """Score without labels: the share of the nearest rows (Euclidean) that are found."""

    def score(given: NDArray[Any], packed: NDArray[np.uint8], search: Search) -> float:
        queries, database = (dense_rows(sample.rows[rows]) for rows in (search.queries, search.database))
        squares = np.einsum("ij,ij->i", database, database)
        count = min(NEIGHBORS, len(database))
        nearest = np.argsort(squares - 2 * (queries @ database.T), axis=1, kind="stable")[:, :count]
        # A query is relevant to nothing but its own neighbors: each query is a label, and they carry it.
        who = np.repeat(np.arange(len(queries)), count)
        shape = (len(database), len(queries))
        carried = sparse.csr_matrix((np.ones(len(who)), (nearest.ravel(), who)), shape=shape)
        own = sparse.identity(len(queries), format="csr")
        at = min(LOOKED_AT, max(count, len(database) // 5))
        found = metrics.evaluate(given, packed, own, carried, at=at, radius=None, precision_at=1, n_jobs=n_jobs)
        return found.recall

    return score
