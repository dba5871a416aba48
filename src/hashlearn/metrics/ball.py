"""MAP within a Hamming radius: the mean over queries of the average precision of the rows in each query's ball."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.metrics.evaluate import packed_sides, take_rows
from hashlearn.metrics.rankings import Progress, check_floats, hamming_keys, map_blocks
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.rules import DEFAULT, RuleChanges, Rules, check_choice
from hashlearn.metrics.scores import TieGroups, expected_average_precision
from hashlearn.typing import FloatArray

Form = Literal["strict", "official"]


class BallScores(NamedTuple):
    """MAP, the share of queries with an empty ball, and the share of those whose ball has rows but no relevant ones."""

    map: float
    empty: float
    without_hit: float


def map_within_radius(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    form: Form = "strict",
    projections: tuple[ArrayLike, ArrayLike] | None = None,
    rules: Rules = DEFAULT,
    n_bits: int | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    **changes: Unpack[RuleChanges],
) -> BallScores:
    """Return the mean average precision of the rows at most ``rules.radius`` bits away.

    Parameters that are not listed here mean what they mean in ``evaluate``. Unlabeled rows are left out. Of the rules,
    ``radius``, ``ties`` ("expected" or "stable"), ``relevance`` and ``unlabeled`` are used.

    Parameters
    ----------
    form : {"strict", "official"}, default="strict"
        "strict" ranks rows by distance; a query whose ball is empty or has no relevant row counts as 0. "official" does
        what the evaluators released with DHN and DCH do: it ranks the rows of a ball by the inner product of
        ``projections`` and counts an empty ball as 0, but leaves a query whose ball has only irrelevant rows out of the
        mean, which raises the mean.
    projections : pair of arrays, default=None
        Real-valued outputs for queries and for database rows; "official" needs them.

    Returns
    -------
    BallScores

    Raises
    ------
    ValueError
        If an argument has a value that it cannot have, or codes, labels and projections do not match in shape.

    Examples
    --------
    >>> from hashlearn.codes import pack
    >>> codes = pack([[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
    >>> map_within_radius(codes[:1], codes[1:], ["cat"], ["cat", "dog"]).map
    1.0
    """
    check_choice("form", form, Form)
    rules = rules.changed(changes)
    if rules.ties not in ("expected", "stable") or rules.radius is None:
        raise ValueError(
            "MAP within a radius needs a radius, and ties='expected' or 'stable'. "
            f"Got radius={rules.radius} and ties={rules.ties!r} instead."
        )
    radius, ties = rules.radius, rules.ties
    queries, database, labels = packed_sides(query_codes, database_codes, query_y, database_y, rules, n_bits)
    outputs = _outputs(projections, labels) if form == "official" else None
    keys = hamming_keys(queries, database)

    def work(start: int, stop: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        hits = labels.hits(start, stop)
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
    """Check the projections and return those of the labeled rows."""
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
    return take_rows(outputs[0], labels.query_rows), take_rows(outputs[1], labels.database_rows)


def _in_order(hit: NDArray[np.bool_]) -> float:
    places = np.flatnonzero(hit)
    return float(np.mean(np.arange(1, len(places) + 1) / (places + 1)))


def _expected(distances: NDArray[Any], hit: NDArray[np.bool_], radius: int) -> float:
    """Return the mean of the average precision over all orders of the rows at each distance."""
    rows = np.bincount(distances, minlength=radius + 1)[None].astype(np.float64)
    hits = np.bincount(distances[hit], minlength=radius + 1)[None].astype(np.float64)
    groups = TieGroups(rows, hits, hits)
    return float(expected_average_precision(groups, hits.sum(axis=1), len(distances), "retrieved")[0][0])
