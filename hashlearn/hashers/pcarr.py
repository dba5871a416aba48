"""PCA-RR: principal components under a random rotation, the yardstick for what ITQ's rotation is worth."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hashlearn.fitting.frames.gram import GramHasher, LearnedFunction, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.job import Job
from hashlearn.primitives import random_rotation


class PCARR(GramHasher):
    """Signs of the leading principal components after a random rotation, which spreads their variance over all bits.

    ITQ before its first round. With more bits than features, zero-padded components are rotated. Our notes describe
    only ITQ; this baseline of its paper follows from the definition.

    Database protocol: hashed. ``codes_`` are those of ``encode``.

    Parameters
    ----------
    n_bits : int, default=64
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import PCARR
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> PCARR(n_bits=16, random_state=0).fit(X).encode(X).shape
    (100, 2)
    """

    title: ClassVar[str] = "PCA-RR"
    reference: ClassVar[str] = "Gong and Lazebnik, Iterative Quantization: A Procrustean Approach (CVPR 2011)"
    year: ClassVar[int] = 2011
    kind: ClassVar[str] = "random projection"
    supervision: ClassVar[str] = "none"
    cost: ClassVar[str] = "O(n d min(n, d))"
    verified: ClassVar[bool] = False
    passes: ClassVar[str | None] = "2"

    def __init__(
        self, n_bits: int = 64, *, n_jobs: int | None = None, random_state: Any = None, verbose: int = 0
    ) -> None:
        self.n_bits = n_bits
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_rows(self, training: Training, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        components = self._principal_directions(training, job, self.n_bits_)
        rotation = random_rotation(self.n_bits_, rng)[: components.shape[1]]
        return LearnedFunction(linear(components @ rotation))
