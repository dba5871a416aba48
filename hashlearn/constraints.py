"""Constraints on parameters: small objects that test a value and describe in words what they allow.

The words are used in the error messages of ``parameters.check_parameters``, which are like scikit-learn's, and as types
in the docstrings of the estimators.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from scipy import sparse


class Constraint(ABC):
    """Base of all constraints. ``str(constraint)`` describes what is allowed: "an int in the range [1, inf)"."""

    @abstractmethod
    def allows(self, value: Any) -> bool:
        """Whether a parameter may have this value."""


class Interval(Constraint):
    """An int or a float between two bounds; None means no bound. True and False are not allowed.

    Examples
    --------
    >>> str(Interval(int, 1, 1024, closed="both"))
    'an int in the range [1, 1024]'
    """

    def __init__(
        self,
        kind: type[int] | type[float],
        low: float | None = None,
        high: float | None = None,
        closed: Literal["left", "right", "both", "neither"] = "left",
    ) -> None:
        self.kind, self.low, self.high, self.closed = kind, low, high, closed

    def allows(self, value: Any) -> bool:
        number: Any = numbers.Integral if self.kind is int else numbers.Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, number) or not math.isfinite(value):
            return False
        above = self.low is None or value > self.low or (value == self.low and self.closed in ("left", "both"))
        below = self.high is None or value < self.high or (value == self.high and self.closed in ("right", "both"))
        return above and below

    def __str__(self) -> str:
        name = "an int" if self.kind is int else "a float"
        if self.low is None and self.high is None:
            return name
        low = "(-inf" if self.low is None else f"{'[' if self.closed in ('left', 'both') else '('}{self.kind(self.low)}"
        high = (
            "inf)" if self.high is None else f"{self.kind(self.high)}{']' if self.closed in ('right', 'both') else ')'}"
        )
        return f"{name} in the range {low}, {high}"


class Options(Constraint):
    """One of several strings."""

    def __init__(self, *options: str) -> None:
        self.options = options

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"


class Instance(Constraint):
    """An object of one of several classes; ``words`` replaces the list of their names."""

    def __init__(self, *classes: type, words: str = "") -> None:
        self.classes = classes
        self.words = words or " or ".join(f"an instance of {cls.__qualname__!r}" for cls in classes)

    def allows(self, value: Any) -> bool:
        return isinstance(value, self.classes)

    def __str__(self) -> str:
        return self.words


class HasMethods(Constraint):
    """An object (not a class) with these methods."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def allows(self, value: Any) -> bool:
        return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in self.names)

    def __str__(self) -> str:
        return f"an object implementing {' and '.join(map(repr, self.names))}"


class IsCallable(Constraint):
    """A function, or anything else that can be called."""

    def allows(self, value: Any) -> bool:
        return callable(value)

    def __str__(self) -> str:
        return "a callable"


class IsArrayLike(Constraint):
    """An array, a sparse matrix, a data frame or a sequence."""

    def allows(self, value: Any) -> bool:
        if isinstance(value, str | bytes | type):
            return False
        return sparse.issparse(value) or any(hasattr(value, name) for name in ("__len__", "shape", "__array__"))

    def __str__(self) -> str:
        return "an array-like"


class Anything(Constraint):
    """Any value; the code that uses the parameter checks it."""

    def allows(self, value: Any) -> bool:
        return True

    def __str__(self) -> str:
        return "an object"


COUNT = Interval(int, 1)
POSITIVE = Interval(float, 0, closed="neither")
NON_NEGATIVE = Interval(float, 0)
FLAG = Instance(bool, np.bool_, words="a bool")
NONE = Instance(type(None), words="None")
