"""Compute all retrieval scores of codes or floats at once and return them with the definitions that were used."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from numpy.typing import ArrayLike

from hashlearn.metrics.engine import EmptyQueries, Rules, Ties, check_choice, cutoff
from hashlearn.metrics.ranking_scores import (
    RankingScores,
    RelevanceLabels,
    score_code_ranking,
    score_float_ranking,
    score_given_ranking,
)
from hashlearn.metrics.rankings import Progress, check_floats
from hashlearn.metrics.scores import Denominator, Gain
from hashlearn.relevance import RelevanceRule
from hashlearn.typing import Metric

DatabaseProtocol = Literal["codes", "learned", "hashed"]


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


def evaluate(
    query_codes: ArrayLike,
    database_codes: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    n_bits: int | None = None,
    at: int | None = 500,
    radius: int | None = 2,
    precision_at: int | None = 10,
    ndcg_at: int | None = 50,
    ties: Ties = "expected",
    denominator: Denominator = "retrieved",
    empty_queries: EmptyQueries = "zero",
    gain: Gain = "exp",
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    paper: bool = False,
    database: DatabaseProtocol = "codes",
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Scores:
    """Score a ranking of the database by Hamming distance.

    Parameters
    ----------
    query_codes : packed uint8 codes, or floats (n_queries, n_bits): expected bits, or projections
        Floats are ranked by −q·h (asymmetric search); they have no Hamming radius, so those scores are None.
    database_codes : packed uint8 codes
    query_y, database_y : classes (n,), label sets (n, c) of 0 and 1, dense or sparse, or a list or set of tags per row
        As ``fit`` takes them; see ``hashlearn.labels``. Both sides must be of one kind: strings never equal numbers.
        An unlabeled row (None, NaN, pandas' NA or ``unlabeled``) is left out, because it is not known what it is
        relevant to: it is not used as a query, and in the database it is neither a hit nor a miss. A row whose label
        set is empty stays and is relevant to nothing.
    n_bits : bits of a code, checked against the bytes; for float queries, their number of columns
    at : cut-off of MAP and recall; None is the whole database
    radius : Hamming radius of ACG, radius precision and radius recall; None leaves them out
    precision_at, ndcg_at : cut-offs of precision and NDCG
    ties : order of rows at the same distance
        "expected": the exact mean over all orders; "stable": database order; "optimistic": the most relevant first;
        "pessimistic": the least relevant first.
    denominator : what AP@at is divided by
        "retrieved": the hits in the list (the paper); "min": min(total relevant, at); "relevant": all relevant.
    empty_queries : what a score that is 0/0 becomes
        "zero": 0 (the paper); "drop": the query is left out of the mean of that score. This concerns queries to which
        no row is relevant, and for MAP with "retrieved" those with no relevant row in the list (with expected ties, a
        query is weighted by the probability that it has one). An empty ball always has precision and ACG 0.
    gain : "exp": Σ (2^rel − 1) / log2(k + 1); "linear": rel_1 + Σ_{k≥2} rel_k / log2(k)
        The ideal ranking is over the whole database.
    relevance : "count" of shared labels, "binary", "jaccard", or a function of (query labels, database labels)
        A function gets the distinct label rows of a block of queries and of the database and returns their relevance
        (query rows, database rows).
        Rows with relevance above 0 are hits.
    unlabeled : value that means that a row has no label, such as -1, besides None and NaN
    paper : use the definitions of the paper's released evaluator
        This overrides ties="stable", denominator="retrieved", empty_queries="zero" and gain="exp".
    database : where the database codes came from, kept with the scores
        "learned" by the solver with their labels, "hashed" as unlabeled rows would be, or "codes" if neither is known.
    n_jobs : number of threads; None is all cores
    progress : called with (queries done, all queries); equal queries count once

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
    if paper:
        ties, denominator, empty_queries, gain = "stable", "retrieved", "zero", "exp"
    check_choice("database", database, DatabaseProtocol)
    rules = Rules(
        at=cutoff("at", at),
        precision_at=cutoff("precision_at", precision_at),
        ndcg_at=cutoff("ndcg_at", ndcg_at),
        radius=radius,
        ties=ties,
        denominator=denominator,
        empty_queries=empty_queries,
        gain=gain,
    )
    given_labels = RelevanceLabels(query_y, database_y, relevance, unlabeled)
    scored = score_code_ranking(query_codes, database_codes, given_labels, n_bits, rules, n_jobs, progress)
    return _scores(scored, at, precision_at, ndcg_at, relevance, database)


def evaluate_floats(
    query_X: ArrayLike,
    database_X: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    metric: Metric = "cosine",
    at: int | None = 500,
    precision_at: int | None = 10,
    ndcg_at: int | None = 50,
    ties: Ties = "expected",
    denominator: Denominator = "retrieved",
    empty_queries: EmptyQueries = "zero",
    gain: Gain = "exp",
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
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
    rules = _float_rules(at, precision_at, ndcg_at, ties, denominator, empty_queries, gain)
    given_labels = RelevanceLabels(query_y, database_y, relevance, unlabeled)
    scored = score_float_ranking(queries, rows, given_labels, metric, rules, n_jobs, progress)
    return _scores(scored, at, precision_at, ndcg_at, relevance, "floats")


def evaluate_scores(
    scores: ArrayLike,
    query_y: Any,
    database_y: Any,
    *,
    at: int | None = 500,
    precision_at: int | None = 10,
    ndcg_at: int | None = 50,
    ties: Ties = "expected",
    denominator: Denominator = "retrieved",
    empty_queries: EmptyQueries = "zero",
    gain: Gain = "exp",
    relevance: RelevanceRule = "count",
    unlabeled: Hashable = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
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
    rules = _float_rules(at, precision_at, ndcg_at, ties, denominator, empty_queries, gain)
    given_labels = RelevanceLabels(query_y, database_y, relevance, unlabeled)
    scored = score_given_ranking(table, given_labels, rules, n_jobs, progress)
    return _scores(scored, at, precision_at, ndcg_at, relevance, "scores")


def _float_rules(
    at: int | None,
    precision_at: int | None,
    ndcg_at: int | None,
    ties: Ties,
    denominator: Denominator,
    empty_queries: EmptyQueries,
    gain: Gain,
) -> Rules:
    return Rules(
        at=cutoff("at", at),
        precision_at=cutoff("precision_at", precision_at),
        ndcg_at=cutoff("ndcg_at", ndcg_at),
        ties=ties,
        denominator=denominator,
        empty_queries=empty_queries,
        gain=gain,
    )


def _scores(
    scored: RankingScores,
    at: int | None,
    precision_at: int | None,
    ndcg_at: int | None,
    relevance: RelevanceRule,
    database: str,
) -> Scores:
    rules = scored.rules
    has_radius = rules.radius is not None
    settings = {
        "ranking": scored.ranking,
        "at": "all" if at is None else at,
        "precision_at": "all" if precision_at is None else precision_at,
        "ndcg_at": "all" if ndcg_at is None else ndcg_at,
        "radius": rules.radius,
        "ties": rules.ties,
        "denominator": rules.denominator,
        "empty_queries": rules.empty_queries,
        "gain": rules.gain,
        "relevance": getattr(relevance, "__name__", repr(relevance)) if callable(relevance) else relevance,
        "database": database,
        "unlabeled_queries": scored.labels.n_queries - scored.n_queries,
        "unlabeled_database": scored.labels.n_database - scored.n_database,
    }
    return Scores(
        map=scored.mean("ap"),
        precision=scored.mean("precision"),
        recall=scored.mean("recall"),
        ndcg=scored.mean("ndcg"),
        acg=scored.mean("ball_acg") if has_radius else None,
        radius_precision=scored.mean("ball_precision") if has_radius else None,
        radius_recall=scored.mean("ball_recall") if has_radius else None,
        empty_balls=scored.mean("ball_empty") if has_radius else None,
        n_queries=scored.n_queries,
        n_database=scored.n_database,
        settings=settings,
    )
