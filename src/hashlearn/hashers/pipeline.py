"""PipelineHasher: preprocessing steps of scikit-learn before a hasher, as one hasher that model files can hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from hashlearn import codes
from hashlearn.functions.linear import block_precision
from hashlearn.hashers.base import BaseHasher
from hashlearn.index import ScoreTables
from hashlearn.kernel import validated_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import Instance, check_parameters, fitted, parameter
from hashlearn.typing import Matrix, PackedCodes

STEPS: tuple[type, ...] = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer, PCA)
"""Steps that model files hold: they consist of numbers and arrays, and treat each row by itself."""
# What a step knows about data frames. The hasher itself deals with names of columns.
_FRAME_ATTRIBUTES = ("feature_names_in_", "_sklearn_output_config")


class PipelineHasher(BaseHasher):
    """Preprocessing steps and a hasher as one hasher. ``hl.save`` and collections make one of a ``Pipeline``.

    ``encode``, ``encode_queries``, ``expected_bits`` and all else take rows as the first step does.
    """

    info = MethodInfo(
        name="pipeline",
        title="Pipeline",
        reference="hashlearn: preprocessing steps of scikit-learn before a hasher (2026)",
        kind="composition",
        supervision=(),
        cost="the sum of its steps",
    )

    steps: Sequence[Any] = parameter(
        Instance(list, tuple, words="a list of preprocessing steps"), "Transformers of scikit-learn, in their order."
    )
    hasher: BaseHasher = parameter(Instance(BaseHasher), "The hasher after them. ``fit`` clones it.")

    steps_: list[Any] = fitted("The fitted steps.")
    hasher_: BaseHasher = fitted("The fitted hasher.")
    n_bits_: int = fitted("Its bits.")

    def __init__(self, steps: Sequence[Any], hasher: BaseHasher) -> None:
        self.steps = steps
        self.hasher = hasher

    @property  # type: ignore[misc]
    def n_bits(self) -> int:  # type: ignore[override]
        """The bits of the hasher."""
        return self.hasher.n_bits

    @property  # type: ignore[misc]
    def n_jobs(self) -> int | None:
        """The threads of the hasher."""
        return self.hasher.n_jobs

    @n_jobs.setter
    def n_jobs(self, value: int | None) -> None:
        self.hasher.n_jobs = value

    @property
    def searched_by_tables(self) -> bool:  # type: ignore[override]
        """Whether the codes of the hasher are."""
        return self.hasher.searched_by_tables

    @property
    def _uses_labels(self) -> bool:
        return self.hasher._uses_labels

    @classmethod
    def from_pipeline(cls, pipeline: Pipeline) -> PipelineHasher:
        """Return the hasher that computes what a fitted pipeline with a hasher at its end computes."""
        *before, (_, hasher) = pipeline.steps
        if not isinstance(hasher, BaseHasher):
            raise TypeError(f"The last step of the pipeline must be a hasher. Got {type(hasher).__name__} instead.")
        before = [(name, step) for name, step in before if step is not None and step != "passthrough"]
        for name, step in before:
            if type(step) not in STEPS:
                able = ", ".join(one.__name__ for one in STEPS)
                raise TypeError(
                    f"The step {name!r} of the pipeline is a {type(step).__name__}, which a model file cannot hold: "
                    f"use {able}, or transform the rows yourself and save the hasher alone."
                )
            check_is_fitted(step)
        check_is_fitted(hasher)
        steps, hasher = [_plain(step) for _, step in before], _plain(hasher)
        result = cls([clone(step) for step in steps], clone(hasher))
        result.n_features_in_ = int((steps[0] if steps else hasher).n_features_in_)
        result._take(steps, hasher)
        return result

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Fit clones of the steps and of the hasher."""
        check_parameters(self)
        rows = validated_rows(self, X, reset=True, at_least=2)
        rows, steps = _dense(rows), []
        for step in self.steps:
            steps.append(clone(step))
            rows = steps[-1].fit_transform(rows)
        self._take(steps, clone(self.hasher).fit(rows, y))
        return self

    def _take(self, steps: list[Any], hasher: BaseHasher) -> None:
        self.steps_, self.hasher_, self.n_bits_ = steps, hasher, hasher.n_bits_
        for name in ("codes_", "calibration_", "thresholds_", "advice_"):
            self.__dict__.pop(name, None)
            if name in vars(hasher):
                setattr(self, name, getattr(hasher, name))

    def encode(self, X: Matrix, y: Any = None) -> PackedCodes:
        """Hash rows of a database to packed codes, as the hasher does that after the steps.

        ``y`` are labels that are known, for a hasher whose ``encode`` takes them.
        """
        if y is not None:
            return self.hasher_.encode(self._after(X), y)
        check_is_fitted(self)
        return codes.pack(self._project_by(self._database_projection(), validated_rows(self, X)) >= 0)

    @available_if(lambda self: self.hasher_.searched_by_tables)
    def query(self, X: Matrix, emphasis: str | float = "auto") -> ScoreTables:
        """Make score tables of queries, as ``OpenHasher.query`` does that after the steps."""
        by_tables: Any = self.hasher_
        return by_tables.query(self._after(X), emphasis)

    @available_if(lambda self: self.hasher_.searched_by_tables)
    def query_codes(self, codes: Any, emphasis: str | float = "auto") -> ScoreTables:
        """Make score tables that ask for rows like stored ones, from their packed codes."""
        by_tables: Any = self.hasher_
        return by_tables.query_codes(codes, emphasis)

    def _block_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        return self._after_steps(self.hasher_._block_projection())

    def _database_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        return self._after_steps(self.hasher_._database_projection())

    def _after(self, X: Matrix) -> NDArray[Any]:
        """Return rows after the steps."""
        check_is_fitted(self)
        return self._after_steps(_as_they_are)(validated_rows(self, X))

    def _after_steps(self, project: Callable[[Matrix], NDArray[Any]]) -> Callable[[Matrix], NDArray[Any]]:
        return partial(_project_after, self.steps_, self.hasher_.n_features_in_, project)


def _project_after(steps: list[Any], width: int, project: Callable[[Matrix], NDArray[Any]], X: Matrix) -> NDArray[Any]:
    """Project a block of rows after the steps."""
    if not steps:
        return project(X)
    rows: Any = _dense(X)
    if not len(rows):  # which scikit-learn refuses
        return project(np.empty((0, width), dtype=block_precision(X)))
    for step in steps:
        rows = step.transform(rows)
    return project(rows)


def _as_they_are(rows: Any) -> Any:
    return rows


def _dense(X: Matrix) -> NDArray[Any]:
    """Return rows as an array of their own precision, so that the steps compute what they do in a pipeline."""
    return X.toarray() if sparse.issparse(X) else X


def _plain(step: Any) -> Any:
    """Return a shallow copy of a fitted step that knows nothing of data frames."""
    result = copy(step)
    for name in _FRAME_ATTRIBUTES:
        vars(result).pop(name, None)
    return result
