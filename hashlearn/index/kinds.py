"""The approximate kinds: a faiss structure beside the rows, built when it is first needed.

The rows (ids and codes) are always there as well. What a structure cannot do exactly, filters and most radius
searches, is done by scanning them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hashlearn.index import scan
from hashlearn.index.results import Codes, Ids

Settings = dict[str, int | None]
Found = tuple[np.ndarray, Ids]
FoundInBall = tuple[Ids, np.ndarray, Ids]

_GROWTH = 4  # times the rows of the training, after which lists are learned anew
_TRAINING_ROWS = 32  # a list
_TRAINING_ROUNDS = 6


class Structure:
    """A faiss index over some rows. Distances are int32, -1 where nothing was found."""

    kind: ClassVar[str]
    defaults: ClassVar[Settings]
    removes: ClassVar[bool] = False

    def __init__(self, n_bits: int, settings: Settings) -> None:
        self.n_bits = n_bits
        self.settings = settings
        self.rows = 0
        self.index: Any = None

    def build(self, ids: Ids, codes: Codes) -> None:
        raise NotImplementedError

    def add(self, ids: Ids, codes: Codes) -> None:
        with scan.one_openmp_thread():
            self.index.add_with_ids(codes, ids)
        self.rows += len(ids)

    def tune(self) -> None:
        """Set what searches use, after building and after loading."""

    def search(self, queries: Codes, k: int) -> Found:
        distances, ids = self.index.search(queries, k)
        return np.where(ids < 0, np.int32(-1), distances), ids

    def ball(self, queries: Codes, radius: int, n_jobs: int | None) -> list[FoundInBall] | None:
        """All rows within the radius, or None when this structure would miss some."""
        return None

    def outgrown(self, n_rows: int) -> bool:
        return False

    @property
    def size(self) -> int:
        """About how much memory faiss holds."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        import faiss

        return bytes(faiss.serialize_index_binary(self.index))

    def from_bytes(self, data: np.ndarray, n_rows: int) -> None:
        import faiss

        self.index = faiss.deserialize_index_binary(np.array(data))
        self.rows = n_rows
        self.tune()


