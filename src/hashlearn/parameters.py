"""Parameters of estimators, declared once with name, type, allowed values, meaning and default.

A class that derives from ``DeclaredEstimator`` lists its parameters and what ``fit`` learns::

    class Mean(DeclaredEstimator):
        \"\"\"The mean of the rows.\"\"\"

        shrink: float = parameter(NON_NEGATIVE, "Share of the mean that is subtracted.", default=0.0)

        mean_: FloatArray = fitted("Mean of each column.")

It gets ``__init__(self, *, shrink=0.0)``, which only stores its arguments, the sections Parameters and Attributes of
its docstring, and checks by ``check_parameters``. It is a standard dataclass, so type checkers, ``inspect.signature``
and scikit-learn see every parameter. Parameters of base classes come first; ``shrink: float = 0.5`` in a subclass
changes only the default.
"""

from __future__ import annotations

import inspect
import math
import numbers
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator


class Constraint:
    """What is allowed: a function of a value, and in words, as ``str`` gives them: "an int in the range [1, inf)"."""

    def __init__(self, words: str, allows: Callable[[Any], bool]) -> None:
        self.words, self.allows = words, allows

    def __str__(self) -> str:
        return self.words


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
        self.kind, self.low, self.high = kind, low, high
        self.with_low, self.with_high = closed in ("left", "both"), closed in ("right", "both")
        words = "an int" if kind is int else "a float"
        if low is not None or high is not None:
            first = "(-inf" if low is None else f"{'[' if self.with_low else '('}{kind(low)}"
            last = "inf)" if high is None else f"{kind(high)}{']' if self.with_high else ')'}"
            words = f"{words} in the range {first}, {last}"
        super().__init__(words, self._holds)

    def _holds(self, value: Any) -> bool:
        number: Any = numbers.Integral if self.kind is int else numbers.Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, number) or not math.isfinite(value):
            return False
        above = self.low is None or value > self.low or (value == self.low and self.with_low)
        return bool(above and (self.high is None or value < self.high or (value == self.high and self.with_high)))


class Options(Constraint):
    """One of several strings."""

    def __init__(self, *options: str) -> None:
        words = f"a str among {{{', '.join(map(repr, sorted(options)))}}}"
        super().__init__(words, lambda value: isinstance(value, str) and value in options)


class Instance(Constraint):
    """An object of one of several classes; ``words`` replaces the list of their names."""

    def __init__(self, *classes: type, words: str = "") -> None:
        names = " or ".join(f"an instance of {cls.__qualname__!r}" for cls in classes)
        super().__init__(words or names, lambda value: isinstance(value, classes))


class HasMethods(Constraint):
    """An object (not a class) with these methods."""

    def __init__(self, *names: str) -> None:
        def has_all(value: Any) -> bool:
            return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in names)

        super().__init__(f"an object implementing {' and '.join(map(repr, names))}", has_all)


class IsArrayLike(Constraint):
    """An array, a sparse matrix, a data frame or a sequence."""

    def __init__(self) -> None:
        def is_array(value: Any) -> bool:
            has_any = any(hasattr(value, name) for name in ("__len__", "shape", "__array__"))
            return has_any and not isinstance(value, str | bytes | type)

        super().__init__("an array-like", is_array)


class Anything(Constraint):
    """Any value; the code that uses the parameter checks it."""

    def __init__(self) -> None:
        super().__init__("an object", lambda value: True)


COUNT = Interval(int, 1)
POSITIVE = Interval(float, 0, closed="neither")
NON_NEGATIVE = Interval(float, 0)
FLAG = Instance(bool, np.bool_, words="a bool")
NONE = Instance(type(None), words="None")
CALLABLE = Constraint("a callable", callable)

Allowed = Constraint | None | Sequence[Constraint | None]


class InvalidParameterError(ValueError, TypeError):
    """A parameter has an invalid value. Like scikit-learn's class of that name, it is a ValueError and a TypeError."""

    exit_code = 2


def parameter(allowed: Allowed, doc: str = "", *, default: Any = MISSING, kw_only: bool = True) -> Any:
    """Declare a parameter of an estimator.

    Parameters
    ----------
    allowed : Constraint, None, or a list of them
        A value is valid if any of these allows it.
    doc : str
        What the parameter means, for the docstring.
    default : object
        Omit it for a parameter that must be given.
    kw_only : bool, default=True
        Whether the parameter is given by name only.
    """
    several = allowed if isinstance(allowed, Sequence) else [allowed]
    constraints = tuple(NONE if one is None else one for one in several)
    return field(default=default, kw_only=kw_only, metadata={"constraints": constraints, "doc": doc})


