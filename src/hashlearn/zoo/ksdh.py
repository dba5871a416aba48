"""KSDH: one factor of the pairwise fit is discrete, the other a kernel projection."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hashlearn.hashers.in_memory import KernelParameters, linear
from hashlearn.hashers.sums import GramSums, LearnedFunction, SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, FLAG, NON_NEGATIVE, POSITIVE, Options, fitted, parameter
from hashlearn.progress import steps
from hashlearn.rows.reduce import FitContext
from hashlearn.similarity import LabelSimilarity
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.primitives import FeatureMetric, LabelProduct
from hashlearn.zoo.bases.rounds import Rounds, SignStep, keep_codes


class KSDH(KernelParameters, SumsHasher):
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
        title="KSDH",
        reference="Shi et al., Kernel-Based Supervised Discrete Hashing for Image Retrieval (ECCV 2016)",
        kind="pairwise, discrete",
        cost="O(n p^2 + p^3 + T n m (p + c))",
        passes=2,
        rounds=True,
        database="learned",
        remark="unconfirmed source, with the refit that the notes suggest",
    )

    variant: str = parameter(
        Options("B", "H"), "Codes that are free ('B'), or signs of the projection ('H').", default="B"
    )
    refit: bool = parameter(
        FLAG, "Hash by ridge regression on the final G K A; False for A itself, as the objective has it.", default=True
    )
    weight: float = parameter(NON_NEGATIVE, "w as a share of m n; no effect for 'H'.", default=0.01)
    max_iter: int = parameter(COUNT, "Rounds at most; the fit ends when no bit changes.", default=20)
    ridge: float = parameter(POSITIVE, "Ridge of the refit.", default=0.001)

    objective_: FloatArray = fitted("(2 rounds,) tr(B' G K A) after every half-step; it never falls for 'B'.")
    projection_: FloatArray = fitted("(n_landmarks, n_bits) A.")
    n_iter_: int = fitted("Rounds made.")

    by_group: ClassVar[bool] = True

    def _check_training(self, training: Training) -> None:
        width, bits = training.n_features, self.n_bits_
        if bits > width:
            raise ValueError(f"KSDH needs as many features (landmarks) as bits. Got {width} features for {bits} bits.")

    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> LearnedFunction:
        count, bits, own = sums.count, self.n_bits_, sums.groups
        rounds = Rounds(training, sums, self.features_.center_, bits, self.ridge, context)
        # S between label sets: rows with equal labels matter by their sums alone.
        similarity = LabelProduct(LabelSimilarity(np.arange(len(own)), training.labels))
        free = self.variant == "B"
        scale = bits / similarity.similarity.largest
        weight = self.weight * bits * count if free else 0.0
        metric = FeatureMetric(sums.xx / count)
        projection, objective = metric.top_directions(similarity.quadratic(own), bits), []
        for step in steps(self.max_iter, "rounds"):
            pull = scale * (similarity @ (own @ projection))
            targets = own.T @ pull + weight * (sums.xx @ projection)
            B = rounds.run(
                SignStep(weight * projection, pull) if free else SignStep(projection, np.zeros_like(pull)),
                f"round {step + 1}",
            )
            by_group = B.groups.all()
            objective.append(float((by_group * pull).sum() + weight * (B.xb * projection).sum()))
            if step and B.changed == 0:
                break
            cross = scale * (own.T @ (similarity @ by_group)) + weight * B.xb
            projection = metric.procrustes(cross, projection)
            objective.append(float((projection * cross).sum()))
        if free:
            keep_codes(rounds, context)
        return LearnedFunction(
            linear(rounds.solve(targets) if self.refit else projection),
            attributes={"objective_": np.asarray(objective), "projection_": projection, "n_iter_": step + 1},
            coded=free,
        )
