"""SH: waves along the principal axes, the slowest ones first."""

from __future__ import annotations

import numpy as np

from hashlearn.functions.linalg import principal_directions, top_eigenvectors
from hashlearn.hashers.in_memory import InMemoryHasher, Learned
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng


class SpectralFunction:
    """cos(k pi (v - low) / length) for each bit; v is the projection on its axis, k its number of half waves."""

    def __init__(
        self, components: FloatArray, axis: IntArray, waves: FloatArray, low: FloatArray, length: FloatArray
    ) -> None:
        self.components_ = components.astype(np.float32)
        self.axis_ = axis
        self.waves_ = waves
        self.low_ = low
        self.length_ = length

    def project(self, features: Float32Array) -> Float32Array:
        """Waves at centered features."""
        place = (features @ self.components_ - self.low_) / self.length_
        return np.cos(np.pi * self.waves_ * place[:, self.axis_]).astype(np.float32)


class SH(InMemoryHasher):
    """Spectral hashing: bits are signs of the smoothest functions on a box around the data in principal axes.

    Functions cos(k pi v / length) on an axis of a given length are smooth if k / length is small. So long axes get many
    bits and short ones none. Equal frequencies are taken in the order of the axes. For rows outside the box of the
    training rows the waves continue, as in the authors' code. Training codes are hashed.
    """

    info = MethodInfo(
        name="sh",
        reference="Weiss, Torralba and Fergus, Spectral Hashing (NIPS 2008)",
        kind="spectral",
        supervision=(),
        cost="O(n d min(n, d) + n m)",
        verified=True,
        remark="unsupervised",
        components=(SpectralFunction,),
    )

    def _learn(self, features: Float32Array, labels: LabelMatrix | None, rng: Rng) -> Learned:
        n_rows, width = features.shape
        if n_rows >= width:
            covariance = (features.T @ features).astype(np.float64)
            _, components = top_eigenvectors(covariance, min(self.n_bits_, width))
        else:
            _, components = principal_directions(features, self.n_bits_, self.n_jobs)
        projected = features @ components.astype(np.float32)
        low = projected.min(axis=0).astype(np.float64)
        length = projected.max(axis=0) - low
        if length.max() == 0:
            length[:] = 1.0  # all rows are one point, so any box around it works
        axis, waves = slowest_waves(length, self.n_bits_)
        length[length == 0] = 1.0  # such an axis has no wave
        return Learned(SpectralFunction(components, axis, waves, low, length))


def slowest_waves(length: FloatArray, count: int) -> tuple[IntArray, FloatArray]:
    """Axis and half waves k >= 1 of the ``count`` smallest k / length. The longest axis alone has enough of them."""
    most = np.ceil((count + 1) * length / length.max()).astype(np.intp) - 1
    axis = np.repeat(np.arange(len(length)), np.maximum(most, 0))
    waves = np.concatenate([np.arange(1.0, k + 1) for k in most])
    order = np.argsort(waves / length[axis], kind="stable")[:count]
    return axis[order], waves[order]
