"""Lin:V: a linear encoder for queries, and free codes for the database."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.functions.linear import LinearFunction, RidgeSums
from hashlearn.hashers.in_memory import Learned, linear
from hashlearn.labels import LabelMatrix, group_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.typing import Float32Array, IntArray, Rng
from hashlearn.zoo.bases.primitives import labeled_rows
from hashlearn.zoo.lin_lin import LinLin, PairProblem, Pairs, Regression, Signs

QUERIES = 2000  # that decide the codes of the database rows, at most
COLUMNS = 512
ROUNDS = 2


class LinV(LinLin):
    """Asymmetric hashing, Lin:V: queries have codes sgn(U x), database rows free codes v.

    As Lin:Lin, but v = sgn(M'u) has no function to obey. With labels, rows with equal label sets get equal codes: when
    U is learned, the code of every label set is made from up to 2,000 queries, bit by bit in two rounds.

    ``codes_`` are these codes. New database rows have no labels, so ``encode`` hashes them by a ridge regression of the
    codes. We know the method from notes (``verified`` is False); that regression is ours.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import LinV
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = LinV(n_bits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode_queries(X[1000:]).shape, hasher.encode(X[1000:]).shape
    ((797, 2), (797, 2))
    """

    info = MethodInfo(
        name="lin-v",
        title="Lin:V",
        reference="Neyshabur, Yadollahpour, Makarychev, Salakhutdinov and Srebro, The Power of Asymmetry in Binary "
        "Hashing (NIPS 2013)",
        kind="pairwise, asymmetric, discrete",
        cost="O(n d^2 + T m n (d + p) + G m), p anchors, T rounds, G label sets",
        database="learned",
        slow=True,
        remark="from notes; new database rows are hashed by a regression of the free codes",
    )

    def _problem(self, regression: Regression, labels: LabelMatrix, anchors: IntArray) -> PairProblem:
        return FreeDatabase(regression, self.n_bits_, [self._pairs(labels, labels[anchors])], labels)

    def _learned(
        self,
        problem: PairProblem,
        features: Float32Array,
        labels: LabelMatrix,
        attributes: dict[str, Any],
    ) -> Learned:
        assert isinstance(problem, FreeDatabase)
        group, first = group_rows(labels)
        chosen = slice(None, None, -(-len(problem.queries) // QUERIES))
        queries, theirs = problem.queries[chosen], problem.labels[chosen]
        book = np.empty((len(first), self.n_bits_), dtype=np.int32)
        for start in range(0, len(first), COLUMNS):
            block = slice(start, start + COLUMNS)
            pairs = self._pairs(theirs, labels[first[block]])
            pairs.theta = problem.relations[0].theta
            book[block] = free_codes(pairs, queries)
        known = labeled_rows(labels)
        own = book[group[known]]
        sums = RidgeSums.from_rows(features[known], own.astype(np.float32))
        ridge = self.ridge * float(np.trace(sums.xx)) / len(sums.xx) or 1.0
        attributes["database_function_"] = LinearFunction.solve(sums, ridge)
        return Learned(linear(problem.query_weights), own, **attributes)


class FreeDatabase(PairProblem):
    """Queries are linear, anchors of the database have free codes. ``labels`` are those of the queries."""

    def __init__(self, regression: Regression, n_bits: int, relations: list[Pairs], labels: LabelMatrix) -> None:
        super().__init__(regression, n_bits, relations, relations[0].keys.shape[1])
        self.labels = labels

    def _state(self) -> list[NDArray[Any]]:
        return [self.queries, self.database, self.query_weights]

    def _add(self, bit: int, sign: int) -> None:
        self.relations[0].add(self.queries[:, bit], sign * self.database[:, bit])

    def _propose(self, bit: int, turns: int, rng: Rng) -> None:
        pull, database = self.relations[0].pull(), self._start(bit, rng)
        for _ in range(turns):
            self.query_weights[:, bit], queries = self.regression.solve(pull @ database.astype(np.float32))
            database = best_bit(pull, queries, database)
        self.queries[:, bit], self.database[:, bit] = queries, database


def best_bit(pull: Float32Array, queries: Signs, previous: Signs) -> Signs:
    """argmax u'M v over v; a tie keeps the previous bit."""
    votes = queries.astype(np.float32) @ pull
    return np.where(votes == 0, previous, np.where(votes > 0, 1, -1)).astype(np.int32)


def free_codes(pairs: Pairs, queries: Signs) -> Signs:
    """Return codes of the columns for fixed codes of the queries, from all bits +1, one bit at a time."""
    n_bits = queries.shape[1]
    found = np.ones((pairs.keys.shape[1], n_bits), dtype=np.int32)
    pairs.keys += (queries.sum(axis=1, dtype=np.int32) - n_bits)[:, None]
    for _ in range(ROUNDS):
        for bit in range(n_bits):
            pairs.add(queries[:, bit], -found[:, bit])
            found[:, bit] = best_bit(pairs.pull(), queries[:, bit], found[:, bit])
            pairs.add(queries[:, bit], found[:, bit])
    return found
