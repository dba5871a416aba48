"""What the solvers share: settings, starting directions, rounds over batches of anchors, what is left for other rows.

The signs of the anchors' projections onto the starting directions are their first codes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from hashlearn.functions.linalg import fix_signs, itq_rotation, random_rotation
from hashlearn.pairwise.losses import Loss, QuadraticLoss
from hashlearn.pairwise.supervision import AnchorProblem, Supervision, group_pull, sums_by_kind
from hashlearn.parallel import one_blas_thread
from hashlearn.parameters import COUNT, NON_NEGATIVE, DeclaredEstimator, Options, parameter
from hashlearn.progress import PhaseTimer, report
from hashlearn.similarity import Similarity
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng

FILLS = ("random", "principal")
STARTS = ("discriminant", "leading")
RANK_TOLERANCE = 1e-9
DISCRIMINANT_TOLERANCE = 1e-6
MOST_DISCRIMINANT_ROWS = 2048
"""Discriminant directions come from at most this number of rows, all rows of as many classes as fit."""
MOST_DISCRIMINANTS = 256
WITHIN_RIDGE = 0.1
"""Added to the variances within classes, as a share of their mean. Rows are fewer than features, so it is large."""
ROTATION_ROUNDS = 50
# n_starts="auto": short codes are cheap to learn and depend most on their start, so they get more starts.
BITS_OF_ALL_STARTS, MOST_STARTS = 64, 4
ROUNDING = 1e-12

Batches = Callable[[int], list[IntArray]]


@dataclass
class SolverResult:
    """The codes of the anchors, and the objective and the number of changed bits of every round."""

    codes: FloatArray
    objective: list[float] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)


class AnchorState(ABC):
    """The codes of the anchors while they are learned, with the sums that a solver keeps up to date."""

    codes: FloatArray

    @abstractmethod
    def update(self, batch: IntArray) -> None:
        """Update the codes of the anchors of a batch."""

    @abstractmethod
    def objective(self) -> float:
        """Return the loss, summed over all pairs of anchors."""


class RowCoder(Protocol):
    """Codes rows that are not anchors. Each row is coded alone, so any chunk of rows will do."""

    code_weight: float
    """Weight of a row's own bit in the target of the projection: gain + code_weight * code."""

    def code(self, group: IntArray, start: Float32Array) -> Float32Array:
        """Return the codes in {-1, +1} of rows of these groups, from the codes ``start``."""
        ...

    def gain(self, group: IntArray, codes: Float32Array) -> Float32Array:
        """Compute per bit the value that the anchors and the row's other bits ask for."""
        ...


@dataclass
class QuadraticRows:
    """Base of row coders for quadratic losses: the anchors enter only through two sums.

    Attributes
    ----------
    pull : f(S) H_A of every group (n_groups, n_bits), and ``scale`` its factor.
    gram : H_A' H_A.
    """

    pull: FloatArray
    gram: FloatArray
    scale: float
    code_weight: float

    def gain(self, group: IntArray, codes: Float32Array) -> Float32Array:
        hollow = (self.gram - np.diag(np.diag(self.gram))).astype(np.float32)
        return (self.scale * self.pull[group]).astype(np.float32) - codes @ hollow


def quadratic_sums(
    similarity: Similarity, anchors: IntArray, anchor_codes: FloatArray, loss: QuadraticLoss
) -> tuple[FloatArray, FloatArray, float]:
    """Return the pull of every group, H_A' H_A and the scale: the first fields of ``QuadraticRows``."""
    n_bits = anchor_codes.shape[1]
    pull = group_pull(similarity, anchors, anchor_codes, loss.target)
    return pull, anchor_codes.T @ anchor_codes, loss.scale(n_bits / similarity.largest, n_bits)


