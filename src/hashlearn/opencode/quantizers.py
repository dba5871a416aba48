"""The two quantizers of a code: the nearest of at most 4,096 label words, and the nearest of 16 words per nibble.

Both quantizers answer one question, the affinity <v, word> - |word|^2 / 2 of vectors v to all words. The word of a
stored row is the one of the largest affinity, which is the nearest one; the affinities of a query are its tables.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.typing import Float32Array, FloatArray, IntArray

WORD_BITS = 12
N_WORDS = 2**WORD_BITS
LEARNED_WORDS, LEAST_LEARNED = 2048, 1024
"""Label words for predicted probabilities, at most and where label sets are many. The others are for given labels."""
NIBBLE_WORDS = 16
WORD_ROUNDS, NIBBLE_ROUNDS = 10, 15
LEAST_DISTANCE = 0.003
"""A learned word that is nearer to an earlier word is dropped."""
LEAST_ROWS = 2
"""Rows per label word: more words would be copies of single rows."""


class LabelWords:
    """Probability vectors that label words stand for.

    Attributes
    ----------
    words_ : float32 (n_words, n_labels)
        The first ones are label sets that may be given, and the others are learned from predicted probabilities.
    """

    def __init__(self, words: Float32Array) -> None:
        self.words_ = words

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

    def __init__(self, n_nibbles: int, n_axes: int, axes: IntArray, books: Float32Array) -> None:
        self.n_nibbles, self.n_axes, self.axes_, self.books_ = n_nibbles, n_axes, axes, books

    @classmethod
    def learn(
        cls, vectors: Float32Array, n_nibbles: int, rng: np.random.RandomState, n_jobs: int | None
    ) -> NibbleQuantizer:
        """Learn words from vectors (n, n_axes) of rows, whose axes are uncorrelated."""
        axes = balanced_groups(vectors.var(axis=0, dtype=np.float64), n_nibbles)
        drawn = rng.permutation(len(vectors))
        starts = [vectors[drawn[:NIBBLE_WORDS]][:, group] for group in axes]

        def learn_book(place: int) -> Float32Array:
            book = np.full((NIBBLE_WORDS, axes.shape[1]), np.inf, dtype=np.float32)
            found = k_means(vectors[:, axes[place]], np.unique(starts[place], axis=0), NIBBLE_ROUNDS, 1)
            book[: len(found)] = found
            # Fewer rows than words: the other words repeat the first, which is the nearest wherever they are.
            book[len(found) :] = found[0]
            return book

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


def _nearest_in(vectors: Float32Array, words: Float32Array, block: slice) -> IntArray:
    return nearest(vectors[block], words)


def k_means(vectors: Float32Array, start: Float32Array, rounds: int, n_jobs: int | None) -> Float32Array:
    """Move words to the means of the vectors that are nearest to them; a word without vectors stays where it is."""
    words, blocks = np.array(start, dtype=np.float32), row_blocks(len(vectors))
    for _ in range(rounds):
        word = np.concatenate(list(ordered_map(partial(_nearest_in, vectors, words), blocks, n_jobs)))
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
