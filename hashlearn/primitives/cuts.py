"""Find signs that lower a sum over pairs by exact minimum cuts within blocks of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from hashlearn.primitives.partners import Pairs, pair_matrix
from hashlearn.typing import Int64Array

MAX_FLOW = 2**30  # SciPy stores flows in 32 bits


def similar_blocks(labels: sparse.csr_matrix, pairs: Pairs, rng: np.random.RandomState) -> NDArray[np.intp]:
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

    def __init__(self, pairs: Pairs, block: NDArray[np.intp]) -> None:
        # Rows are sorted by block, so that each block is a slice of the matrices.
        self.order = np.argsort(block, kind="stable")
        position = np.argsort(self.order)
        moved = Pairs(position[pairs.left], position[pairs.right], pairs.similar, pairs.n_rows)
        within = block[pairs.left] == block[pairs.right]
        self.inside, self.outside = pair_matrix(moved, within), pair_matrix(moved, ~within)
        ends = np.flatnonzero(np.diff(block[self.order], append=-1)) + 1
        self.slices = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    def infer(self, gain: Int64Array, n_sweeps: int, rng: np.random.RandomState) -> tuple[Int64Array, list[int]]:
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

    def _sweep(
        self, gain: Int64Array, signs: Int64Array, n_sweeps: int, rng: np.random.RandomState
    ) -> tuple[Int64Array, list[int]]:
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
