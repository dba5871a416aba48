"""Retrieval scores of codes, floats or a table of similarities: all at once by ``evaluate``, or some alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import as_words, check_packed, unpack_signs
from hashlearn.metrics.engine import Merged, radius_counts, score_queries
from hashlearn.metrics.rankings import Keys, Progress, check_floats, float_keys, hamming_keys
from hashlearn.metrics.relevance import Relevance, relevance_between
from hashlearn.metrics.rules import DEFAULT, RuleChanges, Rules, check_choice
from hashlearn.metrics.scores import divide, mean
from hashlearn.typing import FloatArray, Metric

DatabaseProtocol = Literal["codes", "learned", "hashed"]
# Merging equal database rows saves time only if few remain, because all merged rows are used, not just the near ones.
_MERGE_SHARE = 0.25
# Scores that are 0/0 for some queries, and the field that says for which queries they are defined.
_DEFINED_BY = {"ap": "ap_defined", "recall": "answerable", "ndcg": "answerable", "ball_recall": "answerable"}


@dataclass(frozen=True)
class Scores:
    """Means over the queries; ``settings`` has the name of every definition that was used.

    ``precision`` is at ``settings["precision_at"]`` positions, ``recall`` at ``settings["at"]``. ``empty_balls`` is
    the share of queries with no database row within the radius. Scores that cannot be measured (radius scores of float
    rankings) are None. ``n_queries`` and ``n_database`` count the labeled rows, which all scores are measured on;
    ``settings["unlabeled_queries"]`` and ``settings["unlabeled_database"]`` count the rows that were left out.
    """

    map: float
    precision: float
    recall: float
    ndcg: float
    acg: float | None
    radius_precision: float | None
    radius_recall: float | None
    empty_balls: float | None
    n_queries: int
    n_database: int
    settings: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as plain numbers and strings, which JSON can hold."""
        return asdict(self)

    def __str__(self) -> str:
        used = self.settings
        at, radius = used.get("at"), used.get("radius")
        rows: list[tuple[str, float | None]] = [
            (f"MAP@{at}", self.map),
            (f"precision@{used.get('precision_at')}", self.precision),
            (f"recall@{at}", self.recall),
            (f"NDCG@{used.get('ndcg_at')}", self.ndcg),
            (f"ACG within {radius}", self.acg),
            (f"precision within {radius}", self.radius_precision),
            (f"recall within {radius}", self.radius_recall),
            ("empty balls", self.empty_balls),
        ]
        lines = [f"{name:<20} {value:.4f}" for name, value in rows if value is not None]
        names = ("ranking", "ties", "denominator", "empty_queries", "gain", "relevance", "database")
        definitions = ", ".join(f"{name}={used[name]}" for name in names if name in used)
        lines.append(f"{self.n_queries} queries, {self.n_database} database rows")
        unlabeled = used.get("unlabeled_queries", 0), used.get("unlabeled_database", 0)
        if any(unlabeled):
            lines.append(f"left out without a label: {unlabeled[0]} queries, {unlabeled[1]} database rows")
        return "\n".join([*lines, definitions])


class Curve(NamedTuple):
    """Precision and recall within each Hamming radius 0, 1, … n_bits."""

    radius: np.ndarray
    precision: FloatArray
    recall: FloatArray


