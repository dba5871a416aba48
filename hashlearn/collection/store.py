"""What a store does: keep codes, ids, payloads (and vectors) and search them. One class a kind of storage.

``Collection`` checks and encodes what users give; a store gets clean arrays and promises:

- ids are int64 from 0, unique within a call; codes uint8 (n, n_bytes), bit 0 most significant, padding bits zero.
- ``add`` replaces rows whose id exists, whole (code, payload and vector). When it returns, the rows are durable and
  visible to the next search of any process. It gets at most ``batch_rows`` rows; when it fails, either all or none of
  them are there, unless the storage is not ``atomic``.
- ``search`` and ``within`` order by (distance, id), also where the k-th place cuts through tied rows.
- every method may raise ``CollectionError`` with one clear sentence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.where import Condition
from hashlearn.index import Ball, Hits
from hashlearn.typing import Ids, PackedCodes

OPEN_OR_DROP = "open it, or drop it first (Collection.drop; on the command line: index drop)"
"""What to do where a collection is already."""

Vectors = NDArray[np.float32]
Payload = dict[str, Any]


class CollectionError(RuntimeError):
    """A collection cannot do what was asked; the message says why and what to do."""


class UnsupportedByStoreError(CollectionError, NotImplementedError):
    """This kind of storage cannot do what was asked; another one can, and the message says which."""


@dataclass(frozen=True)
class Spec:
    """What a collection is made for; fixed when it is created and kept in its storage.

    model : the bytes of the hasher's model file, empty when the collection takes codes made elsewhere.
    fingerprint : SHA-256 (hex) of what the hasher computes, "" without a hasher.
    vector_size : floats a row to keep for rescoring, or None.
    kind, settings : what kind of index searches, for stores that offer several.
    indexed : fields of payloads that filters ask for often, as filters name them.
    """

    n_bits: int
    model: bytes = b""
    fingerprint: str = ""
    vector_size: int | None = None
    kind: str = "flat"
    settings: dict[str, int | None] = field(default_factory=dict)
    indexed: tuple[str, ...] = ()


class Rows(NamedTuple):
    """Rows of a collection, ordered by id. ``vectors`` is None when the collection keeps none."""

    ids: Ids
    codes: PackedCodes
    payloads: list[Payload]
    vectors: Vectors | None


class Verified(NamedTuple):
    """What ``verify`` found: how many rows, payloads and vectors it read, and what is wrong, one sentence each.

    ``notes`` say what was left to the server, or could not be checked.
    """

    rows: int
    payloads: int
    vectors: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


class Store(ABC):
    """Base of all kinds of storage."""

    batch_rows: ClassVar[int]
    """The most rows that ``add`` and ``delete`` get at once."""
    atomic: ClassVar[bool] = True
    """Whether a crash in the middle of ``add`` or ``delete`` leaves all of its rows or none."""

    spec: Spec

    @classmethod
    @abstractmethod
    def create(cls, uri: str, spec: Spec) -> Store:
        """Make a new, empty collection; CollectionError when one is there already."""

    @classmethod
    @abstractmethod
    def open(cls, uri: str, read_only: bool = False) -> Store:
        """Open what ``create`` made; CollectionError when there is none or it cannot be read."""

    @classmethod
    @abstractmethod
    def drop(cls, uri: str) -> None:
        """Remove a collection and all its rows for good."""

    @abstractmethod
    def add(self, ids: Ids, codes: PackedCodes, payloads: Sequence[Payload] | None, vectors: Vectors | None) -> None:
        """Add or replace rows."""

    @abstractmethod
    def delete(self, ids: Ids) -> int:
        """Remove rows; how many there were."""

    @abstractmethod
    def delete_where(self, where: Condition) -> int:
        """Remove the rows whose payload matches; how many there were."""

    @abstractmethod
    def get(self, ids: Ids, vectors: bool = False) -> Rows:
        """Those of these rows that exist, ordered by id. Vectors only when asked for and kept."""

    @abstractmethod
    def vectors(self, ids: Ids) -> tuple[Ids, Vectors]:
        """Those of these rows that exist, ordered by id, and the vectors kept with them."""

    @abstractmethod
    def count(self, where: Condition | None = None) -> int: ...

    @abstractmethod
    def take_ids(self, count: int) -> int:
        """The first of ``count`` ids in a row that no other row has, or gets from this or another process."""

    @abstractmethod
    def search(self, queries: PackedCodes, k: int, where: Condition | None = None, n_jobs: int | None = None) -> Hits:
        """The k nearest rows of each query; ids and distances -1 in empty places."""

    @abstractmethod
    def search_projections(
        self, queries: NDArray[np.floating], k: int, where: Condition | None = None, n_jobs: int | None = None
    ) -> Hits:
        """The k rows with the smallest -q.h for real-valued projections; infinity in empty places."""

    @abstractmethod
    def within(
        self, queries: PackedCodes, radius: int, where: Condition | None = None, n_jobs: int | None = None
    ) -> Ball:
        """All rows at most ``radius`` bits away from each query."""

    @abstractmethod
    def scan(self, batch_rows: int = 10_000, where: Condition | None = None, vectors: bool = False) -> Iterator[Rows]:
        """All rows by id, a batch at a time, as of one moment where the storage can promise that."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """Facts for people: where it is, rows, bytes, kind of index, version of the server…; JSON-able."""

    @abstractmethod
    def verify(self) -> Verified:
        """Read everything, and check all that can be checked."""

    @abstractmethod
    def compact(self) -> None:
        """Give the space of replaced and removed rows back."""

    @abstractmethod
    def backup(self, path: str) -> None:
        """Write one file that ``restore`` takes; UnsupportedByStoreError where the server has its own tool for it."""

    @classmethod
    @abstractmethod
    def restore(cls, path: str, uri: str, replace: bool) -> None:
        """Make a collection out of such a file, in the place of another if ``replace``."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; twice is fine."""
