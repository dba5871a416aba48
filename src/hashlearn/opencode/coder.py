"""Codes and score tables: all that is needed after a fit. The package has the formula.

A code has two quantizers: the nearest of at most 4,096 label words, and the nearest of 16 words per nibble. Both answer
one question, the affinity <v, word> - |word|^2 / 2 of vectors v to all words. The word of a stored row is the one of
the largest affinity, which is the nearest one; the affinities of a query are its tables.
"""

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
from hashlearn.opencode.labels import Familiarity, LabelScores
from hashlearn.opencode.metric import LabelMetric, LearnedMetric
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix, PackedCodes

WORD_BITS = 12
N_WORDS = 2**WORD_BITS
WORD_NIBBLES = WORD_BITS // 4
LEARNED_WORDS, LEAST_LEARNED = 2048, 1024
"""Label words for predicted probabilities, at most and where label sets are many. The others are for given labels."""
NIBBLE_WORDS = 16
WORD_ROUNDS, NIBBLE_ROUNDS = 10, 15
LEAST_DISTANCE = 0.003
"""A learned word that is nearer to an earlier word is dropped."""
LEAST_ROWS = 2
"""Rows per label word: more words would be copies of single rows."""
EMPHASES = {"alike": 0.0, "auto": 0.5, "label": 1.0}
STRENGTH = 8.0
"""Weight of the labels against the content from "auto" on: content then orders rows of about equal probabilities."""
OWN_WORD = 1e-6
"""Added per nibble of the query's own label word: of rows with equal content, those of the same code come first."""


