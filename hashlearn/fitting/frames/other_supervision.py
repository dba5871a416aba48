"""What pairwise hashers learn from besides labels: listed pairs, a similarity matrix, distances between rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from hashlearn.constraints import COUNT, Options
from hashlearn.fitting.base import BaseHasher
from hashlearn.fitting.candidates import anchor_count
from hashlearn.kernel import FeatureMap, dense_rows
from hashlearn.parameters import parameter
from hashlearn.progress import verbose_listening
from hashlearn.similarity import MatrixSimilarity, Similarity, check_similarity, from_pairs, neighbor_similarity
from hashlearn.timing import PhaseTimer
from hashlearn.typing import IntArray, Matrix


class OtherSupervision(BaseHasher):
    """Base of the pairwise frame with the fits that find the similarity of an array without labels."""

    n_anchors: int | str = parameter(
        [Options("auto"), COUNT],
        "Rows in the second factor of the objective (p in the paper), drawn from every group in proportion. 'auto' is "
        "two per class and at least 1,000, and 3,000 for label sets.",
        default="auto",
    )

    @abstractmethod
    def _fit_features(self, X: Matrix, rng: np.random.RandomState, timer: PhaseTimer) -> FeatureMap: ...

    @abstractmethod
    def _fit_array(
        self,
        X: Matrix,
        features: FeatureMap,
        similarity: Similarity,
        anchors: IntArray,
        rng: np.random.RandomState,
        timer: PhaseTimer,
    ) -> Self: ...

    @property
    def _n_given_anchors(self) -> int:
        """Anchors where rows have no groups."""
        return anchor_count(self.n_anchors, 0, None)

    def fit_pairs(self, X: Matrix, similar: ArrayLike, dissimilar: ArrayLike) -> Self:
        """Learn from listed pairs of rows.

        The rows with most pairs become anchors. The learned function codes rows that no pair links to an anchor. Pairs
        that are not listed are unknown: the quadratic losses pull them to inner product 0, as in the paper.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        similar, dissimilar : int (k, 2)
            Row numbers; one of them may be empty.

        Returns
        -------
        self
        """
        X = self._validate(X)
        rng, timer = self._rng(), PhaseTimer()
        with verbose_listening(self.verbose):
            with timer("similarity"):
                S = from_pairs(X.shape[0], similar, dissimilar)
                degree = np.diff(S.indptr)
                busiest = np.lexsort((rng.permutation(len(degree)), -degree))
                anchors = np.sort(busiest[: min(self._n_given_anchors, int(np.count_nonzero(degree)))])
                similarity = MatrixSimilarity(S[:, anchors], anchors)
            features = self._fit_features(X, rng, timer)
            return self._fit_array(X, features, similarity, anchors, rng, timer)

    def fit_similarity(self, X: Matrix, S: Any, anchors: ArrayLike) -> Self:
        """Learn from similarities between rows and anchors.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        S : array or sparse matrix (n, p)
            How similar each row is to each anchor, 0 if unknown. It must be symmetric between anchors.
        anchors : int (p,)
            Row numbers.

        Returns
        -------
        self
        """
        X = self._validate(X)
        S, places = check_similarity(S, anchors, X.shape[0])
        rng, timer = self._rng(), PhaseTimer()
        with verbose_listening(self.verbose):
            similarity = MatrixSimilarity(S, places)
            features = self._fit_features(X, rng, timer)
            return self._fit_array(X, features, similarity, similarity.anchors, rng, timer)

    def fit_neighbors(self, X: Matrix, n_neighbors: int = 50, far_quantile: float = 0.5) -> Self:
        """Learn without labels, from distances between rows.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        n_neighbors : int, default=50
            So many nearest anchors of a row are similar to it.
        far_quantile : float, default=0.5
            Anchors beyond this quantile of the distances between anchors are dissimilar to a row. The similarity to
            all other anchors is unknown.

        Returns
        -------
        self
        """
        X = self._validate(X)
        rng, timer = self._rng(), PhaseTimer()
        with verbose_listening(self.verbose):
            features = self._fit_features(X, rng, timer)
            with timer("similarity"):
                anchors = np.sort(rng.permutation(X.shape[0])[: self._n_given_anchors]).astype(np.intp)
                S = neighbor_similarity(dense_rows(X), anchors, n_neighbors, far_quantile)
            similarity = MatrixSimilarity(S, anchors)
            return self._fit_array(X, features, similarity, anchors, rng, timer)
