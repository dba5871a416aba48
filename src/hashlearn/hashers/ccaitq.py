"""CCA-ITQ: directions that correlate with the labels, rotated towards their signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from hashlearn.functions.linalg import fix_signs, itq_rotation
from hashlearn.functions.linear import least_place
from hashlearn.hashers.in_memory import KernelParameters, Learned, linear
from hashlearn.hashers.sums import GramSums, SumsHasher, Training
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, Anything, Options, fitted, parameter
from hashlearn.rows.reduce import FitContext
from hashlearn.typing import FloatArray, Rng

PRINTED_RIDGE = 1e-4
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Ridges to choose from, as shares of the mean variance of the features."""


class CCAITQ(KernelParameters, SumsHasher):
    """Canonical correlations of features and labels, scaled by correlation, then ITQ's rotation.

    c labels give at most c - 1 useful directions (c for label sets); further bits are rotations of those. Bits are the
    signs after the last rotation; the authors' code keeps training codes from half a step earlier. Correlations that
    rounding makes negative count as 0, whereas the authors' code takes their square root. The paper learns on the rows
    themselves (``kernel=None``); kernel features retrieve better. Training codes are hashed.
    """

    info = MethodInfo(
        name="cca-itq",
        reference="Gong and Lazebnik, Iterative Quantization: A Procrustean Approach (CVPR 2011)",
        kind="quantization",
        cost="O(n (d + c)^2 + d^3 + n m^2)",
        verified=True,
        passes=3,
        remark="above the paper, whose flat row we cannot explain from the published routine; no bug found",
    )

    kernel: str | None = None
    ridge: float | str = parameter(
        [Options("auto"), POSITIVE],
        "Added to the variances of the features, and of the labels (0.0001 there with 'auto'). 'auto' is the share of "
        "their mean variance with which the features predict the labels best, by generalized cross-validation; 0.0001 "
        "is the authors' value.",
        default="auto",
    )
    max_iter: int = parameter(COUNT, "Rounds of ITQ's rotation.", default=50)
    unlabeled: Any = parameter(
        Anything(), "Besides None and NaN, the class that marks a row as unlabeled, -1 for example.", default=None
    )

    ridge_: float = fitted("The ridge of the features.")
    correlations_: FloatArray = fitted("Canonical correlations of the directions, in descending order.")
    n_iter_: int = fitted("Rounds made.")
    losses_: FloatArray = fitted("(max_iter,) ITQ's loss after every round; it never rises.")

    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> Learned:
        mean = sums.x / sums.count
        covariances = Covariances.from_sums(sums)
        ridge, label_ridge = self.ridge, self.ridge
        if isinstance(ridge, str) or isinstance(label_ridge, str):
            ridge, label_ridge = chosen_ridge(covariances), PRINTED_RIDGE
        directions, correlations = canonical_directions(covariances, ridge, label_ridge, self.n_bits_)
        # Zero columns are added up to the number of bits; ITQ's rotation spreads the others over all bits.
        scaled = np.pad(directions * correlations, ((0, 0), (0, self.n_bits_ - len(correlations))))
        rotation, losses = itq_rotation(self._sample(training, scaled, context) - mean @ scaled, rng, self.max_iter)
        weights = scaled @ rotation
        function, n_iter = linear(weights, -mean @ weights), len(losses)
        return Learned(function, ridge_=ridge, correlations_=correlations, losses_=losses, n_iter_=n_iter)


@dataclass
class Covariances:
    """Covariances between features and labels, from sums over rows."""

    count: int
    xx: FloatArray
    xy: FloatArray
    yy: FloatArray

    @classmethod
    def from_sums(cls, sums: GramSums) -> Covariances:
        n = sums.count
        share = 1 / max(n - 1, 1)
        xx = share * (sums.xx - np.outer(sums.x, sums.x) / n)
        xy = share * (sums.xy - np.outer(sums.x, sums.y) / n)
        return cls(n, xx, xy, share * (sums.yy - np.outer(sums.y, sums.y) / n))

    def factor(self, ridge: float) -> FloatArray:
        """Return the lower Cholesky factor of the covariance of the features plus a ridge."""
        lifted = self.xx.copy()
        lifted.flat[:: len(lifted) + 1] += ridge
        return linalg.cholesky(lifted, lower=True, overwrite_a=True, check_finite=False)


def chosen_ridge(covariances: Covariances) -> float:
    """Return the ridge with which the features predict the labels best, by generalized cross-validation.

    The regression of the labels on the features has the same regularized covariance as the canonical correlations.
    """
    scale = float(np.trace(covariances.xx)) / len(covariances.xx)
    if not scale > 0:
        return PRINTED_RIDGE
    best = least_place(lambda place: _validation_error(covariances, RIDGES[place] * scale), len(RIDGES))
    return RIDGES[best] * scale


def _validation_error(covariances: Covariances, ridge: float) -> float:
    """Return the mean squared residual over the squared share of free degrees, up to a constant factor."""
    try:
        lower = covariances.factor(ridge)
    except linalg.LinAlgError:  # rounding made the covariance indefinite, so this ridge is too small to use
        return np.inf
    width = len(lower)
    weights = linalg.cho_solve((lower, True), covariances.xy, check_finite=False)
    inverse, _ = linalg.lapack.dtrtri(lower, lower=1)
    spent = width - ridge * float(np.einsum("ij,ij->", inverse, inverse))
    left = float(np.trace(covariances.yy) - np.sum(weights * covariances.xy) - ridge * np.sum(weights**2))
    free = 1 - spent / covariances.count
    return max(left, 0.0) / free**2 if free > 1e-9 else np.inf


def canonical_directions(
    covariances: Covariances, ridge: float, label_ridge: float, count: int
) -> tuple[FloatArray, FloatArray]:
    """Directions w with C_xy C_yy^-1 C_yx w = rho^2 C_xx w, and rho, the ``count`` largest ones or all there are.

    With C_xx = L L', they are the left singular vectors of L^-1 C_xy C_yy^-1/2, times L^-T. The labels are fewer than
    the features, so this needs no eigenproblem of the size of the features.
    """
    lower = covariances.factor(ridge)
    of_labels = covariances.yy + label_ridge * np.eye(len(covariances.yy))
    halved = linalg.cholesky(of_labels, lower=True, check_finite=False)
    between = linalg.solve_triangular(halved, covariances.xy.T, lower=True, check_finite=False).T
    between = linalg.solve_triangular(lower, between, lower=True, check_finite=False)
    left, correlations, _ = linalg.svd(between, full_matrices=False, check_finite=False)
    count = min(count, len(correlations))
    directions = linalg.solve_triangular(lower, left[:, :count], lower=True, trans="T", check_finite=False)
    return fix_signs(directions), correlations[:count]
