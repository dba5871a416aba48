"""Draw random pairs and triplets by labels. The same seed gives every method the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from hashlearn.labels import LabelMatrix
from hashlearn.similarity import from_labels
from hashlearn.typing import FloatArray, Int64Array, IntArray, Rng


def relevance_block(labels: LabelMatrix, left: IntArray, right: IntArray) -> FloatArray:
    """Return the number of shared labels of left[i] and right[i] for every i."""
    return np.asarray(labels[left].multiply(labels[right]).sum(axis=1), dtype=np.float64).ravel()


def sample_pairs(
    labels: LabelMatrix, count: int, rng: Rng, similar_share: float = 0.5
) -> tuple[IntArray, IntArray, FloatArray]:
    """Draw ``count`` random pairs i != j of labeled rows; return them with their numbers of shared labels.

    A share of ``similar_share`` is similar if enough such pairs exist: a similar partner is a random row with a random
    label of i. The rest is drawn uniformly from dissimilar pairs.
    """
    rows = np.flatnonzero(np.diff(labels.indptr) > 0)
    if len(rows) < 2:
        raise ValueError("At least 2 labeled rows are needed to draw pairs.")
    wanted = round(count * similar_share)
    near = _draw(labels, rows, wanted, rng, similar=True)
    far = _draw(labels, rows, count - len(near[0]), rng, similar=False)
    left, right = (np.concatenate([a, b]) for a, b in zip(near, far, strict=True))
    order = rng.permutation(len(left))
    left, right = left[order], right[order]
    return left, right, relevance_block(labels, left, right)


def sample_triplets(labels: LabelMatrix, count: int, rng: Rng) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Draw triplets (i, j, k) with i more relevant to j than to k; return them with the differences of relevance."""
    rows = np.flatnonzero(np.diff(labels.indptr) > 0)
    i, j = _draw(labels, rows, count, rng, similar=True)
    k = rows[rng.randint(len(rows), size=len(i))]
    for _ in range(64):
        bad = np.flatnonzero((relevance_block(labels, i, j) <= relevance_block(labels, i, k)) | (k == i))
        if not len(bad):
            break
        k[bad] = rows[rng.randint(len(rows), size=len(bad))]
    margin = relevance_block(labels, i, j) - relevance_block(labels, i, k)
    good = np.flatnonzero((margin > 0) & (k != i))
    if not len(good):
        raise ValueError("No triplet can be drawn: every row is equally relevant to every other.")
    return i[good], j[good], k[good], margin[good]


def _draw(labels: LabelMatrix, rows: IntArray, count: int, rng: Rng, similar: bool) -> tuple[IntArray, IntArray]:
    """Draw up to ``count`` similar or dissimilar pairs by rejection; fewer if such pairs are rare."""
    by_label = labels.tocsc()
    left: list[IntArray] = []
    right: list[IntArray] = []
    missing = count
    for _ in range(64):
        if missing <= 0:
            break
        i = rows[rng.randint(len(rows), size=missing)]
        j = _partner(labels, by_label, i, rng) if similar else rows[rng.randint(len(rows), size=missing)]
        good = (i != j) & ((relevance_block(labels, i, j) > 0) == similar)
        left.append(i[good])
        right.append(j[good])
        missing -= int(good.sum())
    if not left:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    return np.concatenate(left), np.concatenate(right)


def _partner(labels: LabelMatrix, by_label: sparse.csc_matrix, i: IntArray, rng: Rng) -> IntArray:
    """Return for each i a random row with a random label of i."""
    sizes = np.diff(labels.indptr)
    chosen = labels.indices[labels.indptr[i] + (rng.random_sample(len(i)) * sizes[i]).astype(np.intp)]
    members = np.diff(by_label.indptr)[chosen]
    offset = (rng.random_sample(len(i)) * members).astype(np.intp)
    return by_label.indices[by_label.indptr[chosen] + offset].astype(np.intp)


PAIR_LOSSES = ("hinge", "ksh", "bre")


