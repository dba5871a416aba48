"""SDH_P: symmetric discrete hashing, all bits of a batch at once."""

from __future__ import annotations

from dataclasses import replace

from hashlearn.pairwise.gsdhp import GSDHP, PairwiseHasher
from hashlearn.pairwise.symmetric import Symmetric
from hashlearn.parameters import Instance, parameter


class SDHP(PairwiseHasher):
    """SDH_P: pairwise discrete hashing that updates all bits of a batch of rows at once.

    It is faster than GSDH_P and better at very short codes; GSDH_P ranks better from 16 bits on, and far better for
    label sets. The loss is KSH's. The defaults are the settings of the paper.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import SDHP
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = SDHP(n_bits=32, n_landmarks=200, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode(X[1000:]).shape
    (797, 4)
    """

    info = replace(GSDHP.info, name="sdhp", title="SDH_P")
    default_solver = Symmetric

    n_anchors: int | str = 1000
    n_landmarks: int | str = 1000
    ridge: float | str = 1e-3
    projection: str = "auto"
    solver: Symmetric | None = parameter(
        [None, Instance(Symmetric)],
        "How the codes of the anchors are learned; None for ``Symmetric()``. Its parameters can be set as "
        "``solver__beta``.",
        default=None,
    )
