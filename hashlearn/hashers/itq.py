"""ITQ: principal components, rotated towards their signs."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from hashlearn.fitting.frames.gram import GramHasher, LearnedFunction, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.job import Job
from hashlearn.primitives import itq_rotation


class ITQ(GramHasher):
    """Iterative quantisation: min |B - V R|^2 over B in {-1, +1} and rotations R, V the principal components.

    With more bits than features, or than directions in which the rows extend, the components are spread over all bits
    by a tall rotation of zero-padded ones. The rotation is learned from at most 100,000 rows, drawn at random.

    Parameters
    ----------
    n_bits : int, default=64
    n_iter : int, default=50
        Rounds of the alternation.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    losses_ : ndarray (n_iter,), the quantisation loss after every round; never rises.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import ITQ
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> ITQ(n_bits=16, random_state=0).fit(X).encode(X).shape
    (100, 2)
    """

    title: ClassVar[str] = "ITQ"
    reference: ClassVar[str] = "Gong and Lazebnik, Iterative Quantization: A Procrustean Approach (CVPR 2011)"
    year: ClassVar[int] = 2011
    kind: ClassVar[str] = "quantisation"
    supervision: ClassVar[str] = "none"
    cost: ClassVar[str] = "O(n d min(n, d) + n m^2)"
    verified: ClassVar[bool] = True
    passes: ClassVar[str | None] = "3"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GramHasher._parameter_constraints,
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_iter: int = 50,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_iter = n_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_rows(self, training: Training, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        components = self._principal_directions(training, job, self.n_bits_)
        components = np.pad(components, ((0, 0), (0, self.n_bits_ - components.shape[1])))
        rotation, losses = itq_rotation(self._sample(training, components, job), rng, self.n_iter)
        return LearnedFunction(linear(components @ rotation), attributes={"losses_": np.asarray(losses)})
