"""ADGH: codes of rows and codes of anchors, tied by a label graph between the two."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hashlearn.hashers.in_memory import KernelParameters, linear
from hashlearn.hashers.sums import GramSums, LearnedFunction, SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, FLAG, NON_NEGATIVE, POSITIVE, fitted, parameter
from hashlearn.progress import steps
from hashlearn.rows.reduce import FitContext
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.primitives import FeatureMetric, class_numbers, keep_sign
from hashlearn.zoo.bases.rounds import Rounds, SignStep, keep_codes


class ADGH(KernelParameters, SumsHasher):
    """Asymmetric discrete graph hashing: max tr(B' A P) + w tr(B' K W) subject to W'K'KW = n I.

    B are the codes of n rows, P those of anchors, both in {-1, +1}; A joins rows and anchors of one class, normalized
    by row and column sums. The steps P = sgn(A'B) and B = sgn(A P + w K W) find exact maxima. W is found by orthogonal
    Procrustes with a small pull towards the last W, which decides where B has no say. There must be at least as many
    landmarks as bits.

    We had only the paper's abstract, so the objective is a reconstruction (``verified`` is False). An anchor matters
    through its class alone, so P is kept once per class and no anchor is ever drawn: with n_k rows and p_k anchors in
    class k, A P repeats sqrt(p_k / n_k) P_k. ``codes_`` are the learned codes.
    """

    info = MethodInfo(
        name="adgh",
        title="ADGH",
        reference="Shi et al., Asymmetric Discrete Graph Hashing (AAAI 2017)",
        kind="graph, discrete",
        supervision=("classes",),
        cost="O(n p^2 + p^3 + T n p m)",
        passes=3,
        rounds=True,
        database="learned",
        remark="reconstruction",
    )

    n_anchors: int = parameter(
        COUNT, "Anchors of all classes together, shared equally; a class has no more anchors than rows.", default=1000
    )
    weight: float = parameter(
        NON_NEGATIVE,
        "w, the weight of the projection against the graph, whose largest singular value is 1.",
        default=0.1,
    )
    refit: bool = parameter(
        FLAG,
        "Hash by ridge regression on B; False for W itself, whose bits beyond the number of classes mean little.",
        default=True,
    )
    max_iter: int = parameter(COUNT, "Rounds at most; the fit ends when no bit changes.", default=20)
    ridge: float = parameter(POSITIVE, "Ridge of the refit.", default=0.001)

    objective_: FloatArray = fitted("(3 rounds,) The objective after every step; it never falls.")
    projection_: FloatArray = fitted("(n_landmarks, n_bits) W.")
    anchor_codes_: FloatArray = fitted("(n_classes, n_bits) P, one row per class.")
    n_iter_: int = fitted("Rounds made.")

    by_group: ClassVar[bool] = True

    def _check_training(self, training: Training) -> None:
        class_numbers(training.labels, "ADGH")
        width, bits = training.n_features, self.n_bits_
        if bits > width:
            raise ValueError(f"ADGH needs as many features (landmarks) as bits. Got {width} features for {bits} bits.")

    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> LearnedFunction:
        classes = class_numbers(training.labels, "ADGH")
        bits, own = self.n_bits_, sums.groups
        assert training.counts is not None
        sizes = training.counts
        anchors = np.minimum(sizes, max(1, round(self.n_anchors / len(sizes))))
        strength = np.sqrt(anchors / sizes)[:, None]

        rounds = Rounds(training, sums, self.features_.center_, bits, self.ridge, context)
        metric = FeatureMetric(sums.xx / sums.count)
        # A A' = sum over classes of 1 1' / n_k, so K'A A'K needs the class sums of K only.
        means = own / np.sqrt(sizes)[:, None]
        projection = metric.top_directions(means.T @ means, bits)
        anchor_codes, objective = np.ones((len(sizes), bits)), []
        B = rounds.run(SignStep(projection, np.zeros_like(anchor_codes)), "start codes")

        def value() -> float:
            graph = strength * anchor_codes * B.groups.all()
            return float(graph.sum() + self.weight * (B.xb * projection).sum())

        for step in steps(self.max_iter, "rounds"):
            anchor_codes = keep_sign(B.groups.all(), anchor_codes)
            objective.append(value())
            B = rounds.run(SignStep(self.weight * projection, strength * anchor_codes), f"round {step + 1}")
            objective.append(value())
            if step and B.changed == 0:
                break
            projection = metric.procrustes(B.xb, projection)
            objective.append(value())
        keep_codes(rounds, context)
        trace = {"objective_": np.asarray(objective), "n_iter_": step + 1}
        return LearnedFunction(
            linear(rounds.regression(B) if self.refit else projection),
            attributes={**trace, "projection_": projection, "anchor_codes_": anchor_codes[np.argsort(classes)]},
            coded=True,
        )
