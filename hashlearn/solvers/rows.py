"""Coding any rows once the anchors are learned: each row alone, so any chunk of them at any time."""

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
    """Codes of rows, and what pulls at each of their bits."""

    own_weight: float
    """How much a row's own bit counts in the projection's target: gain + own_weight * code."""

    def code(self, group: IntArray, start: Float32Array) -> Float32Array: ...

    def gain(self, group: IntArray, codes: Float32Array) -> Float32Array:
        """Bit by bit, what the anchors and the row's other bits ask for."""
        ...


class QuadraticRows:
    """Rows of a quadratic loss: the anchors count only through ``pull`` and ``gram``."""

    def __init__(
        self, similarity: Similarity, anchors: IntArray, anchor_codes: FloatArray, loss: QuadraticLoss
    ) -> None:
        n_bits = anchor_codes.shape[1]
        self.pull = group_pull(similarity, anchors, anchor_codes, loss.target)
        self.gram = anchor_codes.T @ anchor_codes
        self.scale = loss.scale(n_bits / similarity.largest, n_bits)

    def gain(self, group: IntArray, codes: Float32Array) -> Float32Array:
        hollow = (self.gram - np.diag(np.diag(self.gram))).astype(np.float32)
        return (self.scale * self.pull).astype(np.float32)[group] - codes @ hollow


class GreedyRows(QuadraticRows):
    """GSDH_P with a quadratic loss."""

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
    """SDH_P."""

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
        # H (gamma I - M) holds every bit gamma - M_jj times, and the diagonal of M is the number of anchors.
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
    """GSDH_P with any other loss: the anchors count by their distinct states."""

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
        """Slopes of just the groups that occur in a chunk, and the rows' places among them."""
        present, local = np.unique(group, return_inverse=True)
        table = self.similarity.table(present, self.columns)
        return Slopes(self.loss, table, self.n_bits), local.ravel()
