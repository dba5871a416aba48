"""``Index`` holds packed codes by id in memory and searches them by Hamming distance or by tables of scores."""

from __future__ import annotations

import os
import threading
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import MAX_BITS, BitOrder, check_codes, n_bytes
from hashlearn.index import file, inputs, scan
from hashlearn.index.groups import GroupedRows, Lists
from hashlearn.index.hits import Hits, RangeHits
from hashlearn.index.scan import ScoreTables
from hashlearn.index.sorted_rows import SomeIds, SortedRows, id_array, ids_at
from hashlearn.typing import Ids, PackedCodes

Kind = Literal["flat", "ivf"]
IndexSettings = dict[str, int | None]

SETTINGS: dict[str, IndexSettings] = {"flat": {"word_bits": None}, "ivf": {"n_lists": None, "n_probes": 16}}
"""The settings of each kind of index, with their defaults."""

_COPIED_SHARE = 16  # a filter copies the rows that it allows if they are fewer than one in this number


class IndexInfo(NamedTuple):
    """What ``Index.info`` returns. ``bytes`` is the memory for codes, ids and copies in groups."""

    kind: str
    n_bits: int
    bit_order: str
    rows: int
    bytes: int
    settings: IndexSettings


class Index:
    """Packed binary codes by id, in memory.

    Parameters
    ----------
    n_bits : int, 1 to 1024
    kind : {"flat", "ivf"}, default="flat"
        "flat" is exact. "ivf" compares a query with the codes of the lists nearest to it: faster on many codes, but it
        may miss some; docs/search.md says which to pick. Its lists are made by the first search that needs them.
    bit_order : {"big", "little"}, default="big"
        Order of the bits in the bytes of all codes that are added or searched for.
    **settings : int or None
        flat: word_bits=None. With 8, 12 or 16, rows are also kept grouped by that many leading bits, in a second copy,
        so that a search by ``ScoreTables`` with words of this length skips groups that cannot hold a result.
        ivf: n_lists (default: from the number of rows), n_probes=16.

    Notes
    -----
    Rows at the same distance are ranked by id, also where only some of them fit into the k places, so results do not
    depend on the order in which rows were added. "ivf" ranks the rows that it finds in the same way, but
    its lists decide which of the rows at the k-th distance it finds.

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

    def __init__(self, n_bits: int, kind: Kind = "flat", bit_order: BitOrder = "big", **settings: int | None) -> None:
        whole = isinstance(n_bits, (int, np.integer)) and not isinstance(n_bits, bool)
        if not whole or not 1 <= n_bits <= MAX_BITS:
            raise ValueError(
                f"The 'n_bits' parameter of Index must be between 1 and {MAX_BITS}. Got {n_bits!r} instead."
            )
        if kind not in SETTINGS:
            kinds = ", ".join(map(repr, SETTINGS))
            raise ValueError(f"The 'kind' parameter of Index must be one of {kinds}. Got {kind!r} instead.")
        if bit_order not in ("big", "little"):
            raise ValueError(
                f"The 'bit_order' parameter of Index must be 'big' or 'little'. Got {bit_order!r} instead."
            )
        self.n_bits = int(n_bits)
        self.kind: str = kind
        self.bit_order = bit_order
        self.settings = _checked_settings(kind, settings, self.n_bits, bit_order)
        self._rows = SortedRows(n_bytes(self.n_bits))
        self._next_id = 0
        self._lists: Lists | None = None  # of ivf
        self._grouped: GroupedRows | None = None
        self._lock = threading.RLock()  # guards what the first search builds

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, one: Any) -> bool:
        return bool(self.known([one])[0])

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs, in this process or another."""
        with self._lock:
            state = {**self.__dict__, "_rows": self._rows.copy(), "_grouped": None}
            if self._lists is not None:
                lists = self._lists
                state["_lists"] = Lists(lists.centers.copy(), lists.by_id.copy(), lists.n_learned)
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def __repr__(self) -> str:
        return f"Index({self.n_bits}, kind={self.kind!r}, rows={len(self)})"

    def info(self) -> IndexInfo:
        """Return kind, number of rows, memory in bytes and settings."""
        with self._lock:
            ids, codes = self._rows.all_rows()
            size = codes.nbytes + (0 if isinstance(ids, range) else ids.nbytes)
            if self._lists is not None:
                size += 2 * len(codes) + self._lists.centers.nbytes
            if self._grouped is not None:
                size += self._grouped.size
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
        """
        codes = self._codes(codes)
        numbers = inputs.new_ids(ids, len(codes), self._next_id)
        if not len(numbers):
            return
        if (numbers[1:] > numbers[:-1]).all():
            codes = codes.copy()
        else:
            order = np.argsort(numbers, kind="stable")
            numbers, codes = numbers[order], codes[order]
            inputs.check_distinct(numbers)
        with self._lock:
            lists, grouped = self._forget_groups()
            appended = int(numbers[0]) > self._rows.last_id
            # The ids are used up before the rows are there. Otherwise, after an interrupt between these two lines, the
            # next rows without ids would replace these rows.
            self._next_id = max(self._next_id, int(numbers[-1]) + 1)
            self._rows.put(numbers, codes)
            if lists is not None:
                lists.put(numbers, codes)
            self._lists, self._grouped = lists, grouped if appended else None

    def remove(self, ids: ArrayLike) -> int:
        """Remove the rows with these ids and return their number. Ids that do not exist are ignored."""
        numbers = np.unique(inputs.checked_ids(ids))
        with self._lock:
            present = numbers[self._rows.known(numbers)]
            if not len(present):
                return 0
            lists, _ = self._forget_groups()
            removed = self._rows.remove(present)
            if lists is not None:
                lists.by_id.remove(present)
            self._lists = lists
            return removed

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
            if ids is not None:
                return self._rows.select(inputs.sorted_ids(ids))
            row_ids, codes = self._rows.all_rows()
            return id_array(row_ids), codes

    def get(self, ids: Any) -> Any:
        """Return the code of the row with this id, or None. For a list of ids, return a list of them."""
        single = isinstance(ids, (int, np.integer)) and not isinstance(ids, bool)
        numbers = inputs.checked_ids([ids] if single else ids)
        found, packed = self.rows(np.unique(numbers))
        places = {number: place for place, number in enumerate(found.tolist())}
        codes = [packed[places[number]].copy() if number in places else None for number in numbers.tolist()]
        return codes[0] if single else codes

    def search(
        self, codes: ArrayLike | ScoreTables, k: int = 10, ids: ArrayLike | None = None, n_jobs: int | None = None
    ) -> Any:
        """Find the k best rows of every query: the nearest ones, or by tables those of the highest scores.

        Parameters
        ----------
        codes : uint8 array (queries, bytes), float array (queries, n_bits) or ScoreTables
            Packed codes, or real-valued queries q: the ``expected_bits`` of a hasher. The signs h of a row score q.h
            then. ``ScoreTables`` are the general form. Both are exact for every kind. A 1-D array is a single query.
        k : int, default=10
            Number of rows per query. If the index has fewer rows, the hits have fewer columns.
        ids : array-like of int, default=None
            Search only the rows with these ids. Such a search is exact for every kind.
        n_jobs : int, default=None
            Number of threads; None for every core. It does not change the results.

        Returns
        -------
        Hits, or for a single query HitList
            Ordered by (distance, id). Where queries have scores, the distance is minus the score; ``hits.scores`` are
            the scores.
        """
        k = inputs.checked_count(k, "k", 1)
        queries, single = self._queries(codes)
        with self._lock:
            grouped = None if ids is not None else self._groups_for(queries)
            row_ids, row_codes, allowed = self._allowed(ids)
        count = min(k, len(row_ids) if allowed is None else int(np.bitwise_count(allowed).sum()))
        if grouped is None:
            best = scan.nearest(row_codes, queries, count, allowed, n_jobs=n_jobs)
        else:
            chosen = None
            if not isinstance(queries, ScoreTables) and self._lists is not None:
                chosen = self._lists.chosen(queries, self.settings["n_probes"] or 1, n_jobs)
            best = grouped.nearest(row_codes, queries, count, chosen, n_jobs)
        found_ids = np.where(best.rows < 0, -1, ids_at(row_ids, np.maximum(best.rows, 0)))
        found = Hits(found_ids, best.distances, skipped=best.skipped)
        return found[0] if single else found

    def within(
        self,
        codes: ArrayLike | ScoreTables,
        radius: int | None = None,
        least_score: float | None = None,
        ids: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        """Find all rows within a radius of each query or, for queries that have scores, from a least score on.

        The result is exact for every kind. A 1-D array is a single query.

        Parameters
        ----------
        codes : uint8 array (queries, bytes), float array (queries, n_bits) or ScoreTables
            As for ``search``.
        radius : int
            For packed codes: the largest number of bits that may differ.
        least_score : float
            For real-valued queries and tables.
        ids, n_jobs
            As for ``search``.

        Returns
        -------
        RangeHits, or for a single query HitList
            Ordered by (distance, id).
        """
        queries, single = self._queries(codes)
        limit = inputs.checked_limit(radius, least_score, isinstance(queries, ScoreTables), self.n_bits)
        with self._lock:
            row_ids, row_codes, allowed = self._allowed(ids)
        inside = scan.within(row_codes, queries, limit, allowed, n_jobs=n_jobs)
        found = RangeHits(inside.offsets, ids_at(row_ids, inside.rows), inside.distances)
        return found[0] if single else found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file in one step, with the lists of ivf.

        docs/search.md describes the format.
        """
        with self._lock:
            lists = self._built_lists() if self.kind == "ivf" and len(self) else None
            ids, codes = self._rows.all_rows()
            header = {"kind": self.kind, "n_bits": self.n_bits, "bitorder": self.bit_order, "settings": self.settings}
            centers = codes[:0] if lists is None else lists.centers
            numbers = np.empty(0, dtype=np.uint16) if lists is None else lists.numbers
            file.write(path, {**header, "next_id": self._next_id}, codes, ids, centers, numbers)

    @classmethod
    def load(cls, path: str | os.PathLike[str], mmap: bool = True, verify: bool = False) -> Index:
        """Read a saved index.

        Parameters
        ----------
        path : str or path-like
        mmap : bool, default=True
            Leave the rows in the file, from which a search reads them.
        verify : bool, default=False
            Check the checksum of the whole file too, which reads it once. Header and length are always checked.

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
            raise file.IndexFileError(f"{name} is damaged: its header does not describe an index ({error})") from error
        index._rows = SortedRows.from_sorted(stored.ids, stored.codes)
        index._next_id = header["next_id"]
        if len(stored.centers):
            by_id = SortedRows.from_sorted(stored.ids, stored.lists.view(np.uint8).reshape(-1, 2))
            index._lists = Lists(stored.centers, by_id, len(stored.codes))
        return index

    def _codes(self, codes: ArrayLike, name: str = "codes") -> PackedCodes:
        return np.ascontiguousarray(check_codes(codes, self.n_bits, self.bit_order, name))

    def _queries(self, codes: ArrayLike | ScoreTables) -> tuple[PackedCodes | ScoreTables, bool]:
        """Check queries, and return them with whether they are a single one."""
        if isinstance(codes, ScoreTables):
            if codes.nibbles.shape[1] != 2 * n_bytes(self.n_bits):
                raise ValueError(
                    f"ScoreTables for codes of {self.n_bits} bits must have {2 * n_bytes(self.n_bits)} nibbles. "
                    f"Got {codes.nibbles.shape[1]} instead."
                )
            return codes, False
        single = np.ndim(codes) == 1
        array = np.asarray(codes)[None] if single else np.asarray(codes)
        if not np.issubdtype(array.dtype, np.floating):
            return self._codes(array, "queries"), single
        if array.ndim != 2 or array.shape[1] != self.n_bits:
            raise ValueError(f"Projections must have the shape (queries, {self.n_bits}). Got {array.shape} instead.")
        array = np.ascontiguousarray(array, dtype=np.float32)
        if not np.isfinite(array).all():
            raise ValueError("Projections must be finite numbers. Got NaN or infinity instead.")
        return ScoreTables.from_bits(array, self.bit_order), single

    def _allowed(self, ids: ArrayLike | None) -> tuple[SomeIds, PackedCodes, scan.Bitmap | None]:
        """Return ids and codes of rows to scan, and a bitmap of those that these ids allow.

        Copying few rows takes less time than reading all of them.
        """
        if ids is None:
            return *self._rows.all_rows(), None
        wanted = inputs.sorted_ids(ids)
        if len(wanted) * _COPIED_SHARE < len(self._rows):
            return *self._rows.select(wanted), None
        row_ids, row_codes = self._rows.all_rows()
        return row_ids, row_codes, scan.bitmap(self._rows.places(wanted), len(row_ids))

    def _groups_for(self, queries: PackedCodes | ScoreTables) -> GroupedRows | None:
        """Return the rows in the groups that serve these queries, built if needed; None to scan all rows."""
        word_bits = queries.word_bits if isinstance(queries, ScoreTables) else None
        if not len(self) or word_bits != self.settings.get("word_bits") or (word_bits is None and self.kind == "flat"):
            return None
        if self._grouped is None or self._grouped.outgrown(len(self)):
            codes = self._rows.all_rows()[1]
            if word_bits is None:
                lists = self._built_lists()
                self._grouped = GroupedRows(codes, lists.numbers, len(lists.centers))
            else:
                self._grouped = GroupedRows(codes, scan.leading_words(codes, word_bits), 2**word_bits)
        return self._grouped

    def _built_lists(self) -> Lists:
        n_lists = self.settings["n_lists"]
        if self._lists is None or (n_lists is None and self._lists.outgrown(len(self))):
            self._lists = Lists.learn(*self._rows.all_rows(), n_lists)
        return self._lists

    def _forget_groups(self) -> tuple[Lists | None, GroupedRows | None]:
        """Return the groups and go on without them until they match the changed rows.

        If a change fails halfway, the next search makes new ones.
        """
        forgotten = self._lists, self._grouped
        self._lists = self._grouped = None
        return forgotten


def _checked_settings(kind: str, settings: dict[str, Any], n_bits: int, bit_order: BitOrder) -> IndexSettings:
    """Check the settings of a kind and fill in the defaults of the missing ones."""
    known = SETTINGS[kind]
    for name, value in settings.items():
        if name not in known:
            has = ", ".join(map(repr, known))
            raise ValueError(f"An index of kind {kind!r} has the settings {has}. Got {name!r} instead.")
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1
        if not whole and not (value is None and known[name] is None):
            raise ValueError(f"The {name!r} setting of an index must be a whole number from 1. Got {value!r}.")
    full = {**known, **{name: None if value is None else int(value) for name, value in settings.items()}}
    word_bits = full.get("word_bits")
    if word_bits is not None and (word_bits not in scan.WORD_BITS or word_bits > 8 * n_bytes(n_bits)):
        raise ValueError(f"The 'word_bits' setting must be 8, 12 or 16, and no longer than a row. Got {word_bits}.")
    if word_bits is not None and bit_order != "big":
        raise ValueError(f"The 'word_bits' setting needs bit_order='big'. Got {bit_order!r} instead.")
    return full
