"""GSDH_P: greedy symmetric discrete hashing, one bit of a batch at a time, for any pairwise loss."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from hashlearn.hashers.pairwise import PairwiseHasher
from hashlearn.similarity import Similarity
from hashlearn.solvers import general, greedy
from hashlearn.solvers.losses import LOSSES, QuadraticLoss, get_loss
from hashlearn.solvers.problem import AnchorProblem, Batches, Trace
from hashlearn.solvers.rows import GeneralRows, GreedyRows, RowCoder


class GSDHP(PairwiseHasher):
    """GSDH_P: pairwise discrete hashing that updates one bit of a batch of rows at a time.

    PARAMDOC
    """

    title: ClassVar[str] = "GSDH_P"
    reference: ClassVar[str] = "Shi et al., A Scalable Optimization Mechanism for Pairwise based Discrete Hashing"
    year: ClassVar[int] = 2020
    kind: ClassVar[str] = "pairwise, discrete"
    cost: ClassVar[str] = "O(n (d p + p^2 + m^2))"
    verified: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PairwiseHasher._parameter_constraints,
        "loss": [StrOptions(set(LOSSES)), callable],
        "residual": [StrOptions({"auto", *greedy.RESIDUALS})],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        loss: Any = "ksh",
        residual: str = "auto",
        n_anchors: int = 1000,
        batch_size: int = 100,
        beta: float = 10.0,
        max_iter: int = 20,
        inner_iter: int = 3,
        dissimilar: float | str | None = None,
        relevance: Any = "count",
        r_max: float | None = None,
        unlabeled: Any = None,
        structure: int = 0,
        kernel: Any = "rbf",
        n_landmarks: int = 1000,
        function: Any = "linear",
        ridge: float | str = 1e-3,
        projection: str = "auto",
        order: str = "anchors-first",
        fill: str = "random",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.loss = loss
        self.residual = residual
        self.n_anchors = n_anchors
        self.batch_size = batch_size
        self.beta = beta
        self.max_iter = max_iter
        self.inner_iter = inner_iter
        self.dissimilar = dissimilar
        self.relevance = relevance
        self.r_max = r_max
        self.unlabeled = unlabeled
        self.structure = structure
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.function = function
        self.ridge = ridge
        self.projection = projection
        self.order = order
        self.fill = fill
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _solve(self, problem: AnchorProblem, start: NDArray[np.float64], batches: Batches, graded: bool) -> Trace:
        loss = get_loss(self.loss)
        options: dict[str, Any] = {
            "beta": self.beta,
            "residual": self._residual(graded),
            "max_iter": self.max_iter,
            "inner_iter": self.inner_iter,
        }
        if isinstance(loss, QuadraticLoss):
            return greedy.learn(problem, start, batches, loss, **options)
        return general.learn(problem, start, batches, loss, **options)

    def _coder(
        self, similarity: Similarity, anchors: NDArray[np.intp], anchor_codes: NDArray[np.float64]
    ) -> RowCoder:
        loss = get_loss(self.loss)
        options: dict[str, Any] = {
            "beta": self.beta,
            "residual": self._residual(similarity.graded),
            "max_iter": self.max_iter,
        }
        if isinstance(loss, QuadraticLoss):
            return GreedyRows(similarity, anchors, anchor_codes, loss, **options)
        return GeneralRows(similarity, anchors, anchor_codes, loss, **options)

    def _residual(self, graded: bool) -> str:
        if self.residual != "auto":
            return self.residual
        return "stagewise" if graded else "full"
