"""The definitions of retrieval scores, in one object that every function of this package takes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, get_args

from hashlearn.similarity import RelevanceRule

Ties = Literal["expected", "stable", "optimistic", "pessimistic"]
Denominator = Literal["retrieved", "min", "relevant"]
EmptyQueries = Literal["zero", "drop"]
Gain = Literal["exp", "linear"]
CHOICES: dict[str, Any] = {"ties": Ties, "denominator": Denominator, "empty_queries": EmptyQueries, "gain": Gain}


class RuleChanges(TypedDict, total=False):
    """Fields of ``Rules`` as keyword arguments."""

    at: int | None
    precision_at: int | None
    ndcg_at: int | None
    radius: int | None
    ties: Ties
    denominator: Denominator
    empty_queries: EmptyQueries
    gain: Gain
    relevance: RelevanceRule
    unlabeled: Hashable


class Depths(NamedTuple):
    """Cut-offs as numbers of positions."""

    at: int
    precision_at: int
    ndcg_at: int


def check_choice(name: str, value: str, choices: Any) -> None:
    """Raise ValueError unless ``value`` is one of the strings of the Literal type ``choices``."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {get_args(choices)}. Got {value!r} instead.")


@dataclass(frozen=True)
class Rules:
    """The definitions of the scores.

    Parameters
    ----------
    at : int or None, default=500
        Cut-off of MAP and recall. For every cut-off, None is the whole database.
    precision_at, ndcg_at : int or None, default=10 and 50
        Cut-offs of precision and NDCG.
    radius : int or None, default=2
        Hamming radius of ACG, radius precision and radius recall; None leaves them out.
    ties : {"expected", "stable", "optimistic", "pessimistic"}, default="expected"
        The order of rows at the same distance: the exact mean over all orders, database order, the most relevant
        first, or the least relevant first.
    denominator : {"retrieved", "min", "relevant"}, default="retrieved"
        What AP@at is divided by: the hits in the list (the paper), min(total relevant, at), or all relevant rows.
    empty_queries : {"zero", "drop"}, default="zero"
        What a score that is 0/0 becomes: 0 (the paper), or the query is left out of the mean of that score. This
        concerns queries to which no row is relevant, and for MAP with "retrieved" those with no relevant row in the
        list (with expected ties, a query is weighted by the probability that it has one). An empty ball always has
        precision and ACG 0.
    gain : {"exp", "linear"}, default="exp"
        NDCG gain and discount: Σ (2^rel − 1) / log2(k + 1), or rel_1 + Σ_{k≥2} rel_k / log2(k). The ideal ranking is
        over the whole database.
    relevance : {"count", "binary", "jaccard"} or callable, default="count"
        How relevant two label sets are to each other. A function gets the distinct label rows of a block of queries
        and of the database and returns their relevance (query rows, database rows). Rows with relevance above 0 are
        hits.
    unlabeled : hashable, default=None
        Besides None and NaN, the class that marks a row as unlabeled, -1 for example.

    Raises
    ------
    ValueError
        If a field has a value that it cannot have.

    Examples
    --------
    >>> Rules.paper(at=1000).ties
    'stable'
    """

    at: int | None = 500
    precision_at: int | None = 10
    ndcg_at: int | None = 50
    radius: int | None = 2
    ties: Ties = "expected"
    denominator: Denominator = "retrieved"
    empty_queries: EmptyQueries = "zero"
    gain: Gain = "exp"
    relevance: RelevanceRule = "count"
    unlabeled: Hashable = None

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name in Depths._fields:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(
                    f"{name} must be a positive number, or None for the whole database. Got {value} instead."
                )
        if self.radius is not None and self.radius < 0:
            raise ValueError(f"radius must not be negative. Got {self.radius} instead.")

    @classmethod
    def paper(cls, **changes: Unpack[RuleChanges]) -> Rules:
        """Return the definitions of the paper's released evaluator, with other fields as given."""
        return cls(ties="stable").changed(changes)

    def changed(self, changes: RuleChanges) -> Rules:
        """Return the rules with some fields changed; TypeError if there is no such field."""
        names = [field.name for field in fields(self)]
        for name in changes:
            if name not in names:
                raise TypeError(f"There is no rule {name!r}; the rules are {', '.join(names)}.")
        return replace(self, **changes)

    def depths(self, n_database: int) -> Depths:
        """Return the cut-offs as numbers of positions, which are at most the number of database rows."""
        return Depths(*(min(getattr(self, name) or n_database, n_database) for name in Depths._fields))


DEFAULT = Rules()
