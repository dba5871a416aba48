"""What the client and the service send each other about a store: MessagePack, with arrays as their bytes.

Each call of a store is one request, ``POST /api/v1/collections/NAME/store/CALL``. Its body and its answer are the
structures of this file. Nothing in them can run code, and every field is checked when it is read.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.store import (
    Answer,
    CollectionSpec,
    Include,
    Payload,
    Query,
    RangeAnswer,
    Rescoring,
    StoredRows,
    VerifyReport,
)
from hashlearn.index import Hits, RangeHits, ScoreTables
from hashlearn.typing import Metric

CONTENT_TYPE = "application/vnd.msgpack"
Filter = dict[str, Any]
Message = TypeVar("Message")


class Array(msgspec.Struct, array_like=True):
    """An array in C order, little-endian."""

    dtype: Literal["int32", "int64", "uint8", "float32", "float64"]
    shape: list[int]
    data: bytes

    @classmethod
    def pack(cls, array: NDArray[Any]) -> Array:
        """Return an array to send."""
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        return cls(array.dtype.name, [*array.shape], little.tobytes())  # type: ignore[arg-type]

    def unpack(self) -> NDArray[Any]:
        """Return the array that was sent; ValueError if its bytes do not fit its shape."""
        dtype = np.dtype(self.dtype).newbyteorder("<")
        if min(self.shape, default=0) < 0 or math.prod(self.shape) * dtype.itemsize != len(self.data):
            raise ValueError(f"An array of the shape {self.shape} does not have {len(self.data)} bytes.")
        return np.frombuffer(self.data, dtype=dtype).reshape(self.shape).astype(self.dtype)


class Call(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all requests."""


class WireQuery(Call):
    """A ``Query``: arrays of codes or expected bits, or tables of scores."""

    values: Array | None = None
    nibbles: Array | None = None
    words: Array | None = None
    vectors: Array | None = None
    nearest: int = 0
    max_rows: int = 0
    metric: Metric = "cosine"
    also: Array | None = None

    @classmethod
    def pack(cls, query: Query) -> WireQuery:
        """Return queries to send."""
        sent, plan = cls(), query.rescoring
        if isinstance(query.values, ScoreTables):
            sent.nibbles, sent.words = Array.pack(query.values.nibbles), _packed(query.values.words)
        else:
            sent.values = Array.pack(query.values)
        if plan is not None:
            sent.vectors, sent.also = Array.pack(plan.vectors), _packed(plan.also)
            sent.nearest, sent.max_rows, sent.metric = plan.nearest, plan.max_rows, plan.metric
        return sent

    def unpack(self) -> Query:
        """Return the queries that were sent; ValueError if they are none."""
        values: Any
        if self.nibbles is not None:
            values = ScoreTables(self.nibbles.unpack(), None if self.words is None else self.words.unpack())
        elif self.values is not None:
            values = self.values.unpack()
        else:
            raise ValueError("A query needs values or nibbles.")
        if self.vectors is None:
            return Query(values)
        also = None if self.also is None else self.also.unpack()
        return Query(values, Rescoring(self.vectors.unpack(), self.nearest, self.max_rows, self.metric, also))


class SearchCall(Call):
    query: WireQuery
    k: int
    where: Filter | None = None
    include: list[Include] = []
    codes_by: str = ""


class WithinCall(Call):
    query: WireQuery
    radius: float
    where: Filter | None = None
    include: list[Include] = []
    limit: int | None = None
    codes_by: str = ""


class GetCall(Call):
    ids: Array
    vectors: bool = False


class CountCall(Call):
    where: Filter | None = None


class ScanCall(Call):
    batch_rows: int
    where: Filter | None = None
    vectors: bool = False
    after: int = -1


class AddCall(Call):
    ids: Array
    codes: Array
    payloads: list[Payload] | None = None
    vectors: Array | None = None
    codes_by: str = ""


class UpdateCall(Call):
    payloads: list[Payload]
    merge: bool
    ids: Array | None = None
    where: Filter | None = None


class DeleteCall(Call):
    ids: Array | None = None
    where: Filter | None = None


class TakeIdsCall(Call):
    count: int


class ReplaceCall(Call):
    before: str
    model: bytes
    vector_size: int | None = None
    ids: Array | None = None
    codes: Array | None = None


