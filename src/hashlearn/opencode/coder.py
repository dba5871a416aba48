"""Rows to codes, and queries to score tables: all that is needed after a fit. The package has the formula."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.functions.linear import block_precision
from hashlearn.index import ScoreTables
from hashlearn.kernel import dense_rows
from hashlearn.opencode.familiarity import Familiarity
from hashlearn.opencode.label_scores import LabelScores
from hashlearn.opencode.metric import LabelMetric, LearnedMetric
from hashlearn.opencode.quantizers import WORD_BITS, LabelWords, NibbleQuantizer
from hashlearn.typing import IntArray, Matrix, PackedCodes

WORD_NIBBLES = WORD_BITS // 4
EMPHASES = {"alike": 0.0, "auto": 0.5, "label": 1.0}
STRENGTH = 8.0
"""Weight of the labels against the content from "auto" on: content then orders rows of about equal probabilities."""
OWN_WORD = 1e-6
"""Added per nibble of the query's own label word: of rows with equal content, those of the same code come first."""


@dataclass
class LabelPart:
    """The parts of a fitted OpenHasher that know labels.

    Attributes
    ----------
    scores, words : rows to label probabilities, and these to label words.
    familiarity : how well queries fit any known label.
    """

    scores: LabelScores
    words: LabelWords
    familiarity: Familiarity

    def encode(self, rows: NDArray[Any], labels: sparse.csr_matrix | None) -> IntArray:
        """Return the label words of rows. Rows whose set in ``labels`` is not empty have these labels."""
        probabilities = self.scores.probabilities(self.scores.scores(rows, rows.dtype))
        if labels is not None:
            known = np.flatnonzero(np.diff(labels.indptr))
            probabilities[known] = labels[known].toarray()
        return self.words.encode(probabilities)

    def word_table(
        self, scores: NDArray[Any], probabilities: NDArray[Any], vectors: NDArray[Any], emphasis: float
    ) -> NDArray[np.float32] | None:
        """Return what each label word adds to the score of a row (queries, 4096); None at emphasis 0."""
        strength, trust = weights(emphasis)
        if not strength:
            return None
        learned = probabilities @ self.words.words_.T.astype(probabilities.dtype, copy=False)
        learned *= strength * self.familiarity.measure(scores, vectors, trust)[:, None]
        table = np.zeros((len(learned), 2**WORD_BITS), dtype=np.float32)
        table[:, : learned.shape[1]] = learned
        return table


@dataclass
class OpenCoder:
    """The parts of a fitted OpenHasher.

    Attributes
    ----------
    metric, quantizer : rows to content vectors, and content vectors to nibbles.
    labels : the parts that know labels; None without labels.
    """

    metric: LabelMetric | LearnedMetric
    quantizer: NibbleQuantizer
    labels: LabelPart | None = None

    def encode(self, X: Matrix, labels: sparse.csr_matrix | None = None) -> PackedCodes:
        """Return the packed codes of a block of rows. Rows whose set in ``labels`` is not empty have these labels."""
        rows = dense_rows(X, block_precision(X))
        nibbles = self.quantizer.encode(self.metric.map_block(rows, rows.dtype))
        if self.labels is not None:
            nibbles = np.hstack([nibbles_of(self.labels.encode(rows, labels)), nibbles])
        if nibbles.shape[1] % 2:
            nibbles = np.pad(nibbles, ((0, 0), (0, 1)))
        return (nibbles[:, ::2] << 4 | nibbles[:, 1::2]).astype(np.uint8)

    def tables(self, X: Matrix, emphasis: float) -> ScoreTables:
        """Return the score tables of a block of queries; ``emphasis`` is from 0 to 1."""
        rows = dense_rows(X, block_precision(X))
        vectors = self.metric.map_block(rows, rows.dtype)
        if self.labels is None:
            return self._tables(vectors)
        scores = self.labels.scores.scores(rows, rows.dtype)
        probabilities = self.labels.scores.probabilities(scores)
        table = self.labels.word_table(scores, probabilities, vectors, emphasis)
        return self._tables(vectors, self.labels.words.encode(probabilities), table)

    def tables_of_codes(self, packed: PackedCodes, emphasis: float) -> ScoreTables:
        """Return the score tables of stored rows, from what their codes hold."""
        word, vectors = self.decode(packed)
        if self.labels is None:
            return self._tables(vectors)
        probabilities = self.labels.words.words_[word]
        return self._tables(vectors, word, self.labels.word_table(probabilities, probabilities, vectors, emphasis))

    def decode(self, packed: PackedCodes) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the label words (0 without labels) and the content vectors that codes hold."""
        nibbles = np.stack([packed >> 4, packed & 15], axis=2).reshape(len(packed), 2 * packed.shape[1])
        if self.labels is None:
            return np.zeros(len(packed), dtype=np.intp), self.quantizer.decode(nibbles)
        word: IntArray = nibbles[:, :WORD_NIBBLES].astype(np.intp) @ np.array([256, 16, 1])
        # No row has a word that was not learned.
        return np.minimum(word, len(self.labels.words.words_) - 1), self.quantizer.decode(nibbles[:, WORD_NIBBLES:])

    def _tables(
        self, vectors: NDArray[Any], own_word: IntArray | None = None, word_table: NDArray[np.float32] | None = None
    ) -> ScoreTables:
        content = self.quantizer.affinities(vectors)
        lead = 0 if own_word is None else WORD_NIBBLES
        n_nibbles = lead + content.shape[1]
        nibbles = np.zeros((len(content), n_nibbles + n_nibbles % 2, 16), dtype=np.float32)
        nibbles[:, lead:n_nibbles] = content
        if own_word is not None:
            np.put_along_axis(nibbles[:, :lead], nibbles_of(own_word)[:, :, None].astype(np.intp), OWN_WORD, axis=2)
        return ScoreTables(nibbles, word_table)


def weights(emphasis: float) -> tuple[float, float]:
    """Return the strength of the labels, and how far the familiarity trusts the label scores (see ``Familiarity``).

    From "alike" (0) to "auto" (0.5) the strength grows as the square of the emphasis, and from there to "label" (1) the
    trust grows.
    """
    return STRENGTH * min(1.0, 2 * emphasis) ** 2, max(0.0, 2 * emphasis - 1)


def emphasis_number(emphasis: str | float) -> float:
    """Return an emphasis as a number from 0 to 1."""
    if isinstance(emphasis, str) and emphasis in EMPHASES:
        return EMPHASES[emphasis]
    if isinstance(emphasis, numbers.Real) and not isinstance(emphasis, bool) and 0 <= emphasis <= 1:
        return float(emphasis)
    raise ValueError(f"emphasis must be 'alike', 'auto', 'label' or a number from 0 to 1. Got {emphasis!r} instead.")


def nibbles_of(word: IntArray) -> NDArray[np.uint8]:
    """Return the three nibbles of label words."""
    return np.stack([word >> 8, word >> 4 & 15, word & 15], axis=1).astype(np.uint8)
