"""JoinedHasher: the bits of several hashers side by side, as one code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags

from hashlearn import codes
from hashlearn.functions.calibration import Calibration, spread_thresholds
from hashlearn.hashers.base import BaseHasher
from hashlearn.kernel import validated_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import Instance, Interval, check_parameters, fitted, parameter
from hashlearn.progress import PhaseTimer
from hashlearn.rows import advice
from hashlearn.rows.advice import SampledCodes
from hashlearn.rows.reduce import FitContext
from hashlearn.rows.source import AnySource
from hashlearn.typing import Float32Array, FloatArray, Matrix, Rng

JOINED_ROWS = 1 << 18
"""Codes of hashers are joined in blocks of this number of rows."""


class JoinedHasher(BaseHasher):
    """Several hashers as one: their bits side by side, in the order given.

    Codes learned from labels serve unseen classes badly, codes from features alone serve all classes equally. Some bits
    of each keep most of both: ``JoinedHasher([GSDHP(32), ITQ(32)])``. Each hasher is fitted on all rows; its codes in
    ``codes_`` are learned or hashed as it does by itself. ``function_`` and ``features_`` are those of the hashers.

    ``decision_function`` gives the projections of the hashers side by side, which differ in size. ``expected_bits``,
    which real-valued queries use, brings them to one scale by the ``calibration_`` of each hasher.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import GSDHP, ITQ, JoinedHasher
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=100)
    >>> X = rng.normal(size=(100, 20)) + y[:, None]
    >>> hasher = JoinedHasher([GSDHP(12, random_state=0), ITQ(4, random_state=0)]).fit(X, y)
    >>> hasher.encode(X).shape
    (100, 2)
    """

    info = MethodInfo(
        name="joined",
        title="Joined",
        reference="hashlearn: bits of several hashers side by side (2026)",
        kind="composition",
        supervision=(),
        cost="the sum of its hashers",
        verified=True,
        passes=0,
    )

    hashers: Sequence[BaseHasher] = parameter(
        Instance(list, tuple, words="a list of hashers"),
        "``fit`` clones them and does not change them. Their parameters are reached by the class name in lower case, "
        "numbered if it repeats: ``itq__n_bits``, or ``itq-1__n_bits`` and ``itq-2__n_bits``.",
    )

    spread: float = parameter(
        Interval(float, 0, 1),
        "Width s of the thresholds for database rows: bits of hashers that learn codes are 1 where the expected "
        "bit is above a threshold in [-s, s], a different one per bit. Rows with uncertain bits then rank behind "
        "others. Queries keep their plain bits. 0 leaves thresholds at 0.",
        default=0.0,
    )

    hashers_: list[BaseHasher] = fitted("The fitted clones.")
    n_bits_: int = fitted("The sum of their bits.")
    calibration_: Calibration = fitted("The calibrations of the hashers side by side.")
    seconds_: dict[str, float] = fitted("Seconds of the fit of each hasher.")

    def __init__(self, hashers: Sequence[BaseHasher], *, spread: float = 0.0) -> None:
        self.hashers = hashers
        self.spread = spread

    @property  # type: ignore[misc]
    def n_bits(self) -> int:  # type: ignore[override]
        """The sum of the bits of the hashers."""
        return sum(hasher.n_bits for _, hasher in self._named())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        members = [get_tags(hasher) for _, hasher in self._named()]
        tags.target_tags.required = any(member.target_tags.required for member in members)
        tags.input_tags.sparse = all(member.input_tags.sparse for member in members)
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with ``deep`` also the hashers by name and their parameters as name__parameter."""
        parameters = super().get_params(deep=False)
        if deep:
            for name, hasher in self._named():
                parameters[name] = hasher
                parameters |= {f"{name}__{key}": value for key, value in hasher.get_params().items()}
        return parameters

    def set_params(self, **params: Any) -> Self:
        """Set ``hashers``, a hasher by name, or parameters of one as name__parameter."""
        if "hashers" in params:
            self.hashers = params.pop("hashers")
        named = self._named()
        if any(name in params for name, _ in named):
            self.hashers = [params.pop(name, hasher) for name, hasher in named]
        return super().set_params(**params)

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Fit a clone of every hasher on X and y; those that need no labels ignore y."""
        self._check_hashers()
        # The hashers get the checked rows, so that only this estimator deals with column names.
        X = validated_rows(self, X, reset=True, at_least=2)
        timer = PhaseTimer()
        self.hashers_, self.advice_ = [], []
        with advice.muted() as sampled:
            for name, hasher in self._named():
                with timer(name):
                    self.hashers_.append(clone(hasher).fit(X, y))
        self.n_bits_ = sum(hasher.n_bits_ for hasher in self.hashers_)
        self.codes_ = codes.pack(np.hstack([codes.unpack(part.codes_, part.n_bits_) for part in self.hashers_]))
        self._join(timer, sampled)
        return self

    def _check_chunked(self) -> None:
        self._check_hashers()
        for hasher in self.hashers:
            if hasher.info.passes is None:
                raise ValueError(
                    f"{type(hasher).__name__} needs all rows in memory, so this JoinedHasher cannot learn from chunks."
                )
            hasher._check_chunked()

    def _fit_source(self, source: AnySource, context: FitContext, rng: Rng) -> None:
        timer = PhaseTimer()
        self.hashers_ = []
        with advice.muted() as sampled:
            for name, hasher in self._named():
                hasher._check_labels(source)
                with timer(name):
                    self.hashers_.append(clone(hasher)._fit_part(source, context.part(name, context.codes_wanted)))
        assert source.n_rows is not None
        context.open_codes(source.n_rows, self.n_bits_)
        if context.codes_wanted:
            for start in range(0, source.n_rows, JOINED_ROWS):
                rows = slice(start, min(start + JOINED_ROWS, source.n_rows))
                bits = [codes.unpack(part.codes_[rows], part.n_bits_) for part in self.hashers_]
                context.put_codes(rows, codes.pack(np.hstack(bits)))
        learned = any(part.info.database == "learned" for part in self.hashers_)
        self._store_codes(context, source="learned" if learned else "hashed")
        self._join(timer, sampled)

    def _check_hashers(self) -> None:
        check_parameters(self)
        if not self.hashers:
            raise ValueError("JoinedHasher needs at least one hasher.")
        for hasher in self.hashers:
            if not isinstance(hasher, BaseHasher):
                raise TypeError(f"JoinedHasher takes hashers of hashlearn, such as ITQ(16). Got {hasher!r} instead.")
            if hasher.two_encoders:
                raise TypeError(
                    f"JoinedHasher takes hashers with one encoder. {type(hasher).__name__} has one for queries and "
                    "another for database rows."
                )
            if hasher.searched_by_tables:
                raise TypeError(
                    f"JoinedHasher takes hashers of single bits. Codes of {type(hasher).__name__} are searched by "
                    "tables of scores."
                )
            check_parameters(hasher)
        if self.n_bits > codes.MAX_BITS:
            raise ValueError(f"Codes have at most {codes.MAX_BITS} bits. Got {self.n_bits} in this JoinedHasher.")

    def _join(self, timer: PhaseTimer, sampled: list[SampledCodes]) -> None:
        """Set calibration and thresholds to those of the fitted hashers, and give their advice.

        Advice about the codes of a part is replaced by advice about the whole codes.
        """
        slopes = np.concatenate([part.calibration_.slopes_ for part in self.hashers_])
        self._set_calibration(Calibration(slopes, np.zeros(len(slopes))))
        known = [part.confidence_ * part.n_bits_ for part in self.hashers_ if hasattr(part, "confidence_")]
        if len(known) == len(self.hashers_):
            self.confidence_ = sum(known) / len(slopes)
        thresholds = np.concatenate([self._own_thresholds(part) for part in self.hashers_])
        if thresholds.any():
            self.thresholds_ = thresholds
        given = dict.fromkeys(sentence for part in self.hashers_ for sentence in part.advice_)
        self._advise([sentence for sentence in given if not advice.is_about_codes(sentence)])
        self._advise_on_codes(SampledCodes.joined(sampled))
        self.seconds_ = timer.seconds

    def _own_thresholds(self, part: BaseHasher) -> FloatArray:
        if self.spread and part.info.database == "learned":
            return spread_thresholds(part.n_bits_, self.spread, 0)
        return getattr(part, "thresholds_", np.zeros(part.n_bits_))

    def _known_bits(self, y: Any, n_rows: int) -> NDArray[np.int8]:
        return np.hstack([hasher._known_bits(y, n_rows) for hasher in self.hashers_])

    def _block_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        return partial(project_side_by_side, [hasher._block_projection() for hasher in self.hashers_])

    @property
    def _unlabeled(self) -> Any:
        """What the first hasher that has a class for it calls unlabeled: the hashers all see the same labels."""
        return next((found for _, hasher in self._named() if (found := hasher._unlabeled) is not None), None)

    def _project(self, X: Matrix) -> Float32Array:
        return np.hstack([hasher._project(X) for hasher in self.hashers_])

    def _named(self) -> list[tuple[str, BaseHasher]]:
        """Return the hashers by class name in lower case, numbered from 1 if it repeats."""
        # set_params must take anything; fit refuses what is no list of hashers.
        hashers = (
            [h for h in self.hashers if isinstance(h, BaseHasher)] if isinstance(self.hashers, list | tuple) else []
        )
        names = [type(hasher).__name__.lower() for hasher in hashers]
        total, seen = Counter(names), Counter[str]()
        result = []
        for name, hasher in zip(names, hashers, strict=True):
            seen[name] += 1
            result.append((f"{name}-{seen[name]}" if total[name] > 1 else name, hasher))
        return result


def project_side_by_side(projections: Sequence[Callable[[Matrix], NDArray[Any]]], X: Matrix) -> NDArray[Any]:
    """Projections of a block of rows by several hashers, in their order."""
    return np.hstack([project(X) for project in projections])
