"""FastHash: infer a bit by graph cuts, teach it to boosted trees, let the next bit mend what they miss."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from hashlearn.fitting.frames.in_memory import Learned, LinearHasher
from hashlearn.functions.trees import BoostedTrees, TreeGrower
from hashlearn.primitives import labelled_rows, steps
from hashlearn.primitives.cuts import BlockCuts, blocks_of_friends
from hashlearn.primitives.partners import PAIR_LOSSES, draw_partners


class FastH(LinearHasher):
    """FastHash: min sum over pairs of loss(Hamming distance, similar or not), bit by bit, hashed by boosted trees.

    With the bits so far fixed, a bit z costs sum a_ij z_i z_j over the pairs, a_ij <= 0 for similar ones. Blocks of
    rows without dissimilar pairs are set by an exact minimum cut in turn; then trees learn z, rows weighed by
    sum |a_ij|, and what the trees predict (not z) goes into the distances for the next bit.

    The losses, at distance d of r bits: "ksh" (s - (1 - 2 d / r))^2; "bre" ([dissimilar] - d / r)^2, a quarter of it
    and therefore the same codes; "hinge" (d / r)^2 if similar, else max(1/2 - d / r, 0)^2. Times r^2 they are whole
    numbers, so the cuts are exact.

    Trees are gradient-boosted by LightGBM, each on 50 random features, where the authors run AdaBoost with 200 random
    features a node: the same kind of function in less time. Partners are drawn with replacement, repeats dropped.
    ``codes_`` are hashed by the trees, as in the authors' evaluation.

    Parameters
    ----------
    n_bits : int, default=64
    loss : {"hinge", "ksh", "bre"}, default="hinge"
    n_partners : int, default=100
        Similar and as many dissimilar partners drawn for every row, at most.
    n_sweeps : int, default=2
        Rounds over the blocks a bit.
    n_trees : int, default=200
        Trees a bit.
    max_depth : int, default=4
        Of a tree, at most 8.
    learning_rate : float, default=0.2
    tree_features : int, default=50
        Random features that a tree may use.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    energy_ : ndarray (n_bits, n_sweeps + 1), sum a_ij z_i z_j at the start and after every sweep; never rises.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import FastH
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> FastH(n_bits=8, n_trees=10, random_state=0).fit(X, np.arange(100) % 4).encode(X).shape
    (100, 1)
    """

    title: ClassVar[str] = "FastHash"
    reference: ClassVar[str] = (
        "Lin et al., Fast Supervised Hashing with Decision Trees for High-Dimensional Data (CVPR 2014)"
    )
    year: ClassVar[int] = 2014
    kind: ClassVar[str] = "two-step, boosted trees"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(m (pairs + cuts + trees n d))"
    verified: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearHasher._parameter_constraints,
        "loss": [StrOptions(set(PAIR_LOSSES))],
        "n_partners": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_sweeps": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_trees": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_depth": [Interval(numbers.Integral, 1, 8, closed="both")],
        "learning_rate": [Interval(numbers.Real, 0, None, closed="neither")],
        "tree_features": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        loss: str = "hinge",
        n_partners: int = 100,
        n_sweeps: int = 2,
        n_trees: int = 200,
        max_depth: int = 4,
        learning_rate: float = 0.2,
        tree_features: int = 50,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.loss = loss
        self.n_partners = n_partners
        self.n_sweeps = n_sweeps
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.tree_features = tree_features
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(
        self, features: NDArray[np.float32], labels: sparse.csr_matrix | None, rng: np.random.RandomState
    ) -> Learned:
        assert labels is not None
        rows = labelled_rows(labels)
        features = features[rows]
        pairs = draw_partners(labels[rows], self.n_partners, rng)
        cuts = BlockCuts(pairs, blocks_of_friends(labels[rows], pairs, rng))
        share = min(1.0, self.tree_features / features.shape[1])
        trees = BoostedTrees(self.n_trees, self.max_depth, self.learning_rate, share)
        grower = TreeGrower(trees, features, self.n_bits_, seed=int(rng.randint(2**31)), n_jobs=self.n_jobs)
        distance = np.zeros(len(pairs.left), dtype=np.int64)
        energy = []
        for k in steps(self.n_bits_, "bits"):
            gain = pairs.gain(self.loss, distance, k + 1)
            target, trace = cuts.infer(gain, self.n_sweeps, rng)
            energy.append(trace)
            weights = pairs.row_sums(np.abs(gain)) / max(float(np.abs(gain).sum()) * 2 / len(rows), 1e-300)
            grower.grow(k, (target > 0).astype(np.int64), weights)
            bit = trees.project_bit(features, k) >= 0
            distance += bit[pairs.left] != bit[pairs.right]
        return Learned(trees, attributes={"energy_": np.asarray(energy)})
