"""The parameters that all deep methods share."""

from __future__ import annotations

import inspect
import numbers
import os
from typing import Any, TypedDict

from sklearn.utils._param_validation import Interval, StrOptions

HEAD_NAMES = {"auto", "linear", "mlp", "three-layer", "divide", "batchnorm"}


class Options(TypedDict, total=False):
    """Shared parameters by keyword; ``DeepHasher`` says what they mean and what their defaults are."""

    backbone: Any
    head: Any
    n_epochs: int
    batch_size: int | None
    optimizer: str | None
    learning_rate: float | None
    weight_decay: float | None
    trunk_rate: float | None
    schedule: Any
    validation: float
    patience: int
    checkpoint: Any
    device: str
    precision: str
    unlabeled: Any
    n_jobs: int | None
    random_state: Any
    verbose: int


def _at_least(least: int, kind: Any = numbers.Integral) -> Interval:
    return Interval(kind, least, None, closed="left")


CONSTRAINTS: dict[str, Any] = {
    "backbone": "no_validation",
    "head": [StrOptions(HEAD_NAMES), list, tuple],
    "n_epochs": [_at_least(1)],
    "batch_size": [None, _at_least(2)],
    "optimizer": [None, StrOptions({"adam", "sgd"})],
    "learning_rate": [None, Interval(numbers.Real, 0, None, closed="neither")],
    "weight_decay": [None, _at_least(0, numbers.Real)],
    "trunk_rate": [None, _at_least(0, numbers.Real)],
    "schedule": [None, StrOptions({"cosine"}), list, tuple],
    "validation": [Interval(numbers.Real, 0, 1, closed="left")],
    "patience": [_at_least(1)],
    "checkpoint": [None, str, os.PathLike],
    "device": [str],
    "precision": [StrOptions({"auto", "full", "mixed"})],
    "unlabeled": "no_validation",
}


def full_signature(own: Any, shared: Any) -> inspect.Signature:
    """The signature of a method's ``__init__`` with the shared parameters written out in place of ``**options``.

    scikit-learn finds parameters by signature; so does everybody's help().
    """
    mine = inspect.signature(own)
    named = [p for p in mine.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    known = {p.name for p in named}
    rest = [p for p in inspect.signature(shared).parameters.values() if p.name not in known]
    return mine.replace(parameters=[*named, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in rest)])


def check_schedule(schedule: Any) -> None:
    """Pairs of a share of the training and a factor, where it is a list."""
    if schedule is None or isinstance(schedule, str):
        return
    for pair in schedule:
        numbers_in = (
            isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(v, numbers.Real) for v in pair)
        )
        if not numbers_in or not 0 <= pair[0] <= 1 or pair[1] < 0:
            raise ValueError(
                "schedule must be None, 'cosine', or pairs (share of the training, factor) such as [(0.67, 0.1)]. "
                f"Got {pair!r} in it."
            )
