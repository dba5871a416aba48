"""PCA-RR: principal components under a random rotation, the baseline that shows what ITQ's rotation gains."""

from __future__ import annotations

from hashlearn.functions.linalg import random_rotation
from hashlearn.hashers.in_memory import Learned, linear
from hashlearn.hashers.sums import SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.rows.reduce import FitContext
from hashlearn.typing import Rng


class PCARR(SumsHasher):
    """Signs of the leading principal components after a random rotation, which spreads their variance over all bits.

    This is ITQ before its first round. With more bits than features, zero-padded components are rotated. Our notes
    describe only ITQ; this baseline of its paper follows from the definition. Training codes are hashed.
    """

    info = MethodInfo(
        name="pca-rr",
        title="PCA-RR",
        reference="Gong and Lazebnik, Iterative Quantization: A Procrustean Approach (CVPR 2011)",
        kind="random projection",
        supervision=(),
        cost="O(n d min(n, d))",
        passes=2,
        remark="unsupervised",
    )

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> Learned:
        components = self._principal_directions(training, context, self.n_bits_)
        rotation = random_rotation(self.n_bits_, rng)[: components.shape[1]]
        return Learned(linear(components @ rotation))