@dataclass
class LabelWords:
    """Probability vectors that label words stand for.

    Attributes
    ----------
    words_ : float32 (n_words, n_labels)
        The first ones are label sets that may be given, and the others are learned from predicted probabilities.
    """

    words_: Float32Array

    @classmethod
    def learn(
        cls, probabilities: Float32Array, given: Float32Array, rng: np.random.RandomState, n_jobs: int | None
    ) -> LabelWords:
        """Learn words from predicted probabilities of rows, beside those of label sets that may be given."""
        count = min(LEARNED_WORDS, N_WORDS - len(given), max(1, len(probabilities) // LEAST_ROWS))
        start = np.unique(probabilities[rng.permutation(len(probabilities))[:count]], axis=0)
        words = np.concatenate([given, k_means(probabilities, start, WORD_ROUNDS, n_jobs)])
        # Rounding would decide between words that are nearly equal.
        squares = np.einsum("ij,ij->i", words, words)
        distances = squares[:, None] + squares - 2 * words @ words.T
        near = np.tril(distances < LEAST_DISTANCE**2, k=-1).any(axis=1)
        near[: len(given)] = False
        return cls(words[~near])

    def encode(self, probabilities: NDArray[np.floating]) -> IntArray:
        """Return the number of the nearest word."""
        return nearest(probabilities, self.words_)


@dataclass
class NibbleQuantizer:
    """A product quantizer with 4 bits per group of axes.

    Attributes
    ----------
    n_nibbles, n_axes : int
    axes_ : intp (n_groups, n_axes)
        The axes of each group. If axes are fewer than nibbles, so are groups; the last nibbles are 0.
    books_ : float32 (n_groups, 16, n_axes)
        The words of each group.
    """

    n_nibbles: int
    n_axes: int
    axes_: IntArray
    books_: Float32Array

    @classmethod
    def learn(
        cls, vectors: Float32Array, n_nibbles: int, rng: np.random.RandomState, n_jobs: int | None
    ) -> NibbleQuantizer:
        """Learn words from vectors (n, n_axes) of rows, whose axes are uncorrelated."""
        axes = balanced_groups(vectors.var(axis=0, dtype=np.float64), n_nibbles)
        drawn = rng.permutation(len(vectors))
        starts = [vectors[drawn[:NIBBLE_WORDS]][:, group] for group in axes]

        def learn_book(place: int) -> Float32Array:
            book = k_means(vectors[:, axes[place]], np.unique(starts[place], axis=0), NIBBLE_ROUNDS, 1)
            # Fewer rows than words: the other words repeat the first, which is the nearest wherever they are.
            return np.concatenate([book, np.repeat(book[:1], NIBBLE_WORDS - len(book), axis=0)])

        books = list(ordered_map(learn_book, range(len(axes)), n_jobs))
        return cls(n_nibbles, vectors.shape[1], axes, np.stack(books))

    def affinities(self, vectors: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the affinity of vectors (n, n_axes) to all words (n, n_nibbles, 16), 0 in nibbles without axes."""
        spread = np.zeros((vectors.shape[1], len(self.axes_), NIBBLE_WORDS), dtype=vectors.dtype)
        for place, (axes, book) in enumerate(zip(self.axes_, self.books_, strict=True)):
            spread[axes, place] = book.T
        result = np.zeros((len(vectors), self.n_nibbles, NIBBLE_WORDS), dtype=vectors.dtype)
        halves = (self.books_.astype(vectors.dtype) ** 2).sum(axis=2) / 2
        products = vectors @ spread.reshape(vectors.shape[1], -1)
        result[:, : len(self.axes_)] = products.reshape(len(vectors), len(self.axes_), NIBBLE_WORDS) - halves
        return result

    def encode(self, vectors: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Return the nearest word of every group (n, n_nibbles), from 0 to 15."""
        return self.affinities(vectors).argmax(axis=2).astype(np.uint8)

    def decode(self, nibbles: NDArray[np.uint8]) -> Float32Array:
        """Return the vectors that nibbles stand for, 0 along axes that are not stored."""
        result = np.zeros((len(nibbles), self.n_axes), dtype=np.float32)
        for place, (axes, book) in enumerate(zip(self.axes_, self.books_, strict=True)):
            result[:, axes] = book[nibbles[:, place]]
        return result


@dataclass
class LabelPart:
    """The parts of a fitted OpenHasher that know labels: rows to probabilities, these to words, and familiarity."""

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
        table = np.zeros((len(learned), N_WORDS), dtype=np.float32)
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
    """Return the strength of the labels, and how far the familiarity trusts the label scores.

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


def balanced_groups(variance: FloatArray, n_groups: int) -> IntArray:
    """Deal axes out to groups of equal size so that the products of their variances are about equal.

    Axes in order of falling variance go to the group with room whose sum of log variances is the least. Axes that are
    left over, those of the least variance, are not stored.
    """
    n_groups = min(n_groups, len(variance))
    size = len(variance) // n_groups
    logs = np.log(np.maximum(variance, 1e-12 * max(float(variance.max()), 1e-300)))
    logs += 1e-6 - logs.min()
    groups: list[list[int]] = [[] for _ in range(n_groups)]
    load = np.zeros(n_groups)
    for axis in np.argsort(-logs, kind="stable")[: n_groups * size]:
        place = int(np.argmin(np.where([len(group) < size for group in groups], load, np.inf)))
        groups[place].append(int(axis))
        load[place] += logs[axis]
    return np.array(groups, dtype=np.intp)


def nearest(vectors: NDArray[np.floating], words: NDArray[np.floating]) -> IntArray:
    """Return the number of the nearest word of each vector."""
    words = words.astype(vectors.dtype, copy=False)
    affinity = vectors @ words.T
    affinity -= np.einsum("ij,ij->i", words, words) / 2
    return affinity.argmax(axis=1)


def k_means(vectors: Float32Array, start: Float32Array, rounds: int, n_jobs: int | None) -> Float32Array:
    """Move words to the means of the vectors that are nearest to them; a word without vectors stays where it is."""
    words, blocks = np.array(start, dtype=np.float32), row_blocks(len(vectors))

    def nearest_now(block: slice) -> IntArray:
        return nearest(vectors[block], words)

    for _ in range(rounds):
        word = np.concatenate(list(ordered_map(nearest_now, blocks, n_jobs)))
        counts = np.bincount(word, minlength=len(words))
        order, seen = np.argsort(word, kind="stable"), np.flatnonzero(counts)
        firsts = np.cumsum(counts)[seen] - counts[seen]
        totals = np.add.reduceat(vectors[order], firsts, axis=0, dtype=np.float64)
        moved = words.copy()
        moved[seen] = totals / counts[seen, None]
        if np.array_equal(moved, words):
            break
        words = moved
    return words
