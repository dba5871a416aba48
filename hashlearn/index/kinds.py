"""The approximate kinds of index: each has a structure (of faiss, or hash tables) that the first search builds.

An index of every kind also keeps its rows (ids and codes). It scans them for what a structure cannot do exactly:
filtered searches and most radius searches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from hashlearn.codes import hamming_distances
from hashlearn.index import scan
from hashlearn.index.sorted_rows import SortedRows
from hashlearn.index.substrings import MAX_SUBSTRING_BITS, RadiusRule, SubstringTables
from hashlearn.typing import Ids, PackedCodes

IndexSettings = dict[str, int | None]
DistancesAndIds = tuple[np.ndarray, Ids]
BallArrays = tuple[Ids, np.ndarray, Ids]  # lims, distances, ids

_MAX_UNHASHED_ROWS = 65536  # of a multihash index, before its tables are built again
_QUERY_SHIFT, _DISTANCE_SHIFT = 57, 46  # of a sort key that holds a query number, a distance and a row
_GROWTH_FACTOR = 4  # an index of so many times its trained (or kept) rows is built again
_TRAINING_ROWS = 32  # per list
_TRAINING_ROUNDS = 6


class Structure:
    """A faiss index or similar structure over the rows. Distances are int32, with -1 where nothing was found."""

    kind: ClassVar[str]
    defaults: ClassVar[IndexSettings]
    removes: ClassVar[bool] = False
    stored: ClassVar[bool] = True
    """Whether files hold the structure. If not, it is built again from the rows."""

    def __init__(self, n_bits: int, settings: IndexSettings) -> None:
        self.n_bits = n_bits
        self.settings = settings
        self.rows = 0
        self.index: Any = None

    def build(self, ids: Ids, codes: PackedCodes) -> None:
        """Build the structure over these rows."""
        raise NotImplementedError

    def add(self, ids: Ids, codes: PackedCodes) -> None:
        """Add rows with new ids."""
        with scan.one_openmp_thread():
            self.index.add_with_ids(codes, ids)
        self.rows += len(ids)

    def tune(self) -> None:
        """Set the search parameters of the faiss index, after building and after loading."""

    def search(self, queries: PackedCodes, k: int) -> DistancesAndIds:
        """Return distances and ids (queries, k)."""
        distances, ids = self.index.search(queries, k)
        return np.where(ids < 0, np.int32(-1), distances), ids

    def ball(self, queries: PackedCodes, radius: int, n_jobs: int | None) -> list[BallArrays] | None:
        """Return all rows within the radius, or None if this structure could miss some."""
        return None

    def outgrown(self, n_rows: int) -> bool:
        """Whether the structure should be built again before it holds ``n_rows`` rows."""
        return False

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
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
    """Lists of rows around learned centers; a query is compared with the rows of the nearest lists."""

    kind = "ivf"
    defaults: ClassVar[IndexSettings] = {"n_lists": None, "n_probes": 16}
    removes = True
    trained_on = 0

    def build(self, ids: Ids, codes: PackedCodes) -> None:
        import faiss

        n_lists = self.settings["n_lists"] or max(1, min(int(2 * len(ids) ** 0.5), len(ids) // 16))
        n_lists = min(n_lists, len(ids))
        self.index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(8 * codes.shape[1]), 8 * codes.shape[1], n_lists)
        self.index.cp.niter = _TRAINING_ROUNDS
        self.index.cp.min_points_per_centroid = 1  # prevents a warning of faiss on stderr
        self.index.cp.max_points_per_centroid = _TRAINING_ROWS
        chosen = np.random.default_rng(0).permutation(len(ids))[: _TRAINING_ROWS * n_lists]
        with scan.one_openmp_thread():
            self.index.train(codes[np.sort(chosen)])
        self.trained_on = len(ids)
        self.add(ids, codes)
        self.tune()

    def add(self, ids: Ids, codes: PackedCodes) -> None:
        import faiss

        # faiss would assign rows to lists with OpenMP threads, which are slow on a busy machine: one_openmp_thread.
        centers: Any = faiss.downcast_IndexBinary(self.index.quantizer)
        center_codes = faiss.vector_to_array(centers.xb).reshape(-1, codes.shape[1])
        parts = scan.over_queries(lambda part: scan.nearest(part, center_codes, 1)[1][:, 0], codes, None)
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
        return self.settings["n_lists"] is None and n_rows > _GROWTH_FACTOR * self.trained_on

    @property
    def size(self) -> int:
        width = self.index.code_size
        return self.rows * (width + 8) + int(self.index.nlist) * width


class MultiHash(Structure):
    """Hash tables over substrings of the codes; a query looks up its own substrings with a few bits flipped.

    Rows that are added after the tables were built are not hashed: each query is compared with all of them, until the
    tables are built again.
    """

    kind = "multihash"
    defaults: ClassVar[IndexSettings] = {"n_hashes": None, "n_flips": 1}
    removes = True
    stored = False  # building the tables takes no longer than reading them
    _max_flips = 2  # of a radius search; with more, scanning is faster

    def build(self, ids: Ids, codes: PackedCodes) -> None:
        n_substrings = min(self.settings["n_hashes"] or max(1, self.n_bits // 16), self.n_bits)
        self._tables = SubstringTables(codes, n_substrings, min(self.n_bits // n_substrings, MAX_SUBSTRING_BITS))
        self._ids = ids
        self._removed = np.zeros(len(ids), dtype=bool)
        self._unhashed = SortedRows(codes.shape[1])
        self.rows = len(ids)

    def add(self, ids: Ids, codes: PackedCodes) -> None:
        self._unhashed.put(ids, codes)
        self._unhashed.all_rows()  # merges now, because searches in several threads must only read
        self.rows += len(ids)

    def remove(self, ids: Ids) -> None:
        places = np.searchsorted(self._ids, ids)
        places = places[self._ids[np.minimum(places, len(self._ids) - 1)] == ids]
        self.rows -= self._unhashed.remove(ids) + int(np.count_nonzero(~self._removed[places]))
        self._removed[places] = True

    def outgrown(self, n_rows: int) -> bool:
        n_unhashed = n_rows - (self.rows - len(self._unhashed))
        return (
            n_unhashed > _MAX_UNHASHED_ROWS or int(np.count_nonzero(self._removed)) > len(self._ids) // _GROWTH_FACTOR
        )

    def search(self, queries: PackedCodes, k: int) -> DistancesAndIds:
        distances = np.full((len(queries), k), -1, dtype=np.int32)
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        needed = k + int(np.count_nonzero(self._removed))  # the nearest rows may be removed ones

        def choose_radius(near: np.ndarray) -> int:
            return int(np.searchsorted(np.cumsum(np.bincount(near)), needed))

        for start, lims, near, row_ids in self._found(queries, self.settings["n_flips"] or 0, choose_radius):
            counts = np.minimum(np.diff(lims), k)
            query = np.repeat(np.arange(len(counts)), counts)
            place = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
            distances[start + query, place] = near[lims[query] + place]
            ids[start + query, place] = row_ids[lims[query] + place]
        return distances, ids

    def ball(self, queries: PackedCodes, radius: int, n_jobs: int | None) -> list[BallArrays] | None:
        # If codes differ in r bits, one of m disjoint substrings differs in at most r // m, so that many flips suffice.
        flips = radius // self._tables.n_substrings
        if flips > min(self._max_flips, self._tables.substring_bits):
            return None

        def inside(part: PackedCodes) -> list[BallArrays]:
            balls = []
            for _, lims, near, ids in self._found(part, flips, lambda _: radius):
                good = near <= radius
                balls.append((np.append(0, np.cumsum(good))[lims], near[good].astype(np.int32), ids[good]))
            return balls

        return [one for balls in scan.over_queries(inside, queries, n_jobs) for one in balls]

    def _found(
        self, queries: PackedCodes, flips: int, choose_radius: RadiusRule
    ) -> Iterator[tuple[int, Ids, np.ndarray, Ids]]:
        """Yield the first query, lims, distances and ids of each part of the queries, by (query, distance)."""
        unhashed_ids, unhashed_codes = self._unhashed.all_rows()
        for part, query, distance, row in self._tables.candidates(queries, flips, choose_radius):
            here = ~self._removed[row]
            query, distance, row = query[here], distance[here], row[here]
            n_queries = part.stop - part.start
            if len(unhashed_ids):
                distances = hamming_distances(queries[part], unhashed_codes).astype(np.int64)
                query = np.append(query, np.repeat(np.arange(n_queries), len(unhashed_ids)))
                distance = np.append(distance, distances.ravel())
                row = np.append(row, np.tile(np.arange(len(unhashed_ids)) + len(self._ids), n_queries))
            # One sort of integers is several times as fast as lexsort. Within each kind of row, row order is id order.
            key = np.sort((query << _QUERY_SHIFT) | (distance << _DISTANCE_SHIFT) | row)
            lims = np.searchsorted(key, np.arange(n_queries + 1) << _QUERY_SHIFT)
            near = (key >> _DISTANCE_SHIFT) & ((1 << (_QUERY_SHIFT - _DISTANCE_SHIFT)) - 1)
            row = key & ((1 << _DISTANCE_SHIFT) - 1)
            ids = self._ids[np.minimum(row, len(self._ids) - 1)]
            if len(unhashed_ids):
                is_unhashed = row >= len(self._ids)
                ids[is_unhashed] = unhashed_ids[row[is_unhashed] - len(self._ids)]
            yield part.start, lims, near, ids

    @property
    def size(self) -> int:
        return self._tables.size + self._removed.nbytes


class Hnsw(Structure):
    """A graph whose edges join near rows; a query follows edges to nearer and nearer rows."""

    kind = "hnsw"
    defaults: ClassVar[IndexSettings] = {"n_links": 16, "ef_construction": 60, "ef_search": 100}

    def build(self, ids: Ids, codes: PackedCodes) -> None:
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
        links = 4 * 2 * (self.settings["n_links"] or 1)  # the lowest level, which holds most rows, has twice the links
        return self.rows * (-(-self.n_bits // 8) + 8 + links + 12)


KINDS: dict[str, type[Structure]] = {cls.kind: cls for cls in (Ivf, MultiHash, Hnsw)}


def checked_settings(kind: str, settings: dict[str, Any]) -> IndexSettings:
    """Check the settings of a kind and fill in the defaults of the missing ones."""
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
