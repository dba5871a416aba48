"""The approximate kinds: a structure beside the rows (of faiss, or tables of pieces), built when it is first needed.

The rows (ids and codes) are always there as well. What a structure cannot do exactly, filters and most radius
searches, is done by scanning them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from hashlearn.codes import hamming_distances
from hashlearn.index import scan
from hashlearn.index.pieces import MOST_PIECE_BITS, PieceTables, Reach
from hashlearn.index.rows import Rows
from hashlearn.typing import Ids, PackedCodes

Settings = dict[str, int | None]
Found = tuple[np.ndarray, Ids]
FoundInBall = tuple[Ids, np.ndarray, Ids]

_LATER_ROWS = 65536  # beside the tables of a multihash, before they are made anew
_QUERY_SHIFT, _DISTANCE_SHIFT = 57, 46  # of a number that holds a query of a part, a distance and a row
_GROWTH = 4  # times the rows of the training, after which lists are learned anew
_TRAINING_ROWS = 32  # a list
_TRAINING_ROUNDS = 6


class Structure:
    """A faiss index, or the like, over some rows. Distances are int32, -1 where nothing was found."""

    kind: ClassVar[str]
    defaults: ClassVar[Settings]
    removes: ClassVar[bool] = False
    stored: ClassVar[bool] = True
    """Whether files hold the structure; else it is built again from the rows."""

    def __init__(self, n_bits: int, settings: Settings) -> None:
        self.n_bits = n_bits
        self.settings = settings
        self.rows = 0
        self.index: Any = None

    def build(self, ids: Ids, codes: PackedCodes) -> None:
        raise NotImplementedError

    def add(self, ids: Ids, codes: PackedCodes) -> None:
        with scan.one_openmp_thread():
            self.index.add_with_ids(codes, ids)
        self.rows += len(ids)

    def tune(self) -> None:
        """Set what searches use, after building and after loading."""

    def search(self, queries: PackedCodes, k: int) -> Found:
        distances, ids = self.index.search(queries, k)
        return np.where(ids < 0, np.int32(-1), distances), ids

    def ball(self, queries: PackedCodes, radius: int, n_jobs: int | None) -> list[FoundInBall] | None:
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

    def build(self, ids: Ids, codes: PackedCodes) -> None:
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

    def add(self, ids: Ids, codes: PackedCodes) -> None:
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
    """Hash tables over pieces of the code; a query looks up its own pieces with a few bits flipped.

    Rows that came after the tables were made are compared one by one, until the tables are made anew.
    """

    kind = "multihash"
    defaults: ClassVar[Settings] = {"n_hashes": None, "n_flips": 1}
    removes = True
    stored = False  # sorting the rows again takes no longer than reading tables
    _most_flips = 2  # of a radius search: beyond, scanning is quicker

    def build(self, ids: Ids, codes: PackedCodes) -> None:
        n_pieces = min(self.settings["n_hashes"] or max(1, self.n_bits // 16), self.n_bits)
        self._tables = PieceTables(codes, n_pieces, min(self.n_bits // n_pieces, MOST_PIECE_BITS))
        self._ids = ids
        self._gone = np.zeros(len(ids), dtype=bool)
        self._later = Rows(codes.shape[1])
        self.rows = len(ids)

    def add(self, ids: Ids, codes: PackedCodes) -> None:
        self._later.put(ids, codes)
        self._later.whole()  # now, because searches of several threads only read
        self.rows += len(ids)

    def remove(self, ids: Ids) -> None:
        places = np.searchsorted(self._ids, ids)
        places = places[self._ids[np.minimum(places, len(self._ids) - 1)] == ids]
        self.rows -= self._later.remove(ids) + int(np.count_nonzero(~self._gone[places]))
        self._gone[places] = True

    def outgrown(self, n_rows: int) -> bool:
        later = n_rows - (self.rows - len(self._later))
        return later > _LATER_ROWS or int(np.count_nonzero(self._gone)) > len(self._ids) // _GROWTH

    def search(self, queries: PackedCodes, k: int) -> Found:
        distances = np.full((len(queries), k), -1, dtype=np.int32)
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        most = k + int(np.count_nonzero(self._gone))  # of the nearest, so many may be gone

        def reach(near: np.ndarray) -> int:
            return int(np.searchsorted(np.cumsum(np.bincount(near)), most))

        for start, lims, near, row_ids in self._found(queries, self.settings["n_flips"] or 0, reach):
            counts = np.minimum(np.diff(lims), k)
            query = np.repeat(np.arange(len(counts)), counts)
            place = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
            distances[start + query, place] = near[lims[query] + place]
            ids[start + query, place] = row_ids[lims[query] + place]
        return distances, ids

    def ball(self, queries: PackedCodes, radius: int, n_jobs: int | None) -> list[FoundInBall] | None:
        # r flips over m disjoint pieces leave one piece with r // m at most: those flips miss nothing.
        flips = radius // self._tables.n_pieces
        if flips > min(self._most_flips, self._tables.piece_bits):
            return None

        def inside(part: PackedCodes) -> list[FoundInBall]:
            balls = []
            for _, lims, near, ids in self._found(part, flips, lambda _: radius):
                good = near <= radius
                balls.append((np.append(0, np.cumsum(good))[lims], near[good].astype(np.int32), ids[good]))
            return balls

        return [one for balls in scan.over_queries(inside, queries, n_jobs) for one in balls]

    def _found(self, queries: PackedCodes, flips: int, reach: Reach) -> Iterator[tuple[int, Ids, np.ndarray, Ids]]:
        """For parts of the queries: the number of the first, then lims, distances and ids by (query, distance)."""
        later_ids, later_codes = self._later.whole()
        for part, query, distance, row in self._tables.candidates(queries, flips, reach):
            here = ~self._gone[row]
            query, distance, row = query[here], distance[here], row[here]
            n_queries = part.stop - part.start
            if len(later_ids):
                later = hamming_distances(queries[part], later_codes).astype(np.int64)
                query = np.append(query, np.repeat(np.arange(n_queries), len(later_ids)))
                distance = np.append(distance, later.ravel())
                row = np.append(row, np.tile(np.arange(len(later_ids)) + len(self._ids), n_queries))
            # One sort of whole numbers is several times as fast as lexsort; rows in order are ids in order.
            key = np.sort((query << _QUERY_SHIFT) | (distance << _DISTANCE_SHIFT) | row)
            lims = np.searchsorted(key, np.arange(n_queries + 1) << _QUERY_SHIFT)
            near = (key >> _DISTANCE_SHIFT) & ((1 << (_QUERY_SHIFT - _DISTANCE_SHIFT)) - 1)
            row = key & ((1 << _DISTANCE_SHIFT) - 1)
            ids = self._ids[np.minimum(row, len(self._ids) - 1)]
            if len(later_ids):
                is_later = row >= len(self._ids)
                ids[is_later] = later_ids[row[is_later] - len(self._ids)]
            yield part.start, lims, near, ids

    @property
    def size(self) -> int:
        return self._tables.size + self._gone.nbytes


class Hnsw(Structure):
    """A graph of neighbours; a query walks it."""

    kind = "hnsw"
    defaults: ClassVar[Settings] = {"n_links": 16, "ef_construction": 60, "ef_search": 100}

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
