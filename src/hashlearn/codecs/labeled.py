"""Codecs that a skeptic builds from labels without hashing: class scores, class numbers, a linear adapter.

Without them a comparison of supervised codes with quantizers would measure labels, not codes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg

from hashlearn.codecs.base import Codec, NotSuited, unit_rows
from hashlearn.kernel import LandmarkKernel
from hashlearn.labels import Classes, as_labels
from hashlearn.parallel import one_blas_thread
from hashlearn.typing import Float32Array, IntArray, PackedCodes

_LANDMARKS = 1000
_RIDGE = 1e-6
_TEMPERATURES = np.geomspace(2.0, 64.0, 11)
# The adapter: width, rows per step, passes over the rows, temperature of the cosines and step size of Adam.
_ADAPTER_WIDTH, _BATCH, _EPOCHS, _CONTRAST, _STEP = 128, 256, 20, 0.1, 2e-3


class LabeledRows(NamedTuple):
    """The rows that have labels: their numbers, their label matrix (n, c), and whether each has one class."""

    rows: IntArray
    labels: Float32Array
    single: bool

    @classmethod
    def find(cls, y: Any) -> LabeledRows:
        labels = as_labels(y)
        rows = np.flatnonzero(labels.known)
        if not len(rows):
            raise ValueError("No row has a label: at least one labeled row is needed to learn from labels.")
        return cls(rows, labels.sets[rows].toarray().astype(np.float32), isinstance(labels, Classes))

    def of_classes(self, what: str) -> LabeledRows:
        """Return the rows; raise NotSuited unless each has one class."""
        if not self.single:
            raise NotSuited(f"{what} needs one class per row. Got label sets instead.")
        return self


class RowMap(ABC):
    """Learns from labels how to map rows to other floats. What was learned takes ``n_bytes``."""

    n_bytes: int

    @abstractmethod
    def fit(self, X: Float32Array, y: Any) -> Self:
        """Learn from the labeled rows."""

    @abstractmethod
    def transform(self, X: Float32Array) -> Float32Array:
        """Map rows."""


class Discriminant(RowMap):
    """The discriminant directions of LDA with shrinkage; it takes classes."""

    def fit(self, X: Float32Array, y: Any) -> Self:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        labeled, rows = LabeledRows.find(y).of_classes("LDA"), unit_rows(X)
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
        try:
            lda.fit(rows[labeled.rows], labeled.labels.argmax(axis=1))
        except linalg.LinAlgError as error:
            raise ValueError("LDA needs classes with several rows that differ.") from error
        self._mean = rows.mean(axis=0)
        self._weights = lda.scalings_[:, : min(rows.shape[1], len(lda.classes_) - 1)].astype(np.float32)
        self.n_bytes = self._mean.nbytes + self._weights.nbytes
        return self

    def transform(self, X: Float32Array) -> Float32Array:
        return (unit_rows(X) - self._mean) @ self._weights


class Posteriors(RowMap):
    """Label probabilities by kernel ridge regression on an RBF kernel: the floats that say most about labels.

    Scores of classes go through a softmax whose temperature makes left-out rows most likely; left-out scores follow in
    closed form from the leverages. Scores of label sets are cut to 0 and 1.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: Float32Array, y: Any) -> Self:
        labeled = LabeledRows.find(y)
        self._kernel = LandmarkKernel(_LANDMARKS, random_state=self.seed).fit(X[labeled.rows])
        features = self._kernel.transform(X[labeled.rows]).astype(np.float64)
        self._center, self._offset = features.mean(axis=0), labeled.labels.mean(axis=0)
        features -= self._center
        targets = labeled.labels - self._offset
        with one_blas_thread():
            gram = features.T @ features
            gram.flat[:: len(gram) + 1] += _RIDGE * len(features)
            lower = linalg.cholesky(gram, lower=True)
            half = linalg.solve_triangular(lower, features.T, lower=True)
            self._weights = linalg.solve_triangular(lower, half @ targets, lower=True, trans="T").astype(np.float32)
        self.n_bytes = self._kernel.landmarks_.nbytes + self._weights.nbytes
        leverage = np.minimum((half**2).sum(axis=0) + 1 / len(features), 0.999)
        left_out = labeled.labels - (targets - features @ self._weights) / (1 - leverage)[:, None]
        own = labeled.labels.argmax(axis=1)[:, None]
        self._temperature = None
        if labeled.single:
            likelihoods = [
                float(np.log(np.take_along_axis(_softmax(t * left_out), own, axis=1) + 1e-12).mean())
                for t in _TEMPERATURES
            ]
            self._temperature = float(_TEMPERATURES[int(np.argmax(likelihoods))])
        return self

    def transform(self, X: Float32Array) -> Float32Array:
        scores = (self._kernel.transform(X) - self._center).astype(np.float32) @ self._weights + self._offset
        found = np.clip(scores, 0, 1) if self._temperature is None else _softmax(self._temperature * scores)
        return found.astype(np.float32)


