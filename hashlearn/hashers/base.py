"""What every hasher has in common: the scikit-learn contract, three outputs, metadata."""

from __future__ import annotations

import inspect
import numbers
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from hashlearn import codes, metrics
from hashlearn.kernel import FeatureMap, Rows
from hashlearn.labels import label_matrix
from hashlearn.parallel import ordered_map, row_blocks


class HashFunction(Protocol):
    """Features of rows to real projections; a bit is their sign."""

    def project(self, features: NDArray[Any]) -> NDArray[Any]: ...


class BaseHasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of all hashers. A subclass's ``fit`` sets ``features_``, ``function_`` and ``codes_``.

    Class attributes describe the method: ``title``, ``reference`` (paper), ``year``, ``kind``,
    ``supervision``, ``cost`` and ``verified`` (whether an official source confirmed the algorithm).
    """

    title: ClassVar[str]
    reference: ClassVar[str]
    year: ClassVar[int]
    kind: ClassVar[str]
    supervision: ClassVar[str]
    cost: ClassVar[str]
    verified: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_bits": [Interval(numbers.Integral, 1, codes.MAX_BITS, closed="both")],
        "n_jobs": [None, numbers.Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    n_bits: int
    n_jobs: int | None
    random_state: Any
    features_: FeatureMap
    function_: HashFunction
    codes_: NDArray[np.uint8]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep of the inherited parameter constraints those of parameters that the method has."""
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            own = inspect.signature(cls.__init__).parameters
            cls._parameter_constraints = {k: v for k, v in cls._parameter_constraints.items() if k in own}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self.supervision != "none"
        tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_bits_

    def decision_function(self, X: Rows) -> NDArray[np.float32]:
        """Real projections (n, n_bits); their signs are the bits. For asymmetric search."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        return self._project(X)

    def transform(self, X: Rows) -> NDArray[np.uint8]:
        """Bits in {0, 1}, uint8 (n, n_bits)."""
        return (self.decision_function(X) >= 0).astype(np.uint8)

    def encode(self, X: Rows) -> NDArray[np.uint8]:
        """Packed codes, uint8 (n, ceil(n_bits / 8)), bit 0 in the most significant place."""
        return codes.pack(self.decision_function(X) >= 0)

    def score(self, X: Rows, y: Any) -> float:
        """Mean average precision on held-out rows: odd rows search even rows and the other way round.

        Both sides are hashed, so the figure is what an unlabelled database gets. Ties count as their expected
        value and AP is over the whole ranking.
        """
        packed = self.encode(X)
        labels = label_matrix(y, getattr(self, "unlabeled", None))
        if len(packed) < 2:
            raise ValueError("score needs at least 2 rows: one searches the other.")
        halves = (slice(0, None, 2), slice(1, None, 2))
        scores = [
            metrics.mean_average_precision(packed[a], packed[b], labels[a], labels[b], at=None, n_jobs=self.n_jobs)
            for a, b in (halves, halves[::-1])
        ]
        return float(np.mean(scores))

    def _project(self, X: Rows) -> NDArray[np.float32]:
        """Projections of validated rows, block by block over threads.

        In the rows' own precision: float64 rows give the same bits however they are batched, float32 rows are
        twice as fast and agree except where a projection is within rounding of zero.
        """
        result = np.empty((X.shape[0], self.n_bits_), dtype=np.float32)
        blocks = row_blocks(X.shape[0])

        def project(block: slice) -> NDArray[Any]:
            features = self.features_.map_block(X[block], dtype=X.dtype)
            features -= self.features_.center_
            return self.function_.project(features)

        for block, part in zip(blocks, ordered_map(project, blocks, self.n_jobs), strict=True):
            result[block] = part
        return result

    def _validate(self, X: Rows) -> Rows:
        """Training rows checked as scikit-learn does, parameters too; sparse stays sparse."""
        self._validate_params()
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float32, np.float64], ensure_min_samples=2, reset=True
        )
        self.n_bits_ = int(self.n_bits)
        return X

    def _validate_labels(self, X: Rows, y: Any) -> Any:
        """Labels checked for length and shape, their values left as they are."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: "
                "classes (n,) or label sets (n, c)."
            )
        if not sparse.issparse(y):
            y = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
        check_consistent_length(X, y)
        return y

    def _rng(self) -> np.random.RandomState:
        return check_random_state(self.random_state)
