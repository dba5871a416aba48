"""Base of methods that learn relaxed bits z = tanh(x W + b) by stochastic descent on lists for some queries."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.parameters import COUNT, POSITIVE, Interval, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng
from hashlearn.zoo.bases.pairs import sample_pairs
from hashlearn.zoo.bases.primitives import labeled_rows

MEMORIES = (0.9, 0.999)
TINY = 1e-8


class Batch(NamedTuple):
    """Queries and the rows of one list, which all queries share; each has a last feature that is always 1.

    ``relevance`` (queries, list) are the numbers of shared labels, None for methods that use no labels. ``done`` is the
    share of the steps made before this one.
    """

    queries: FloatArray
    listed: FloatArray
    relevance: FloatArray | None
    done: float


class DescentHasher(KernelParameters, InMemoryHasher):
    """Base of methods that descend on the loss of a batch. A subclass implements ``_batch_loss``.

    Features are divided by their root mean square. The steps are those of Adam, and their length falls linearly to 0.
    """

    learning_rate: float = parameter(POSITIVE, "Length of the first step; it falls linearly to 0.", default=0.005)
    batch_size: int = parameter(
        Interval(int, 2, 1024, closed="both"), "Queries per step, and rows of the list that they rank.", default=64
    )
    max_iter: int = parameter(COUNT, "Steps.", default=500)
    kernel: str | None = None

    losses_: FloatArray = fitted("(max_iter,) The loss of every batch before its step.")
    n_iter_: int = fitted("Steps made.")

    @abstractmethod
    def _batch_loss(self, weights: FloatArray, batch: Batch) -> tuple[float, FloatArray]:
        """Return the loss of a batch and its gradient by weights (d + 1, m), whose last row is the intercept."""

    def _learn(self, features: Float32Array, labels: LabelMatrix | None, rng: Rng) -> Learned:
        known = np.arange(len(features)) if labels is None else labeled_rows(labels)
        scale = float(np.sqrt(np.mean(features[known] ** 2, dtype=np.float64))) or 1.0
        width, bits = features.shape[1], self.n_bits_
        # Projections start with a variance of about 1.
        weights = np.vstack([rng.standard_normal((width, bits)) / np.sqrt(width), np.zeros(bits)])
        mean, square = np.zeros_like(weights), np.zeros_like(weights)
        losses = []
        for step in steps(self.max_iter, self.info.title):
            queries, listed = self._draw(known, labels, rng)
            relevance = None if labels is None else (labels[queries] @ labels[listed].T).toarray()
            rows, others = (_with_one(features[part], scale) for part in (queries, listed))
            loss, gradient = self._batch_loss(weights, Batch(rows, others, relevance, step / self.max_iter))
            losses.append(loss)
            mean += (1 - MEMORIES[0]) * (gradient - mean)
            square += (1 - MEMORIES[1]) * (gradient**2 - square)
            length = self.learning_rate * (1 - step / self.max_iter)
            corrected = np.sqrt(square / (1 - MEMORIES[1] ** (step + 1))) + TINY
            weights -= length * mean / (1 - MEMORIES[0] ** (step + 1)) / corrected
        return Learned(linear(weights[:-1] / scale, weights[-1]), losses_=losses, n_iter_=len(losses))

    def _draw(self, known: IntArray, labels: LabelMatrix | None, rng: Rng) -> tuple[IntArray, IntArray]:
        """Draw queries and a list; about half of the queries have a similar row in the list that was drawn for them."""
        if labels is None:
            size = min(self.batch_size, len(known) // 2)
            both = rng.choice(known, 2 * size, replace=False)
            return both[:size], both[size:]
        queries, listed, _ = sample_pairs(labels, self.batch_size, rng)
        return queries, listed


def _with_one(rows: Float32Array, scale: float) -> FloatArray:
    return np.column_stack([rows.astype(np.float64) / scale, np.ones(len(rows))])
