"""Scores of a classifier, quantized: what labels alone give at the same number of bytes.

Without these codecs a comparison of supervised hashing with PQ would measure labels, not codes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np

from hashlearn.codecs.base import unit_rows
from hashlearn.codecs.product import ProductCodec
from hashlearn.kernel import AnchorKernel
from hashlearn.labels import label_matrix
from hashlearn.typing import Float32Array

Classifier = Literal["lda", "kernel"]
_LANDMARKS = 1000
_RIDGE = 1e-3


class LabelScoreCodec(ProductCodec):
    """PQ of class scores: discriminant directions of LDA, or the outputs of ridge regression on an RBF kernel.

    Queries are scores too, as floats. LDA takes classes; the kernel also takes label sets.
    """

    supervised: ClassVar[bool] = True

    def __init__(self, n_bytes: int, classifier: Classifier = "lda", seed: int = 0) -> None:
        super().__init__(n_bytes)
        self.classifier = classifier
        self.seed = seed

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        if self.classifier == "lda":
            self._fit_lda(unit_rows(X), y)
        else:
            self._fit_kernel(X, y)
        return super().fit(X)

    def _fit_lda(self, rows: Float32Array, y: Any) -> None:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(rows, y)
        width = min(rows.shape[1], len(lda.classes_) - 1)
        self._mean = rows.mean(axis=0)
        self._weights = lda.scalings_[:, :width].astype(np.float32)

    def _fit_kernel(self, X: Float32Array, y: Any) -> None:
        self._kernel = AnchorKernel(_LANDMARKS, random_state=self.seed).fit(X)
        features = self._kernel.transform(X).astype(np.float64)
        targets = label_matrix(y).toarray().astype(np.float64)
        gram = features.T @ features
        ridge = _RIDGE * np.trace(gram) / len(gram)
        weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), features.T @ (targets - targets.mean(axis=0)))
        self._weights = weights.astype(np.float32)

    def _prepared(self, X: Float32Array) -> Float32Array:
        if self.classifier == "lda":
            values = (unit_rows(X) - self._mean) @ self._weights
        else:
            values = self._kernel.transform(X) @ self._weights
        return super()._prepared(values)

    @property
    def model_bytes(self) -> int:
        own = self._mean.nbytes if self.classifier == "lda" else self._kernel.landmarks_.nbytes
        return super().model_bytes + own + self._weights.nbytes
