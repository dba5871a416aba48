"""What the client and the service send each other about a store: MessagePack, with arrays as their bytes.

Each call of a store is one request, ``POST /api/v1/collections/NAME/store/CALL``. Its body is a ``Call`` of this file,
and its answer is what the method of the store returns. Nothing in them can run code, and every field is checked when
it is read.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeVar, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.store import Answer, CollectionSpec, Include, Payload, Query, Rescoring, StoredRows
from hashlearn.collection.where import Condition, as_filter, condition_of
from hashlearn.index import Hits, RangeHits, ScoreTables
from hashlearn.typing import Float32Array, Ids, PackedCodes

CONTENT_TYPE = "application/vnd.msgpack"
Filter = dict[str, Any]
Message = TypeVar("Message")


class Array(msgspec.Struct, array_like=True):
    """How an array is sent: in C order, little-endian."""

    dtype: Literal["int32", "int64", "uint8", "float32", "float64"]
    shape: list[int]
    data: bytes


class Call(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all requests."""


class WireQuery(Call):
    """A ``Query``, whose values are an array or tables of scores."""

    values: NDArray[Any] | None = None
    tables: ScoreTables | None = None
    rescoring: Rescoring | None = None
    where: Filter | None = None
    include: list[Include] = []

    @classmethod
    def pack(cls, query: Query) -> WireQuery:
        """Return queries to send."""
        values, tables = (None, query.values) if isinstance(query.values, ScoreTables) else (query.values, None)
        return cls(values, tables, query.rescoring, filter_of(query.where), [*query.include])

    def unpack(self) -> Query:
        """Return the queries that were sent; ValueError if they are none."""
        values: Any = self.values if self.tables is None else self.tables
        if values is None:
            raise ValueError("A query needs values or tables.")
        return Query(values, self.rescoring, condition_of(self.where), self.include)


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
    ids: Ids
    vectors: bool = False


class CountCall(Call):
    where: Filter | None = None


class ScanCall(Call):
    batch_rows: int
    where: Filter | None = None
    vectors: bool = False
    after: int = -1


class AddCall(Call):
    ids: Ids
    codes: PackedCodes
    payloads: list[Payload] | None = None
    vectors: Float32Array | None = None
    codes_by: str = ""


class UpdateCall(Call):
    payloads: list[Payload]
    merge: bool
    ids: Ids | None = None
    where: Filter | None = None


class DeleteCall(Call):
    ids: Ids | None = None
    where: Filter | None = None


class TakeIdsCall(Call):
    count: int


class ReplaceCall(Call):
    before: str
    model: bytes
    vector_size: int | None = None
    ids: Ids | None = None
    codes: PackedCodes | None = None


class CreateCall(Call):
    spec: CollectionSpec
    check_only: bool = False


class EmbedCall(Call):
    texts: list[str]


class NoCall(Call):
    """A request without arguments."""


class WireAnswer(msgspec.Struct):
    """What queries found. ``offsets`` and ``found`` are for all rows within a radius."""

    ids: Ids
    distances: NDArray[Any]
    offsets: Ids | None = None
    found: Ids | None = None
    skipped: Ids | None = None
    rows: StoredRows | None = None
    cut: int = 0

    @classmethod
    def pack(cls, answer: Answer[Any]) -> WireAnswer:
        """Return an answer to send."""
        hits, ball = answer.hits, isinstance(answer.hits, RangeHits)
        offsets, found = (hits.offsets, hits.found) if ball else (None, None)
        return cls(hits.ids, hits.distances, offsets, found, hits.skipped, answer.rows, answer.cut)

    def unpack(self) -> Answer[Any]:
        """Return the answer that was sent, with ``Hits`` or ``RangeHits``."""
        if self.offsets is None:
            return Answer(Hits(self.ids, self.distances, skipped=self.skipped), self.rows, self.cut)
        hits = RangeHits(self.offsets, self.ids, self.distances, skipped=self.skipped, found=self.found)
        return Answer(hits, self.rows)


class Updated(msgspec.Struct):
    """How many payloads were changed; ``missing`` has ids of rows that do not exist, and then nothing was changed."""

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
    return msgspec.msgpack.encode(message, enc_hook=_sent)


def decode(body: bytes, kind: type[Message]) -> Message:
    """Return the message in some bytes; ValueError if it is no such message."""
    try:
        return msgspec.msgpack.decode(body, type=kind, dec_hook=_received)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"This is no {kind.__name__}: {error}") from error


def _sent(array: NDArray[Any]) -> Array:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return Array(array.dtype.name, [*array.shape], little.tobytes())  # type: ignore[arg-type]


def _received(kind: Any, sent: Any) -> NDArray[Any]:
    """Return an array of a message; ValueError if it is of another dtype than its field, or its bytes do not fit."""
    found = msgspec.convert(sent, Array)
    dtype, wanted = np.dtype(found.dtype), get_args(get_args(kind)[1])[0]
    if wanted is not Any and dtype != wanted:
        raise ValueError(f"The array must hold {wanted.__name__}. Got {dtype} instead.")
    if min(found.shape, default=0) < 0 or math.prod(found.shape) * dtype.itemsize != len(found.data):
        raise ValueError(f"An array of the shape {found.shape} does not have {len(found.data)} bytes.")
    return np.frombuffer(found.data, dtype.newbyteorder("<")).reshape(found.shape).astype(dtype)
