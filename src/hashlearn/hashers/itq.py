"""ITQ: principal components, rotated towards their signs. PCA-RR: under a random rotation, to show what ITQ's gains."""

from __future__ import annotations

import numpy as np

from hashlearn.functions.linalg import itq_rotation, random_rotation
from hashlearn.hashers.in_memory import Learned, linear
from hashlearn.hashers.sums import SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, fitted, parameter
from hashlearn.rows.reduce import FitContext
from hashlearn.typing import FloatArray, Rng


class ITQ(SumsHasher):
    """Iterative quantization: min |B - V R|^2 over B in {-1, +1} and rotations R; V are the principal components.

    With more bits than features, or than directions in which the rows extend, the components are padded with zeros, so
    that the rotation spreads them over all bits. The rotation is learned from at most 100,000 rows, drawn at random.
    """

    info = MethodInfo(
        name="itq",
        reference="Gong and Lazebnik, Iterative Quantization: A Procrustean Approach (CVPR 2011)",
        kind="quantization",
        supervision=(),
        cost="O(n d min(n, d) + n m^2)",
        verified=True,
        passes=3,
        remark="unsupervised",
    )

    max_iter: int = parameter(COUNT, "Rounds of the alternation.", default=50)

    n_iter_: int = fitted("Rounds made.")
    losses_: FloatArray = fitted("(max_iter,) The quantization loss after every round; it never rises.")

    def _learn_rows(self, training: Training, context: FitContext, rng: Rng) -> Learned:
        components = self._principal_directions(training, context, self.n_bits_)
        components = np.pad(components, ((0, 0), (0, self.n_bits_ - components.shape[1])))
        rotation, losses = itq_rotation(self._sample(training, components, context), rng, self.max_iter)
        return Learned(linear(components @ rotation), losses_=losses, n_iter_=len(losses))


class PCARR(SumsHasher):
    """Signs of the leading principal components after a random rotation, which spreads their variance over all bits.

    This is ITQ before its first round. With more bits than features, zero-padded components are rotated. Our notes
    describe only ITQ; this baseline of its paper follows from the definition. Training codes are hashed.
    """

    info = MethodInfo(
        name="pca-rr",
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
