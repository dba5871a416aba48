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
    Rescoring,
    StoredRows,
)
from hashlearn.collection.where import Condition, as_filter, condition_of
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
    where: Filter | None = None
    include: list[Include] = []

    @classmethod
    def pack(cls, query: Query) -> WireQuery:
        """Return queries to send."""
        sent, plan = cls(where=filter_of(query.where), include=[*query.include]), query.rescoring
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
            values = ScoreTables(self.nibbles.unpack(), _unpacked(self.words))
        elif self.values is not None:
            values = self.values.unpack()
        else:
            raise ValueError("A query needs values or nibbles.")
        plan = None
        if self.vectors is not None:
            also = _unpacked(self.also)
            plan = Rescoring(self.vectors.unpack(), self.nearest, self.max_rows, self.metric, also)
        return Query(values, plan, condition_of(self.where), self.include)


class SearchCall(Call):
    query: WireQuery
    k: int
    codes_by: str = ""


class WithinCall(Call):
    query: WireQuery
    radius: float
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
    spec: CollectionSpec
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
        return StoredRows(self.ids.unpack(), self.codes.unpack(), self.payloads, _unpacked(self.vectors))


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
    def pack(cls, answer: Answer[Any]) -> WireAnswer:
        """Return an answer to send."""
        hits = answer.hits
        sent = cls(Array.pack(hits.ids), Array.pack(hits.distances), skipped=_packed(hits.skipped), cut=answer.cut)
        sent.rows = None if answer.rows is None else WireRows.pack(answer.rows)
        if isinstance(hits, RangeHits):
            sent.offsets, sent.found = Array.pack(hits.offsets), Array.pack(hits.found)
        return sent

    def unpack(self) -> Answer[Hits]:
        """Return the answer to a search."""
        hits = Hits(self.ids.unpack(), self.distances.unpack(), skipped=_unpacked(self.skipped))
        return Answer(hits, None if self.rows is None else self.rows.unpack(), self.cut)

    def unpack_range(self) -> Answer[RangeHits]:
        """Return the answer to a search within a radius."""
        assert self.offsets is not None
        hits = RangeHits(
            self.offsets.unpack(),
            self.ids.unpack(),
            self.distances.unpack(),
            skipped=_unpacked(self.skipped),
            found=_unpacked(self.found),
        )
        return Answer(hits, None if self.rows is None else self.rows.unpack())


class Changed(msgspec.Struct):
    """How many rows were changed; ``missing`` has the ids of rows that do not exist, and then nothing was changed."""

    count: int
    missing: list[int] = []


class ServedSpec(msgspec.Struct):
    """What a collection is made for, with its model.

    ``codes_by`` is the fingerprint of the hasher that made the codes. Clients send it with queries and rows, so that
    those of a former hasher are refused.
    """

    spec: CollectionSpec
    writable: bool
    codes_by: str


def filter_of(where: Condition | None) -> Filter | None:
    """Return a condition as a filter that can be sent; None stands for every row."""
    return None if where is None else as_filter(where)


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