def evaluate(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    rules: Rules = DEFAULT,
    n_bits: int | None = None,
    database: DatabaseProtocol = "codes",
    n_jobs: int | None = None,
    progress: Progress | None = None,
    **changes: Unpack[RuleChanges],
) -> Scores:
    """Score a ranking of the database by Hamming distance.

    Parameters
    ----------
    query_codes : packed uint8 codes, or floats (n_queries, n_bits): expected bits, or projections
        Floats are ranked by −q·h (asymmetric search); they have no Hamming radius, so those scores are None.
    database_codes : packed uint8 codes
    query_y, database_y : classes (n,), label sets (n, c) of 0 and 1, dense or sparse, or a list or set of tags per row
        As ``fit`` takes them; see ``hashlearn.labels``. Both sides must be of one kind: strings never equal numbers.
        An unlabeled row (None, NaN, pandas' NA or ``rules.unlabeled``) is left out, because it is not known what it is
        relevant to: it is not used as a query, and in the database it is neither a hit nor a miss. A row whose label
        set is empty stays and is relevant to nothing.
    rules : Rules
        The definitions of the scores. ``Rules.paper()`` are those of the paper's released evaluator.
    n_bits : bits of a code, checked against the bytes; for float queries, their number of columns
    database : where the database codes came from, kept with the scores
        "learned" by the solver with their labels, "hashed" as unlabeled rows would be, or "codes" if neither is known.
    n_jobs : number of threads; None is all cores
    progress : called with (queries done, all queries); equal queries count once
    **changes : fields of ``Rules`` that differ from ``rules``, for example ``at=100, ties="stable"``

    Returns
    -------
    Scores

    Raises
    ------
    ValueError
        If an argument has a value that it cannot have, or codes and labels do not match in shape or kind.

    Examples
    --------
    >>> from hashlearn.codes import pack
    >>> codes = pack([[1, 1, 0], [0, 0, 1], [1, 0, 0]])
    >>> evaluate(codes[:1], codes, ["cat"], ["cat", "dog", "cat"], precision_at=2).map
    1.0
    """
    check_choice("database", database, DatabaseProtocol)
    rules, projections = rules.changed(changes), np.asarray(query_codes)
    if projections.dtype.kind == "f":
        columns = projections.shape[1] if projections.ndim == 2 else n_bits
        if n_bits is not None and columns != n_bits:
            raise ValueError(f"Float query_codes of {n_bits} bits must have {n_bits} columns. Got {columns} instead.")
        packed = check_packed(database_codes, columns, "database_codes")
        floats = check_floats(projections, "query_codes")
        labels = relevance_between(query_y, database_y, rules, len(floats), len(packed))
        signs = unpack_signs(take_rows(packed, labels.database_rows), floats.shape[1]).astype(floats.dtype)
        keys = float_keys(take_rows(floats, labels.query_rows), signs, "dot")  # −q·h of queries q and codes h
        return _float_scores(keys, labels, rules, "asymmetric", database, n_jobs, progress)
    queries, packed, labels = packed_sides(query_codes, database_codes, query_y, database_y, rules, n_bits)
    # The scores of a query depend only on its code and labels, so equal queries are scored once.
    first_query, weights = _distinct(queries, labels.query_groups)
    rows, sizes = np.arange(len(packed)), None
    if rules.ties == "expected":
        first_row, row_sizes = _distinct(packed, labels.database_groups)
        if len(first_row) <= _MERGE_SHARE * len(packed):
            rows, sizes = first_row, row_sizes
    keys = hamming_keys(queries[first_query], packed[rows])
    merged = Merged(first_query, rows, sizes)
    per_query = score_queries(keys, labels, rules, n_jobs, progress, merged)
    return _scores(per_query, weights, labels, rules, "hamming", database)


def evaluate_floats(
    query_X: ArrayLike,
    database_X: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    metric: Metric = "cosine",
    rules: Rules = DEFAULT,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    **changes: Unpack[RuleChanges],
) -> Scores:
    """Score a ranking of float rows by ``metric``: the reference that codes of these rows are compared with.

    The parameters mean what they mean in ``evaluate``. Equal similarities are ties. There is no Hamming radius, so the
    radius scores are None. float32 rows are compared in float32, all others in float64.

    Parameters
    ----------
    query_X, database_X : array-like (n, n_features)
    metric : {"cosine", "euclidean", "dot"}, default="cosine"

    Returns
    -------
    Scores
    """
    queries, rows = check_floats(query_X, "query_X"), check_floats(database_X, "database_X")
    if queries.shape[1] != rows.shape[1]:
        raise ValueError(
            f"query_X and database_X must have the same number of features. Got {queries.shape[1]} and {rows.shape[1]}."
        )
    rules = rules.changed(changes)
    labels = relevance_between(query_y, database_y, rules, len(queries), len(rows))
    keys = float_keys(take_rows(queries, labels.query_rows), take_rows(rows, labels.database_rows), metric)
    return _float_scores(keys, labels, rules, metric, "floats", n_jobs, progress)


def evaluate_scores(
    scores: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    rules: Rules = DEFAULT,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    **changes: Unpack[RuleChanges],
) -> Scores:
    """Score a ranking that is given as a table of similarities, for ways to search that have no vectors or codes.

    The parameters mean what they mean in ``evaluate``. Equal similarities are ties. There is no Hamming radius, so the
    radius scores are None.

    Parameters
    ----------
    scores : array-like (n_queries, n_database)
        Similarities; a larger one is nearer.

    Returns
    -------
    Scores
    """
    table = check_floats(scores, "scores")
    rules = rules.changed(changes)
    labels = relevance_between(query_y, database_y, rules, *table.shape)
    chosen = take_rows(take_rows(table, labels.query_rows).T, labels.database_rows).T
    keys = Keys(len(chosen), chosen.shape[1], exact=False, block=lambda start, stop: -chosen[start:stop])
    return _float_scores(keys, labels, rules, "given", "scores", n_jobs, progress)


def mean_average_precision(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    rules: Rules = DEFAULT,
    n_bits: int | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    **changes: Unpack[RuleChanges],
) -> float:
    """Return MAP@at; ``at=None`` means the whole database. The parameters are those of ``evaluate``."""
    problem = query_codes, database_codes, query_y, database_y
    rules = replace(rules.changed(changes), radius=None)
    return evaluate(*problem, rules=rules, n_bits=n_bits, n_jobs=n_jobs, progress=progress).map


