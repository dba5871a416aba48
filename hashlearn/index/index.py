"""``Index`` holds packed codes by id in memory and searches them by Hamming distance or real-valued projections."""

from __future__ import annotations

import os
import threading
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import MAX_BITS, BitOrder, check_codes, n_bytes, renamed_bit_order
from hashlearn.deprecation import warn_deprecated
from hashlearn.index import file, inputs, scan
from hashlearn.index.asymmetric import AsymmetricSearcher
from hashlearn.index.hits import Ball, Hits
from hashlearn.index.kinds import KINDS, Structure, checked_settings
from hashlearn.index.results import IndexFileError, IndexInfo, UnsupportedByKindError
from hashlearn.index.sorted_rows import SortedRows
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
        Order of the bits in the bytes of all codes that are added or searched for.
    **settings : int or None
        ivf: n_lists (default: from the number of rows), n_probes=16.
        multihash: n_hashes (default: one for every 16 bits), n_flips=1.
        hnsw: n_links=16, ef_construction=60, ef_search=100.

    Notes
    -----
    Rows at the same distance are ranked by id, also where only some of them fit into the k places, so results do not
    depend on the order in which rows were added. Approximate kinds rank the rows that they find in the same way, but
    their structure decides which of the rows at the k-th distance they find.

    Any number of threads may search at the same time. A change must not run at the same time as a search or another
    change.

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
        self._rows = SortedRows(n_bytes(self.n_bits))
        self._next_id = 0
        self._structure: Structure | None = None
        self._asymmetric: AsymmetricSearcher | None = None
        self._lock = threading.RLock()  # guards what the first search builds

    @property
    def bitorder(self) -> str:
        """Old name of ``bit_order``."""
        warn_deprecated("Index.bitorder", "bit_order", since="0.3")
        return self.bit_order

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, one: Any) -> bool:
        return bool(self.known([one])[0])

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs, in this process or another: rows, settings, and a structure that files hold too."""
        with self._lock:
            structure = b"" if self._structure is None or not self._structure.stored else self._structure.to_bytes()
            # Rows of a mapped file are copied, because the copy may live where the file is not.
            row_ids, row_codes = self._rows.all_rows()
            rows = SortedRows.of(np.array(row_ids), np.array(row_codes))
            state = {**self.__dict__, "_rows": rows, "_structure": structure, "_asymmetric": None}
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        structure = state.pop("_structure")
        self.__dict__.update(state, _structure=None, _lock=threading.RLock())
        self._read_structure(np.frombuffer(structure, dtype=np.uint8))

    def __repr__(self) -> str:
        return f"Index({self.n_bits}, kind={self.kind!r}, rows={len(self)})"

    def info(self) -> IndexInfo:
        """Return kind, number of rows, memory in bytes and settings."""
        size = len(self) * (n_bytes(self.n_bits) + 8)
        size += self._structure.size if self._structure is not None else 0
        size += self._asymmetric.size if self._asymmetric is not None else 0
        return IndexInfo(self.kind, self.n_bits, self.bit_order, len(self), size, dict(self.settings))

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> None:
        """Add rows. A row whose id exists already is replaced.

        Parameters
        ----------
        codes : uint8 array (rows, bytes)
            Packed codes.
        ids : array-like of int, default=None
            One id per code. None numbers the rows from one above the largest id so far.

        Raises
        ------
        ValueError
            If the codes do not have ``n_bits`` bits, or the ids are negative, repeated or not one per code.
        UnsupportedByKindError
            If a row would be replaced and the kind cannot do that.
        """
        codes = self._codes(codes)
        numbers = inputs.new_ids(ids, len(codes), self._next_id)
        if not len(numbers):
            return
        order = np.argsort(numbers, kind="stable")
        numbers, codes = numbers[order], codes[order]
        inputs.check_distinct(numbers)
        with self._lock:
            replaced = self._rows.known(numbers)
            if replaced.any():
                self._replace(numbers[replaced], codes[replaced])
            self._asymmetric = None
            if self._structure is not None and self._structure.outgrown(len(self) + int((~replaced).sum())):
                self._structure = None
            self._rows.put(numbers, codes)
            self._next_id = max(self._next_id, int(numbers[-1]) + 1)
            if self._structure is not None:
                fresh = ~replaced | self._structure.removes
                if fresh.any():
                    self._structure.add(numbers[fresh], codes[fresh])

    def remove(self, ids: ArrayLike) -> int:
        """Remove the rows with these ids and return their number. Ids that do not exist are ignored.

        Raises
        ------
        UnsupportedByKindError
            If the kind cannot remove rows.
        """
        numbers = np.unique(inputs.checked_ids(ids))
        with self._lock:
            present = numbers[self._rows.known(numbers)]
            if not len(present):
                return 0
            self._remove_from_structure(present, "remove rows")
            self._asymmetric = None
            return self._rows.remove(present)

    def known(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Return a boolean per id: whether a row with this id exists."""
        numbers = inputs.checked_ids(ids)
        order = np.argsort(numbers, kind="stable")
        known = np.empty(len(numbers), dtype=bool)
        with self._lock:
            known[order] = self._rows.known(numbers[order])
        return known

    def rows(self, ids: ArrayLike | None = None) -> tuple[Ids, PackedCodes]:
        """Return ids and codes of the rows with these ids that exist, or of all rows, in order of id.

        The arrays belong to the index: do not change them.
        """
        with self._lock:
            return self._selected(ids)

    def get(self, ids: Any) -> Any:
        """Return the code of the row with this id, or None. For a list of ids, return a list of them."""
        single = isinstance(ids, (int, np.integer)) and not isinstance(ids, bool)
        numbers = inputs.checked_ids([ids] if single else ids)
        found, packed = self.rows(np.unique(numbers))
        places = {number: place for place, number in enumerate(found.tolist())}
        codes = [packed[places[number]].copy() if number in places else None for number in numbers.tolist()]
        return codes[0] if single else codes

    def search(self, codes: ArrayLike, k: int = 10, ids: ArrayLike | None = None, n_jobs: int | None = None) -> Any:
        """Find the k nearest rows of every query, ordered by (distance, id).

        Parameters
        ----------
        codes : uint8 array (queries, bytes) or float array (queries, n_bits)
            Packed codes, or real-valued queries q: the ``expected_bits`` of a hasher. These are compared with the signs
            h of the codes and ranked by -q.h; that search is exact for every kind. A 1-D array is a single
            query.
        k : int, default=10
            Number of rows per query.
        ids : array-like of int, default=None
            Search only the rows with these ids. Such a search is exact for every kind.
        n_jobs : int, default=None
            Number of threads that share the queries; None for every core. It does not change the results.

        Returns
        -------
        Hits, or for a single query HitList
        """
        queries = np.asarray(codes)
        if queries.ndim == 1:
            return self._search(queries[None], k, ids, n_jobs)[0]
        return self._search(queries, k, ids, n_jobs)

    def _search(self, queries: Any, k: int, ids: ArrayLike | None, n_jobs: int | None) -> Hits:
        k = inputs.checked_count(k, "k", 1)
        floats = np.issubdtype(queries.dtype, np.floating)
        queries = inputs.projections(queries, self.n_bits) if floats else self._codes(queries, "queries")
        with self._lock:
            row_ids, row_codes = self._selected(ids)
            structure = None if floats or ids is not None or not len(queries) else self._built()
            lookup = self._asymmetric_searcher(row_ids, row_codes, ids is None) if floats and len(queries) else None
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

    def within(self, codes: ArrayLike, radius: int, n_jobs: int | None = None) -> Any:
        """Find all rows at most ``radius`` bits away from each query, ordered by (distance, id).

        The result is exact for every kind. A 1-D array is a single query.

        Returns
        -------
        Ball, or for a single query HitList
        """
        queries = np.asarray(codes)
        if queries.ndim == 1:
            return self._within(queries[None], radius, n_jobs)[0]
        return self._within(queries, radius, n_jobs)

    def _within(self, codes: Any, radius: int, n_jobs: int | None) -> Ball:
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
            row_ids, row_codes = self._rows.all_rows()
        parts = scan.over_queries(lambda part: scan.ball(part, row_codes, radius), queries, n_jobs)
        return inputs.sorted_ball([(lims, distances, row_ids[places]) for lims, distances, places in parts])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file in one step, with the structure of ivf and hnsw.

        docs/search.md describes the format.
        """
        with self._lock:
            structure = self._built() if self.kind in KINDS and KINDS[self.kind].stored else None
            row_ids, row_codes = self._rows.all_rows()
            header = {"kind": self.kind, "n_bits": self.n_bits, "bitorder": self.bit_order, "settings": self.settings}
            data = b"" if structure is None else structure.to_bytes()
            file.write(path, {**header, "next_id": self._next_id}, row_codes, row_ids, data)

    @classmethod
    def load(cls, path: str | os.PathLike[str], mmap: bool = True, verify: bool = True) -> Index:
        """Read a saved index.

        Parameters
        ----------
        path : str or path-like
        mmap : bool, default=True
            Leave codes and ids in the file and read them when a search needs them. A structure is read into memory.
        verify : bool, default=True
            Check the checksum, which reads the whole file once. False checks only the header and the length.

        Raises
        ------
        IndexFileError
            If the file is damaged or not an index.
        """
        name = os.fspath(path)
        stored = file.read(path, mmap, verify)
        header = stored.header
        try:
            index = cls(header["n_bits"], header["kind"], header["bitorder"], **header["settings"])
        except (TypeError, ValueError) as error:
            raise IndexFileError(f"{name} is damaged: its header does not describe an index ({error})") from error
        index._rows = SortedRows.of(stored.ids, stored.codes)
        index._next_id = header["next_id"]
        try:
            index._read_structure(stored.structure)
        except RuntimeError as error:
            raise IndexFileError(f"{name} is damaged: faiss cannot read its structure.") from error
        return index

    def _read_structure(self, data: NDArray[np.uint8]) -> None:
        """Take the structure of the rows from its bytes; without bytes the first search builds it."""
        if len(data) and self.kind in KINDS and KINDS[self.kind].stored:
            structure = KINDS[self.kind](self.n_bits, self.settings)
            structure.from_bytes(data, len(self))
            self._structure = structure

    def _codes(self, codes: ArrayLike, name: str = "codes") -> PackedCodes:
        return np.ascontiguousarray(check_codes(codes, self.n_bits, self.bit_order, name))

    def _selected(self, ids: ArrayLike | None) -> tuple[Ids, PackedCodes]:
        return self._rows.all_rows() if ids is None else self._rows.select(inputs.sorted_ids(ids))

    def _built(self) -> Structure | None:
        """Return the structure of an approximate kind and build it if needed; None for flat and for no rows."""
        if self._structure is None and self.kind in KINDS and len(self):
            structure = KINDS[self.kind](self.n_bits, self.settings)
            structure.build(*self._rows.all_rows())
            self._structure = structure
        return self._structure if len(self) else None

    def _asymmetric_searcher(self, row_ids: Ids, row_codes: PackedCodes, everything: bool) -> AsymmetricSearcher | None:
        if not len(row_ids):
            return None
        if not everything:
            return AsymmetricSearcher(row_ids, row_codes, self.bit_order)
        if self._asymmetric is None:
            self._asymmetric = AsymmetricSearcher(row_ids, row_codes, self.bit_order)
        return self._asymmetric

    def _approximate(self, structure: Structure, queries: PackedCodes, k: int, n_jobs: int | None) -> tuple[Any, Any]:
        parts = scan.over_queries(lambda part: structure.search(part, k), queries, n_jobs)
        distances = np.concatenate([part[0] for part in parts])
        labels = np.concatenate([part[1] for part in parts])
        # Empty places (-1) come last.
        order = np.lexsort((labels, np.where(labels < 0, np.int32(MAX_BITS + 1), distances)), axis=1)
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(labels, order, axis=1)

    def _replace(self, ids: Ids, codes: PackedCodes) -> None:
        """Prepare the structure for new codes under ids that exist. A row with the same code again changes nothing."""
        if self.kind in KINDS and not KINDS[self.kind].removes and self._rows.holds(ids, codes).all():
            return
        self._remove_from_structure(ids, "replace rows")

    def _remove_from_structure(self, ids: Ids, what: str) -> None:
        if self.kind in KINDS and not KINDS[self.kind].removes:
            raise UnsupportedByKindError(
                f"An index of kind {self.kind!r} cannot {what} (id {ids[0]}): "
                "use 'flat', 'ivf' or 'multihash', or a new index."
            )
        if self._structure is not None:
            self._structure.remove(ids)  # type: ignore[attr-defined]
