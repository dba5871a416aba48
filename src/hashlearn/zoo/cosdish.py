"""COSDISH: codes learned against a few sampled columns of the similarity matrix at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.hashers.in_memory import KernelParameters
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.parameters import COUNT, POSITIVE, fitted, parameter
from hashlearn.progress import steps
from hashlearn.rows.reduce import GroupSums
from hashlearn.typing import Arrays, FloatArray, IntArray, PackedCodes, Rng
from hashlearn.zoo.bases.primitives import keep_sign
from hashlearn.zoo.bases.two_step import CodedRows, GroupNumbers, TwoStepHasher, scaled_ridge

TIE = 1e-5
BLOCK = 16_384
"""Rows whose codes are unpacked at a time."""


class COSDISH(KernelParameters, TwoStepHasher):
    """Column sampling based discrete supervised hashing: min |m S - B B_s'|^2 for m sampled rows s at a time.

    Rows are similar (1) if they share a label, else -r, where r balances both kinds among the sampled entries. The
    codes of the sampled rows are chosen bit by bit by clustering, each bit with as many ones as zeros; those of all
    other rows are then sgn(S B_s). As many rows are sampled at a time as there are bits. The copy of the authors' code
    that we know sets dissimilar to +r; the constant cancels for an even number of samples, and the -r used here is the
    paper's. Features are scaled to unit variance on the training rows alone. The authors' code learns on the rows
    themselves (``kernel=None``); kernel features retrieve better. The paper's boosted trees as hash functions are left
    out. ``codes_`` are B, which derive from the labels; ``encode(X)`` hashes the database.
    """

    info = MethodInfo(
        name="cosdish",
        reference="Kang, Li and Zhou, Column Sampling Based Discrete Supervised Hashing (AAAI 2016)",
        kind="pairwise",
        cost="O(T (n m^2 + m^4) + n d^2), T rounds",
        verified=True,
        passes=2,
        database="learned",
        remark="on kernel features; on plain GIST it scores 0.13 less, which is not what the paper reports",
    )

    max_iter: int = parameter(COUNT, "How often rows are sampled.", default=10)
    inner_iter: int = parameter(COUNT, "Rounds between sampled and other rows for each sample.", default=3)
    ridge: float = parameter(POSITIVE, "Ridge of the hash function.", default=1.0)

    n_iter_: int = fitted("Samples drawn.")

    def _learn_codes(self, group: GroupNumbers, labels: LabelMatrix, rng: Rng) -> tuple[PackedCodes, Arrays]:
        n, counts = len(group), np.bincount(group, minlength=labels.shape[0])
        packed, n_iter = random_codes(n, self.n_bits_, rng), 0
        for _ in steps(self.max_iter, "samples"):
            sample = rng.choice(n, min(self.n_bits_, n), replace=False)
            S = balanced_similarity(labels, group[sample], counts)
            for _ in range(self.inner_iter):
                totals, overlap = self._sums_of_others(packed, group, sample, len(S))
                own = sampled_codes(S[group[sample]], S.T @ totals, overlap)
                vote(packed, group, S, own)
                packed[sample] = codes.pack(own)
            n_iter += 1
        return packed, {"n_iter_": np.array(n_iter)}

    def _sums_of_others(
        self, packed: PackedCodes, group: GroupNumbers, sample: IntArray, n_groups: int
    ) -> tuple[FloatArray, FloatArray]:
        """Sum up the codes of the rows outside the sample by group, and their outer products."""
        totals = GroupSums(n_groups, np.arange(n_groups), np.zeros((n_groups, self.n_bits_)))
        overlap = np.zeros((self.n_bits_, self.n_bits_))

        def add(rows: slice | IntArray) -> tuple[GroupSums, FloatArray]:
            B = codes.unpack_signs(packed[rows], self.n_bits_).astype(np.float64)
            return GroupSums.from_rows(group[rows], B, n_groups), B.T @ B

        # These are whole numbers, which stay exact in any order of additions and subtractions.
        for part, products in ordered_map(add, row_blocks(len(group), BLOCK), self.n_jobs):
            totals += part
            overlap += products
        mine, products = add(sample)
        mine.values *= -1
        totals += mine
        return totals.values, overlap - products

    def _learn_weights(self, rows: CodedRows) -> FloatArray:
        sums = rows.centered()
        return scaled_ridge(sums.xx, sums.xt, rows.spread(), self.ridge)


def random_codes(n_rows: int, n_bits: int, rng: Rng) -> PackedCodes:
    """Random packed codes, drawn block by block."""
    blocks = [codes.pack(rng.standard_normal((b.stop - b.start, n_bits)) >= 0) for b in row_blocks(n_rows, BLOCK)]
    return np.concatenate(blocks)


def balanced_similarity(
    labels: LabelMatrix, sample: NDArray[np.integer], counts: NDArray[np.integer] | None = None
) -> FloatArray:
    """S between groups and sampled rows: 1 where a label is shared, else -(similar / dissimilar pairs of rows).

    ``labels`` has one line per group, ``sample`` the groups of the sampled rows, ``counts`` the number of rows of each
    group (one if it is None).
    """
    similar = (labels @ labels[sample].T).toarray() > 0
    rows = np.ones(len(similar), dtype=np.int64) if counts is None else counts
    count = int(rows @ similar.sum(axis=1))
    return np.where(similar, 1.0, -count / max(int(rows.sum()) * len(sample) - count, 1))


def other_codes(S: FloatArray, sampled: FloatArray, previous: FloatArray) -> FloatArray:
    """Return codes of the rows outside the sample: sgn(S B_s), where a tie keeps the previous bit."""
    votes = S @ sampled
    votes[np.abs(votes) < TIE] = 0.0
    return keep_sign(votes, previous)


def vote(packed: PackedCodes, group: GroupNumbers, S: FloatArray, sampled: FloatArray) -> None:
    """``other_codes`` of every row, in place. A vote is the same for a whole group; a tie keeps the row's own bit."""
    ones = np.ones((len(S), sampled.shape[1]))
    least, most = (codes.pack(other_codes(S, sampled, before)) for before in (-ones, ones))
    for rows in row_blocks(len(group), BLOCK):
        packed[rows] = least[group[rows]] | (packed[rows] & most[group[rows]])


