"""GSDH_P: greedy symmetric discrete hashing, one bit of a batch at a time, for any pairwise loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.constraints import IsCallable, Options
from hashlearn.fitting.frames.pairwise import PairwiseHasher
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.similarity import Similarity
from hashlearn.solvers import general, greedy
from hashlearn.solvers.losses import LOSSES, QuadraticLoss, get_loss
from hashlearn.solvers.problem import AnchorProblem, Batches, Trace
from hashlearn.solvers.rows import GeneralRows, GreedyRows, RowCoder


class GSDHP(PairwiseHasher):
    """GSDH_P: pairwise discrete hashing that updates one bit of a batch of rows at a time.

    Labels say which rows are similar. GSDH_P looks for codes whose inner products match, min |H H_A' - lambda S|^2 over
    H in {-1, +1}, with a set of anchors as second factor, and then fits a hash function to them.

    References
    ----------
    X. Shi et al., A Scalable Optimization Mechanism for Pairwise based Discrete Hashing. Differences: anchors are
    learned first; starting directions come from the anchors alone; anchors that would undo each other's gain do
    not flip together, so the objective never rises (full residual); every batch is updated, the last one too.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import GSDHP
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = GSDHP(n_bits=32, n_landmarks=200, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 4)
    >>> bool(hasher.score(X[1000:], y[1000:]) > 0.9)
    True
    """

    info = MethodInfo(
        name="gsdhp",
        title="GSDH_P",
        reference="Shi et al., A Scalable Optimization Mechanism for Pairwise based Discrete Hashing",
        year=2020,
        kind="pairwise, discrete",
        supervision=("classes", "label sets", "pairs", "similarity"),
        cost="O(n (d p + p^2 + m^2))",
        verified=True,
        passes="2",
        database="learned",
    )

    loss: Any = parameter(
        [Options(*LOSSES), IsCallable()],
        "What a pair costs. 'bre' is the printed loss (with classes it gives the KSH codes), 'bre-released' the one in "
        "the authors' code, which pulls dissimilar pairs to distance n_bits / 2. A callable ``loss(s, u)`` takes "
        "arrays of similarities and inner products.",
        default="ksh",
    )
    residual: str = parameter(
        Options("auto", *greedy.RESIDUALS),
        "What a bit answers to: all other bits ('full', the paper) or those before it ('stagewise', the released "
        "code). 'auto' is full for classes and stagewise for label sets, where each ranks best.",
        default="auto",
    )
    batch_size: int = 200
    n_starts: int | str = "auto"

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

    def _coder(self, similarity: Similarity, anchors: NDArray[np.intp], anchor_codes: NDArray[np.float64]) -> RowCoder:
        loss = get_loss(self.loss)
        options: dict[str, Any] = {
            "beta": self.beta,
            "residual": self._residual(similarity.graded),
            "max_iter": self.max_iter,
        }
        if isinstance(loss, QuadraticLoss):
            return GreedyRows(similarity, anchors, anchor_codes, loss, **options)
        return GeneralRows(similarity, anchors, anchor_codes, loss, **options)

    def _projection(self, graded: bool) -> str:
        # Where dissimilar pairs are not pulled fully apart, gains are a poor target for the function.
        if self.projection == "auto" and self.loss not in ("ksh", "bre"):
            return "rows"
        return super()._projection(graded)

    def _residual(self, graded: bool) -> str:
        if self.residual != "auto":
            return self.residual
        return "stagewise" if graded else "full"