@dataclass
class LearnedAnchors:
    """What the pass over all rows needs of the anchors.

    Attributes
    ----------
    center : the mean of the anchors' features, which is about that of all rows.
    directions : other rows start at the signs of their centered features times these (n_features, n_bits).
    rows, codes : row numbers of the anchors, ascending, and their codes in {-1, +1}.
    coder : codes any other row.
    objective, changes : the objective after every round, and the number of bits that changed in it.
    """

    center: Float32Array
    directions: Float32Array
    rows: IntArray
    codes: NDArray[np.int8]
    coder: RowCoder
    objective: list[float]
    changes: list[int]


class PairwiseSolver(DeclaredEstimator):
    """Base of the solvers. A subclass implements ``begin`` and ``row_coder``."""

    batch_size: int = parameter(COUNT, "Anchors that are updated together (the paper: 100 rows).", default=100)
    beta: float = parameter(NON_NEGATIVE, "How much a bit resists change.", default=10.0)
    max_iter: int = parameter(
        COUNT, "Rounds over all anchors at most (L1 in the paper); learning ends when no bit changes.", default=20
    )
    inner_iter: int = parameter(COUNT, "Repeats of each update (L2 in the paper).", default=3)
    n_starts: int | str = parameter(
        [Options("auto"), COUNT],
        "Starts to learn the anchors from; the outcome with the least objective is kept. 'auto' is 64 / n_bits, at "
        "most 4, for classes and 1 for label sets.",
        default=1,
    )
    start: str = parameter(
        Options(*STARTS),
        "Directions whose signs are the first codes: discriminant directions of the classes, rotated towards signs, or "
        "the leading singular vectors of X' S X (the paper). Label sets, pairs and given similarities always use the "
        "latter.",
        default="leading",
    )
    fill: str = parameter(Options(*FILLS), "Leading directions beyond the rank of the supervision.", default="random")

    def learn(self, supervision: Supervision, loss: Loss, n_bits: int, rng: Rng, timer: PhaseTimer) -> LearnedAnchors:
        """Learn the codes of the anchors jointly, from the best of ``n_starts`` starts.

        The first start is the signs of the anchors' projections onto the starting directions; the directions of the
        others are rotated. Draws from ``rng`` come in this order: the directions, then the rotation (not of the first)
        and the batches of every start.
        """
        similarity, places = supervision.similarity, supervision.places
        with one_blas_thread(), timer("start"):
            problem = AnchorProblem.from_similarity(similarity, places, n_bits)
            features: NDArray[np.floating] = supervision.features.map_block(supervision.anchor_rows)
            center = features.mean(axis=0)
            features -= center
            directions: NDArray[np.floating]
            if self.start == "discriminant" and similarity.classes is not None:
                directions = discriminant_directions(features, similarity.group[places], n_bits, rng)
            else:
                features = wide = features.astype(np.float64)
                directions = leading_directions(wide, problem, n_bits, self.fill, rng)
        with one_blas_thread(), timer("learn"):
            n_starts = self.n_starts
            if isinstance(n_starts, str):
                n_starts = 1 if problem.graded else min(max(BITS_OF_ALL_STARTS // n_bits, 1), MOST_STARTS)
            best: tuple[SolverResult, NDArray[np.floating]] | None = None
            for k in range(n_starts):
                turned = directions @ random_rotation(n_bits, rng) if k else directions
                start = np.where(features @ turned >= 0, 1.0, -1.0)
                batches = random_batches(np.arange(len(start)), self.batch_size, int(rng.randint(2**31)))
                result = self.solve(problem, start, batches, loss)
                if best is None or result.objective[-1] < best[0].objective[-1]:
                    best = result, turned
            assert best is not None
            result, turned = best
            coder = self.row_coder(similarity, places, result.codes, loss)
        order = np.argsort(supervision.anchors)
        rows, codes = supervision.anchors[order], result.codes[order].astype(np.int8)
        return LearnedAnchors(center, turned.astype(np.float32), rows, codes, coder, result.objective, result.changes)

    def solve(self, problem: AnchorProblem, start: FloatArray, batches: Batches, loss: Loss) -> SolverResult:
        """Learn codes from ``start`` in {-1, +1}, batch by batch, until no bit changes or for ``max_iter`` rounds."""
        state = self.begin(problem, start, loss)
        result = SolverResult(state.codes)
        for iteration in range(self.max_iter):
            report("learn anchors", iteration + 1, self.max_iter)
            before = state.codes.copy()
            for batch in batches(iteration):
                state.update(batch)
            result.objective.append(state.objective())
            result.changes.append(int(np.count_nonzero(state.codes != before)))
            if result.changes[-1] == 0:
                break
        return result

    @abstractmethod
    def begin(self, problem: AnchorProblem, start: FloatArray, loss: Loss) -> AnchorState:
        """Return the anchors with the codes ``start``."""

    @abstractmethod
    def row_coder(self, similarity: Similarity, anchors: IntArray, anchor_codes: FloatArray, loss: Loss) -> RowCoder:
        """Return what codes any other row, given the codes of the anchors, which are rows of ``similarity``."""


def random_batches(rows: IntArray, size: int, seed: int) -> Batches:
    """Return a function that draws new random batches of rows per round. They include the short last batch."""

    def batches(iteration: int) -> list[IntArray]:
        order = np.random.default_rng([seed, iteration]).permutation(rows)
        return [order[start : start + size] for start in range(0, len(order), size)]

    return batches


def keeps_ground(step: FloatArray, before: FloatArray, after: FloatArray) -> bool:
    """Tell whether step @ (before + after), the change of an objective, is at least 0 up to rounding.

    The tolerance makes sure that a change of exactly 0 does not depend on the order of additions.
    """
    size = np.abs(step) @ (np.abs(before) + np.abs(after))
    return bool(step @ (before + after) >= -ROUNDING * size)


def strongest_half(flips: IntArray, gain: FloatArray, count: FloatArray | None = None) -> IntArray:
    """Return those of ``flips`` whose |gain| is above the median; none if all are equal.

    ``count`` says how many equal anchors each one stands for in the median.
    """
    strength = np.abs(gain[flips])
    each = strength if count is None else np.repeat(strength, count[flips].astype(np.intp))
    return flips[strength > np.median(each)]


def discriminant_directions(features: NDArray[np.floating], group: IntArray, n_bits: int, rng: Rng) -> Float32Array:
    """Compute directions (n_features, n_bits) whose signs tell classes apart: codes that the features can predict.

    Linear discriminant analysis gives directions along which classes differ most, measured by the spread within
    classes. A rotation turns them towards the signs of the projections (ITQ), and spreads them over all bits if the
    classes have fewer directions than bits.

    Parameters
    ----------
    features : (n, n_features), centered.
    group : int (n,)
        The class of each row.
    """
    with one_blas_thread():
        if len(features) > MOST_DISCRIMINANT_ROWS:
            shuffled = rng.permutation(int(group.max()) + 1)[group]
            chosen = np.argsort(shuffled, kind="stable")[:MOST_DISCRIMINANT_ROWS]
            features, group = features[chosen], group[chosen]
        _, group = np.unique(group, return_inverse=True)
        count = np.bincount(group).astype(features.dtype)
        members = sparse.csr_matrix((np.ones(len(group), features.dtype), (group, np.arange(len(group)))))
        means = (members @ features) / count[:, None]
        directions = _discriminants(features - means[group], means * np.sqrt(count / len(features))[:, None])
        projections = (features @ directions).astype(np.float64)
        return (directions @ _towards_signs(projections, n_bits, rng)).astype(np.float32)


def _discriminants(within: NDArray[np.floating], between: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return directions A with A' S_w A = I and A' S_b A diagonal, the strongest first.

    S_w = within' within / n + ridge I is the spread within classes, S_b = between' between that of their means. The
    system is solved on its smaller side, rows or features.
    """
    n, width = within.shape
    ridge = WITHIN_RIDGE * float(np.einsum("ij,ij->", within, within)) / n / width or 1.0
    if width <= n:
        spread = within.T @ within / n
        spread.flat[:: width + 1] += ridge
        solved = linalg.solve(spread, between.T, assume_a="pos", check_finite=False)
    else:
        gram = within @ within.T
        gram.flat[:: n + 1] += n * ridge
        outside = linalg.solve(gram, within @ between.T, assume_a="pos", check_finite=False)
        solved = (between.T - within.T @ outside) / ridge
    last = len(between) - 1
    strongest = (max(0, last + 1 - MOST_DISCRIMINANTS), last)
    strength, turned = linalg.eigh((between @ solved).astype(np.float64), check_finite=False, subset_by_index=strongest)
    keep = np.flatnonzero(strength > DISCRIMINANT_TOLERANCE * max(strength[-1], 1e-300))[::-1]
    return solved @ (fix_signs(turned[:, keep]) / np.sqrt(strength[keep]))


def _towards_signs(projections: FloatArray, n_bits: int, rng: Rng) -> FloatArray:
    """Return a matrix (k, n_bits) that turns projections (n, k) to their signs, with orthonormal rows or columns."""
    k = projections.shape[1]
    if k <= n_bits:
        return itq_rotation(np.pad(projections, ((0, 0), (0, n_bits - k))), rng, ROTATION_ROUNDS)[0][:k]
    rotation = random_rotation(k, rng)[:, :n_bits]
    for _ in range(ROTATION_ROUNDS):
        signs = np.where(projections @ rotation >= 0, 1.0, -1.0)
        left, _, right = linalg.svd(projections.T @ signs, full_matrices=False)
        rotation = left @ right
    return rotation


def leading_directions(features: FloatArray, problem: AnchorProblem, n_bits: int, fill: str, rng: Rng) -> FloatArray:
    """Compute the ``n_bits`` leading singular vectors of X_A' S X_A as columns (n_features, n_bits).

    The rank of the matrix is at most the number of kinds, so its vectors are computed from the factors (a thin QR
    and a small eigenproblem). Beyond the rank they would be numerical noise. ``fill`` says which directions are used
    there instead: random orthonormal ones, or the principal directions of the residual of the features. With more
    bits than features, the remaining directions are random and not orthogonal.
    """
    with one_blas_thread():
        sums = sums_by_kind(problem.row_kind, features, problem.table.shape[0])
        columns = problem.column_sums(features)
        basis, _ = linalg.qr(np.concatenate([sums, columns]).T, mode="economic")
        middle = (sums @ basis).T @ (problem.table @ (columns @ basis))
        left, strength, _ = linalg.svd(middle)
        keep = min(n_bits, int(np.count_nonzero(strength > RANK_TOLERANCE * max(strength[0], 1e-300))))
        leading = fix_signs(basis @ left[:, :keep])
        if keep == n_bits:
            return leading
        return np.concatenate([leading, _fill(features, leading, n_bits - keep, fill, rng)], axis=1)


def _fill(features: FloatArray, taken: FloatArray, count: int, fill: str, rng: Rng) -> FloatArray:
    width = features.shape[1]
    free = min(count, width - taken.shape[1])
    extra = np.empty((width, 0))
    if fill == "principal" and free > 0:
        remaining = features - (features @ taken) @ taken.T
        _, strength, vectors = linalg.svd(remaining, full_matrices=False)
        usable = min(free, int(np.count_nonzero(strength > RANK_TOLERANCE * max(strength[0], 1e-300))))
        extra = fix_signs(vectors[:usable].T)
    drawn = rng.standard_normal((width, count - extra.shape[1]))
    orthogonal = free - extra.shape[1]
    if orthogonal > 0:
        fixed = np.concatenate([taken, extra], axis=1)
        drawn[:, :orthogonal] -= fixed @ (fixed.T @ drawn[:, :orthogonal])
        drawn[:, :orthogonal], _ = linalg.qr(drawn[:, :orthogonal], mode="economic")
    return np.concatenate([extra, drawn], axis=1)