class CreateCall(Call):
    n_bits: int
    model: bytes = b""
    vector_size: int | None = None
    kind: str = "flat"
    settings: dict[str, int | None] = {}
    indexed: list[str] = []
    ids: Literal["int", "text", "uuid"] = "int"
    check_only: bool = False


class EmbedCall(Call):
    texts: list[str]


class NoCall(Call):
    """A request without arguments."""


class WireRows(msgspec.Struct):
    """Rows of a store."""

    ids: Array
    codes: Array
    payloads: list[Payload]
    vectors: Array | None = None

    @classmethod
    def pack(cls, rows: StoredRows) -> WireRows:
        """Return rows to send."""
        return cls(Array.pack(rows.ids), Array.pack(rows.codes), rows.payloads, _packed(rows.vectors))

    def unpack(self) -> StoredRows:
        """Return the rows that were sent."""
        vectors = None if self.vectors is None else self.vectors.unpack()
        return StoredRows(self.ids.unpack(), self.codes.unpack(), self.payloads, vectors)


class WireAnswer(msgspec.Struct):
    """What queries found. ``offsets`` and ``found`` are for all rows within a radius."""

    ids: Array
    distances: Array
    offsets: Array | None = None
    found: Array | None = None
    skipped: Array | None = None
    rows: WireRows | None = None
    cut: int = 0

    @classmethod
    def pack(cls, answer: Answer | RangeAnswer) -> WireAnswer:
        """Return an answer to send."""
        hits = answer.hits
        sent = cls(Array.pack(hits.ids), Array.pack(hits.distances), skipped=_packed(hits.skipped))
        sent.rows = None if answer.rows is None else WireRows.pack(answer.rows)
        if isinstance(answer, Answer):
            sent.cut = answer.cut
        else:
            sent.offsets, sent.found = Array.pack(answer.hits.offsets), Array.pack(answer.hits.found)
        return sent

    def unpack(self) -> Answer:
        """Return the answer to a search."""
        hits = Hits(self.ids.unpack(), self.distances.unpack(), skipped=_unpacked(self.skipped))
        return Answer(hits, None if self.rows is None else self.rows.unpack(), self.cut)

    def unpack_range(self) -> RangeAnswer:
        """Return the answer to a search within a radius."""
        assert self.offsets is not None
        hits = RangeHits(
            self.offsets.unpack(),
            self.ids.unpack(),
            self.distances.unpack(),
            skipped=_unpacked(self.skipped),
            found=_unpacked(self.found),
        )
        return RangeAnswer(hits, None if self.rows is None else self.rows.unpack())


class Changed(msgspec.Struct):
    """How many rows were changed; ``missing`` has the ids of rows that do not exist, and then nothing was changed."""

    count: int
    missing: list[int] = []


class Facts(msgspec.Struct):
    """What the storage tells about itself."""

    facts: dict[str, Any]


class WireSpec(msgspec.Struct):
    """What a collection is made for, with its model.

    ``codes_by`` is the fingerprint of the hasher that made the codes. Clients send it with queries and rows, so that
    those of a former hasher are refused.
    """

    n_bits: int
    model: bytes
    fingerprint: str
    vector_size: int | None
    kind: str
    settings: dict[str, int | None]
    indexed: list[str]
    ids: str
    writable: bool
    codes_by: str

    def unpack(self) -> CollectionSpec:
        """Return the spec that was sent."""
        facts = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if name not in ("writable", "codes_by", "indexed")
        }
        return CollectionSpec(**facts, indexed=tuple(self.indexed))


class Verified(msgspec.Struct):
    """A ``VerifyReport``."""

    rows: int
    payloads: int
    vectors: int
    problems: list[str]
    notes: list[str]

    def unpack(self) -> VerifyReport:
        """Return the report that was sent."""
        return VerifyReport(self.rows, self.payloads, self.vectors, tuple(self.problems), tuple(self.notes))


def encode(message: Any) -> bytes:
    """Return a message as bytes."""
    return msgspec.msgpack.encode(message)


def decode(body: bytes, kind: type[Message]) -> Message:
    """Return the message in some bytes; ValueError if it is no such message."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"This is no {kind.__name__}: {error}") from error


def _packed(array: NDArray[Any] | None) -> Array | None:
    return None if array is None else Array.pack(array)


def _unpacked(array: Array | None) -> NDArray[Any] | None:
    return None if array is None else array.unpack()
