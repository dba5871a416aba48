"""GSDH_P: greedy symmetric discrete hashing, one bit of a batch at a time, for any pairwise loss."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from hashlearn.constraints import Instance, IsCallable, Options
from hashlearn.fitting.frames.old_parameters import accept_old_parameters
from hashlearn.fitting.frames.pairwise import PairwiseHasher
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import parameter
from hashlearn.solvers.losses import LOSSES, Loss, get_loss
from hashlearn.solvers.solver import Greedy


@accept_old_parameters
class GSDHP(PairwiseHasher):
    """GSDH_P: pairwise discrete hashing that updates one bit of a batch of rows at a time.

    Labels say which rows are similar. GSDH_P looks for codes whose inner products match, min |H H_A' - lambda S|^2 over
    H in {-1, +1}, with a set of anchors as second factor, and then fits a hash function to them. The defaults are those
    that find most on rows that training never saw; ``GSDHP.paper(n_bits)`` has the settings of the paper.

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
    default_solver = Greedy
    PAPER: ClassVar[dict[str, Any]] = {
        "n_anchors": 1000,
        "n_landmarks": 1000,
        "ridge": 1e-3,
        "projection": "auto",
        "solver__start": "leading",
    }
    """The settings of the paper that are not the defaults."""

    loss: Any = parameter(
        [Options(*LOSSES), IsCallable()],
        "What a pair costs. 'bre' is the printed loss (with classes it gives the KSH codes), 'bre-released' the one in "
        "the authors' code, which pulls dissimilar pairs to distance n_bits / 2, 'ee' is elastic embedding "
        "(``hashlearn.solvers.losses.ElasticEmbedding``). A callable ``loss(s, u)`` takes arrays of similarities and "
        "inner products.",
        default="ksh",
    )
    solver: Greedy | None = parameter(
        [None, Instance(Greedy)],
        "How the codes of the anchors are learned; None for ``Greedy()``. Its parameters can be set as "
        "``solver__beta``.",
        default=None,
    )

    @classmethod
    def paper(cls, n_bits: int = 64, **changes: Any) -> Self:
        """Return a GSDHP with the settings of the paper, which its tables are reproduced with.

        Parameters
        ----------
        n_bits : int, default=64
        **changes : any other parameters by name, as in ``set_params``

        Examples
        --------
        >>> from hashlearn import GSDHP
        >>> GSDHP.paper(16, random_state=0).n_anchors
        1000
        """
        return cls(n_bits).set_params(**cls.PAPER | changes)

    def _loss(self) -> Loss:
        return get_loss(self.loss)

    def _projection(self, graded: bool) -> str:
        # If dissimilar pairs are not pulled fully apart, gains are a poor target for the function.
        if self.projection == "auto" and self.loss not in ("ksh", "bre"):
            return "rows"
        return super()._projection(graded)