def precision_recall_curve(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    rules: Rules = DEFAULT,
    n_bits: int | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    **changes: Unpack[RuleChanges],
) -> Curve:
    """Return precision and recall within every radius, micro-averaged. The parameters are those of ``evaluate``.

    At each radius the (query, row) pairs of all queries are pooled. Precision is the share of retrieved pairs that are
    relevant (0 if no pair is retrieved); recall is the share of relevant pairs that are retrieved. Queries with full
    balls weigh more, so the values differ from those of ``evaluate``, which averages over queries. Without
    ``n_bits`` the radius goes up to the number of bits in the bytes.

    Returns
    -------
    Curve
    """
    check_packed(query_codes, name="query_codes")
    rules = rules.changed(changes)
    queries, packed, labels = packed_sides(query_codes, database_codes, query_y, database_y, rules, n_bits)
    n_distances = 8 * queries.shape[1] + 1
    rows, hits = radius_counts(hamming_keys(queries, packed), labels, n_distances, n_jobs, progress)
    radius = np.arange(n_distances if n_bits is None else n_bits + 1)
    rows, hits = np.cumsum(rows)[radius], np.cumsum(hits)[radius]
    total = np.full(len(radius), hits[-1])
    return Curve(radius, divide(hits, rows)[0], divide(hits, total)[0])


def packed_sides(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    rules: Rules,
    n_bits: int | None,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Relevance]:
    """Check codes and labels, and return the codes of the labeled rows of both sides and their relevance."""
    queries = check_packed(query_codes, n_bits, "query_codes")
    database = check_packed(database_codes, n_bits, "database_codes")
    if queries.shape[1] != database.shape[1]:
        raise ValueError(
            "query_codes and database_codes must have the same number of bytes per row. "
            f"Got {queries.shape[1]} and {database.shape[1]}."
        )
    labels = relevance_between(query_y, database_y, rules, len(queries), len(database))
    return take_rows(queries, labels.query_rows), take_rows(database, labels.database_rows), labels


def _float_scores(
    keys: Keys,
    labels: Relevance,
    rules: Rules,
    ranking: str,
    database: str,
    n_jobs: int | None,
    progress: Progress | None,
) -> Scores:
    """Score a ranking without a Hamming radius."""
    rules = replace(rules, radius=None)
    per_query = score_queries(keys, labels, rules, n_jobs, progress)
    return _scores(per_query, np.ones(keys.n_queries), labels, rules, ranking, database)


def _scores(
    per_query: dict[str, FloatArray],
    weights: FloatArray,
    labels: Relevance,
    rules: Rules,
    ranking: str,
    database: str,
) -> Scores:
    """Average the scores of queries; ``weights`` is the number of queries that each represents."""

    def average(name: str) -> float:
        drop = rules.empty_queries == "drop" and name in _DEFINED_BY
        return mean(per_query[name], weights, per_query[_DEFINED_BY[name]] if drop else None)

    def average_ball(name: str) -> float | None:
        return None if rules.radius is None else average(name)

    settings = {"ranking": ranking, **asdict(rules), "database": database}
    del settings["unlabeled"]
    for name in ("at", "precision_at", "ndcg_at"):
        settings[name] = "all" if settings[name] is None else settings[name]
    if callable(rules.relevance):
        settings["relevance"] = getattr(rules.relevance, "__name__", repr(rules.relevance))
    settings["unlabeled_queries"] = labels.n_queries - len(labels.query_rows)
    settings["unlabeled_database"] = labels.n_database - len(labels.database_rows)
    return Scores(
        map=average("ap"),
        precision=average("precision"),
        recall=average("recall"),
        ndcg=average("ndcg"),
        acg=average_ball("ball_acg"),
        radius_precision=average_ball("ball_precision"),
        radius_recall=average_ball("ball_recall"),
        empty_balls=average_ball("ball_empty"),
        n_queries=int(weights.sum()),
        n_database=len(labels.database_rows),
        settings=settings,
    )


def take_rows(array: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    """Return some rows of an array, or the array itself without a copy if they are all of its rows."""
    return array if len(rows) == len(array) else array[rows]


def _distinct(codes: NDArray[np.uint8], groups: NDArray[np.intp]) -> tuple[NDArray[np.intp], FloatArray]:
    """Return one row of each distinct (code, label group), and how many rows are equal to it."""
    words = as_words(codes)
    # Groups are the primary key (last in lexsort), so that queries with the same labels are in the same block.
    order = np.lexsort((*words.T, groups))
    words, groups = words[order], groups[order]
    starts = np.flatnonzero(np.any(words[1:] != words[:-1], axis=1) | (groups[1:] != groups[:-1])) + 1
    bounds = np.concatenate([[0], starts, [len(order)]])
    return order[bounds[:-1]], np.diff(bounds).astype(np.float64)