class ContrastiveAdapter(RowMap):
    """A linear map onto 128 dimensions, trained by a contrastive loss: rows that share a label are pulled together.

    In each batch the cosines of a row with the other rows, over the temperature, go through a softmax, and the
    cross-entropy with the rows that share a label is minimized by Adam. This is how adapters of embedding models are
    usually trained.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: Float32Array, y: Any) -> Self:
        labeled, rng = LabeledRows.find(y), np.random.default_rng(self.seed)
        rows = unit_rows(X)
        self._mean, rows = rows.mean(axis=0), rows[labeled.rows] - rows.mean(axis=0)
        # The principal axes of the labeled rows are where an adapter that learns nothing stays.
        vectors = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
        self._weights = np.ascontiguousarray(vectors[:, :_ADAPTER_WIDTH])
        mean, square, step = np.zeros_like(self._weights), np.zeros_like(self._weights), 0
        for _ in range(_EPOCHS):
            order = rng.permutation(len(rows))
            for start in range(0, len(order) - 1, _BATCH):
                batch, step = order[start : start + _BATCH], step + 1
                slope = self._slope(rows[batch], labeled.labels[batch])
                mean += 0.1 * (slope - mean)
                square += 0.001 * (slope**2 - square)
                corrected = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
                self._weights -= np.float32(_STEP) * corrected
        self.n_bytes = self._mean.nbytes + self._weights.nbytes
        return self

    def _slope(self, rows: Float32Array, labels: Float32Array) -> Float32Array:
        """Return the gradient of the loss of a batch with respect to the weights."""
        mapped = rows @ self._weights
        norms = np.maximum(np.linalg.norm(mapped, axis=1, keepdims=True), 1e-12)
        unit = mapped / norms
        shared = (labels @ labels.T > 0).astype(np.float32)
        np.fill_diagonal(shared, 0)
        partners = shared.sum(axis=1, keepdims=True)
        cosines = unit @ unit.T / _CONTRAST
        np.fill_diagonal(cosines, -np.inf)
        # A row without a partner in the batch has no loss.
        error = np.where(partners > 0, _softmax(cosines) - shared / np.maximum(partners, 1), 0) / len(rows)
        slope = (error + error.T) @ unit / _CONTRAST
        slope = (slope - (slope * unit).sum(axis=1, keepdims=True) * unit) / norms
        gradient: Float32Array = rows.T @ slope.astype(np.float32)
        return gradient

    def transform(self, X: Float32Array) -> Float32Array:
        return (unit_rows(X) - self._mean) @ self._weights


def _softmax(scores: Any) -> Any:
    exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


class MappedCodec(Codec):
    """A codec of rows that a map learned from labels, such as PQ of discriminant directions."""

    supervised = True

    def __init__(self, row_map: RowMap, codec: Codec) -> None:
        self.row_map, self.codec = row_map, codec

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        self.codec.fit(self.row_map.fit(X, y).transform(X))
        self.bytes_per_row = self.codec.bytes_per_row
        self.model_bytes = self.codec.model_bytes + self.row_map.n_bytes
        return self

    def encode(self, X: Float32Array) -> PackedCodes:
        return self.codec.encode(self.row_map.transform(X))

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        return self.codec.scores(self.row_map.transform(queries), codes)


class ClassCodec(Codec):
    """The number of the most likely class, in one byte (two from 257 classes on), alone or beside another codec.

    A stored row is scored by the probability that the query is of its class, plus the score of the other codec. With
    ``filtered``, rows of the query's most likely class come first instead, and the other codec orders both parts.
    ``make`` gives the other codec for a number of bytes: those of ``n_bytes`` that the class number leaves.
    """

    supervised = True

    def __init__(
        self, make: Callable[[int], Codec] | None = None, *, n_bytes: int = 0, filtered: bool = False, seed: int = 0
    ) -> None:
        self.make, self.n_bytes, self.filtered, self._posteriors = make, n_bytes, filtered, Posteriors(seed)

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        labeled = LabeledRows.find(y).of_classes("A class number")
        self._class_bytes = 1 if labeled.labels.shape[1] <= 256 else 2
        if self.make is not None and 0 < self.n_bytes <= self._class_bytes:
            raise NotSuited(f"A class number of {self._class_bytes} bytes leaves none of {self.n_bytes} bytes.")
        self._posteriors.fit(X, y)
        self.codec = None if self.make is None else self.make(self.n_bytes - self._class_bytes).fit(X, y)
        self.bytes_per_row, self.model_bytes = self._class_bytes, self._posteriors.n_bytes
        if self.codec is not None:
            self.bytes_per_row += self.codec.bytes_per_row
            self.model_bytes += self.codec.model_bytes
        return self

    def encode(self, X: Float32Array) -> PackedCodes:
        number = self._posteriors.transform(X).argmax(axis=1).astype("<u2")[:, None].view(np.uint8)
        parts = [number[:, : self._class_bytes], *([] if self.codec is None else [self.codec.encode(X)])]
        return np.hstack(parts)

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        own = codes[:, : self._class_bytes].astype(np.intp) @ (256 ** np.arange(self._class_bytes))
        chances = self._posteriors.transform(queries)
        if self.filtered:
            # Similarities of unit rows differ by at most 2, so rows of the class come before all others.
            scores = np.where(own == chances.argmax(axis=1)[:, None], np.float32(3), np.float32(0))
        else:
            scores = chances[:, own]
        if self.codec is None:
            return scores
        return scores + self.codec.scores(queries, np.ascontiguousarray(codes[:, self._class_bytes :]))
