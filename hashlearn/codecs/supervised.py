"""SQH: supervised quantization, where the labels take part in choosing the words of a row."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from hashlearn.codecs.base import Codec, Searcher, best_places, unit_rows
from hashlearn.functions.linear import RidgeFactor
from hashlearn.labels import label_matrix
from hashlearn.parallel import one_blas_thread
from hashlearn.primitives import cluster_centers
from hashlearn.typing import Float32Array, FloatArray, IntArray, PackedCodes

WORDS = 256
WIDTH = 64
ROUNDS = 5
SWEEPS = 2
STEPS = 20
_TOLERANCE = 1e-8
RIDGE = 1e-3


class SupervisedCodec(Codec):
    """SQH (Wang, Zhang, Qi, Tang and Wang, 2016): a row is the sum of one word from each of ``n_bytes`` dictionaries.

    min |Y - C W|^2 + fit_weight |C - X P|^2 plus ridges, where C are the sums of words of the rows, Y the labels and X
    rows of unit length. In turns: W and P are ridge regressions, words are least squares for given choices, and the
    choices are improved one dictionary at a time (iterated conditional modes). Rows without labels are quantized by
    X P alone. Rows are ranked by the cosine of a query's X P and the sum of words.

    We know the method from notes, not from the authors' code. The paper wants words of different dictionaries to have
    about constant inner products, so that sums need no norms in lookup tables; here a norm follows from the code.

    Parameters
    ----------
    n_bytes : int
        Dictionaries; each has 256 words.
    fit_weight : float, default=1.0
        What the features count against the labels.
    seed : int, default=0
    """

    supervised: ClassVar[bool] = True

    def __init__(self, n_bytes: int, fit_weight: float = 1.0, seed: int = 0) -> None:
        self.n_bytes, self.fit_weight, self.seed = n_bytes, fit_weight, seed

    def fit(self, X: Float32Array, y: Any = None) -> Self:
        with one_blas_thread():
            self._fit(unit_rows(X).astype(np.float64), label_matrix(y).toarray().astype(np.float64))
        return self

    def _fit(self, X: FloatArray, Y: FloatArray) -> None:
        rng = np.random.RandomState(self.seed)
        self._center, Y = X.mean(axis=0), Y - Y.mean(axis=0)
        X = X - self._center
        values, vectors = np.linalg.eigh(X.T @ X)
        self._projection = vectors[:, ::-1][:, : min(WIDTH, X.shape[1])]
        # Features and labels have the same total square, so that fit_weight has one meaning for all data.
        scale = np.sqrt((Y**2).sum() / max(float(((X @ self._projection) ** 2).sum()), 1e-12)) or 1.0
        self._projection = self._projection * scale
        ridge = RIDGE * max(float(values.sum()) / len(values), 1e-12)
        regression = RidgeFactor(X.T @ X, ridge)
        targets = X @ self._projection
        self._words, choice = _residual_words(targets, self.n_bytes, rng)
        self.objective_: list[float] = []
        for _ in range(ROUNDS):
            sums = _sums(self._words, choice)
            label_weights = RidgeFactor(sums.T @ sums, 1.0).solve(sums.T @ Y)
            self._projection = regression.solve(X.T @ sums)
            metric = label_weights @ label_weights.T + self.fit_weight * np.eye(len(label_weights))
            wanted = Y @ label_weights.T + self.fit_weight * (X @ self._projection)
            root = np.linalg.cholesky(metric)
            wanted = np.linalg.solve(metric, wanted.T).T @ root
            words = _least_squares(choice, wanted, self._words @ root)
            _improve(words, choice, wanted)
            self._words = words @ np.linalg.inv(root)
            self.objective_.append(self._objective(X, Y, choice, label_weights, ridge))
        self._projection = regression.solve(X.T @ _sums(self._words, choice))

    def _objective(
        self, X: FloatArray, Y: FloatArray, choice: IntArray, label_weights: FloatArray, ridge: float
    ) -> float:
        sums = _sums(self._words, choice)
        by_label = ((Y - sums @ label_weights) ** 2).sum() + (label_weights**2).sum()
        by_feature = ((sums - X @ self._projection) ** 2).sum() + ridge * (self._projection**2).sum()
        return float(by_label + self.fit_weight * by_feature)

    def _projected(self, X: Float32Array) -> FloatArray:
        return (unit_rows(X) - self._center) @ self._projection

    def encode(self, X: Float32Array) -> PackedCodes:
        targets = self._projected(X)
        choice = np.zeros((len(targets), self.n_bytes), dtype=np.intp)
        rest = targets.copy()
        for place, words in enumerate(self._words):
            choice[:, place] = _nearest(rest, words)
            rest -= words[choice[:, place]]
        _improve(self._words, choice, targets)
        return choice.astype(np.uint8)

    @property
    def bytes_per_row(self) -> int:
        return self.n_bytes

    @property
    def model_bytes(self) -> int:
        # As float32, which is what a search needs.
        return 4 * (self._words.size + self._projection.size + self._center.size)

    def scores(self, queries: Float32Array, codes: PackedCodes) -> Float32Array:
        return unit_rows(self._projected(queries).astype(np.float32)) @ self._decoded(codes).T

    def searcher(self, codes: PackedCodes) -> Searcher:
        decoded = self._decoded(codes)

        def search(queries: Float32Array, k: int) -> IntArray:
            return best_places(unit_rows(self._projected(queries).astype(np.float32)) @ decoded.T, k)

        return search

    def _decoded(self, codes: PackedCodes) -> Float32Array:
        return unit_rows(_sums(self._words, codes.astype(np.intp)).astype(np.float32))


def _sums(words: FloatArray, choice: IntArray) -> FloatArray:
    """The sums of the chosen words (n, width)."""
    total = np.zeros((len(choice), words.shape[2]))
    for place, own in enumerate(words):
        total += own[choice[:, place]]
    return total


def _nearest(rows: FloatArray, words: FloatArray) -> IntArray:
    found: IntArray = ((words**2).sum(axis=1) / 2 - rows @ words.T).argmin(axis=1)
    return found


def _residual_words(targets: FloatArray, n_bytes: int, rng: np.random.RandomState) -> tuple[FloatArray, IntArray]:
    """Dictionaries (n_bytes, 256, width) to start with, each k-means of what those before it left over."""
    words = np.zeros((n_bytes, WORDS, targets.shape[1]))
    choice = np.zeros((len(targets), n_bytes), dtype=np.intp)
    rest = targets.copy()
    for place in range(n_bytes):
        centers = cluster_centers(rest.astype(np.float32), WORDS, rng)
        words[place, : len(centers)] = centers
        choice[:, place] = _nearest(rest, words[place])
        rest -= words[place][choice[:, place]]
    return words, choice


def _least_squares(choice: IntArray, wanted: FloatArray, start: FloatArray) -> FloatArray:
    """Words whose sums are near to ``wanted``, by conjugate gradients that begin at the words ``start``.

    Every step lowers the error, so few steps suffice from round to round. A direct solution would take most of the time
    of a fit, because its matrix has 256 rows per byte.
    """
    n_rows, n_bytes = choice.shape
    columns = (choice + WORDS * np.arange(n_bytes)).ravel()
    rows = np.repeat(np.arange(n_rows), n_bytes)
    chosen = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n_rows, n_bytes * WORDS))
    uses = np.maximum(np.bincount(columns, minlength=n_bytes * WORDS), 1)[:, np.newaxis]
    words = start.reshape(n_bytes * WORDS, -1).copy()
    gradient = chosen.T @ (wanted - chosen @ words)
    scaled = gradient / uses
    direction, power = scaled, float((gradient * scaled).sum())
    enough = _TOLERANCE**2 * float((wanted**2).sum())
    for _ in range(STEPS):
        if power <= enough:
            break
        moved = chosen @ direction
        step = power / float((moved**2).sum())
        words += step * direction
        gradient = gradient - step * (chosen.T @ moved)
        scaled = gradient / uses
        before, power = power, float((gradient * scaled).sum())
        direction = scaled + (power / before) * direction
    return words.reshape(start.shape)


def _improve(words: FloatArray, choice: IntArray, wanted: FloatArray) -> None:
    """Choose each word anew while the others stay, in place."""
    rest = wanted - _sums(words, choice)
    for _ in range(SWEEPS):
        for place, own in enumerate(words):
            rest += own[choice[:, place]]
            choice[:, place] = _nearest(rest, own)
            rest -= own[choice[:, place]]