class Ivf(Structure):
    """Lists around learned centres; a query looks into the nearest lists."""

    kind = "ivf"
    defaults: ClassVar[Settings] = {"n_lists": None, "n_probes": 16}
    removes = True
    trained_on = 0

    def build(self, ids: Ids, codes: Codes) -> None:
        import faiss

        n_lists = self.settings["n_lists"] or max(1, min(int(2 * len(ids) ** 0.5), len(ids) // 16))
        n_lists = min(n_lists, len(ids))
        self.index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(8 * codes.shape[1]), 8 * codes.shape[1], n_lists)
        self.index.cp.niter = _TRAINING_ROUNDS
        self.index.cp.min_points_per_centroid = 1  # no advice on stderr
        self.index.cp.max_points_per_centroid = _TRAINING_ROWS
        chosen = np.random.default_rng(0).permutation(len(ids))[: _TRAINING_ROWS * n_lists]
        with scan.one_openmp_thread():
            self.index.train(codes[np.sort(chosen)])
        self.trained_on = len(ids)
        self.add(ids, codes)
        self.tune()

    def add(self, ids: Ids, codes: Codes) -> None:
        import faiss

        # faiss would assign rows to lists with an OpenMP team; Python threads do the same without its collapse.
        centres: Any = faiss.downcast_IndexBinary(self.index.quantizer)
        centre_codes = faiss.vector_to_array(centres.xb).reshape(-1, codes.shape[1])
        parts = scan.over_queries(lambda part: scan.nearest(part, centre_codes, 1)[1][:, 0], codes, None)
        lists = np.ascontiguousarray(np.concatenate(parts), dtype=np.int64)
        with scan.one_openmp_thread():
            self.index.add_core(len(ids), *(faiss.swig_ptr(array) for array in (codes, ids, lists)))
        self.rows += len(ids)

    def remove(self, ids: Ids) -> None:
        import faiss

        with scan.one_openmp_thread():
            self.rows -= self.index.remove_ids(faiss.IDSelectorBatch(ids))

    def tune(self) -> None:
        self.index.nprobe = min(self.settings["n_probes"] or 1, self.index.nlist)
        self.trained_on = self.trained_on or self.rows

    def outgrown(self, n_rows: int) -> bool:
        return self.settings["n_lists"] is None and n_rows > _GROWTH * self.trained_on

    @property
    def size(self) -> int:
        width = self.index.code_size
        return self.rows * (width + 8) + int(self.index.nlist) * width


class MultiHash(Structure):
    """Hash tables over pieces of the code; a query looks up its own pieces with a few bits flipped."""

    kind = "multihash"
    defaults: ClassVar[Settings] = {"n_hashes": None, "n_flips": 1}
    _most_flips = 2  # of a radius search: beyond, scanning is quicker

    def build(self, ids: Ids, codes: Codes) -> None:
        import faiss

        n_hashes = min(self.settings["n_hashes"] or max(1, self.n_bits // 16), self.n_bits)
        piece = min(self.n_bits // n_hashes, 24)
        inner = faiss.IndexBinaryMultiHash(8 * codes.shape[1], n_hashes, piece)
        self.index = faiss.IndexBinaryIDMap(inner)
        self.add(ids, codes)
        self.tune()

    def tune(self) -> None:
        self._flip(self.settings["n_flips"] or 0)

    def ball(self, queries: Codes, radius: int, n_jobs: int | None) -> list[FoundInBall] | None:
        # r flips over m disjoint pieces leave one piece with r // m at most: those flips miss nothing.
        tables = self._inner()
        flips = radius // tables.nhash
        if flips > min(self._most_flips, tables.b):
            return None
        self._flip(flips)
        try:
            parts = scan.over_queries(lambda part: self.index.range_search(part, radius + 1), queries, n_jobs)
        finally:
            self.tune()
        return [(lims.astype(np.int64), distances.astype(np.int32), ids) for lims, distances, ids in parts]

    def _inner(self) -> Any:
        import faiss

        return faiss.downcast_IndexBinary(self.index.index)

    def _flip(self, flips: int) -> None:
        tables = self._inner()
        tables.nflip = min(flips, tables.b)

    @property
    def size(self) -> int:
        tables = self._inner()
        # Bit-packed row numbers in one string a bucket, and a hash table entry a bucket.
        numbers = self.rows * max(1, self.rows.bit_length()) // 8
        return self.rows * (tables.code_size + 8) + tables.nhash * numbers + 64 * int(tables.hashtable_size())


class Hnsw(Structure):
    """A graph of neighbours; a query walks it."""

    kind = "hnsw"
    defaults: ClassVar[Settings] = {"n_links": 16, "ef_construction": 60, "ef_search": 100}

    def build(self, ids: Ids, codes: Codes) -> None:
        import faiss

        inner = faiss.IndexBinaryHNSW(8 * codes.shape[1], self.settings["n_links"] or 16)
        inner.hnsw.efConstruction = self.settings["ef_construction"]
        self.index = faiss.IndexBinaryIDMap(inner)
        self.add(ids, codes)
        self.tune()

    def tune(self) -> None:
        import faiss

        graph: Any = faiss.downcast_IndexBinary(self.index.index)
        graph.hnsw.efSearch = self.settings["ef_search"]

    @property
    def size(self) -> int:
        links = 4 * 2 * (self.settings["n_links"] or 1)  # twice the links on the ground floor, where most rows stay
        return self.rows * (-(-self.n_bits // 8) + 8 + links + 12)


KINDS: dict[str, type[Structure]] = {cls.kind: cls for cls in (Ivf, MultiHash, Hnsw)}


def checked_settings(kind: str, settings: dict[str, Any]) -> Settings:
    """Settings of a kind, the missing ones filled in."""
    known = KINDS[kind].defaults if kind in KINDS else {}
    for name, value in settings.items():
        if name not in known:
            has = f"has the settings {', '.join(map(repr, known))}" if known else "has no settings"
            raise ValueError(f"An index of kind {kind!r} {has}. Got {name!r} instead.")
        least = 2 if name == "n_links" else 0 if name == "n_flips" else 1
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
        if not whole and not (value is None and known[name] is None):
            raise ValueError(f"The {name!r} setting of an index must be a whole number from {least}. Got {value!r}.")
    return {**known, **{name: None if value is None else int(value) for name, value in settings.items()}}
