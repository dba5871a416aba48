"""FastHash: infer a bit by graph cuts and train boosted trees on it; the next bit corrects what the trees miss."""

from __future__ import annotations

import numpy as np

from hashlearn.functions.trees import BoostedTrees, TreeGrower
from hashlearn.hashers.in_memory import InMemoryHasher, Learned
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, Interval, Options, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, Rng
from hashlearn.zoo.bases.pairs import PAIR_LOSSES, BlockCuts, draw_partners, similar_blocks
from hashlearn.zoo.bases.primitives import labeled_rows


class FastH(InMemoryHasher):
    """FastHash: min sum over pairs of loss(Hamming distance, similar or not), bit by bit, hashed by boosted trees.

    With the earlier bits fixed, a bit z costs sum a_ij z_i z_j over the pairs, a_ij <= 0 for similar ones. Blocks of
    rows without dissimilar pairs are set in turn by an exact minimum cut. Then trees learn z, with rows weighted by
    sum |a_ij|, and the distances for the next bit use what the trees predict, not z.

    The losses, at distance d of r bits: "ksh" (s - (1 - 2 d / r))^2; "bre" ([dissimilar] - d / r)^2, a quarter of it
    and therefore the same codes; "hinge" (d / r)^2 if similar, else max(1/2 - d / r, 0)^2. Times r^2 they are whole
    numbers, so the cuts are exact.

    Trees are gradient-boosted by LightGBM, each on 50 random features; the authors run AdaBoost with 200 random
    features per node, which gives the same kind of function in more time. Partners are drawn with replacement and
    repeats are dropped. ``codes_`` are hashed by the trees, as in the authors' evaluation.
    """

    info = MethodInfo(
        name="fasth",
        title="FastHash",
        reference="Lin et al., Fast Supervised Hashing with Decision Trees for High-Dimensional Data (CVPR 2014)",
        kind="two-step, boosted trees",
        cost="O(m (pairs + cuts + trees n d))",
        verified=True,
        slow=True,
        remark="hinge loss; otherwise as fasth-ksh",
        example="n_trees=10",
    )

    loss: str = parameter(Options(*PAIR_LOSSES), "What a pair costs.", default="hinge")
    n_partners: int = parameter(
        COUNT, "Similar partners, and as many dissimilar ones, drawn for every row at most.", default=100
    )
    max_iter: int = parameter(COUNT, "Rounds over the blocks per bit.", default=2)
    n_trees: int = parameter(COUNT, "Trees per bit.", default=200)
    max_depth: int = parameter(Interval(int, 1, 8, closed="both"), "Depth of a tree.", default=4)
    learning_rate: float = parameter(POSITIVE, "Share of each tree in the sum of the trees.", default=0.2)
    tree_features: int = parameter(COUNT, "Random features that a tree may use.", default=50)

    energy_: FloatArray = fitted(
        "(n_bits, max_iter + 1) sum a_ij z_i z_j at the start and after every round; it never rises."
    )

    n_iter_: int = fitted("Rounds made per bit.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        rows = labeled_rows(labels)
        features = features[rows]
        pairs = draw_partners(labels[rows], self.n_partners, rng)
        cuts = BlockCuts(pairs, similar_blocks(labels[rows], pairs, rng))
        share = min(1.0, self.tree_features / features.shape[1])
        trees = BoostedTrees(self.n_trees, self.max_depth, self.learning_rate, share)
        grower = TreeGrower(trees, features, self.n_bits_, seed=int(rng.randint(2**31)), n_jobs=self.n_jobs)
        distance = np.zeros(len(pairs.left), dtype=np.int64)
        energy = []
        for k in steps(self.n_bits_, "bits"):
            gain = pairs.gain(self.loss, distance, k + 1)
            target, trace = cuts.infer(gain, self.max_iter, rng)
            energy.append(trace)
            weights = pairs.row_sums(np.abs(gain)) / max(float(np.abs(gain).sum()) * 2 / len(rows), 1e-300)
            grower.grow(k, (target > 0).astype(np.int64), weights)
            bit = trees.project_bit(features, k) >= 0
            distance += bit[pairs.left] != bit[pairs.right]
        return Learned(trees, energy_=energy, n_iter_=self.max_iter)
