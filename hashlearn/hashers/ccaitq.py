"""CCA-ITQ: directions that correlate with the labels, rotated towards their signs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from hashlearn.constraints import COUNT, POSITIVE, Anything
from hashlearn.deprecation import renamed_parameters
from hashlearn.fitting.frames.gram import GramHasher, LearnedFunction
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.frames.kernel_parameters import KernelParameters
from hashlearn.fitting.frames.training import GramSums, Training
from hashlearn.fitting.job import Job
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import fitted, parameter
from hashlearn.primitives import itq_rotation, top_generalized
from hashlearn.typing import FloatArray


@renamed_parameters(since="0.3", n_iter="max_iter")
class CCAITQ(KernelParameters, GramHasher):
    """Canonical correlations of features and labels, scaled by correlation, then ITQ's rotation.

    c labels give at most c - 1 useful directions (c for label sets); further bits are rotations of those. Bits are the
    signs after the last rotation; the authors' code keeps training codes from half a step earlier. Correlations that
    rounding makes negative count as 0, whereas the authors' code takes their square root. The paper learns on the rows
    themselves (``kernel=None``); kernel features retrieve better. Training codes are hashed.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import CCAITQ
    >>> X, y = load_digits(return_X_y=True)
    >>> CCAITQ(n_bits=16, random_state=0).fit(X, y).encode(X).shape
    (1797, 2)
    """

    info = MethodInfo(
        name="cca-itq",
        title="CCA-ITQ",
        reference="Gong and Lazebnik, Iterative Quantization: A Procrustean Approach (CVPR 2011)",
        year=2011,
        kind="quantization",
        supervision=("classes", "label sets"),
        cost="O(n (d + c)^2 + d^3 + n m^2)",
        verified=True,
        passes="3",
        remark="above the paper, whose flat row we cannot explain from the published routine; no bug found",
    )

    kernel: str | None = None
    ridge: float = parameter(POSITIVE, "Added to the variances of features and labels.", default=0.0001)
    max_iter: int = parameter(COUNT, "Rounds of ITQ's rotation.", default=50)
    unlabeled: Any = parameter(
        Anything(), "Besides None and NaN, the class that marks a row as unlabeled, -1 for example.", default=None
    )

    correlations_: FloatArray = fitted("Canonical correlations of the directions, in descending order.")
    n_iter_: int = fitted("Rounds made.")
    losses_: FloatArray = fitted("(max_iter,) ITQ's loss after every round; it never rises.")

    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        mean = sums.x / sums.count
        directions, correlations = canonical_directions(sums, self.ridge, self.n_bits_)
        # Zero columns are added up to the number of bits; ITQ's rotation spreads the others over all bits.
        scaled = np.pad(directions * correlations, ((0, 0), (0, self.n_bits_ - len(correlations))))
        rotation, losses = itq_rotation(self._sample(training, scaled, job) - mean @ scaled, rng, self.max_iter)
        weights = scaled @ rotation
        return LearnedFunction(
            linear(weights, -mean @ weights),
            attributes={"correlations_": correlations, "losses_": np.asarray(losses), "n_iter_": len(losses)},
        )


def canonical_directions(sums: GramSums, ridge: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Directions w with C_xy C_yy^-1 C_yx w = rho^2 C_xx w, and rho, the ``count`` largest ones or all there are."""
    n, width = sums.count, len(sums.x)
    share = 1 / max(n - 1, 1)
    C_yy = share * (sums.yy - np.outer(sums.y, sums.y) / n) + ridge * np.eye(len(sums.y))
    C_xx = share * (sums.xx - np.outer(sums.x, sums.x) / n) + ridge * np.eye(width)
    C_yx = share * (sums.xy - np.outer(sums.x, sums.y) / n).T
    explained = C_yx.T @ linalg.solve(C_yy, C_yx, assume_a="pos")
    squares, directions = top_generalized(explained, C_xx, min(count, width), ridge=0.0)
    return directions, np.sqrt(np.maximum(squares, 0.0))
