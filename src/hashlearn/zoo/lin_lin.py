"""Lin:Lin and Lin:V: a linear encoder for queries, and for the database another one, or free codes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from hashlearn import codes
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import HashFunction, LinearFunction, RidgeFactor, RidgeSums, project_block
from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.kernel import validated_rows
from hashlearn.labels import LabelMatrix, group_rows
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, Interval, fitted, parameter
from hashlearn.progress import steps
from hashlearn.rows.source import CalibrationSample
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix, PackedCodes, Rng
from hashlearn.zoo.bases.primitives import labeled_rows

Signs = NDArray[np.int32]

PAPER = "Neyshabur et al., The Power of Asymmetry in Binary Hashing (NIPS 2013)"
QUERIES = 2000  # that decide the codes of the database rows of Lin:V, at most
COLUMNS = 512
ROUNDS = 2


class LinLin(KernelParameters, InMemoryHasher):
    """Asymmetric hashing, Lin:Lin: queries have codes sgn(U x), database rows sgn(V x).

    A pair of a query and a database row costs b log(1 + exp(-s S (u.v - theta))), S = +1 if they share a label and -1
    otherwise; b weighs similar pairs against others. One bit at a time: the slopes of the loss are M_ij, and u'M v is
    maximized in turns by ridge regressions of M v and M'u, whose signs are u and v. A bit that would raise the loss is
    left as it was. Later rounds visit all bits again; theta follows after each bit.

    Pairs are those of all rows on one side with some rows, the anchors, on the other side, and vice versa.
    We know the method from notes (``verified`` is False); ridge regression stands for the paper's weighted classifiers.
    Training codes are hashed by V. ``transform``, ``decision_function``, ``expected_bits`` and ``encode_queries`` are
    for queries, ``encode`` and ``codes_`` for database rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hashlearn import LinLin
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = LinLin(n_bits=16, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.encode_queries(X[1000:]).shape, hasher.encode(X[1000:]).shape
    ((797, 2), (797, 2))
    """

    info = MethodInfo(
        name="lin-lin",
        title="Lin:Lin",
        reference=PAPER,
        kind="pairwise, asymmetric",
        cost="O(n d^2 + T m n (d + p)), p anchors, T rounds",
        slow=True,
        remark="from notes; ridge regressions as classifiers",
    )

    two_encoders = True

    free_database: ClassVar[bool] = False
    """Whether database rows have free codes, and no function."""

    n_anchors: int = parameter(COUNT, "Rows of the other side that a row is compared with.", default=200)
    n_samples: int = parameter(Interval(int, 2), "Rows to learn from at most, drawn at random.", default=10000)
    similar_share: float = parameter(
        Interval(float, 0, 1, closed="neither"),
        "Weight of all similar pairs together; others have the rest.",
        default=0.5,
    )
    sharpness: float = parameter(POSITIVE, "s times n_bits.", default=4.0)
    ridge: float = parameter(POSITIVE, "Ridge, as a share of the mean diagonal of X'X.", default=0.01)
    max_iter: int = parameter(COUNT, "Rounds over the bits.", default=2)
    inner_iter: int = parameter(COUNT, "Turns of u and v for a bit.", default=4)
    kernel: str | None = None

    objective_: FloatArray = fitted("(n_iter_ n_bits + 1,) The loss at the start and after every bit; it never rises.")
    n_iter_: int = fitted("Rounds made.")
    database_function_: HashFunction = fitted("The hash function of database rows, from features to projections.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        known = labeled_rows(labels)
        if len(known) > self.n_samples:
            known = np.sort(rng.choice(known, self.n_samples, replace=False))
        own, anchors = labels[known], np.sort(rng.choice(len(known), min(self.n_anchors, len(known)), replace=False))
        relations = [self._pairs(own, own[anchors]) for _ in range(1 if self.free_database else 2)]
        problem = PairProblem(Regression(features[known], self.ridge), self.n_bits_, relations, anchors)
        objective = [problem.move_thresholds()]
        for visit in steps(self.max_iter * self.n_bits_, "bits"):
            objective.append(problem.learn_bit(visit % self.n_bits_, self.inner_iter, objective[-1], rng))
        learned = self._learned(problem, features, labels, own)
        learned.attributes |= {"objective_": np.asarray(objective), "n_iter_": -(-(visit + 1) // self.n_bits_)}
        return learned

    def _pairs(self, rows: sparse.csr_matrix, columns: sparse.csr_matrix) -> Pairs:
        similar = (rows @ columns.T).toarray() > 0
        return Pairs(similar, self.n_bits_, self.similar_share, self.sharpness / self.n_bits_)

    def _learned(
        self, problem: PairProblem, features: Float32Array, labels: LabelMatrix, query_labels: LabelMatrix
    ) -> Learned:
        """Return both encoders; ``query_labels`` are those of the rows learned from."""
        return Learned(linear(problem.query_weights), database_function_=linear(problem.database_weights))

    def _database_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        return partial(project_block, self.features_, self.database_function_)

    def _database_codes(self, X: Matrix) -> PackedCodes:
        check_is_fitted(self)
        return self._codes_of(validated_rows(self, X))

    def _codes_of(self, X: Matrix) -> PackedCodes:
        return codes.pack(self._project_by(self._database_projection(), X) >= 0)

    def _hash(self, features: Float32Array) -> PackedCodes:
        return codes.pack(self.database_function_.project(features) >= 0)

    def _calibrate(
        self,
        sample: CalibrationSample,
        learned: PackedCodes | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Learn what a projection of a query says about the database bit of the same row."""
        learned = self._codes_of(sample.rows) if learned is None else learned
        super()._calibrate(sample, learned, calibration)


class LinV(LinLin):
    """Asymmetric hashing, Lin:V: queries have codes sgn(U x), database rows free codes v.

    As Lin:Lin, but v = sgn(M'u) has no function to obey. With labels, rows with equal label sets get equal codes: when
    U is learned, the code of every label set is made from up to 2,000 queries, bit by bit in two rounds.

    ``codes_`` are these codes. New database rows have no labels, so ``encode`` hashes them by a ridge regression of the
    codes. We know the method from notes (``verified`` is False); that regression is ours.
    """

    info = MethodInfo(
        name="lin-v",
        title="Lin:V",
        reference=PAPER,
        kind="pairwise, asymmetric, discrete",
        cost="O(n d^2 + T m n (d + p) + G m), p anchors, T rounds, G label sets",
        database="learned",
        slow=True,
        remark="from notes; new database rows are hashed by a regression of the free codes",
    )

    free_database = True

    def _learned(
        self, problem: PairProblem, features: Float32Array, labels: LabelMatrix, query_labels: LabelMatrix
    ) -> Learned:
        group, first = group_rows(labels)
        chosen = slice(None, None, -(-len(problem.queries) // QUERIES))
        queries, theirs = problem.queries[chosen], query_labels[chosen]
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
        return Learned(linear(problem.query_weights), own, database_function_=LinearFunction.solve(sums, ridge))


class Regression:
    """Ridge regression of one target after another on the same rows."""

    def __init__(self, rows: Float32Array, ridge: float) -> None:
        self.rows = rows
        gram = (rows.T @ rows).astype(np.float64)
        self._factor = RidgeFactor(gram, ridge * float(np.trace(gram)) / len(gram) or 1.0)

    def solve(self, targets: NDArray[np.floating]) -> tuple[FloatArray, Signs]:
        """Return weights (d,), and the signs (n,) of what they predict."""
        weights = self._factor.solve((self.rows.T @ targets.astype(np.float32)).astype(np.float64)[:, None])[:, 0]
        return weights, np.where(self.rows @ weights.astype(np.float32) >= 0, 1, -1).astype(np.int32)


class Pairs:
    """Inner products of the codes of rows and columns, the loss of all pairs and its slopes.

    All bits are +1 at first, and theta is such that this costs as much as no bits. ``keys`` are the inner products plus
    the number of bits; for similar pairs 2 n_bits + 1 is added, so that one table serves both kinds.
    """

    def __init__(self, similar: NDArray[np.bool_], n_bits: int, share: float, slope: float) -> None:
        n_near = int(np.count_nonzero(similar))
        self.inner = np.arange(-n_bits, n_bits + 1)
        self.kinds = np.array([-1.0, 1.0])[:, None]
        self.weights = np.array([(1 - share) / max(similar.size - n_near, 1), share / max(n_near, 1)])[:, None]
        self.keys = np.where(similar, 4 * n_bits + 1, 2 * n_bits).astype(np.int32)
        self.slope, self.theta = slope, float(n_bits)

    def costs(self, theta: float) -> FloatArray:
        """Return the loss of one pair (2, 2 n_bits + 1), dissimilar or similar, at every inner product."""
        return self.weights * np.logaddexp(0, -self.slope * self.kinds * (self.inner - theta))

    def pull(self) -> Float32Array:
        """M: how much the loss of each pair falls where its inner product grows."""
        signed = self.slope * self.kinds
        table = self.weights * signed * expit(-signed * (self.inner - self.theta))
        # Slopes of single pairs are tiny; only their ratios matter.
        return (table / np.abs(table).max()).astype(np.float32).ravel()[self.keys]

    def add(self, rows: Signs, columns: Signs) -> None:
        self.keys += np.outer(rows, columns)

    def move_threshold(self) -> float:
        """Let theta move by at most 2 where that lowers the loss; return the loss."""
        # Pairs of each kind and inner product cost the same, so counting them suffices for any theta.
        counts = np.bincount(self.keys.ravel(), minlength=2 * len(self.inner)).reshape(2, -1)
        losses = {
            self.theta + step: float((counts * self.costs(self.theta + step)).sum()) for step in (0, -2, -1, 1, 2)
        }
        self.theta = min(losses, key=losses.__getitem__)
        return losses[self.theta]


class PairProblem:
    """The bits of queries and of the database side, and how one of them is learned. All bits are +1 at first.

    Queries are linear. With two relations, queries with anchors of the database and database rows with anchor queries,
    database rows are linear, too. With the first one alone, the anchors of the database have free codes.
    """

    def __init__(self, regression: Regression, n_bits: int, relations: list[Pairs], anchors: IntArray) -> None:
        self.regression, self.relations, self.free = regression, relations, len(relations) == 1
        self.anchors = slice(None) if self.free else anchors
        n_rows, width = regression.rows.shape
        self.query_weights, self.database_weights = np.zeros((2, width, n_bits))
        self.queries = np.ones((n_rows, n_bits), dtype=np.int32)
        self.database = np.ones((len(anchors) if self.free else n_rows, n_bits), dtype=np.int32)

    def learn_bit(self, bit: int, turns: int, before: float, rng: Rng) -> float:
        """Replace a bit by a better one and return the loss; the bit stays if the loss would rise above ``before``."""
        state: list[NDArray[Any]] = [self.queries, self.database, self.query_weights, self.database_weights]
        old, thetas = [part[:, bit].copy() for part in state], [pairs.theta for pairs in self.relations]
        self._add(bit, -1)
        self._propose(bit, turns, rng)
        self._add(bit, 1)
        loss = self.move_thresholds()
        if loss <= before:
            return loss
        self._add(bit, -1)
        for part, column in zip(state, old, strict=True):
            part[:, bit] = column
        self._add(bit, 1)
        for pairs, theta in zip(self.relations, thetas, strict=True):
            pairs.theta = theta
        return before

    def move_thresholds(self) -> float:
        """Let every theta follow; return the loss of all pairs."""
        return sum(pairs.move_threshold() for pairs in self.relations)

    def _add(self, bit: int, sign: int) -> None:
        """Add a bit to the inner products, or take it out."""
        queries, database = self.queries[:, bit], sign * self.database[:, bit]
        self.relations[0].add(queries, database[self.anchors])
        if not self.free:
            self.relations[1].add(database, queries[self.anchors])

    def _propose(self, bit: int, turns: int, rng: Rng) -> None:
        """Set a bit that is not in the inner products. The database side starts with its own or with a random one."""
        pulls, database = [pairs.pull() for pairs in self.relations], self.database[:, bit]
        if (database == database[0]).all():
            database = rng.choice(np.array([-1, 1], dtype=np.int32), len(database))
        for _ in range(turns):
            by_database = pulls[0] @ database[self.anchors].astype(np.float32)
            self.query_weights[:, bit], queries = self.regression.solve(by_database)
            if self.free:
                database = best_bit(pulls[0], queries, database)
            else:
                by_queries = pulls[1] @ queries[self.anchors].astype(np.float32)
                self.database_weights[:, bit], database = self.regression.solve(by_queries)
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
