"""Declared parameters: constructor, docstring, checks and errors from one line each."""

import inspect
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from hashlearn import ITQ
from hashlearn.parameters import (
    CALLABLE,
    COUNT,
    FLAG,
    POSITIVE,
    DeclaredEstimator,
    HasMethods,
    Instance,
    Interval,
    InvalidParameterError,
    IsArrayLike,
    Options,
    check_parameters,
    fitted,
    parameter,
)


class Part(DeclaredEstimator):
    """A part with a setting of its own."""

    size: int = parameter(COUNT, "How large it is.", default=3)


class Example(DeclaredEstimator):
    """An example.

    Notes of some length.

    Examples
    --------
    >>> Example(2).width
    2
    """

    width: int = parameter(COUNT, "How wide.", default=1, kw_only=False)
    ridge: float | None = parameter([None, POSITIVE], "How much ridge.", default=None)
    part: Part | None = parameter([None, Instance(Part)], "A part.", default=None)

    weights_: list[float] = fitted("What was learned.")


class Narrow(Example):
    """The same with another default, and one more parameter."""

    own: str = parameter(Options("a", "b"), "Which one.", default="a")
    ridge: float | None = 0.5


def test_the_constructor_has_a_plain_signature():
    assert str(inspect.signature(Narrow)).startswith(
        "(width: int = 1, *, ridge: float | None = 0.5, part: test_parameters.Part | None = None, own: str = 'a')"
    )
    assert Narrow(4).get_params(deep=False) == {"width": 4, "ridge": 0.5, "part": None, "own": "a"}
    assert repr(Narrow(4, own="b")) == "Narrow(own='b', width=4)"
    with pytest.raises(TypeError, match="positional"):
        Narrow(4, 0.5)
    with pytest.raises(TypeError, match="weights_"):
        Narrow(weights_=[1.0])


def test_scikit_learn_sees_an_estimator_like_any_other():
    estimator = Narrow(4, part=Part(size=7))
    assert estimator.get_params()["part__size"] == 7
    copy = clone(estimator).set_params(part__size=8)
    assert (copy.part.size, estimator.part.size) == (8, 7)
    again = pickle.loads(pickle.dumps(copy))
    assert again.get_params()["part__size"] == 8
    assert not hasattr(estimator, "weights_")


def test_the_docstring_lists_what_is_declared_own_things_first():
    assert (
        Narrow.__doc__
        == inspect.cleandoc(
            """
        The same with another default, and one more parameter.

        Parameters
        ----------
        width : int in the range [1, inf), default=1
            How wide.
        own : str among {'a', 'b'}, default='a'
            Which one.
        ridge : None or a float in the range (0.0, inf), default=0.5
            How much ridge.
        part : None or an instance of 'Part', default=None
            A part.

        Attributes
        ----------
        weights_ : list[float]
            What was learned.
        """
        )
        + "\n"
    )
    text = Example.__doc__
    assert (
        text.index("Notes of")
        < text.index("Parameters\n---")
        < text.index("Attributes\n---")
        < text.index("Examples\n---")
    )


def test_every_wrong_value_gets_the_sentence_of_scikit_learn():
    with pytest.raises(
        InvalidParameterError,
        match=r"^The 'n_bits' parameter of ITQ must be an int in the range \[1, 1024\]\. Got 0 instead\.$",
    ) as caught:
        ITQ(0).fit(np.zeros((3, 2)))
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError)
    with pytest.raises(
        InvalidParameterError,
        match=r"The 'ridge' parameter of Example must be None or a float in the range \(0\.0, inf\)\. Got 'a' ins",
    ):
        check_parameters(Example(ridge="a"))


def test_parameters_of_parts_are_checked_too():
    with pytest.raises(InvalidParameterError, match="The 'size' parameter of Part must be"):
        check_parameters(Example(part=Part(size=0)))


def test_a_declaration_without_a_constraint_is_refused():
    with pytest.raises(TypeError, match=r"Wrong\.speed must be declared with parameter\(\.\.\.\), or fitted"):

        class Wrong(DeclaredEstimator):
            speed: int = 3


@pytest.mark.parametrize(
    ("constraint", "good", "bad", "words"),
    [
        (
            Interval(int, 1, 3, closed="both"),
            [1, 3, np.int8(2)],
            [0, 4, 2.0, True, "1", None],
            "an int in the range [1, 3]",
        ),
        (
            Interval(float, 0, 1),
            [0, 0.5, np.float32(0.25)],
            [1, -1e-9, np.nan, False],
            "a float in the range [0.0, 1.0)",
        ),
        (Interval(float, None, 0, closed="right"), [0, -7.5], [0.1, -np.inf], "a float in the range (-inf, 0.0]"),
        (Interval(int), [-3, 0, 10**9], [0.5, np.inf], "an int"),
        (Options("b", "a"), ["a", "b"], ["c", 1, None, ["a"]], "a str among {'a', 'b'}"),
        (FLAG, [True, np.False_], [0, 1, None], "a bool"),
        (HasMethods("fit", "predict"), [], [Part(), str, 3], "an object implementing 'fit' and 'predict'"),
        (HasMethods("get_params"), [Part()], [Part, 3], "an object implementing 'get_params'"),
        (CALLABLE, [len, Part], [3, "len"], "a callable"),
        (IsArrayLike(), [[1], np.eye(2), sparse.eye(2)], ["text", 3, None, list], "an array-like"),
    ],
    ids=lambda value: str(value) if not isinstance(value, list) else "",
)
def test_constraints(constraint, good, bad, words):
    assert [value for value in good if not constraint.allows(value)] == []
    assert [value for value in bad if constraint.allows(value)] == []
    assert str(constraint) == words
