"""The contract of a store, which keeps codes, ids, payloads and vectors and searches them: one class per storage.

``Collection`` checks and encodes what users give. A store gets checked arrays, for which the following holds:

- ids are int64 from 0, unique within a call; codes are uint8 (n, n_bytes), bit 0 most significant, padding bits zero.
- ``add`` replaces rows whose id exists, whole (code, payload and vector). When it returns, the rows are durable and
  visible to the next search of any process. It gets at most ``batch_rows`` rows. When it fails, either all of them or
  none are stored, unless the storage is not ``atomic``.
- ``update_payloads`` is all or nothing for any number of rows, unless the storage is not ``atomic``.
- ``search`` and ``within`` order by (distance, id), also if rows tie at the k-th place.
- every method may raise ``CollectionError`` with one clear sentence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.where import Condition
from hashlearn.index import Ball, Hits
from hashlearn.parallel import row_blocks
from hashlearn.progress import report
from hashlearn.typing import Ids, PackedCodes

OPEN_OR_DROP = "open it, or drop it first (Collection.drop; on the command line: index drop)"
"""The end of a message about a place that already holds a collection."""

Vectors = NDArray[np.float32]
Payload = dict[str, Any]


class CollectionError(RuntimeError):
    """A collection cannot do what was asked; the message says why and what to do."""


class NoSuchRowsError(CollectionError, LookupError):
    """Rows that should be changed do not exist. ``missing`` has their ids."""

    def __init__(self, message: str, missing: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.missing = list(missing)


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


PayloadChange = Callable[[Iterator[StoredRows]], Iterator[StoredRows]]
"""Gets rows without vectors, in blocks ordered by id, and yields these rows with new payloads, block by block."""

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


def model_was_replaced(place: object) -> CollectionError:
    """What ``replace_model`` raises if another process was quicker."""
    return CollectionError(f"Another process has replaced the model of {place}: open it again.")


def rows_without_vectors(place: object, count: int) -> CollectionError:
    """What ``replace_model`` raises if vectors cannot be taken back into use."""
    return CollectionError(
        f"{count} rows of {place} were added or replaced after its vectors were dropped and have none: delete these "
        "rows, or undo with vectors='drop' (on the command line: --vectors drop) and go on without vectors."
    )


def vectors_were_dropped() -> CollectionError:
    """What reading vectors raises in a process that has the collection open since before they were dropped."""
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

    spec: CollectionSpec

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
    def update_payloads(self, wanted: Ids | Condition | None, change: PayloadChange) -> int:
        """Replace payloads in one transaction and return of how many rows; codes and vectors stay as they are.

        ``wanted`` are increasing ids, of which some may not exist, or a filter; None means all rows. ``change`` sees
        the rows as the transaction does, and no other writer changes them before its end. If ``change`` raises an
        error, nothing is changed. It may be called again from the beginning, if the transaction is repeated.

        A storage that is not ``atomic`` first calls ``change`` without writing, so that refusals change nothing.
        """

    @abstractmethod
    def delete(self, ids: Ids) -> int:
        """Remove rows and return how many there were."""

    @abstractmethod
    def delete_where(self, where: Condition) -> int:
        """Remove the rows whose payload matches and return how many there were."""

    @abstractmethod
    def get(self, ids: Ids, vectors: bool = False) -> StoredRows:
        """Return those of these rows that exist, ordered by id; with vectors if asked for and kept."""

    @abstractmethod
    def vectors(self, ids: Ids) -> tuple[Ids, Vectors]:
        """Return the ids of those of these rows that exist, in increasing order, and their vectors."""

    @abstractmethod
    def count(self, where: Condition | None = None) -> int: ...

    @abstractmethod
    def take_ids(self, count: int) -> int:
        """Reserve ``count`` consecutive ids, which no other row has or gets from any process; return the first."""

    @abstractmethod
    def search(self, queries: PackedCodes, k: int, where: Condition | None = None, n_jobs: int | None = None) -> Hits:
        """Return the k nearest rows of each query; ids and distances are -1 where there is no row."""

    @abstractmethod
    def search_projections(
        self, queries: NDArray[np.floating], k: int, where: Condition | None = None, n_jobs: int | None = None
    ) -> Hits:
        """Return the k rows with the smallest -q.h for real-valued projections q; infinity where there is no row."""

    @abstractmethod
    def within(
        self, queries: PackedCodes, radius: int, where: Condition | None = None, n_jobs: int | None = None
    ) -> Ball:
        """Return all rows at most ``radius`` bits away from each query."""

    @abstractmethod
    def scan(
        self, batch_rows: int = 10_000, where: Condition | None = None, vectors: bool = False
    ) -> Iterator[StoredRows]:
        """Iterate over all rows by id in batches, as of one moment if the storage can promise that."""

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