@dataclass
class Pairs:
    """Distinct pairs of rows with left < right, and whether they are similar."""

    left: Int64Array
    right: Int64Array
    similar: NDArray[np.bool_]
    n_rows: int

    def gain(self, loss: str, distance: Int64Array, bits: int) -> Int64Array:
        """Return loss(d) - loss(d + 1) of codes of ``bits`` bits for every pair: loss of equal minus unequal bits."""
        tables = [-np.diff(loss_table(loss, similar, bits)) for similar in (False, True)]
        return np.where(self.similar, tables[1][distance], tables[0][distance])

    def row_sums(self, values: NDArray[Any]) -> FloatArray:
        """Return the sums of pair values over the pairs of each row."""
        left, right = (np.bincount(side, values, self.n_rows) for side in (self.left, self.right))
        return np.asarray(left + right, dtype=np.float64)


def loss_table(loss: str, similar: bool, bits: int) -> Int64Array:
    """Return loss(d) for d = 0 .. bits as integers: times bits^2, or times 4 bits^2 for "hinge"."""
    d = np.arange(bits + 1, dtype=np.int64)
    if loss == "hinge":
        return (2 * d) ** 2 if similar else np.maximum(bits - 2 * d, 0) ** 2
    return (4 if loss == "ksh" else 1) * (d if similar else bits - d) ** 2


