"""KSDH: one factor of the pairwise fit is discrete, the other a kernel projection."""

from __future__ import annotations

import numpy as np

from hashlearn.hashers.in_memory import Learned
from hashlearn.hashers.sums import Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import FLAG, NON_NEGATIVE, Options, fitted, parameter
from hashlearn.similarity import LabelSimilarity
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.primitives import FeatureMetric, LabelProduct
from hashlearn.zoo.bases.rounds import Rounds, RoundsHasher, SignStep


class KSDH(RoundsHasher):
    """Kernel-based supervised discrete hashing: min |B (KA)' - m S|^2 + w |B - KA|^2 subject to A'K'KA = n I.

    The constraint makes all quadratic terms constant, so with G = m S + w I each half-step raises tr(B' G K A):
    B = sgn(G K A) ("B") is the exact maximum, and A is found by orthogonal Procrustes with a small pull towards the
    last A, which decides where B has no say. The variant "H" ties B = sgn(K A) and has w = 0; its
    objective need not rise.

    We did not have the paper's text; this follows notes on it (``verified`` is False). With more bits than classes the
    constraint forces A into directions without meaning, and hashing by A gets worse with every bit; ``refit`` replaces
    A by a ridge regression on G K A, which does not get worse. ``codes_`` are learned for the variant "B" and hashed
    for "H". There must be at least as many landmarks as bits.

    The fit needs K'K, the sums of K by label set (n_sets x n_landmarks numbers, held in memory) and one pass over the
    rows per round.
    """

    info = MethodInfo(
        name="ksdh",
        reference="Shi et al., Kernel-Based Supervised Discrete Hashing for Image Retrieval (ECCV 2016)",
        kind="pairwise, discrete",
        cost="O(n p^2 + p^3 + T n m (p + c))",
        passes=2,
        rounds=True,
        database="learned",
        remark="unconfirmed source, with the refit that the notes suggest",
    )

    by_group = True

    variant: str = parameter(
        Options("B", "H"), "Codes that are free ('B'), or signs of the projection ('H').", default="B"
    )
    refit: bool = parameter(
        FLAG, "Hash by ridge regression on the final G K A; False for A itself, as the objective has it.", default=True
    )
    weight: float = parameter(NON_NEGATIVE, "w as a share of m n; no effect for 'H'.", default=0.01)

    objective_: FloatArray = fitted("(2 rounds,) tr(B' G K A) after every half-step; it never falls for 'B'.")
    projection_: FloatArray = fitted("(n_landmarks, n_bits) A.")

    def _check_training(self, training: Training) -> None:
        width, bits = training.n_features, self.n_bits_
        if bits > width:
            raise ValueError(f"KSDH needs as many features (landmarks) as bits. Got {width} features for {bits} bits.")

    def _learn_rounds(self, rounds: Rounds, rng: Rng) -> Learned:
        sums, own, bits, free = rounds.sums, rounds.sums.groups, self.n_bits_, self.variant == "B"
        # S between label sets: rows with equal labels matter by their sums alone.
        similarity = LabelProduct(LabelSimilarity(np.arange(len(own)), rounds.training.labels))
        scale = bits / similarity.similarity.largest
        weight = self.weight * bits * sums.count if free else 0.0
        metric = FeatureMetric(sums.xx / sums.count)
        projection, objective = metric.top_directions(similarity.quadratic(own), bits), []
        for phase in rounds.repeat():
            pull = scale * (similarity @ (own @ projection))
            targets = own.T @ pull + weight * (sums.xx @ projection)
            step = SignStep(weight * projection, pull) if free else SignStep(projection, np.zeros_like(pull))
            B = rounds.run(step, phase)
            objective.append(float((rounds.by_group() * pull).sum() + weight * (B.xb * projection).sum()))
            if rounds.stable:
                break
            cross = scale * (own.T @ (similarity @ rounds.by_group())) + weight * B.xb
            projection = metric.procrustes(cross, projection)
            objective.append(float((projection * cross).sum()))
        weights = rounds.solve(targets) if self.refit else projection
        return rounds.learned(weights, keep=free, objective_=objective, projection_=projection)
