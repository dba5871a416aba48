"""Coding of rows after the anchors are learned. Each row is coded independently, so any chunk of rows will do."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hashlearn.similarity import Similarity
from hashlearn.solvers import general, greedy, symmetric
from hashlearn.solvers.losses import GeneralLoss, QuadraticLoss
from hashlearn.solvers.problem import group_pull
from hashlearn.solvers.slopes import Slopes
from hashlearn.typing import Float32Array, FloatArray, IntArray


class RowCoder(Protocol):
    """Codes rows, and computes the gain of each of their bits."""

    own_weight: float
    """Weight of a row's own bit in the target of the projection: gain + own_weight * code."""

    def code(self, group: IntArray, start: Float32Array) -> Float32Array: ...

    def gain(self, group: IntArray, codes: Float32Array) -> Float32Array:
        """Compute per bit the value that the anchors and the row's other bits ask for."""
        ...


class QuadraticRows:
    """Rows under a quadratic loss: the anchors enter only through ``pull`` and ``gram``."""

    def __init__(
        self, similarity: Similarity, anchors: IntArray, anchor_codes: FloatArray, loss: QuadraticLoss
    ) -> None:
        n_bits = anchor_codes.shape[1]
        self.pull = group_pull(similarity, anchors, anchor_codes, loss.target)
        self.gram = anchor_codes.T @ anchor_codes
        self.scale = loss.scale(n_bits / similarity.largest, n_bits)

    def gain(self, group: IntArray, codes: Float32Array) -> Float32Array:
        hollow = (self.gram - np.diag(np.diag(self.gram))).astype(np.float32)
        return (self.scale * self.pull[group]).astype(np.float32) - codes @ hollow


class GreedyRows(QuadraticRows):
    """Rows of GSDH_P with a quadratic loss."""

    def __init__(
        self,
        similarity: Similarity,
        anchors: IntArray,
        anchor_codes: FloatArray,
        loss: QuadraticLoss,
        *,
        beta: float,
        residual: str,
        max_iter: int,
    ) -> None:
        super().__init__(similarity, anchors, anchor_codes, loss)
        self.beta, self.residual, self.max_iter = beta, residual, max_iter
        self.own_weight = beta

    def code(self, group: IntArray, start: Float32Array) -> Float32Array:
        return greedy.code_rows(
            self.pull,
            self.gram,
            group,
            start,
            scale=self.scale,
            beta=self.beta,
            residual=self.residual,
            max_iter=self.max_iter,
        )


class SymmetricRows(QuadraticRows):
    """Rows of SDH_P."""

    def __init__(
        self,
        similarity: Similarity,
        anchors: IntArray,
        anchor_codes: FloatArray,
        loss: QuadraticLoss,
        *,
        beta: float,
        max_iter: int,
        inner_iter: int,
    ) -> None:
        super().__init__(similarity, anchors, anchor_codes, loss)
        self.beta, self.max_iter, self.inner_iter = beta, max_iter, inner_iter
        # H (gamma I - M) contains bit j gamma - M_jj times, and M_jj is the number of anchors.
        self.own_weight = symmetric.gamma(self.gram, beta) - len(anchors)

    def code(self, group: IntArray, start: Float32Array) -> Float32Array:
        return symmetric.code_rows(
            self.pull,
            self.gram,
            group,
            start,
            scale=self.scale,
            beta=self.beta,
            max_iter=self.max_iter,
            inner_iter=self.inner_iter,
        )


class GeneralRows:
    """Rows of GSDH_P with any other loss: the anchors enter through their distinct states."""

    def __init__(
        self,
        similarity: Similarity,
        anchors: IntArray,
        anchor_codes: FloatArray,
        loss: GeneralLoss,
        *,
        beta: float,
        residual: str,
        max_iter: int,
    ) -> None:
        self.similarity, self.loss, self.n_bits = similarity, loss, anchor_codes.shape[1]
        self.columns, kind = np.unique(similarity.columns(anchors), return_inverse=True)
        self.states = general.States.of(kind.ravel().astype(np.intp), anchor_codes)
        self.beta, self.residual, self.max_iter = beta, residual, max_iter
        self.own_weight = beta

    def code(self, group: IntArray, start: Float32Array) -> Float32Array:
        slopes, local = self._slopes(group)
        return general.code_rows(
            self.states, slopes, local, start, beta=self.beta, residual=self.residual, max_iter=self.max_iter
        )

    def gain(self, group: IntArray, codes: Float32Array) -> Float32Array:
        slopes, local = self._slopes(group)
        return general.gains(self.states, slopes, local, codes)

    def _slopes(self, group: IntArray) -> tuple[Slopes, IntArray]:
        """Return slopes of only the groups that occur in a chunk, and the positions of the rows' groups among them."""
        present, local = np.unique(group, return_inverse=True)
        table = self.similarity.table(present, self.columns)
        return Slopes(self.loss, table, self.n_bits), local.ravel()