def draw_partners(labels: LabelMatrix, count: int, rng: Rng) -> Pairs:
    """Draw up to ``count`` similar and ``count`` dissimilar partners of every row; similar means a shared label."""
    similarity = from_labels(labels, relevance="binary", dissimilar=0.0)
    n, group, all_groups = labels.shape[0], similarity.group, np.arange(similarity.n_groups)
    keys = []
    for g in all_groups:
        members = np.flatnonzero(group == g)
        related = similarity.table(all_groups[g : g + 1], all_groups)[0, group] > 0
        for similar in (True, False):
            choice = np.flatnonzero(related == similar)
            if len(choice) > count:
                partners = choice[rng.randint(len(choice), size=(len(members), count))]
            else:
                partners = np.broadcast_to(choice, (len(members), len(choice)))
            low, high = np.minimum(members[:, None], partners), np.maximum(members[:, None], partners)
            keys.append(((low * n + high) * 2 + similar)[low < high])
    key = np.unique(np.concatenate(keys))
    if not len(key):
        raise ValueError("At least 2 labeled rows are needed to draw pairs.")
    return Pairs(key // 2 // n, key // 2 % n, key % 2 == 1, n)


def pair_matrix(pairs: Pairs, chosen: NDArray[np.bool_]) -> sparse.csr_matrix:
    """Return a symmetric CSR matrix of the chosen pairs, whose data are the numbers of the pairs."""
    left, right, number = pairs.left[chosen], pairs.right[chosen], np.flatnonzero(chosen)
    places = (np.concatenate([left, right]), np.concatenate([right, left]))
    matrix = sparse.csr_matrix((np.concatenate([number, number]), places), shape=(pairs.n_rows, pairs.n_rows))
    matrix.sort_indices()
    return matrix


MAX_FLOW = 2**30  # SciPy stores flows in 32 bits


def similar_blocks(labels: LabelMatrix, pairs: Pairs, rng: Rng) -> IntArray:
    """Return the block of every row, without dissimilar pairs: its class, or a greedy group for label sets."""
    if np.diff(labels.indptr).max() == 1:
        return labels.indices.astype(np.intp)
    similar_rows, dissimilar_rows = (pair_matrix(pairs, pairs.similar == similar) for similar in (True, False))
    block = np.full(pairs.n_rows, -1, dtype=np.intp)
    for number, root in enumerate(rng.permutation(pairs.n_rows)):
        if block[root] >= 0:
            continue
        barred = block >= 0
        near = rng.permutation(similar_rows.indices[similar_rows.indptr[root] : similar_rows.indptr[root + 1]])
        for row in [root, *near, *rng.permutation(np.flatnonzero(~barred))]:
            if not barred[row]:
                block[row] = number
                barred[row] = True
                barred[dissimilar_rows.indices[dissimilar_rows.indptr[row] : dissimilar_rows.indptr[row + 1]]] = True
    return block


class BlockCuts:
    """Lowers sum a_ij z_i z_j over pairs by exact minimum cuts, one block of rows at a time."""

    def __init__(self, pairs: Pairs, block: IntArray) -> None:
        # Rows are sorted by block, so that each block is a slice of the matrices.
        self.order = np.argsort(block, kind="stable")
        position = np.argsort(self.order)
        moved = Pairs(position[pairs.left], position[pairs.right], pairs.similar, pairs.n_rows)
        within = block[pairs.left] == block[pairs.right]
        self.inside, self.outside = pair_matrix(moved, within), pair_matrix(moved, ~within)
        ends = np.flatnonzero(np.diff(block[self.order], append=-1)) + 1
        self.slices = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    def infer(self, gain: Int64Array, n_sweeps: int, rng: Rng) -> tuple[Int64Array, list[int]]:
        """Return signs of all rows, and the sum at the start and after every sweep.

        If all signs are equal, sweeps start again from random signs, up to three times in all.
        """
        start = np.ones(len(self.order), dtype=np.int64)
        for _ in range(3):
            signs, trace = self._sweep(gain, start.copy(), n_sweeps, rng)
            if np.ptp(signs):
                break
            start = rng.randint(2, size=len(start)) * 2 - 1
        result = np.empty_like(signs)
        result[self.order] = signs
        return result, trace

    def _sweep(self, gain: Int64Array, signs: Int64Array, n_sweeps: int, rng: Rng) -> tuple[Int64Array, list[int]]:
        inside, outside = (
            sparse.csr_matrix((gain[m.data], m.indices, m.indptr), shape=m.shape) for m in (self.inside, self.outside)
        )
        trace = [int(signs @ (inside @ signs + outside @ signs)) // 2]
        for _ in range(n_sweeps):
            for b in rng.permutation(len(self.slices)):
                rows = self.slices[b]
                bonds, field = inside[rows, rows], outside[rows] @ signs
                cut = minimum_cut(bonds, field)
                if _cost(bonds, field, cut) < _cost(bonds, field, signs[rows]):
                    signs[rows] = cut
            trace.append(int(signs @ (inside @ signs + outside @ signs)) // 2)
        return signs, trace


def _cost(bonds: sparse.csr_matrix, field: Int64Array, signs: Int64Array) -> int:
    return int(signs @ (bonds @ signs)) + 2 * int(field @ signs)


def minimum_cut(bonds: sparse.csr_matrix, field: Int64Array) -> Int64Array:
    """Return the signs z that minimize sum over i < j of bonds_ij z_i z_j + sum field_i z_i, for bonds <= 0.

    Rows on the source's side of a minimum cut are +1. The edge between two rows has capacity |bond|. A row with a
    negative field has an edge from the source, one with a positive field an edge to the sink, of capacity |field|.
    """
    n = bonds.shape[0]
    sink, source = n, n + 1
    scale = max(int(np.abs(field).sum()), -int(bonds.data.min(initial=0))) // MAX_FLOW + 1
    # The edge to the sink comes last in every row. The sink has no edges, and the source has one to every row.
    graph = sparse.csr_matrix(
        (
            np.concatenate([np.insert(-bonds.data, bonds.indptr[1:], np.maximum(field, 0)), np.maximum(-field, 0)]),
            np.concatenate([np.insert(bonds.indices, bonds.indptr[1:], sink), np.arange(n)]),
            np.concatenate([bonds.indptr + np.arange(n + 1), [len(bonds.data) + n, len(bonds.data) + 2 * n]]),
        ),
        shape=(n + 2, n + 2),
    )
    graph.data = (graph.data // scale).astype(np.int32)
    flow = maximum_flow(graph, source, sink).flow
    rest = graph - flow
    rest.eliminate_zeros()
    signs = np.full(n + 2, -1, dtype=np.int64)
    signs[breadth_first_order(rest, source, return_predecessors=False)] = 1
    return signs[:n]
