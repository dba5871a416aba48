"""``partial_fit`` of the pairwise methods: more rows and new classes, without the rows learned from before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_consistent_length, validate_data

from hashlearn import codes
from hashlearn.fitting.base import BaseHasher
from hashlearn.fitting.frames.kept_sums import KeptSums, new_class_code
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.held_out import HeldOutRows, calibrated_ridge
from hashlearn.functions.linear import LinearFunction
from hashlearn.functions.posterior import fit_posterior
from hashlearn.labels import Classes, as_labels
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.parameters import fitted
from hashlearn.solvers.problem import sums_by_kind
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix, PackedCodes

Method = TypeVar("Method", bound=Callable[..., Any])
UPDATED_FUNCTIONS = ("linear", "posterior")


def available_while(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """A method that is missing, as scikit-learn has it, from hashers that no longer keep sums over their rows.

    Unlike that of scikit-learn's ``available_if``, the AttributeError tells what to do.
    """

    def decorated(method: Method) -> Method:
        return cast(Method, _WhileSumsAreKept(check, method))

    return decorated


class _WhileSumsAreKept:
    def __init__(self, check: Callable[[Any], bool], method: Callable[..., Any]) -> None:
        self._check, self._method = check, method
        self.__doc__ = method.__doc__

    def __get__(self, hasher: Any, owner: type | None = None) -> Any:
        if hasher is not None and not self._check(hasher):
            raise AttributeError(
                f"This {type(hasher).__name__} has no attribute {self._method.__name__!r} now: it was fitted by fit, "
                "which keeps no sums over its rows. Give all rows to partial_fit, from the first ones on."
            )
        return self._method if hasher is None else MethodType(self._method, hasher)


def keeps_sums(hasher: RowUpdates) -> bool:
    """Whether ``partial_fit`` can go on."""
    return not hasattr(hasher, "function_") or hasattr(hasher, "sums_")


class RowUpdates(BaseHasher):
    """Base of hashers whose function can be fitted to sums over rows."""

    if TYPE_CHECKING:  # parameters of the methods, which declare them
        function: Any
        ridge: float | str
        structure: int

    sums_: KeptSums = fitted("Sums over all rows so far, if ``partial_fit`` was used.")

    @available_while(keeps_sums)
    def partial_fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from more rows, of known and of new classes, without the rows of earlier calls.

        The first call is ``fit``, and keeps sums over its rows. Further calls add theirs and fit the function anew. The
        landmarks and the codes of known classes stay, so stored codes stay valid. A new class gets a code that its
        features predict, as far from the other classes as these are apart. ``codes_`` grows by the codes of the rows.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : classes (n,)
            Unlabeled rows take no part in learning, and the new function codes them.

        Returns
        -------
        self
        """
        labels = as_labels(y, self._unlabeled)
        if not isinstance(labels, Classes):
            raise ValueError(
                f"{type(self).__name__}.partial_fit learns from one class per row: use fit for label sets."
            )
        if not hasattr(self, "function_"):
            self._check_updatable()
            self.fit(X, y)
            self._begin_sums(X, labels, self.codes_)
            return self
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        check_consistent_length(X, labels.numbers)
        classes = self._class_numbers(X, labels)
        self._add_rows(X, classes)
        self._fit_kept_sums()
        packed = self.encode_queries(X)
        packed[classes >= 0] = codes.pack(self.sums_.codes[classes[classes >= 0]])
        if hasattr(self, "codes_"):
            self.codes_ = np.concatenate([self.codes_, packed])
        return self

    def _forget_sums(self) -> None:
        """Remove the sums of an earlier ``partial_fit``."""
        self.__dict__.pop("sums_", None)

    def _check_updatable(self) -> None:
        if self.function not in UPDATED_FUNCTIONS or self.structure:
            raise ValueError(
                f"{type(self).__name__}.partial_fit needs function='linear' or 'posterior' and structure=0: other "
                "functions need all rows at once."
            )

    def _begin_sums(self, X: Matrix, labels: Classes, packed: PackedCodes) -> None:
        """Keep the sums over the rows of the first call. The code of a class is what most of its rows have."""
        signs = codes.unpack_signs(packed, self.n_bits_)[labels.known].astype(np.float64)
        sums = sums_by_kind(labels.numbers[labels.known], signs, len(labels.names))
        class_codes = np.where(sums >= 0, 1, -1).astype(np.int8)
        center = self.features_.center_.copy()
        self.sums_ = KeptSums(list(labels.names), class_codes, center, int(self._rng().randint(2**31)))
        self._add_rows(X, labels.numbers)

    def _add_rows(self, X: Matrix, classes: IntArray) -> None:
        """Add rows in memory to the kept sums; -1 is the class of unlabeled rows."""
        labeled = np.flatnonzero(classes >= 0)
        blocks = [labeled[block] for block in row_blocks(len(labeled))]
        with one_blas_thread():
            mapped = ordered_map(lambda rows: self.features_.map_block(X[rows]), blocks, self.n_jobs)
            for rows, part in zip(blocks, mapped, strict=True):
                self.sums_.add_rows(part, classes[rows])

    def _class_numbers(self, X: Matrix, labels: Classes) -> IntArray:
        """Return the number of every row's class in the kept sums; classes that are new get codes there."""
        places = {name: place for place, name in enumerate(self.sums_.names)}
        self._check_kind(labels.names)
        expected = self.expected_bits(X)
        for number, name in enumerate(labels.names):
            if name not in places:
                mean = expected[labels.numbers == number].mean(axis=0, dtype=np.float64)
                places[name] = len(places)
                self.sums_.add_class(name, new_class_code(mean, self.sums_.codes))
        moved = np.array([*(places[name] for name in labels.names), -1], dtype=np.intp)
        return moved[labels.numbers]

    def _check_kind(self, names: Sequence[Any]) -> None:
        """Refuse numbers after texts and texts after numbers, which would all be new classes."""
        for name in names:
            known = self.sums_.names[0]
            if isinstance(name, str) != isinstance(known, str):
                raise ValueError(
                    f"y holds the class {name!r}, and earlier calls had classes such as {known!r}, so no class of one "
                    "side can equal one of the other: give all calls labels of one kind."
                )

    def _fit_kept_sums(self) -> None:
        """Fit the function to the kept sums; thresholds of database bits stay."""
        sums, mean = self.sums_, self.sums_.mean
        held, thresholds = sums.held_out(), getattr(self, "thresholds_", None)
        self.features_.center_ = (sums.center + mean).astype(np.float32)
        log_odds = Calibration(np.ones(self.n_bits_), np.zeros(self.n_bits_))
        if self.function == "posterior":
            codes_of_classes = sums.codes.astype(np.float64)
            self.function_ = fit_posterior(sums.class_sums(), codes_of_classes, held, mean)
            self._set_calibration(log_odds)
        elif self.ridge == "auto":
            self.function_ = calibrated_ridge(sums.ridge_sums(), held, mean, self.n_jobs)
            self._set_calibration(log_odds)
        else:
            self.function_ = LinearFunction.solve(sums.ridge_sums().recentered(mean), self.ridge)
            self._set_calibration(Calibration.fit(self._held_projections(held, mean), held.codes, offset=False))
        self._keep_confidence(self._held_projections(held, mean))
        if thresholds is not None:
            self.thresholds_ = thresholds

    def _held_projections(self, held: HeldOutRows, mean: FloatArray) -> Float32Array:
        return self.function_.project(held.x - mean.astype(np.float32)).astype(np.float32)
