"""From rows to codes, and from queries to score tables: all that is needed after a fit.

A code is a label word of 12 bits and nibbles of content; without labels it is nibbles only. The score of a stored row x
for a query q is::

    sum of the content affinities of x's nibbles  +  strength * familiarity(q) * <p_q, w_x>

where p_q are the label probabilities of the query and w_x is the label word of the row. Strength and familiarity depend
on the query and the emphasis alone, so the same codes answer "most alike" and "same label".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.index import ScoreTables
from hashlearn.kernel import dense_rows
from hashlearn.opencode.familiarity import Familiarity
from hashlearn.opencode.label_scores import LabelScores
from hashlearn.opencode.metric import LabelMetric
from hashlearn.opencode.quantizers import WORD_BITS, LabelWords, NibbleQuantizer
from hashlearn.typing import Matrix, PackedCodes

WORD_NIBBLES = WORD_BITS // 4
EMPHASES = {"alike": 0.0, "auto": 0.5, "label": 1.0}
STRENGTH = 8.0
"""Weight of the labels against the content from "auto" on: content then orders rows of about equal probabilities."""
OWN_WORD = 1e-6
"""Added for rows with the query's own label word: of rows with equal content, those of the same code come first."""


@dataclass
class OpenCoder:
    """The parts of a fitted OpenHasher.

    Attributes
    ----------
    metric, quantizer : rows to content vectors, and content vectors to nibbles.
    scores, words, familiarity : rows to label scores, probabilities to label words, and how well queries fit any known
        label; None without labels.
    """

    metric: LabelMetric
    quantizer: NibbleQuantizer
    scores: LabelScores | None = None
    words: LabelWords | None = None
    familiarity: Familiarity | None = None

    def encode(self, X: Matrix, labels: sparse.csr_matrix | None = None) -> PackedCodes:
        """Return the packed codes of a block of rows. Rows whose set in ``labels`` is not empty have these labels."""
        rows = dense_rows(X, _precision(X))
        nibbles = [self.quantizer.encode(self.metric.map_block(rows, rows.dtype))]
        if self.scores is not None and self.words is not None:
            probabilities = self.scores.probabilities(self.scores.scores(rows, rows.dtype))
            if labels is not None:
                known = np.flatnonzero(np.diff(labels.indptr))
                probabilities[known] = labels[known].toarray()
            word = self.words.encode(probabilities)
            nibbles.insert(0, np.stack([word >> 8, word >> 4 & 15, word & 15], axis=1).astype(np.uint8))
        return packed_nibbles(np.hstack(nibbles))

    def tables(self, X: Matrix, emphasis: float) -> ScoreTables:
        """Return the score tables of a block of queries; ``emphasis`` is from 0 to 1."""
        rows = dense_rows(X, _precision(X))
        vectors = self.metric.map_block(rows, rows.dtype)
        if self.scores is None:
            return self._tables(vectors, None, None, emphasis)
        scores = self.scores.scores(rows, rows.dtype)
        return self._tables(vectors, scores, self.scores.probabilities(scores), emphasis)

    def tables_of_codes(self, packed: PackedCodes, emphasis: float) -> ScoreTables:
        """Return the score tables of stored rows, from what their codes hold."""
        nibbles = np.stack([packed >> 4, packed & 15], axis=2).reshape(len(packed), -1)
        if self.words is None:
            return self._tables(self.quantizer.decode(nibbles), None, None, emphasis)
        word = nibbles[:, :WORD_NIBBLES].astype(np.intp) @ [256, 16, 1]
        known = np.minimum(word, len(self.words.words_) - 1)  # of other words, which no row has
        probabilities = self.words.words_[known]
        return self._tables(self.quantizer.decode(nibbles[:, WORD_NIBBLES:]), probabilities, probabilities, emphasis)

    def _tables(
        self,
        vectors: NDArray[Any],
        scores: NDArray[Any] | None,
        probabilities: NDArray[Any] | None,
        emphasis: float,
    ) -> ScoreTables:
        content = self.quantizer.affinities(vectors).astype(np.float32)
        words, lead = None, 0
        if self.words is not None and self.familiarity is not None and scores is not None and probabilities is not None:
            lead, (strength, trust) = WORD_NIBBLES, weights(emphasis)
            learned = probabilities @ self.words.words_.T.astype(probabilities.dtype, copy=False)
            learned *= strength * self.familiarity.measure(scores, vectors, trust)[:, None]
            learned[np.arange(len(learned)), self.words.encode(probabilities)] += OWN_WORD
            words = np.zeros((len(learned), 2**WORD_BITS), dtype=np.float32)
            words[:, : learned.shape[1]] = learned
        n_nibbles = lead + content.shape[1]
        nibbles = np.zeros((len(content), n_nibbles + n_nibbles % 2, 16), dtype=np.float32)
        nibbles[:, lead:n_nibbles] = content
        return ScoreTables(nibbles, words)


def weights(emphasis: float) -> tuple[float, float]:
    """Return the strength of the labels, and how far the familiarity trusts the label scores (see ``Familiarity``).

    From "alike" (0) to "auto" (0.5) the strength grows as the square of the emphasis, and from there to "label" (1) the
    trust grows.
    """
    return STRENGTH * min(1.0, 2 * emphasis) ** 2, max(0.0, 2 * emphasis - 1)


def packed_nibbles(nibbles: NDArray[np.uint8]) -> PackedCodes:
    """Pack nibbles (n, k) two to a byte, the first one in the high half."""
    if nibbles.shape[1] % 2:
        nibbles = np.pad(nibbles, ((0, 0), (0, 1)))
    return (nibbles[:, ::2] << 4 | nibbles[:, 1::2]).astype(np.uint8)


def _precision(X: Any) -> Any:
    return np.float64 if X.dtype == np.float64 else np.float32
