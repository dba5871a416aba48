"""A hasher as a list of simple steps, which every target writes in its own language.

The path of a row is always features -> kernel -> projection -> thresholds -> bits. Each class below is one step of it;
its fields are all that the step needs. A ``Description`` is the list of steps of one hasher, and what its projections
mean: a bit of a query is 1 where the projection is at least 0, a bit of a database row where it is at least ``shift``,
and the expected bit is tanh((slope z + offset) / 2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


class ExportError(ValueError):
    """A hasher that the target cannot run."""


@dataclass(frozen=True)
class Step:
    """One step of a row's way to its projections."""

    @property
    def name(self) -> str:
        """What the step is called in the exported files: the name of its class, as in ``log_odds``."""
        return re.sub(r"\B([A-Z])", r"_\1", type(self).__name__).lower()


Steps = tuple[Step, ...]


@dataclass(frozen=True)
class Unit(Step):
    """Scale the row to length 1; a row of zeros stays as it is."""


@dataclass(frozen=True)
class Subtract(Step):
    """Subtract a vector."""

    vector: NDArray[Any]


@dataclass(frozen=True)
class Scale(Step):
    """Multiply each number by its own factor."""

    factors: NDArray[Any]


@dataclass(frozen=True)
class Kernel(Step):
    """exp(-scale |x - l|^2) for every landmark l, a row of ``landmarks``."""

    landmarks: NDArray[Any]
    scale: float


@dataclass(frozen=True)
class Affine(Step):
    """x W + b, with W = ``weights`` (inputs, outputs) and b = ``bias``."""

    weights: NDArray[Any]
    bias: NDArray[Any]


@dataclass(frozen=True)
class Relu(Step):
    """max(x, 0)."""


@dataclass(frozen=True)
class Cosine(Step):
    """cos(x)."""


@dataclass(frozen=True)
class Softmax(Step):
    """exp(x) divided by its sum."""


@dataclass(frozen=True)
class LogOdds(Step):
    """2 artanh(x) with x cut to [-limit, limit]: the log odds of an expected bit."""

    limit: float


@dataclass(frozen=True)
class Largest(Step):
    """1 in the first place of the largest number and 0 in all others."""


@dataclass(frozen=True)
class Trees(Step):
    """Sums of leaves of complete binary trees, as in ``hashlearn.functions.BoostedTrees``."""

    feature: NDArray[Any]
    threshold: NDArray[Any]
    leaf: NDArray[Any]


@dataclass(frozen=True)
class Take(Step):
    """The numbers from ``start`` to before ``stop``."""

    start: int
    stop: int


@dataclass(frozen=True)
class Rank(Step):
    """Two numbers: the share of ``values`` below the largest number, to a power, and that number cut to [0, 1]."""

    values: NDArray[Any]
    power: float


@dataclass(frozen=True)
class Neighbors(Step):
    """The mean of the ``marks`` of the ``count`` rows of ``rows`` with the largest inner products, at most 1."""

    rows: NDArray[Any]
    marks: NDArray[Any]
    count: int


@dataclass(frozen=True)
class Join(Step):
    """The results of several lists of steps, side by side."""

    parts: tuple[Steps, ...]


@dataclass(frozen=True)
class Tables:
    """How queries make score tables from what the steps of codes, except for the last one, make of a row.

    Attributes
    ----------
    nibbles : to the tables of nibbles, 16 entries each.
    n_words : how many of the first numbers are the table of label words at familiarity 1; 0 without labels.
    familiarity : to three numbers: rank and neighbors, whose product is the familiarity up to "auto", and the best
        label score, which is the familiarity at "label".
    """

    nibbles: Steps
    n_words: int
    familiarity: Steps


@dataclass(frozen=True)
class Description:
    """A fitted hasher, ready to be written.

    Attributes
    ----------
    method : class name of the hasher.
    n_features, n_bits : lengths of a row and of a code.
    steps : from a row to its projections z (n_bits).
    slopes, offsets : calibration of the bits; None for a model that has none, whose expected bits are z itself.
    shift : what z must reach for a database bit to be 1; None for 0.
    tables : how queries are made for codes that are searched by tables; None for codes with Hamming distance.
    """

    method: str
    n_features: int
    n_bits: int
    steps: Steps
    slopes: NDArray[Any] | None
    offsets: NDArray[Any] | None
    shift: NDArray[Any] | None
    tables: Tables | None = None
