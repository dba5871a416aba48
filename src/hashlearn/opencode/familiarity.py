"""How well a query fits any known label, from 0 to 1: what decides how much labels count in its search.

Two things tell. The best label score of the query is compared with the best left-out scores of labeled rows: a rank,
which adapts to labels that are hard to predict. And of the training rows most alike to the query, many have a label if
the query has a known one, and few if its label was never given. The second needs unlabeled rows in the training;
without them the rank alone decides. So it does where neighbors separate labeled rows from others by less than they take
from labeled rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.typing import Float32Array

NEIGHBORS = 16
MOST_ROWS = 8192
"""Training rows among which neighbors are looked for."""


class Familiarity:
    """Says how well rows fit any known label.

    Attributes
    ----------
    best_ : float32 (n,)
        The best left-out score of each labeled row of a sample, ascending.
    vectors_ : float32 (n, n_axes)
        Content vectors of a sample of training rows; none if all rows have labels or neighbors do not tell enough.
    labeled_ : bool (n,)
        Which of these rows have a label.
    usual_ : float
        Mean share of labeled rows among the neighbors of a labeled row.
    separation_ : float
        How much more labeled rows have of that share than unlabeled ones, from 0 to 1; 0 if the rank alone decides.
    """

    def __init__(self, best: Float32Array, vectors: Float32Array, labeled: NDArray[np.bool_]) -> None:
        self.best_ = np.sort(best)
        self.usual_, self.separation_ = 1.0, 0.0
        if labeled.all() or len(labeled) <= NEIGHBORS:
            vectors, labeled = vectors[:0], labeled[:0]
        self.vectors_, self.labeled_ = vectors, labeled

    @classmethod
    def learn(
        cls, best: Float32Array, vectors: Float32Array, labeled: NDArray[np.bool_], n_jobs: int | None
    ) -> Familiarity:
        """Learn from the best left-out scores of labeled rows, and from vectors of training rows."""
        result = cls(best, vectors[:MOST_ROWS], labeled[:MOST_ROWS])
        if len(result.labeled_):
            blocks = row_blocks(len(result.labeled_), 512)
            shares = np.concatenate(list(ordered_map(result._own_shares, blocks, n_jobs)))
            result.usual_ = max(float(shares[result.labeled_].mean()), 1 / NEIGHBORS)
            known = np.minimum(1, shares / result.usual_)
            kept, wrong = known[result.labeled_].mean(), known[~result.labeled_].mean()
            if kept - wrong <= 1 - kept:
                # Rows of known labels would lose more than is gained: few rows have labels, and neighbors rarely do.
                result.vectors_, result.labeled_ = vectors[:0], labeled[:0]
            else:
                result.separation_ = float(kept - wrong)
        return result

    def measure(self, scores: NDArray[Any], vectors: NDArray[Any], trust: float) -> NDArray[Any]:
        """Return the familiarity of rows with these label scores and content vectors.

        ``trust`` 0 is the estimate described above, and 1 takes the best label score itself.
        """
        best = scores.max(axis=1)
        # The more the neighbors tell, the less the rank has to.
        rank = (np.searchsorted(self.best_, best) / max(len(self.best_), 1)) ** (1 - self.separation_ / 2)
        if len(self.labeled_):
            alike = vectors @ self.vectors_.T.astype(vectors.dtype, copy=False)
            rank *= np.minimum(1, self._shares(alike) / self.usual_)
        return ((1 - trust) * rank + trust * np.clip(best, 0, 1)).astype(scores.dtype)

    def _own_shares(self, block: slice) -> NDArray[np.float64]:
        """Return the shares of labeled rows among the neighbors of some of the training rows."""
        alike = self.vectors_[block] @ self.vectors_.T
        alike[np.arange(len(alike)), np.arange(len(self.vectors_))[block]] = -np.inf
        return self._shares(alike)

    def _shares(self, alike: NDArray[Any]) -> NDArray[np.float64]:
        nearest = np.argpartition(-alike, NEIGHBORS - 1, axis=1)[:, :NEIGHBORS]
        return self.labeled_[nearest].mean(axis=1)
