"""The solvers of SDH_P and GSDH_P as objects: the settings that only they need, and what they do with them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.constraints import COUNT, NON_NEGATIVE, Options
from hashlearn.parameters import DeclaredEstimator, parameter
from hashlearn.primitives.itq import random_rotation
from hashlearn.similarity import Similarity
from hashlearn.solvers import general, greedy, symmetric
from hashlearn.solvers.losses import Loss, QuadraticLoss
from hashlearn.solvers.problem import AnchorProblem, Batches, Trace, random_batches
from hashlearn.solvers.rows import GeneralRows, GreedyRows, RowCoder, SymmetricRows
from hashlearn.solvers.start import FILLS, STARTS
from hashlearn.typing import FloatArray, IntArray

ORDERS = ("anchors-first", "interleaved")
# n_starts="auto": short codes are cheap to learn and depend most on their start, so they get more starts.
BITS_OF_ALL_STARTS, MOST_STARTS = 64, 4


class PairwiseSolver(DeclaredEstimator):
    """Base of the solvers. A subclass implements ``_solve`` and ``coder``."""

    batch_size: int = parameter(COUNT, "Anchors that are updated together (the paper: 100 rows).", default=100)
    beta: float = parameter(NON_NEGATIVE, "How much a bit resists change.", default=10.0)
    max_iter: int = parameter(
        COUNT, "Rounds over all anchors at most (L1 in the paper); learning ends when no bit changes.", default=20
    )
    inner_iter: int = parameter(COUNT, "Repeats of each update (L2 in the paper).", default=3)
    n_starts: int | str = parameter(
        [Options("auto"), COUNT],
        "Starts to learn the anchors from; the outcome with the least objective is kept. 'auto' is 64 / n_bits, at "
        "most 4, for classes and 1 for label sets.",
        default=1,
    )
    order: str = parameter(
        Options(*ORDERS),
        "Learn the anchors and then code every other row alone, or visit all rows in mixed batches as the paper does.",
        default="anchors-first",
    )
    start: str = parameter(
        Options(*STARTS),
        "Directions whose signs are the first codes: discriminant directions of the classes, rotated towards signs, or "
        "the leading singular vectors of X' S X (the paper). Label sets, pairs and given similarities always use the "
        "latter.",
        default="leading",
    )
    fill: str = parameter(Options(*FILLS), "Leading directions beyond the rank of the supervision.", default="random")

    def learn(
        self,
        problem: AnchorProblem,
        sample: NDArray[np.floating],
        directions: NDArray[np.floating],
        loss: Loss,
        graded: bool,
        rng: np.random.RandomState,
    ) -> tuple[Trace, NDArray[np.floating]]:
        """Learn the codes of the problem's rows from the best of ``n_starts`` starts.

        Parameters
        ----------
        sample : centered features of the rows
        directions : (n_features, n_bits) The first start is the sign of ``sample @ directions``; others are rotated.
        graded : whether the similarity has more values than similar and dissimilar, as that of label sets

        Returns
        -------
        the trace with the least objective, and the directions that it started from
        """
        n_starts, n_bits = self.n_starts, directions.shape[1]
        if isinstance(n_starts, str):
            n_starts = 1 if graded else int(np.clip(BITS_OF_ALL_STARTS // n_bits, 1, MOST_STARTS))
        best: tuple[Trace, NDArray[np.floating]] | None = None
        for k in range(n_starts):
            turned = directions @ random_rotation(n_bits, rng) if k else directions
            start = np.where(sample @ turned >= 0, 1.0, -1.0)
            batches = random_batches(np.arange(len(sample)), self.batch_size, int(rng.randint(2**31)))
            trace = self._solve(problem, start, batches, loss, graded)
            if best is None or trace.objective[-1] < best[0].objective[-1]:
                best = trace, turned
        assert best is not None
        return best

    @abstractmethod
    def _solve(self, problem: AnchorProblem, start: FloatArray, batches: Batches, loss: Loss, graded: bool) -> Trace:
        """Learn codes from one start."""

    @abstractmethod
    def coder(self, similarity: Similarity, anchors: IntArray, anchor_codes: FloatArray, loss: Loss) -> RowCoder:
        """Return what codes any other row, given the codes of the anchors."""


class Greedy(PairwiseSolver):
    """Solver of GSDH_P: one bit of a batch at a time, ``GSDHP(solver=Greedy(beta=5.0))``.

    Examples
    --------
    >>> from hashlearn import GSDHP, Greedy
    >>> GSDHP(16, solver=Greedy(max_iter=5)).get_params()["solver__max_iter"]
    5
    """

    batch_size: int = 200
    n_starts: int | str = "auto"
    start: str = "discriminant"
    residual: str = parameter(
        Options("auto", *greedy.RESIDUALS),
        "What a bit responds to: all other bits ('full', the paper) or those before it ('stagewise', the released "
        "code). 'auto' is full for classes and stagewise for label sets, because each ranks best there.",
        default="auto",
    )

    def _solve(self, problem: AnchorProblem, start: FloatArray, batches: Batches, loss: Loss, graded: bool) -> Trace:
        settings: dict[str, Any] = {
            "beta": self.beta,
            "residual": self._residual(graded),
            "max_iter": self.max_iter,
            "inner_iter": self.inner_iter,
        }
        if isinstance(loss, QuadraticLoss):
            return greedy.learn(problem, start, batches, loss, **settings)
        return general.learn(problem, start, batches, loss, **settings)

    def coder(self, similarity: Similarity, anchors: IntArray, anchor_codes: FloatArray, loss: Loss) -> RowCoder:
        given = (similarity, anchors, anchor_codes)
        residual = self._residual(similarity.graded)
        if isinstance(loss, QuadraticLoss):
            return GreedyRows(*given, loss, beta=self.beta, residual=residual, max_iter=self.max_iter)
        return GeneralRows(*given, loss, beta=self.beta, residual=residual, max_iter=self.max_iter)

    def _residual(self, graded: bool) -> str:
        if self.residual != "auto":
            return self.residual
        return "stagewise" if graded else "full"


class Symmetric(PairwiseSolver):
    """Solver of SDH_P: all bits of a batch at once, ``SDHP(solver=Symmetric(beta=5.0))``.

    Examples
    --------
    >>> from hashlearn import SDHP, Symmetric
    >>> SDHP(16, solver=Symmetric(max_iter=5)).get_params()["solver__max_iter"]
    5
    """

    def _solve(self, problem: AnchorProblem, start: FloatArray, batches: Batches, loss: Loss, graded: bool) -> Trace:
        return symmetric.learn(
            problem, start, batches, beta=self.beta, max_iter=self.max_iter, inner_iter=self.inner_iter
        )

    def coder(self, similarity: Similarity, anchors: IntArray, anchor_codes: FloatArray, loss: Loss) -> RowCoder:
        assert isinstance(loss, QuadraticLoss)
        given = (similarity, anchors, anchor_codes)
        return SymmetricRows(*given, loss, beta=self.beta, max_iter=self.max_iter, inner_iter=self.inner_iter)
