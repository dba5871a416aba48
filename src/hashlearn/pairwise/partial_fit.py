"""``partial_fit`` of the pairwise methods: more rows and new classes, without the rows learned from before.

Rows of one class have one code, so a hash function needs only X'X, the sum of the features of each class and the number
of its rows: X'T follows from these for any codes of the classes. ``partial_fit`` keeps these sums. The codes of known
classes never change, so codes that are stored stay valid.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_consistent_length

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import MOST_HELD_OUT, HeldOutPlan, HeldOutRows, RidgeSums
from hashlearn.functions.posterior import ClassSums
from hashlearn.hashers.base import BaseHasher, LabelCodes
from hashlearn.kernel import MOST_LANDMARKS, FeatureMap, LandmarkKernel, validated_rows
from hashlearn.labels import Classes, as_labels, check_same_kind, sets_by_name
from hashlearn.pairwise.row_pass import SUMMED_FUNCTIONS, fit_function, log_odds
from hashlearn.pairwise.supervision import sums_by_kind
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.parameters import fitted
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix, PackedCodes

LANDMARK_RIDGE = 1e-3
"""Added to the kernel between landmarks, which is singular where landmarks repeat."""
LEAST_CERTAINTY = 0.05
"""What the flip of a bit costs that is not certain at all."""
MOST_COMPARED = 1000


class PartialFitMixin(BaseHasher):
    """Base of hashers whose function can be fitted to sums over rows."""

    if TYPE_CHECKING:  # parameters of the methods, which declare them
        function: Any
        ridge: float | str

    sums_: ClassStatistics = fitted("Sums over all rows so far, if ``partial_fit`` was used.")

    def partial_fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from more rows, of known and of new classes, without the rows of earlier calls.

        The first call is ``fit``, and keeps sums over its rows. Further calls add theirs and fit the function again.
        The codes of known classes stay, so stored codes stay valid. A new class gets a code that its features predict,
        as far from the other classes as these are apart. Rows of new classes become landmarks as well, in
        proportion to their number and up to 3,000 landmarks in all, because landmarks of other classes tell new classes
        apart badly.

        The sums take 8 p^2 bytes for p features (8 MB for 1,000 landmarks), so ``fit`` does not keep them. The first
        call after ``fit`` therefore takes the rows of ``fit`` again, together with the new ones: at least some rows of
        every known class. It makes one pass over them, and keeps all codes. Later calls take new rows alone.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : classes (n,)
            Unlabeled rows take no part in learning, and the new function codes them.

        Returns
        -------
        self
            ``codes_`` grows by the codes of the rows; after ``fit`` it becomes those of the rows of this call.
        """
        labels = as_labels(y, self._unlabeled)
        if not isinstance(labels, Classes):
            raise ValueError(
                f"{type(self).__name__}.partial_fit learns from one class per row: use fit for label sets."
            )
        if not hasattr(self, "function_"):
            self._check_updatable()
            self.fit(X, y)
            self._begin_sums(validated_rows(self, X), labels, self.codes_)
            return self
        goes_on = hasattr(self, "sums_")
        if not goes_on and not self._has_class_codes():
            raise ValueError(
                f"This {type(self).__name__} was not fitted to one class per row, so it has no codes of classes for "
                "partial_fit to keep: fit a new one to all rows."
            )
        X = validated_rows(self, X)
        check_consistent_length(X, labels.numbers)
        # Everything is made beside the fitted state, which an exception leaves as it was.
        sums = copy.deepcopy(self.sums_) if goes_on else self._empty_sums(labels)
        features = copy.copy(self.features_)
        n_known_classes = len(sums.names)
        classes = self._class_numbers(sums, X, labels)
        self._add_landmarks(sums, features, X[classes >= n_known_classes], int(np.sum(classes >= 0)))
        self._add_rows(sums, features, X, classes)
        self._fit_to_sums(sums, features)
        packed = self.encode_queries(X)
        packed[classes >= 0] = codes.pack(self.sums_.codes[classes[classes >= 0]])
        if hasattr(self, "codes_"):
            self.codes_ = np.concatenate([self.codes_, packed]) if goes_on else packed
        return self

    def _has_class_codes(self) -> bool:
        known = getattr(self, "label_codes_", None)
        return known is not None and known.names_ is not None and bool((np.diff(known.sets_.indptr) == 1).all())

    def _check_updatable(self) -> None:
        if self.function not in SUMMED_FUNCTIONS:
            raise ValueError(
                f"{type(self).__name__}.partial_fit needs function='linear' or 'posterior': other "
                "functions need all rows at once."
            )

    def _begin_sums(self, X: Matrix, labels: Classes, packed: PackedCodes) -> None:
        """Keep the sums over the rows of the first call. The code of a class is what most of its rows have."""
        signs = codes.unpack_signs(packed, self.n_bits_)[labels.known].astype(np.float64)
        totals = sums_by_kind(labels.numbers[labels.known], signs, len(labels.names))
        sums = self._new_sums(list(labels.names), np.where(totals >= 0, 1, -1).astype(np.int8))
        self._add_rows(sums, self.features_, X, labels.numbers)
        self.sums_, self.label_codes_ = sums, sums.label_codes()

    def _empty_sums(self, labels: Classes) -> ClassStatistics:
        """Return sums over no rows of the classes that ``fit`` has learned; all of them must be among ``labels``."""
        self._check_updatable()
        known = self.label_codes_
        assert known.names_ is not None
        names = [known.names_[column] for column in known.sets_.indices]
        check_same_kind(labels.names, names, ("y", "the fit"))
        given = set(labels.names)
        missing = [name for name in names if name not in given]
        if missing:
            raise ValueError(
                f"fit keeps no sums over its rows, so the first partial_fit after it needs rows of every known class "
                f"again, with the new ones. There are none of {len(missing)} of the {len(names)} classes, such as "
                f"{missing[0]!r}."
            )
        return self._new_sums(names, codes.unpack_signs(known.packed_, self.n_bits_).astype(np.int8))

    def _new_sums(self, names: list[Any], class_codes: NDArray[np.int8]) -> ClassStatistics:
        return ClassStatistics(names, class_codes, self.features_.center_.copy(), int(self._rng().randint(2**31)))

    def _add_landmarks(self, sums: ClassStatistics, features: FeatureMap, rows: Matrix, n_rows: int) -> None:
        """Make rows of new classes landmarks, in proportion to their number among ``n_rows`` new and all old rows."""
        if not isinstance(features, LandmarkKernel) or not rows.shape[0]:
            return
        n_landmarks, n_known = len(features.landmarks_), sums.n_rows + n_rows - rows.shape[0]
        count = min(rows.shape[0] * n_landmarks // max(n_known, 1), rows.shape[0], MOST_LANDMARKS - n_landmarks)
        if count > 0:
            chosen = rowkeys.draw_rows(sums.seed, rowkeys.LANDMARKS + n_landmarks, rows.shape[0], count)
            sums.map_features(features.add_landmarks(rows[chosen], LANDMARK_RIDGE))

    def _add_rows(self, sums: ClassStatistics, features: FeatureMap, X: Matrix, classes: IntArray) -> None:
        """Add rows in memory to sums; -1 is the class of unlabeled rows."""
        labeled = np.flatnonzero(classes >= 0)
        blocks = [labeled[block] for block in row_blocks(len(labeled))]
        with one_blas_thread():
            mapped = ordered_map(lambda rows: features.map_block(X[rows]), blocks, self.n_jobs)
            for rows, part in zip(blocks, mapped, strict=True):
                sums.add_rows(part, classes[rows])

    def _class_numbers(self, sums: ClassStatistics, X: Matrix, labels: Classes) -> IntArray:
        """Return the number of every row's class in the sums; classes that are new get codes there."""
        sets, names = sets_by_name(labels, sums.names, ("y", "the fit"))
        numbers = np.full(X.shape[0], -1, dtype=np.intp)
        numbers[labels.known] = sets.indices
        expected = self.expected_bits(X)
        for number in range(len(sums.names), len(names)):
            mean = expected[numbers == number].mean(axis=0, dtype=np.float64)
            sums.add_class(names[number], new_class_code(mean, sums.codes))
        return numbers

    def _fit_to_sums(self, sums: ClassStatistics, features: FeatureMap) -> None:
        """Fit the function to sums of these features and keep all three; thresholds of database bits stay."""
        mean, held = sums.mean, sums.held_out_rows()
        features.center_ = (sums.center + mean).astype(np.float32)
        classes = sums.class_sums(), sums.codes.astype(np.float64)
        function = fit_function(self.function, self.ridge, sums.ridge_sums(), held, mean, classes, self.n_jobs)
        projections = function.project(held.x - mean.astype(np.float32)).astype(np.float32)
        calibration = log_odds(self.function, self.ridge, self.n_bits_)
        if calibration is None:
            calibration = Calibration.fit(projections, held.codes, offset=False)
        thresholds = getattr(self, "thresholds_", None)
        self.sums_, self.label_codes_, self.features_, self.function_ = sums, sums.label_codes(), features, function
        self._set_calibration(calibration, projections)
        if thresholds is not None:
            self.thresholds_ = thresholds


class ClassStatistics:
    """What a hasher keeps of the rows that it has seen.

    Attributes
    ----------
    names : list
        The classes, in the order of their numbers.
    codes : int8 (n_classes, n_bits)
        Their codes in {-1, +1}.
    center : float32 (d,)
        Features are counted from here.
    xx, by_class, counts : float64 (d, d), (n_classes, d), (n_classes,)
        X'X, the sums of the features of each class, and the numbers of rows.
    held_keys, held_x, held_classes : arrays
        Rows that may be left out to choose a ridge and thresholds: those with the lowest keys.
    seed : int
        Of the keys.
    """

    def __init__(self, names: list[Any], codes: NDArray[np.int8], center: Float32Array, seed: int) -> None:
        self.names = names
        self.codes = codes
        self.center = center
        self.seed = seed
        width = len(center)
        self.xx = np.zeros((width, width))
        self.by_class = np.zeros((len(names), width))
        self.counts = np.zeros(len(names))
        self.held_keys = np.zeros(0, dtype=np.uint64)
        self.held_x = np.zeros((0, width), dtype=np.float32)
        self.held_classes = np.zeros(0, dtype=np.intp)

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    def label_codes(self) -> LabelCodes:
        """Return the codes of the classes as ``encode`` uses them."""
        return LabelCodes(list(self.names), sparse.identity(len(self.names), format="csr"), codes.pack(self.codes > 0))

    def add_class(self, name: Any, code: NDArray[np.int8]) -> None:
        """Add a class that has no rows yet."""
        self.names = [*self.names, name]
        self.codes = np.vstack([self.codes, code])
        self.by_class = np.vstack([self.by_class, np.zeros(len(self.center))])
        self.counts = np.append(self.counts, 0.0)

    def add_rows(self, mapped: Float32Array, classes: IntArray) -> None:
        """Add a block of rows: features that are not centered, and the number of each row's class."""
        x = mapped - self.center
        keys = rowkeys.row_keys(self.seed, rowkeys.SAMPLE, self.n_rows, self.n_rows + len(x))
        self.xx += x.T @ x
        self.by_class += sums_by_kind(classes, x.astype(np.float64), len(self.names))
        self.counts += np.bincount(classes, minlength=len(self.names))
        keys = np.concatenate([self.held_keys, keys])
        lowest = rowkeys.lowest(keys, MOST_HELD_OUT)
        self.held_keys = keys[lowest]
        self.held_x = np.concatenate([self.held_x, x])[lowest]
        self.held_classes = np.concatenate([self.held_classes, classes])[lowest]

    def map_features(self, weights: FloatArray) -> None:
        """Replace the features x of all rows so far by ``weights`` x, with center and all."""
        self.xx = weights @ self.xx @ weights.T
        self.by_class = self.by_class @ weights.T
        self.held_x = (self.held_x @ weights.T).astype(np.float32)
        self.center = (weights @ self.center).astype(np.float32)

    @property
    def mean(self) -> FloatArray:
        """The mean of the features, counted from ``center``."""
        return self.by_class.sum(axis=0) / self.n_rows

    def ridge_sums(self) -> RidgeSums:
        """Return the sums for targets that are the codes of the classes."""
        codes = self.codes.astype(np.float64)
        totals = self.by_class.sum(axis=0)
        squares = np.full(codes.shape[1], float(self.n_rows))
        return RidgeSums(self.n_rows, totals, self.xx, self.by_class.T @ codes, self.counts @ codes, squares)

    def class_sums(self) -> ClassSums:
        """Return the sums for class posteriors."""
        return ClassSums(self.ridge_sums(), self.by_class, self.counts)

    def held_out_rows(self) -> HeldOutRows:
        """Return the rows that are held out: as many as a fit to the same number of rows holds out."""
        plan = HeldOutPlan.for_rows(self.n_rows, self.seed)
        chosen = rowkeys.lowest(self.held_keys, plan.count)
        codes = self.codes[self.held_classes[chosen]].astype(np.float32)
        fold = np.arange(len(chosen)) % plan.n_folds
        return HeldOutRows(self.held_x[chosen], codes, codes, self.held_classes[chosen], fold)


def new_class_code(expected: FloatArray, codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """Choose the code of a new class: what the features predict, as far from the other classes as these are apart.

    It starts as the signs of the expected bits (n_bits,) of the class's rows. While other classes (rows of ``codes``)
    are nearer than classes usually are to their nearest one, the bit is flipped that brings most of them away for the
    least certainty. In the end, flips that are not needed are undone, beginning with the most certain bit.
    """
    predicted = np.where(expected >= 0, 1, -1).astype(np.int8)
    code, cost = predicted.copy(), np.abs(expected) + LEAST_CERTAINTY
    apart = _usual_distance(codes)
    while True:
        agree = codes == code
        distances = np.count_nonzero(~agree, axis=1)
        short = np.maximum(apart - distances, 0)
        flipped = np.maximum(apart - (distances[:, None] + np.where(agree, 1, -1)), 0)
        # Squares, so that the nearest class counts most.
        gain = (short**2).sum() - (flipped**2).sum(axis=0)
        gain[code != predicted] = 0
        if gain.max() <= 0:
            break
        bit = (gain / cost).argmax()
        code[bit] = -code[bit]
    if short.any():
        return code
    changed = np.flatnonzero(code != predicted)
    for bit in changed[np.argsort(-cost[changed])]:
        code[bit] = -code[bit]
        if (np.count_nonzero(codes != code, axis=1) < apart).any():
            code[bit] = -code[bit]
    return code


def _usual_distance(codes: NDArray[np.int8]) -> float:
    """Return the median distance of classes to their nearest one, from at most MOST_COMPARED classes."""
    if len(codes) < 2:
        return float(codes.shape[1])
    some = codes[:MOST_COMPARED].astype(np.float32)
    products = some @ codes.T.astype(np.float32)
    np.fill_diagonal(products, -np.inf)
    return float(np.median((codes.shape[1] - products.max(axis=1)) / 2))
