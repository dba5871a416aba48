"""The contract of a store, which keeps codes, ids, payloads and vectors and searches them: one class per storage.

``Collection`` checks and encodes what users give. A store gets checked arrays, for which the following holds:

- ids are int64 from 0, unique within a call; codes are uint8 (n, n_bytes), bit 0 most significant, padding bits zero.
- ``add`` replaces rows whose id exists, whole (code, payload and vector). When it returns, the rows are durable and
  visible to the next search of any process. It gets at most ``batch_rows`` rows. When it fails, either all of them or
  none are stored, unless the storage is not ``atomic``.
- ``update_payloads`` is all or nothing for any number of rows, unless the storage is not ``atomic``.
- ``search`` and ``within`` order by (distance, id), also if rows tie at the k-th place. Hits and their details show
  one moment, if the storage has snapshots.
- every method may raise ``CollectionError`` with one clear sentence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.where import TEXT_FIELD, Condition
from hashlearn.index import Hits, RangeHits, ScoreTables
from hashlearn.parallel import row_blocks
from hashlearn.progress import report
from hashlearn.typing import Float32Array, Ids, Metric, PackedCodes

OPEN_OR_DROP = "open it, or drop it first (Collection.drop; on the command line: index drop)"
"""The end of a message about a place that already holds a collection."""

KEEP_VECTORS = "create it with store_vectors=True (on the command line: index create --vectors)"

Vectors = NDArray[np.float32]
Payload = dict[str, Any]

Include = Literal["payload", "vector", "code"]
"""What hits may have besides id and distance."""


class CollectionError(RuntimeError):
    """A collection cannot do what was asked; the message says why and what to do."""

    exit_code = 1


class NoSuchRowsError(CollectionError, LookupError):
    """Rows that should be changed do not exist. ``missing`` has their ids."""

    def __init__(self, message: str, missing: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.missing = list(missing)


class NoCollectionError(CollectionError):
    """There is no collection where one was to be opened."""


class CollectionExistsError(CollectionError):
    """There is a collection already where one was to be made."""


class UnsupportedByStoreError(CollectionError, NotImplementedError):
    """This kind of storage cannot do what was asked; the message names one that can."""


@dataclass(frozen=True)
class CollectionSpec:
    """What a collection is made for; fixed when it is created and kept in its storage.

    model : the bytes of the hasher's model file, empty when the collection takes codes made elsewhere.
    fingerprint : SHA-256 (hex) of what the hasher computes, "" without a hasher.
    vector_size : how many floats per row are kept for rescoring; None for no vectors.
    kind, settings : the kind of index that searches, for stores that offer several.
    indexed : fields of payloads that filters often compare, written as in filters.
    ids : the kind of ids that users see ("int", "text" or "uuid"); stores have numbers for all of them.
    """

    n_bits: int
    model: bytes = b""
    fingerprint: str = ""
    vector_size: int | None = None
    kind: str = "flat"
    settings: dict[str, int | None] = field(default_factory=dict)
    indexed: tuple[str, ...] = ()
    ids: str = "int"


class StoredRows(NamedTuple):
    """Rows of a collection, ordered by id. ``vectors`` is None when the collection keeps none."""

    ids: Ids
    codes: PackedCodes
    payloads: list[Payload]
    vectors: Vectors | None


class Rescoring(NamedTuple):
    """How the nearest rows are ranked again by the vectors that the collection keeps.

    vectors : the float vectors of the queries.
    nearest : how many rows to take by the query itself; rows that tie with the last of them are taken too.
    max_rows : the limit of both together. It is larger than ``nearest``, because one more row shows whether there is a
        tie.
    metric : how vectors are compared.
    also : packed codes, near which rows are looked at too; None for none.
    """

    vectors: Vectors
    nearest: int
    max_rows: int
    metric: Metric
    also: PackedCodes | None = None


class Query(NamedTuple):
    """Queries as an encoder makes them and a store answers them.

    values : one row per query, of one of three kinds.
        Packed codes, uint8 (queries, n_bytes): rows are ranked by Hamming distance.
        Expected bits q, float32 (queries, n_bits): by -q.h, with the signs h of a code.
        ScoreTables: by minus the score.
    rescoring : None to rank by this distance alone.
    where : only rows whose payload matches; None for all.
    include : what hits have besides id and distance.
    n_jobs : threads of a storage that searches here; None for all cores.
    """

    values: PackedCodes | Float32Array | ScoreTables
    rescoring: Rescoring | None = None
    where: Condition | None = None
    include: Collection[Include] = ()
    n_jobs: int | None = None

    @property
    def by_bits(self) -> bool:
        """Whether distances count bits."""
        return isinstance(self.values, np.ndarray) and self.values.dtype == np.uint8


FoundT = TypeVar("FoundT", Hits, RangeHits)


class Answer(NamedTuple, Generic[FoundT]):
    """What queries found: numbers and distances, and the rows among them as far as they were asked for.

    ``rows`` has each row once; None if nothing but ids and distances was asked for. ``cut`` counts the queries for
    which rescoring left out rows that tie with the last candidate.
    """

    hits: FoundT
    rows: StoredRows | None = None
    cut: int = 0


class PayloadUpdate(NamedTuple):
    """New payloads for rows that exist.

    wanted : increasing ids, or a filter; None means all rows.
    payloads : one per id; for a filter a single one, for all rows that match.
    merge : whether the fields that a new payload lacks stay.
    text_ids : whether payloads hold the texts by which users know the rows.
    """

    wanted: Ids | Condition | None
    payloads: Sequence[Payload]
    merge: bool
    text_ids: bool

    def changed(self, blocks: Iterable[StoredRows]) -> Iterator[StoredRows]:
        """Yield the rows with their new payloads, block by block.

        NoSuchRowsError with the numbers of the missing rows, before the first block in which one is missing.
        """
        if not isinstance(self.wanted, np.ndarray):
            for rows in blocks:
                yield rows._replace(payloads=[self._one(old, self.payloads[0]) for old in rows.payloads])
            return
        found = np.zeros(len(self.wanted), dtype=bool)
        for rows in blocks:
            places = np.searchsorted(self.wanted, rows.ids)
            new = [self.payloads[place] for place in places.tolist()]
            # Two texts may have the same number; then the row of the other one was found.
            pairs = list(zip(rows.payloads, new, strict=True))
            found[places] = [not self.text_ids or old.get(TEXT_FIELD) == one.get(TEXT_FIELD) for old, one in pairs]
            if found[places].all():
                yield rows._replace(payloads=[self._one(old, one) for old, one in pairs])
        if not found.all():
            raise NoSuchRowsError("no payload was changed", self.wanted[~found].tolist())

    def _one(self, old: Payload, new: Payload) -> Payload:
        if self.merge:
            return {**old, **new}
        return {**new, TEXT_FIELD: old[TEXT_FIELD]} if self.text_ids else new


_UPDATE_ROWS = 10_000


def update_blocks(ids: Ids, phase: str = "updating") -> Iterator[Ids]:
    """Yield the ids of the blocks for ``update_payloads`` and report progress; blocks bound the memory for payloads."""
    for block in row_blocks(len(ids), _UPDATE_ROWS):
        yield ids[block]
        report(phase, block.stop, len(ids))


class VerifyReport(NamedTuple):
    """What ``verify`` found: how many rows, payloads and vectors it read, and what is wrong, one sentence each.

    ``notes`` say what was left to the server, or could not be checked.
    """

    rows: int
    payloads: int
    vectors: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def no_tables(place: str, hasher: str) -> UnsupportedByStoreError:
    """Return what is raised where a hasher makes tables of scores and the storage compares codes by bits only."""
    return UnsupportedByStoreError(
        f"{place} cannot search by tables of scores, as {hasher} makes them: use AutoHasher, whose codes have Hamming "
        "distances, or keep the collection in a folder or on a server of hashlearn."
    )


def first_of_each(found: RangeHits, limit: int | None) -> RangeHits:
    """Return at most ``limit`` rows of each query, the nearest ones; ``found`` counts all."""
    if limit is None or not len(found.ids):
        return found
    counts = np.minimum(found.found, limit)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - found.offsets[:-1], counts)
    return RangeHits(offsets, found.ids[places], found.distances[places], skipped=found.skipped, found=found.found)


def model_was_replaced(place: object) -> CollectionError:
    """Return what ``replace_model`` raises if another process was quicker."""
    return CollectionError(f"Another process has replaced the model of {place}: open it again.")


def rows_have_changed(place: object) -> CollectionError:
    """Return what ``replace_codes`` raises if the codes are not those of all rows."""
    return CollectionError(f"Rows of {place} were added or removed meanwhile, so nothing was changed: try again.")


def rows_without_vectors(place: object, count: int) -> CollectionError:
    """Return what ``replace_model`` raises if vectors cannot be taken back into use."""
    return CollectionError(
        f"{count} rows of {place} were added or replaced after its vectors were dropped and have none: delete these "
        "rows, or undo with vectors='drop' (on the command line: --vectors drop) and go on without vectors."
    )


def vectors_were_dropped() -> CollectionError:
    """Return what reading vectors raises in a process that opened the collection before they were dropped."""
    return CollectionError(
        "A migration has dropped the vectors of this collection since it was opened, and rows that came later have "
        "none: open it again."
    )


class Store(ABC):
    """Base of all kinds of storage."""

    batch_rows: ClassVar[int]
    """The most rows that ``add`` and ``delete`` get at once."""
    atomic: ClassVar[bool] = True
    """Whether a crash in the middle of ``add`` or ``delete`` leaves all of its rows or none."""
    takes_tables: ClassVar[bool] = True
    """Whether ``search`` and ``within`` take queries that are tables of scores, as an OpenHasher makes them."""

    spec: CollectionSpec
    _place: str
    _read_only: bool

    def _require_writable(self) -> None:
        if self._read_only:
            raise CollectionError(f"The collection {self._place} was opened for reading only.")

    @classmethod
    @abstractmethod
    def check_new(cls, uri: str, spec: CollectionSpec) -> None:
        """Raise what ``create`` would raise for this spec, whose model is not looked at, and change nothing."""

    @classmethod
    def exists(cls, uri: str) -> bool:
        """Return whether there is a collection; CollectionError if that cannot be told."""
        try:
            cls.open(uri, read_only=True).close()
        except NoCollectionError:
            return False
        return True

    @classmethod
    @abstractmethod
    def create(cls, uri: str, spec: CollectionSpec) -> Store:
        """Make a new, empty collection; CollectionError if there is already one."""

    @classmethod
    @abstractmethod
    def open(cls, uri: str, read_only: bool = False) -> Store:
        """Open a collection; CollectionError if there is none or it cannot be read."""

    @classmethod
    @abstractmethod
    def drop(cls, uri: str) -> None:
        """Remove a collection and all its rows for good."""

    @abstractmethod
    def add(self, ids: Ids, codes: PackedCodes, payloads: Sequence[Payload] | None, vectors: Vectors | None) -> None:
        """Add or replace rows."""

    @abstractmethod
    def update_payloads(self, update: PayloadUpdate) -> int:
        """Replace payloads in one transaction, in which no other writer changes these rows; return of how many rows.

        If a row is missing, that is a NoSuchRowsError. A storage that is not ``atomic`` looks at all rows before it
        writes.
        """

    @abstractmethod
    def delete(self, wanted: Ids | Condition) -> int:
        """Remove the rows with these ids, or whose payload matches, and return how many there were."""

    @abstractmethod
    def get(self, ids: Ids, vectors: bool = False) -> StoredRows:
        """Return those of these rows that exist, ordered by id; with vectors if asked for and kept."""

    @abstractmethod
    def count(self, where: Condition | None = None) -> int: ...

    @abstractmethod
    def take_ids(self, count: int) -> int:
        """Reserve ``count`` consecutive ids, which no other row has or gets from any process; return the first."""

    @abstractmethod
    def search(self, query: Query, k: int) -> Answer[Hits]:
        """Return the k nearest rows of each query.

        Empty places have the id -1, and the distance -1 (Hamming) or infinity. UnsupportedByStoreError for a kind of
        query that this storage cannot answer.
        """

    @abstractmethod
    def within(self, query: Query, radius: float, limit: int | None = None) -> Answer[RangeHits]:
        """Return all rows at most ``radius`` away from each query; with a ``limit``, the nearest of each query.

        For expected bits and tables, the radius is minus the least score.
        """

    @abstractmethod
    def scan(
        self, batch_rows: int = 10_000, where: Condition | None = None, vectors: bool = False, after: int = -1
    ) -> Iterator[StoredRows]:
        """Iterate over the rows with ids above ``after`` by id, as of one moment if the storage has snapshots."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """Return facts for people that JSON can hold: place, rows, bytes, kind of index, version of the server."""

    @abstractmethod
    def replace_model(self, model: bytes, fingerprint: str, vector_size: int | None) -> None:
        """Replace model, fingerprint and size of vectors in ``spec``, all or nothing; the rows stay as they are.

        If ``vector_size`` is None, kept vectors are set aside: rows that are added or replaced from then on have none.
        The former size takes them back into use. CollectionError if rows have none by then, or if the stored model is
        no longer that of ``spec`` because another process has replaced it.
        """

    def replace_codes(self, model: bytes, fingerprint: str, ids: Ids, codes: PackedCodes) -> None:
        """Replace the model and the codes of all rows, whose increasing ids these are, all or nothing.

        From then on, processes that opened the collection before get a CollectionError, because queries by the former
        model find nothing of sense among the new codes. CollectionError if these are not the ids of all rows, because
        rows were added or removed meanwhile.
        """
        raise UnsupportedByStoreError(
            "Only collections in folders and on servers of hashlearn can give all rows new codes at once: make the "
            "collection again, with the labels."
        )

    def embed(self, texts: Sequence[str]) -> Float32Array | None:
        """Return the rows of texts by the text model of the collection, if the storage has it; else None."""
        return None

    @abstractmethod
    def verify(self) -> VerifyReport:
        """Read everything and check all that can be checked."""

    @abstractmethod
    def compact(self) -> None:
        """Free the space of replaced and removed rows."""

    @abstractmethod
    def backup(self, path: str) -> None:
        """Write a file for ``restore``; UnsupportedByStoreError if the server has its own tool for backups."""

    @classmethod
    @abstractmethod
    def restore(cls, path: str, uri: str, replace: bool) -> None:
        """Make a collection from such a file, in place of another one if ``replace``."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Closing twice does no harm."""
