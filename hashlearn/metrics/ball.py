"""MAP within a Hamming radius: the average precision of the rows inside each query's ball."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.metrics.engine import check_choice
from hashlearn.metrics.rankings import HammingKeys, Progress, check_floats, map_blocks
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.runs import Question, hamming_problem, taken
from hashlearn.metrics.ties import TieGroups, expected_average_precision
from hashlearn.relevance import RelevanceRule
from hashlearn.typing import FloatArray

Form = Literal["strict", "official"]
BallTies = Literal["expected", "stable"]


class BallScores(NamedTuple):
    """``map``, the share of queries whose ball is empty, and of those whose ball holds rows but none relevant."""

    map: float
    empty: float
    without_hit: float


def map_within_radius(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    n_bits: int | None = None,
    radius: int = 2,
    form: Form = "strict",
    projections: tuple[ArrayLike, ArrayLike] | None = None,
    ties: BallTies = "expected",
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> BallScores:
    """Mean average precision of the rows at most ``radius`` bits away.

    Labels, ``relevance`` and ``unlabeled`` mean what they mean in ``evaluate``; unlabeled rows are left out.

    Parameters
    ----------
    form : "strict" or "official"
        "strict": rows in the order of their distance; a query whose ball is empty or holds nothing relevant counts
        as 0. "official", as the evaluators released with DHN and DCH: rows inside the ball in the order of the inner
        product of ``projections``; an empty ball counts as 0, but a query whose ball holds rows and nothing relevant
        leaves the mean, which raises it.
    projections : real-valued outputs of queries and database rows, needed by "official"
    ties : order of rows at the same distance ("strict"): their expected value, or database order

    Examples
    --------
    >>> from hashlearn.codes import pack
    >>> codes = pack([[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
    >>> map_within_radius(codes[:1], codes[1:], ["cat"], ["cat", "dog"]).map
    1.0
    """
    check_choice("form", form, Form)
    check_choice("ties", ties, BallTies)
    if radius < 0:
        raise ValueError(f"radius must not be negative. Got {radius} instead.")
    question = Question(query_y, database_y, relevance, unlabeled)
    queries, database, labels = hamming_problem(query_codes, database_codes, question, n_bits)
    outputs = _outputs(projections, labels) if form == "official" else None
    keys = HammingKeys(queries, database)

    def work(start: int, stop: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        hits = _hits(labels, start, stop)
        near = keys.block(start, stop)
        found = np.zeros((3, stop - start))
        for query in range(stop - start):
            inside = np.flatnonzero(near[query] <= radius)
            hit = hits[query, inside]
            if not hit.any():
                precision = 0.0
            elif outputs is not None:
                order = np.argsort(-(outputs[1][inside] @ outputs[0][start + query]), kind="stable")
                precision = _in_order(hit[order])
            elif ties == "stable":
                precision = _in_order(hit[np.argsort(near[query, inside], kind="stable")])
            else:
                precision = _expected(near[query, inside], hit, radius)
            found[:, query] = precision, len(inside) == 0, len(inside) > 0 and not hit.any()
        return found[0], found[1], found[2]

    blocks = map_blocks(len(queries), 24 * len(database), work, n_jobs, progress)
    ap, empty, without_hit = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    counted = without_hit == 0 if form == "official" else np.ones(len(ap), dtype=bool)
    mean = float(ap[counted].mean()) if counted.any() else float("nan")
    return BallScores(mean, float(empty.mean()), float(without_hit.mean()))


def _outputs(projections: Any, labels: Relevance) -> tuple[NDArray[Any], NDArray[Any]]:
    """The projections of the labeled rows, checked."""
    if projections is None:
        raise ValueError(
            "The official form orders rows by real-valued outputs: give projections=(queries, database) from "
            "decision_function, or use form='strict'."
        )
    outputs = check_floats(projections[0], "projections[0]"), check_floats(projections[1], "projections[1]")
    sides = (("queries", outputs[0], labels.n_queries), ("database rows", outputs[1], labels.n_database))
    for name, array, rows in sides:
        if len(array) != rows:
            raise ValueError(f"projections must have a row for each of the {rows} {name}. Got {len(array)} instead.")
    if outputs[0].shape[1] != outputs[1].shape[1]:
        raise ValueError("projections of queries and database must have the same number of columns.")
    return taken(outputs[0], labels.query_rows), taken(outputs[1], labels.database_rows)


def _hits(labels: Relevance, start: int, stop: int) -> NDArray[np.bool_]:
    distinct, member = np.unique(labels.query_groups[start:stop], return_inverse=True)
    return (labels.table(distinct) > 0)[:, labels.database_groups][member]


def _in_order(hit: NDArray[np.bool_]) -> float:
    places = np.flatnonzero(hit)
    return float(np.mean(np.arange(1, len(places) + 1) / (places + 1)))


def _expected(distances: NDArray[Any], hit: NDArray[np.bool_], radius: int) -> float:
    """Mean of the average precision over all orders of the rows at each distance."""
    rows = np.bincount(distances, minlength=radius + 1)[None].astype(np.float64)
    hits = np.bincount(distances[hit], minlength=radius + 1)[None].astype(np.float64)
    groups = TieGroups(rows, hits, hits)
    return float(expected_average_precision(groups, hits.sum(axis=1), len(distances), "retrieved")[0][0])
