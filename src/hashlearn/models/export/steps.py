"""A hasher as a list of simple steps, which every target writes in its own language.

The path of a row is always features -> kernel -> projection -> thresholds -> bits. Each class below is one step of it;
its fields are all that the step needs. A ``Description`` is the list of steps of one hasher, and what its projections
mean: a bit of a query is 1 where the projection is at least 0, a bit of a database row where it is at least ``shift``,
and the expected bit is tanh((slope z + offset) / 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray


class ExportError(ValueError):
    """A hasher that the target cannot run."""


@dataclass(frozen=True)
class Step:
    """One step; ``name`` is what it is called in the exported files."""

    name: ClassVar[str]


@dataclass(frozen=True)
class Unit(Step):
    """Scale the row to length 1; a row of zeros stays as it is."""

    name = "unit"


@dataclass(frozen=True)
class Subtract(Step):
    """Subtract a vector."""

    name = "subtract"
    vector: NDArray[Any]


@dataclass(frozen=True)
class Scale(Step):
    """Multiply each number by its own factor."""

    name = "scale"
    factors: NDArray[Any]


@dataclass(frozen=True)
class Kernel(Step):
    """exp(-scale |x - l|^2) for every landmark l, a row of ``landmarks``."""

    name = "kernel"
    landmarks: NDArray[Any]
    scale: float


@dataclass(frozen=True)
class Affine(Step):
    """x W + b, with W = ``weights`` (inputs, outputs) and b = ``bias``."""

    name = "affine"
    weights: NDArray[Any]
    bias: NDArray[Any]


@dataclass(frozen=True)
class Relu(Step):
    """max(x, 0)."""

    name = "relu"


@dataclass(frozen=True)
class Cosine(Step):
    """cos(x)."""

    name = "cosine"


@dataclass(frozen=True)
class Softmax(Step):
    """exp(x) divided by its sum."""

    name = "softmax"


@dataclass(frozen=True)
class LogOdds(Step):
    """2 artanh(x) with x cut to [-limit, limit]: the log odds of an expected bit."""

    name = "log_odds"
    limit: float


@dataclass(frozen=True)
class Largest(Step):
    """1 in the first place of the largest number and 0 in all others."""

    name = "largest"


@dataclass(frozen=True)
class Trees(Step):
    """Sums of leaves of complete binary trees, as in ``hashlearn.functions.BoostedTrees``."""

    name = "trees"
    feature: NDArray[Any]
    threshold: NDArray[Any]
    leaf: NDArray[Any]


@dataclass(frozen=True)
class Join(Step):
    """The results of several lists of steps, side by side."""

    name = "join"
    parts: tuple[tuple[Step, ...], ...]


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
    """

    method: str
    n_features: int
    n_bits: int
    steps: tuple[Step, ...]
    slopes: NDArray[Any] | None
    offsets: NDArray[Any] | None
    shift: NDArray[Any] | None
