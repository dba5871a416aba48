"""Index: packed codes by id in memory, searched by Hamming distance or by real-valued projections."""

from __future__ import annotations

import os
import threading
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import MAX_BITS, BitOrder, check_codes, n_bytes, renamed_bit_order
from hashlearn.deprecation import warn_deprecated
from hashlearn.index import file, inputs, scan
from hashlearn.index.asymmetric import Lookup
from hashlearn.index.kinds import KINDS, Structure, checked_settings
from hashlearn.index.results import Ball, Hits, IndexFileError, Info, UnsupportedByKindError
from hashlearn.index.rows import Rows
from hashlearn.typing import Ids, PackedCodes

Kind = Literal["flat", "ivf", "multihash", "hnsw"]


class Index:
    """Packed binary codes by id, in memory.

    Parameters
    ----------
    n_bits : int, 1 to 1024
    kind : {"flat", "ivf", "multihash", "hnsw"}, default="flat"
        "flat" compares every code and is exact. The others are faster on many codes and may miss some;
        docs/search.md says which to pick. Their structure is built by the first search that needs it.
    bit_order : {"big", "little"}, default="big"
        Order of the bits in the bytes of all codes given to this index.
    **settings
        ivf: n_lists (default: from the number of rows), n_probes=16.
        multihash: n_hashes (default: one for every 16 bits), n_flips=1.
        hnsw: n_links=16, ef_construction=60, ef_search=100.

    Rows that tie are ranked by id, also where the k-th place cuts through them, so results do not depend on the
    order in which rows came. Approximate kinds order what they find in this way, but which of many rows tied at
    the k-th distance they find is up to their structure.

    Any number of threads may search at a time. A change must not run beside a search or another change.

    Examples
    --------
    >>> import numpy as np
    >>> index = Index(8)
    >>> index.add(np.array([[0b00001111], [0b00000000], [0b00000001]], dtype=np.uint8), ids=[7, 3, 5])
    >>> index.search(np.array([[0]], dtype=np.uint8), k=2)
    Hits(ids=array([[3, 5]]), distances=array([[0, 1]], dtype=int32))
    """

    @renamed_bit_order
    def __init__(self, n_bits: int, kind: Kind = "flat", bit_order: BitOrder = "big", **settings: int | None) -> None:
        whole = isinstance(n_bits, (int, np.integer)) and not isinstance(n_bits, bool)
        if not whole or not 1 <= n_bits <= MAX_BITS:
            raise ValueError(
                f"The 'n_bits' parameter of Index must be between 1 and {MAX_BITS}. Got {n_bits!r} instead."
            )
        if kind != "flat" and kind not in KINDS:
            kinds = ", ".join(map(repr, ("flat", *KINDS)))
            raise ValueError(f"The 'kind' parameter of Index must be one of {kinds}. Got {kind!r} instead.")
        if bit_order not in ("big", "little"):
            raise ValueError(
                f"The 'bit_order' parameter of Index must be 'big' or 'little'. Got {bit_order!r} instead."
            )
        self.n_bits = int(n_bits)
        self.kind: str = kind
        self.bit_order = bit_order
        self.settings = checked_settings(kind, settings)
        self._rows = Rows(n_bytes(self.n_bits))
        self._next_id = 0
        self._structure: Structure | None = None
        self._lookup: Lookup | None = None
        self._lock = threading.RLock()  # around what searches build on the way

    @property
    def bitorder(self) -> str:
        """Old name of ``bit_order``."""
        warn_deprecated("Index.bitorder", "bit_order", since="0.3")
        return self.bit_order

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Index({self.n_bits}, kind={self.kind!r}, rows={len(self)})"

    def info(self) -> Info:
        """Kind, rows, memory in bytes and settings."""
        size = len(self) * (n_bytes(self.n_bits) + 8)
        size += self._structure.size if self._structure is not None else 0
        size += self._lookup.size if self._lookup is not None else 0
        return Info(self.kind, self.n_bits, self.bit_order, len(self), size, dict(self.settings))

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> None:
        """Add rows; a row whose id exists is replaced. Without ids they count on from the largest one so far."""
        codes = self._codes(codes)
        numbers = inputs.new_ids(ids, len(codes), self._next_id)
        if not len(numbers):
            return
        order = np.argsort(numbers, kind="stable")
        numbers, codes = numbers[order], codes[order]
        inputs.refuse_twice(numbers)
        with self._lock:
            replaced = self._rows.known(numbers)
            if replaced.any():
                self._replace(numbers[replaced], codes[replaced])
            self._lookup = None
            if self._structure is not None and self._structure.outgrown(len(self) + int((~replaced).sum())):
                self._structure = None
            self._rows.put(numbers, codes)
            self._next_id = max(self._next_id, int(numbers[-1]) + 1)
            if self._structure is not None:
                fresh = ~replaced | self._structure.removes
                if fresh.any():
                    self._structure.add(numbers[fresh], codes[fresh])

    def remove(self, ids: ArrayLike) -> int:
        """Remove the rows with these ids; how many there were. Ids that are not there count nothing."""
        numbers = np.unique(inputs.checked_ids(ids))
        with self._lock:
            gone = numbers[self._rows.known(numbers)]
            if not len(gone):
                return 0
            self._forget(gone, "remove rows")
            self._lookup = None
            return self._rows.remove(gone)

    def known(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Which of these ids exist."""
        numbers = inputs.checked_ids(ids)
        order = np.argsort(numbers, kind="stable")
        known = np.empty(len(numbers), dtype=bool)
        with self._lock:
            known[order] = self._rows.known(numbers[order])
        return known

    def rows(self, ids: ArrayLike | None = None) -> tuple[Ids, PackedCodes]:
        """Ids and codes of those of these rows that exist, or of all, ordered by id. Read-only for the caller."""
        with self._lock:
            return self._chosen(ids)

    def search(self, codes: ArrayLike, k: int, ids: ArrayLike | None = None, n_jobs: int | None = None) -> Hits:
        """The k nearest rows of every query, ordered by (distance, id).

        codes : packed queries (uint8), or real-valued projections (float, (queries, n_bits)). Projections q are
            compared with the signs h of the codes and ranked by -q.h, exactly, whatever the kind.
        ids : search only these rows. Filtered searches are exact, whatever the kind.
        n_jobs : threads over the queries; None for every core. The results are the same.
        """
        k = inputs.checked_count(k, "k", 1)
        queries: Any = np.asarray(codes)
        floats = np.issubdtype(queries.dtype, np.floating)
        queries = inputs.projections(queries, self.n_bits) if floats else self._codes(queries, "queries")
        with self._lock:
            row_ids, row_codes = self._chosen(ids)
            structure = None if floats or ids is not None or not len(queries) else self._built()
            lookup = self._looked_up(row_ids, row_codes, ids is None) if floats and len(queries) else None
        found = inputs.no_hits(len(queries), k, np.float32 if floats else np.int32)
        count = min(k, len(row_ids))
        if not count or not len(queries):
            return found
        if lookup is not None:
            parts = scan.over_queries(lambda part: lookup.search(part, count), queries, n_jobs)
            found.ids[:, :count] = np.concatenate([part[0] for part in parts])
            found.distances[:, :count] = np.concatenate([part[1] for part in parts])
        elif structure is not None:
            distances, labels = self._approximate(structure, queries, count, n_jobs)
            found.ids[:, :count], found.distances[:, :count] = labels, distances
        else:
            near = scan.over_queries(lambda part: scan.nearest(part, row_codes, count), queries, n_jobs)
            found.ids[:, :count] = row_ids[np.concatenate([part[1] for part in near])]
            found.distances[:, :count] = np.concatenate([part[0] for part in near])
        return found

    def within(self, codes: ArrayLike, radius: int, n_jobs: int | None = None) -> Ball:
        """All rows at most ``radius`` bits away from each query, ordered by (distance, id). Exact for every kind."""
        radius = min(inputs.checked_count(radius, "radius", 0), self.n_bits)
        queries = self._codes(codes, "queries")
        if not len(queries) or not len(self):
            nothing = np.empty(0, dtype=np.int64)
            return Ball(np.zeros(len(queries) + 1, dtype=np.int64), nothing, nothing.astype(np.int32))
        if self.kind == "multihash":
            with self._lock:
                structure = self._built()
            found = structure.ball(queries, radius, n_jobs)  # type: ignore[union-attr]
            if found is not None:
                return inputs.sorted_ball(found)
        with self._lock:
            row_ids, row_codes = self._rows.whole()
        parts = scan.over_queries(lambda part: scan.ball(part, row_codes, radius), queries, n_jobs)
        return inputs.sorted_ball([(lims, distances, row_ids[places]) for lims, distances, places in parts])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file (its format is in docs/search.md) all at once; the structure of ivf and hnsw is saved too."""
        with self._lock:
            structure = self._built() if self.kind in KINDS and KINDS[self.kind].stored else None
            row_ids, row_codes = self._rows.whole()
            header = {"kind": self.kind, "n_bits": self.n_bits, "bitorder": self.bit_order, "settings": self.settings}
            data = b"" if structure is None else structure.to_bytes()
            file.write(path, {**header, "next_id": self._next_id}, row_codes, row_ids, data)

    @classmethod
    def load(cls, path: str | os.PathLike[str], mmap: bool = True, verify: bool = True) -> Index:
        """Read a saved index; IndexFileError when it is damaged or no index.

        mmap : leave codes and ids in the file, to be read as searches need them. A structure is read into memory.
        verify : check the checksum, which reads the file once. Without, only its header and length are checked.
        """
        name = os.fspath(path)
        stored = file.read(path, mmap, verify)
        header = stored.header
        try:
            index = cls(header["n_bits"], header["kind"], header["bitorder"], **header["settings"])
        except (TypeError, ValueError) as error:
            raise IndexFileError(f"{name} is damaged: its header does not describe an index ({error})") from error
        index._rows = Rows.of(stored.ids, stored.codes)
        index._next_id = header["next_id"]
        if len(stored.structure) and index.kind in KINDS and KINDS[index.kind].stored:
            structure = KINDS[index.kind](index.n_bits, index.settings)
            try:
                structure.from_bytes(stored.structure, len(stored.ids))
            except RuntimeError as error:
                raise IndexFileError(f"{name} is damaged: faiss cannot read its structure.") from error
            index._structure = structure
        return index

    def _codes(self, codes: ArrayLike, name: str = "codes") -> PackedCodes:
        return np.ascontiguousarray(check_codes(codes, self.n_bits, self.bit_order, name))

    def _chosen(self, ids: ArrayLike | None) -> tuple[Ids, PackedCodes]:
        return self._rows.whole() if ids is None else self._rows.chosen(inputs.sorted_ids(ids))

    def _built(self) -> Structure | None:
        """The structure of an approximate kind over all rows; None for flat and for no rows."""
        if self._structure is None and self.kind in KINDS and len(self):
            structure = KINDS[self.kind](self.n_bits, self.settings)
            structure.build(*self._rows.whole())
            self._structure = structure
        return self._structure if len(self) else None

    def _looked_up(self, row_ids: Ids, row_codes: PackedCodes, everything: bool) -> Lookup | None:
        if not len(row_ids):
            return None
        if not everything:
            return Lookup(row_ids, row_codes, self.bit_order)
        if self._lookup is None:
            self._lookup = Lookup(row_ids, row_codes, self.bit_order)
        return self._lookup

    def _approximate(self, structure: Structure, queries: PackedCodes, k: int, n_jobs: int | None) -> tuple[Any, Any]:
        parts = scan.over_queries(lambda part: structure.search(part, k), queries, n_jobs)
        distances = np.concatenate([part[0] for part in parts])
        labels = np.concatenate([part[1] for part in parts])
        # Empty places (-1) go last.
        order = np.lexsort((labels, np.where(labels < 0, np.int32(MAX_BITS + 1), distances)), axis=1)
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(labels, order, axis=1)

    def _replace(self, ids: Ids, codes: PackedCodes) -> None:
        """Make room in the structure for new codes under known ids; the same code again is no change."""
        if self.kind in KINDS and not KINDS[self.kind].removes and self._rows.same(ids, codes).all():
            return
        self._forget(ids, "replace rows")

    def _forget(self, ids: Ids, what: str) -> None:
        if self.kind in KINDS and not KINDS[self.kind].removes:
            raise UnsupportedByKindError(
                f"An index of kind {self.kind!r} cannot {what} (id {ids[0]}): "
                "use 'flat', 'ivf' or 'multihash', or a new index."
            )
        if self._structure is not None:
            self._structure.remove(ids)  # type: ignore[attr-defined]