def fitted(doc: str, *, init: Literal[False] = False) -> Any:
    """Declare an attribute that ``fit`` sets. ``init`` shows type checkers that it is not a parameter."""
    return field(init=init, metadata={"doc": doc})


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(parameter, fitted))
class DeclaredEstimator(BaseEstimator):
    """Base of estimators whose parameters are declared; see the top of this file."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        text = inspect.cleandoc(cls.__doc__ or "")
        dataclass(eq=False, repr=False, kw_only=True)(cls)
        for one in fields(cls):
            if not one.metadata:
                one.metadata = _inherited(cls, one.name)
        cls.__doc__ = _with_sections(text, cls) if text else None


def declared_parameters(cls: type[DeclaredEstimator]) -> dict[str, Field[Any]]:
    """Return the parameters of a class by name, without those of its bases that its own ``__init__`` does not take."""
    names = inspect.signature(cls).parameters
    return {one.name: one for one in fields(cls) if one.init and one.name in names}


def check_parameters(estimator: DeclaredEstimator) -> None:
    """Check the values of all parameters, also of parameters that are estimators with declared parameters.

    Raises
    ------
    InvalidParameterError
        If a value is not allowed: "The 'n_bits' parameter of ITQ must be an int in the range [1, 1024]. Got 0 instead."
    """
    for name, one in declared_parameters(type(estimator)).items():
        value, constraints = getattr(estimator, name), one.metadata["constraints"]
        if not any(constraint.allows(value) for constraint in constraints):
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {_either(constraints)}. "
                f"Got {value!r} instead."
            )
        if isinstance(value, DeclaredEstimator):
            check_parameters(value)


def _inherited(cls: type, name: str) -> Any:
    """Return what a base class declares about a parameter of which only the default is new."""
    for base in cls.__mro__[1:]:
        declared = vars(base).get("__dataclass_fields__", {}).get(name)
        if declared is not None and declared.metadata:
            return declared.metadata
    raise TypeError(f"{cls.__name__}.{name} must be declared with parameter(...), or fitted(...) if fit sets it.")


def _either(constraints: Sequence[Constraint]) -> str:
    *first, last = map(str, constraints)
    return f"{', '.join(first)} or {last}" if first else last


def _with_sections(text: str, cls: type[DeclaredEstimator]) -> str:
    """Return the docstring with parameters and attributes inserted before references and examples.

    What the class itself declares comes first, except that positional parameters come before all others.
    """

    def distance(one: Field[Any]) -> tuple[bool, int]:
        declaring = [k for k, base in enumerate(cls.__mro__) if one.name in vars(base).get("__dataclass_fields__", {})]
        return bool(one.kw_only), declaring[-1]

    parameters = []
    for one in sorted(declared_parameters(cls).values(), key=distance):
        kind = _either(one.metadata["constraints"]).removeprefix("an ").removeprefix("a ")
        default = "" if one.default is MISSING else f", default={one.default!r}"
        parameters.append(_entry(f"{one.name} : {kind}{default}", one))
    learned = sorted((one for one in fields(cls) if not one.init), key=distance)
    attributes = [_entry(f"{one.name} : {_annotation(one.type)}", one) for one in learned]
    sections = ""
    for title, entries in (("Parameters", parameters), ("Attributes", attributes)):
        if entries:
            sections += f"{title}\n{'-' * len(title)}\n{''.join(entries)}\n"
    places = [text.find(f"{title}\n---") for title in ("References", "Examples")]
    end = min([place for place in places if place >= 0], default=len(text))
    return f"{text[:end].rstrip()}\n\n{sections}{text[end:]}".rstrip() + "\n"


def _annotation(kind: Any) -> str:
    """Return the type as it is written in the file."""
    return kind if isinstance(kind, str) else inspect.formatannotation(kind)


def _entry(head: str, one: Field[Any]) -> str:
    doc = textwrap.fill(one.metadata["doc"], 110, initial_indent="    ", subsequent_indent="    ")
    return f"{head}\n{doc}\n" if doc else f"{head}\n"