def sampled_codes(S_sample: FloatArray, pull: FloatArray, overlap: FloatArray) -> FloatArray:
    """Return codes of the sampled rows, bit by bit: min b'Qb + p'b, Q and p from what the earlier bits leave.

    ``pull`` is S'B and ``overlap`` B'B of the rows outside the sample.
    """
    n_bits = len(overlap)
    chosen = np.empty((len(S_sample), n_bits))
    pull, rest = n_bits * pull, n_bits * S_sample
    for k in range(n_bits):
        Q = -2 * rest
        np.fill_diagonal(Q, 0.0)
        p = -2 * (pull[:, k] - chosen[:, :k] @ overlap[:k, k])
        chosen[:, k] = balanced_bit(Q, p)
        rest -= np.outer(chosen[:, k], chosen[:, k])
    return chosen


def balanced_bit(Q: FloatArray, p: FloatArray) -> FloatArray:
    """Return a balanced b in {-1, +1} with small b'Qb + p'b; Q is symmetric with zero diagonal.

    With b = 2x - 1 and a last coordinate fixed to 1 this is min x'Ax over x in {0, 1} with a given number of ones.
    If C I - A are inner products of points, the scatter of the chosen points grows with x'Ax. So each point in turn is
    a seed, and the points nearest to it are chosen, which are those with the smallest entries of A.
    """
    size = len(Q) + 1
    chosen = (size + 1) // 2 - 1  # half of all, rounded up, without the fixed one
    A = np.zeros((size, size))
    A[:-1, :-1] = 4 * Q
    A[-1, :-1] = A[:-1, -1] = p - 2 * Q.sum(axis=1)
    distance = A[:, :-1].copy()
    np.fill_diagonal(distance, -np.inf)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :chosen]
    X = np.zeros((size, size))
    np.put_along_axis(X, nearest, 1.0, axis=1)
    X[:, -1] = 1.0
    best = X[np.einsum("ij,ij->i", X @ A, X).argmin()]
    return 2 * best[:-1] - 1
