"""ADGH: codes of rows and codes of anchors, tied by a label graph between the two."""

from __future__ import annotations

import numpy as np

from hashlearn.hashers.in_memory import Learned
from hashlearn.hashers.sums import Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, FLAG, NON_NEGATIVE, fitted, parameter
from hashlearn.typing import FloatArray, Rng
from hashlearn.zoo.bases.primitives import FeatureMetric, class_numbers, keep_sign
from hashlearn.zoo.bases.rounds import Rounds, RoundsHasher, SignStep


class ADGH(RoundsHasher):
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
        reference="Shi et al., Asymmetric Discrete Graph Hashing (AAAI 2017)",
        kind="graph, discrete",
        supervision=("classes",),
        cost="O(n p^2 + p^3 + T n p m)",
        passes=3,
        rounds=True,
        database="learned",
        remark="reconstruction",
    )

    by_group = True

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

    objective_: FloatArray = fitted("(3 rounds,) The objective after every step; it never falls.")
    projection_: FloatArray = fitted("(n_landmarks, n_bits) W.")
    anchor_codes_: FloatArray = fitted("(n_classes, n_bits) P, one row per class.")

    def _check_training(self, training: Training) -> None:
        class_numbers(training.labels, "ADGH")
        width, bits = training.n_features, self.n_bits_
        if bits > width:
            raise ValueError(f"ADGH needs as many features (landmarks) as bits. Got {width} features for {bits} bits.")

    def _learn_rounds(self, rounds: Rounds, rng: Rng) -> Learned:
        training, sums = rounds.training, rounds.sums
        classes, sizes = class_numbers(training.labels, "ADGH"), training.sizes
        anchors = np.minimum(sizes, max(1, round(self.n_anchors / len(sizes))))
        strength = np.sqrt(anchors / sizes)[:, None]
        metric = FeatureMetric(sums.xx / sums.count)
        # A A' = sum over classes of 1 1' / n_k, so K'A A'K needs the class sums of K only.
        means = sums.groups / np.sqrt(sizes)[:, None]
        projection = metric.top_directions(means.T @ means, self.n_bits_)
        anchor_codes, objective = np.ones((len(sizes), self.n_bits_)), []
        B = rounds.run(SignStep(projection, np.zeros_like(anchor_codes)), "start codes")

        def record() -> None:
            graph = strength * anchor_codes * rounds.by_group()
            objective.append(float(graph.sum() + self.weight * (B.xb * projection).sum()))

        for phase in rounds.repeat():
            anchor_codes = keep_sign(rounds.by_group(), anchor_codes)
            record()
            B = rounds.run(SignStep(self.weight * projection, strength * anchor_codes), phase)
            record()
            if rounds.stable:
                break
            projection = metric.procrustes(B.xb, projection)
            record()
        weights = rounds.regression() if self.refit else projection
        book = anchor_codes[np.argsort(classes)]
        return rounds.learned(weights, objective_=objective, projection_=projection, anchor_codes_=book)
