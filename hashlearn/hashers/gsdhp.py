"""GSDH_P: greedy symmetric discrete hashing, one bit of a batch at a time, for any pairwise loss."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from hashlearn.fitting.frames.pairwise import PairwiseHasher
from hashlearn.similarity import Similarity
from hashlearn.solvers import general, greedy
from hashlearn.solvers.losses import LOSSES, QuadraticLoss, get_loss
from hashlearn.solvers.problem import AnchorProblem, Batches, Trace
from hashlearn.solvers.rows import GeneralRows, GreedyRows, RowCoder


class GSDHP(PairwiseHasher):
    """GSDH_P: pairwise discrete hashing that updates one bit of a batch of rows at a time.

        Labels say which rows are similar; GSDH_P looks for codes whose inner products match, min |H H_A' - lambda S|^2
    over H in {-1, +1}, with a set of anchors as second factor, and then fits a hash function to them.

    Parameters
    ----------
    n_bits : int, default=64
        Length of a code, 1 to 1024.
    loss : {"ksh", "bre", "bre-released", "hinge"} or callable, default="ksh"
        What a pair costs. "bre" is the printed loss (with classes it gives the KSH codes), "bre-released" the
        one in the authors' code, which pulls dissimilar pairs to distance n_bits / 2. A callable ``loss(s, u)``
        takes arrays of similarities and inner products.
    residual : {"auto", "full", "stagewise"}, default="auto"
        What a bit answers to: all other bits ("full", the paper) or those before it ("stagewise", the released
        code). "auto" is full for classes and stagewise for label sets, where each ranks best.
    n_anchors : int, default=1000
        Rows in the second factor (p in the paper), drawn from every group in proportion.
    batch_size : int, default=200
        Anchors that are updated together (the paper: 100 rows).
    beta : float, default=10.0
        How much a bit resists change.
    max_iter : int, default=20
        Rounds over all anchors (L1 in the paper); fewer when nothing changes any more.
    inner_iter : int, default=3
        Repeats of each update (L2 in the paper).
    n_starts : int or "auto", default="auto"
        Starts to learn the anchors from; the outcome with the least objective is kept. "auto" is 64 / n_bits,
        at most 4, for classes and 1 for label sets.
    dissimilar : float, "floor" or None, default=None
        S of a pair that shares nothing, as a share of the largest relevance (alpha / r_max in the paper), at most
        0. None is -1 for classes and -1/2 for label sets; "floor" is the released code's -floor(r_max / 2).
    relevance : {"count", "jaccard", "binary"} or callable, default="count"
        S of a pair that shares labels. A callable takes two dense 0/1 arrays of label sets (a, c), (b, c) and
        returns (a, b).
    r_max : float or None, default=None
        The relevance that asks for equal codes; None for the largest that occurs.
    unlabeled : object, default=None
        Besides None and NaN, the class that marks a row as unlabelled, -1 say.
    structure : int, default=0
        If positive, this many feature clusters join the label sets: codes keep more of what labels do not say,
        for classes nobody labelled, and rows without labels supervise too.
    kernel : {"rbf"}, AnchorKernel or None, default="rbf"
        Features of the linear hash function: RBF against landmarks, or None for the rows themselves.
    n_landmarks : int, default=1000
        Rows that span the kernel.
    function : {"linear", "trees", "network"}, BoostedTrees, deep.Network or scikit-learn estimator, default="linear"
        The hash function. Trees, networks and other estimators learn the code's bits from the rows themselves.
    ridge : float or "auto", default=1e-3
        Regularisation of the linear function; "auto" chooses by generalised cross-validation.
    projection : {"auto", "anchors", "rows"}, default="auto"
        Weight of a row's own code in the target of the linear function: from the anchors (as printed) or from all
        rows (as released, closer to the codes themselves). "auto" is anchors for classes with "ksh" or "bre", else
        rows.
    order : {"anchors-first", "interleaved"}, default="anchors-first"
        Learn the anchors and then code every other row alone, or visit all rows in mixed batches as the paper does.
    fill : {"random", "principal"}, default="random"
        Starting directions beyond the rank of the supervision.
    n_jobs : int or None, default=None
        Threads; None for all cores. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0
        1 reports progress on standard error.

    Attributes
    ----------
    codes_ : uint8 (n, ceil(n_bits / 8)), packed codes learned for the training rows; rows without labels are hashed.
    anchor_indices_ : the anchors' row numbers.
    objective_, changes_ : the anchors' objective and the number of changed bits after every round.
    n_iter_ : rounds made.
    seconds_ : dict, seconds by phase.
    features_, function_ : the feature map and the hash function.

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
        batch_size: int = 200,
        beta: float = 10.0,
        max_iter: int = 20,
        inner_iter: int = 3,
        n_starts: int | str = "auto",
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
        self.n_starts = n_starts
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
