"""Checks of declared parameters that every estimator must pass, in place of scikit-learn's private ones."""

import numpy as np
import pytest
from sklearn.base import clone

from hashlearn.parameters import Anything, Interval, InvalidParameterError, Options, declared_parameters


class BadType:
    """No parameter takes this."""


def wrong_values(constraints):
    """Values just outside of what the constraints allow, and of another type."""
    yield BadType()
    for one in constraints:
        if isinstance(one, Options):
            yield "no such option"
        if isinstance(one, Interval):
            step = 1 if one.kind is int else 0.5
            candidates = [True, float("nan"), float("inf"), "1"]
            candidates += [] if one.low is None else [one.low - step, one.low]
            candidates += [] if one.high is None else [one.high + step, one.high]
            candidates += [1.5] if one.kind is int else []
            yield from (value for value in candidates if not any(other.allows(value) for other in constraints))


def check_parameters_are_checked(estimator, X, y):
    """``fit`` refuses every wrong value of every parameter, in scikit-learn's words."""
    name = type(estimator).__name__
    parameters = declared_parameters(type(estimator))
    assert set(parameters) == set(estimator.get_params(deep=False))
    for parameter, field in parameters.items():
        constraints = field.metadata["constraints"]
        assert any(constraint.allows(field.default) for constraint in constraints)
        assert field.metadata["doc"]
        if any(isinstance(constraint, Anything) for constraint in constraints):
            continue
        for value in wrong_values(constraints):
            wrong = clone(estimator).set_params(**{parameter: value})
            sentence = rf"The '{parameter}' parameter of {name} must be .*Got .* instead\."
            with pytest.raises(InvalidParameterError, match=sentence):
                wrong.fit(X, y)


def small_data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, 5)), rng.integers(3, size=20)
