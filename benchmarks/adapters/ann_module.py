"""hashlearn as an algorithm of ann-benchmarks and VIBE: copy this file to ``algorithms/hashlearn/module.py`` there.

``HashlearnHamming`` searches data sets of bits (Hamming). ``HashlearnBits`` searches floats: bits of ITQ propose rows,
and the floats put the best of them in order.
"""

from __future__ import annotations

import numpy as np

import hashlearn as hl

from ..base.module import BaseANN

# Names of the cosine in ann-benchmarks (angular) and VIBE.
_COSINES = ("angular", "cosine", "normalized")


class HashlearnHamming(BaseANN):
    """An index of given bits. ``kind`` is flat (exact) or ivf.

    ann-benchmarks gives one bool per bit, VIBE bytes of 8 bits each.
    """

    def __init__(self, metric, kind="flat"):
        if metric != "hamming":
            raise ValueError(f"HashlearnHamming searches by Hamming distance. Got the metric {metric!r} instead.")
        self._kind = kind
        self.name = f"hashlearn({kind})"

    def fit(self, X):
        n_bits = X.shape[1] * (1 if X.dtype == bool else 8)
        self._index = hl.Index(n_bits, kind=self._kind)
        self._index.add(_packed(X))

    def query(self, q, n):
        return _found(self._index.search(_packed(q[None]), n, n_jobs=1).ids[0])

    def batch_query(self, X, n):
        hits = self._index.search(_packed(X), n)
        self.res = [_found(ids) for ids in hits.ids]


class HashlearnBits(BaseANN):
    """Bits of ITQ, and the floats of the rows they propose. The query argument is how many rows per result."""

    def __init__(self, metric, n_bits):
        if metric not in (*_COSINES, "euclidean", "ip"):
            raise ValueError(f"HashlearnBits searches floats. Got the metric {metric!r} instead.")
        self._euclidean = metric == "euclidean"
        self._cosine = metric in _COSINES
        self._n_bits = n_bits
        self._oversample = 10
        self.name = f"hashlearn-bits({n_bits})"

    def fit(self, X):
        self._rows = np.asarray(X, dtype=np.float32)
        if self._cosine:
            self._rows = _unit(self._rows)
        self._hasher = hl.ITQ(self._n_bits, random_state=0).fit(self._rows)
        self._index = hl.Index(self._n_bits)
        self._index.add(self._hasher.encode(self._rows))

    def set_query_arguments(self, oversample):
        self._oversample = oversample
        self.name = f"hashlearn-bits({self._n_bits}, {oversample})"

    def query(self, q, n):
        query = np.asarray(q, dtype=np.float32)[None]
        if self._cosine:
            query = _unit(query)
        asked = min(n * self._oversample, len(self._rows))
        near = self._index.search(self._hasher.expected_bits(query), asked, n_jobs=1).ids[0]
        rows = self._rows[near]
        distances = ((rows - query) ** 2).sum(axis=1) if self._euclidean else -rows @ query[0]
        return near[np.argsort(distances, kind="stable")[:n]]


def _packed(bits):
    """Bytes of 8 bits each; bools are packed, bytes are packed already."""
    if bits.dtype == bool:
        return np.packbits(bits, axis=1)
    if bits.dtype != np.uint8:
        raise ValueError(f"Bits must be bools or packed bytes (uint8). Got {bits.dtype} instead.")
    return bits


def _unit(rows):
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)


def _found(ids):
    """Ids without the -1 that fill the places of rows that do not exist."""
    return ids[ids >= 0]
