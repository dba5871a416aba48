"""The JSON of requests and answers, as OpenAPI describes it; and bodies of requests, read and checked.

Requests are read strictly: no text for a number. Files of arrays can hold only numbers.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import msgspec
import numpy as np
from fastapi import Depends, Request, Response
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from hashlearn.codes import MAX_BITS, check_codes, n_bytes
from hashlearn.collection.encoder import checked_vectors
from hashlearn.collection.ids import MAX_CHARACTERS, IdKind
from hashlearn.collection.rescore import DEFAULT_FACTOR
from hashlearn.messages import one_line
from hashlearn.service.errors import ApiError, bad, validation_error
from hashlearn.service.service import ServiceDep, reading, require_writer
from hashlearn.service.settings import Limits
from hashlearn.typing import Float32Array, Metric, PackedCodes

DEFAULT_K = 10
COLLECTION_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")
JSON_TYPE = "application/json"
NPY_TYPE = "application/x-npy"
_MAX_NPY_HEADER = 4096
_NPY_DTYPES = (np.dtype("f4"), np.dtype("f8"), np.dtype("u1"))
Mode = Literal["hamming", "asymmetric", "rescore"]
Included = Literal["payload", "code", "vector"]


# Long lists are checked by these functions rather than by pydantic, whose check of a whole list is one call that no
# other thread interrupts. They also turn vectors into arrays at once.


def _vectors(value: Any) -> Float32Array:
    if type(value) is not list or not value:
        raise ValueError("this must be a list of at least one vector")
    rows = [_vector(row, f"row {number}: ") for number, row in enumerate(value)]
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise ValueError(f"all vectors must have one length. Got {', '.join(map(str, sorted(lengths)[:5]))}")
    return np.stack(rows)


def _vector(value: Any, place: str = "") -> Float32Array:
    if type(value) is not list or not value or not set(map(type, value)) <= {int, float}:
        raise ValueError(f"{place}a vector must be a list of at least one number, and of nothing else")
    with np.errstate(over="ignore"):
        try:
            array = np.array(value, dtype=np.float32)
        except OverflowError:
            array = np.array([np.inf], dtype=np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"{place}the numbers of a vector must be finite as float32")
    return array


def _payloads(value: Any) -> list[dict[str, Any]]:
    if type(value) is not list or not value or not set(map(type, value)) <= {dict}:
        raise ValueError("this must be a list of at least one object")
    return value


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError('this must be an object such as {"price": 9.5}')
    return value


def _id(value: Any) -> int | str:
    if type(value) is int and 0 <= value < 2**63:
        return value
    if type(value) is str and 1 <= len(value) <= MAX_CHARACTERS:
        return value
    raise ValueError(f"an id is a whole number from 0 to 2^63 - 1, or a text of 1 to {MAX_CHARACTERS} characters")


_IDS = [
    {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    {"type": "string", "minLength": 1, "maxLength": MAX_CHARACTERS, "description": "where ids are texts or UUIDs"},
]
Id = Annotated[int | str, PlainValidator(_id), WithJsonSchema({"anyOf": _IDS})]
_NUMBERS = {"type": "array", "minItems": 1, "items": {"type": "number"}}
_OBJECT = {"type": "object", "additionalProperties": True}
Vector = Annotated[Any, PlainValidator(_vector), WithJsonSchema(_NUMBERS)]
Vectors = Annotated[Any, PlainValidator(_vectors), WithJsonSchema({"type": "array", "minItems": 1, "items": _NUMBERS})]
Payloads = Annotated[
    list[dict[str, Any]],
    PlainValidator(_payloads),
    WithJsonSchema({"type": "array", "minItems": 1, "items": _OBJECT}),
]
Object = Annotated[dict[str, Any], PlainValidator(_object), WithJsonSchema(_OBJECT)]

_CODE = "A packed code as hex or base64; bit 0 is the most significant bit of the first byte."
_TEXTS = "Texts that the collection's text model embeds."
_WARNINGS = "Only where a filter found nothing: one sentence per field of it that cannot match, with why."
_MERGE = "Replace only the fields that the new payload has; false replaces payloads whole."
EMPHASIS = "Codes of OpenHasher: how much labels count: alike, auto, label, or a number from 0 to 1."
OFFSET = "Leave out this many of the nearest hits: a later page."
_WHERE = 'A filter over payloads: {"color": "red", "year": {">=": 2020}}.'


def _complete(schema: dict[str, Any], model: type[RequestModel]) -> None:
    """Tell fields that are left out from those that are null, and which of the fields a body needs."""
    for name, field in schema.get("properties", {}).items():
        options = field.get("anyOf", [])
        if {"type": "null"} in options and len(options) == 2:
            rest = next(option for option in options if option != {"type": "null"})
            kept = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
            schema["properties"][name] = {**rest, **kept}
    for keyword, names in (("oneOf", model.one_of), ("anyOf", model.any_of)):
        if names:
            schema[keyword] = [{"required": [name]} for name in names]


class RequestModel(BaseModel):
    """A body that a client sends. Of the fields in ``one_of`` it must have exactly one, of ``any_of`` at least one."""

    model_config = ConfigDict(strict=True, extra="forbid", json_schema_extra=_complete)
    one_of: ClassVar[tuple[str, ...]] = ()
    any_of: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, members: dict[str, Any]) -> dict[str, Any]:
        for name, value in members.items():
            if value is None:
                raise ValueError(f"{str(name)[:60]!r} is null: leave it out instead")
        given = [name for name in cls.one_of if name in members]
        if cls.one_of and len(given) != 1:
            got = " and ".join(given) or "none of them"
            raise ValueError(f"give exactly one of {', '.join(cls.one_of)}; got {got}")
        if cls.any_of and not members.keys() & set(cls.any_of):
            raise ValueError(f"give at least one of {', '.join(cls.any_of)}")
        return members


Model = TypeVar("Model", bound=RequestModel)


class SearchRequest(RequestModel):
    """What to search for, how, and what to tell about the hits."""

    one_of = ("vectors", "ids", "codes", "texts")

    vectors: Vectors | None = Field(None, description="Rows that the collection's hasher encodes.")
    ids: list[Id] | None = Field(None, min_length=1, description="Items of the collection whose neighbors to find.")
    codes: list[str] | None = Field(None, min_length=1, description=_CODE)
    texts: list[str] | None = Field(None, min_length=1, description=_TEXTS)
    k: int | None = Field(None, ge=1, description="Hits per query, nearest first; 10 if there is no radius either.")
    radius: int | None = Field(None, ge=0, description="All hits at most this many bits away; k then cuts them off.")
    offset: int = Field(0, ge=0, description=OFFSET)
    mode: Mode = Field("hamming", description="asymmetric: by expected bits of the query; rescore: by kept vectors.")
    oversample: FiniteFloat = Field(DEFAULT_FACTOR, ge=1, description="rescore looks at this many times k candidates.")
    metric: Metric = Field("cosine", description="How rescore compares vectors.")
    where: Object | None = Field(None, description=_WHERE)
    emphasis: FiniteFloat | Literal["alike", "auto", "label"] | None = Field(None, description=EMPHASIS)
    include: list[Included] = Field(["payload"], max_length=3)
    exclude_self: bool = Field(True, description="With ids: leave an item out of its own hits.")

    @property
    def top_k(self) -> int:
        """How many rows to look for, those before the offset too."""
        return self.offset + (DEFAULT_K if self.k is None else self.k)


class HistogramRequest(RequestModel):
    """One query whose distances to all rows are counted."""

    one_of = ("vector", "id", "code")

    vector: Vector | None = None
    id: Id | None = None
    code: str | None = Field(None, description=_CODE)


class AddRequest(RequestModel):
    """Items to add, or to replace where the id exists."""

    any_of = ("vectors", "codes", "texts")

    vectors: Vectors | None = Field(None, description="Rows to encode; beside codes, rows to keep.")
    codes: list[str] | None = Field(None, min_length=1, description=_CODE)
    texts: list[str] | None = Field(None, min_length=1, description=f"{_TEXTS} Only payloads keep texts.")
    ids: list[Id] | None = Field(None, min_length=1, description="One per row. Texts must be given.")
    payload: Payloads | None = Field(None, description="One JSON object per row.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.texts is not None and not (self.vectors is None and self.codes is None):
            raise ValueError("give texts alone: vectors and codes are made from them")
        return self


class UpdateRequest(RequestModel):
    """New payloads for items that exist, or the same fields for all items whose payload matches."""

    one_of = ("ids", "where")

    ids: list[Id] | None = Field(None, min_length=1)
    where: Object | None = Field(None, description=_WHERE)
    payload: Payloads | Object = Field(description="One JSON object per id; with where, one object for all.")
    merge: bool = Field(True, description=_MERGE)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.ids is None) != isinstance(self.payload, dict):
            raise ValueError("payload must be a list of objects with ids, and one object with where")
        return self


class UpdateItemRequest(RequestModel):
    """A new payload for one item; its code and its vector stay."""

    payload: Object
    merge: bool = Field(True, description=_MERGE)


class CreateRequest(RequestModel):
    """A collection to make: for codes of ``bits`` bits, or with the hasher of a collection that is here."""

    one_of = ("n_bits", "hasher_of")

    name: str = Field(pattern=f"^{COLLECTION_NAME.pattern}$")
    n_bits: int | None = Field(None, ge=1, le=MAX_BITS, description="Length of codes that clients make themselves.")
    hasher_of: str | None = Field(None, description="A collection whose hasher to use, so that vectors can be added.")
    store_vectors: bool = Field(False, description="Keep the vectors of rows, for the mode rescore.")
    vector_size: int | None = Field(None, ge=1, le=2**20, description="Length of kept vectors that no hasher takes.")
    kind: Literal["flat", "ivf", "hnsw"] = "flat"
    indexed: list[str] = Field([], max_length=100, description="Fields of payloads that filters often ask for.")
    ids: IdKind = Field("int", description="The kind of ids.")


class DeleteRequest(RequestModel):
    """Items to delete: by their ids, or all whose payload matches."""

    one_of = ("ids", "where")

    ids: list[Id] | None = Field(None, min_length=1)
    where: Object | None = Field(None, description=_WHERE)


class Row(BaseModel):
    id: int | str | None = Field(None, description="Left out for a query that is no row.")
    code: str | None = None
    payload: dict[str, Any] | None = None
    vector: list[float] | None = None
    image: str | None = Field(None, description="The address of the picture.")


class Hit(Row):
    distance: float


class SearchResult(BaseModel):
    query: Row
    hits: list[Hit]
    found: int | None = Field(None, description="With a radius: how many rows are within, also those that k cut off.")
    skipped: int | None = Field(None, description="How many rows were not looked at; left out for none.")


class SearchResponse(BaseModel):
    mode: Mode
    n_bits: int
    took_ms: float
    warnings: list[str] | None = Field(None, description=_WARNINGS)
    results: list[SearchResult]


class Capabilities(BaseModel):
    vector: bool
    image: bool
    text: bool
    asymmetric: bool
    emphasis: bool
    rescore: bool
    write: bool
    drop: bool


class HasherInfo(BaseModel):
    method: str
    title: str
    n_features: int | None


class CollectionInfo(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str
    rows: int
    n_bits: int
    hasher: HasherInfo | None
    has_vectors: bool
    has_images: bool
    has_labels: bool
    label_field: str | None
    can: Capabilities
    kind: str
    ids: IdKind


class CollectionList(BaseModel):
    collections: list[CollectionInfo]
    bench: bool
    can_create: bool = Field(description="Whether a token that may write can make collections.")


class ItemPage(BaseModel):
    items: list[Row]
    next: int | str | None = Field(description="Give it as after= for the next page; null on the last one.")


class AddResponse(BaseModel):
    ids: list[int | str]
    count: int


class UpdateResponse(BaseModel):
    updated: int
    warnings: list[str] | None = Field(None, description=_WARNINGS)


class DeleteResponse(BaseModel):
    deleted: int
    warnings: list[str] | None = Field(None, description=_WARNINGS)


class DropResponse(BaseModel):
    dropped: str


class HistogramResponse(BaseModel):
    n_bits: int
    counts: list[int] = Field(description="Rows at the distances 0 to n_bits.")


class StatusResponse(BaseModel):
    status: str


class ErrorDetail(BaseModel):
    code: str
    message: str


class ErrorResponse(BaseModel):
    error: ErrorDetail


REQUESTS: tuple[type[RequestModel], ...] = (
    SearchRequest,
    HistogramRequest,
    AddRequest,
    UpdateRequest,
    UpdateItemRequest,
    DeleteRequest,
    CreateRequest,
)


def described(
    answer: type[BaseModel] | Sequence[str],
    *statuses: int,
    body: type[RequestModel] | Sequence[str] | None = None,
    writes: bool = False,
) -> dict[str, Any]:
    """Return what OpenAPI tells about a route: its answer, its errors, and the body that it reads itself.

    Parameters
    ----------
    answer : type of BaseModel, or list of str
        JSON, or the types of files of which the answer is one.
    *statuses : int
        Errors besides those that every route, every body and every change may have.
    body : type of RequestModel, or list of str
        Likewise; None where the route takes no body.
    writes : bool
        Whether the route needs a token that may write.
    """
    statuses = (400, 403, 404, 503, *statuses, *((401,) if writes else ()), *((408, 413, 415) if body else ()))
    file: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
    responses: dict[int, Any] = {status: {"model": ErrorResponse} for status in statuses}
    facts: dict[str, Any] = {"responses": responses}
    if writes:
        facts["dependencies"] = [Depends(require_writer)]
    if isinstance(answer, Sequence):
        facts["response_class"], responses[200] = Response, {"content": dict.fromkeys(answer, file)}
    else:
        facts["response_model"] = answer
    if body is not None:
        json = {} if isinstance(body, Sequence) else {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
        content = dict.fromkeys(body, file) if isinstance(body, Sequence) else {"application/json": json}
        facts["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    return facts


def body_of(*types: str) -> Any:
    """Return the dependency of a route whose body must be of one of these types: its bytes."""

    async def body(request: Request) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in types:
            raise ApiError(415, "wrong_type", f"The body must be {' or '.join(types)}. Got {kind[:60]!r} instead.")
        return await request.body()

    return Depends(body)


def parsed(model: type[RequestModel]) -> Any:
    """Return the dependency of a route that takes a JSON body. A thread for reading parses it, also for changes."""

    @reading
    def parse(service: ServiceDep, body: Annotated[bytes, body_of(JSON_TYPE)]) -> Any:
        return parse_request(model, body, service.limits)

    return Depends(parse)


def parse_request(model: type[Model], body: bytes, limits: Limits) -> Model:
    """Return a JSON body as its schema describes it."""
    try:
        return model.model_validate(read_json_object(body, max(limits.queries, limits.rows), limits.element_chars))
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False)) from None


def read_json_object(body: bytes, max_items: int, max_chars: int) -> dict[str, Any]:
    """Return the JSON object in ``body``, which must be UTF-8 and without NaN.

    An array directly in it may have ``max_items`` elements; each of them, and any other value directly in the object,
    ``max_chars`` bytes of JSON.
    """
    try:
        value = msgspec.json.decode(body)
    except UnicodeDecodeError:
        raise bad("bad_json", "The JSON is not UTF-8.") from None
    except RecursionError:
        raise bad("bad_json", "The JSON is nested too deep.") from None
    except (msgspec.MsgspecError, ValueError) as error:
        why = one_line(error).removeprefix("JSON is malformed: ")
        raise bad("bad_json", f"The body is no JSON: {why}.") from None
    if not isinstance(value, dict):
        raise bad("bad_json", "The body must be a JSON object.")
    for name, member in value.items():
        if isinstance(member, list) and len(member) > max_items:
            raise ApiError(413, "too_many", f"{name[:60]!r} may have at most {max_items:,} elements.")
        parts = member if isinstance(member, list) else [member]
        for number, part in enumerate(parts if len(body) > max_chars else ()):
            if len(msgspec.json.encode(part)) > max_chars:
                limit = f"A vector, a payload or a filter may have at most {max_chars:,} bytes of JSON"
                raise ApiError(413, "too_large", f"{limit}; number {number} of {name[:60]!r} has more.")
    return value


def parse_npy(body: bytes, max_rows: int) -> NDArray[Any]:
    """Return a 2-D array of floats or bytes from a .npy file. Nothing is unpickled, and the size must fit."""
    stream = io.BytesIO(body)
    try:
        version = npy.read_magic(stream)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran_order, dtype = read_header(stream, max_header_size=_MAX_NPY_HEADER)
    # A header is Python text that NumPy parses: hostile ones fail in many ways.
    except Exception as error:
        raise bad("bad_npy", "The body is no .npy file of version 1 or 2.") from error
    if dtype.hasobject or dtype.newbyteorder("=") not in _NPY_DTYPES:
        raise bad("bad_npy", f"The array must be float32, float64 or uint8. Got {str(dtype)[:60]} instead.")
    if len(shape) != 2 or min(shape) < 1:
        raise bad("bad_npy", f"The array must have the shape (rows, columns). Got {str(shape)[:60]} instead.")
    if shape[0] > max_rows:
        raise ApiError(413, "too_many", f"At most {max_rows:,} rows are taken at once. Got {shape[0]:,}.")
    start = stream.tell()
    if shape[0] * shape[1] * dtype.itemsize != len(body) - start:
        raise bad("bad_npy", f"The array says {shape[0]}×{shape[1]} and its bytes do not fit that.")
    values = np.frombuffer(body, dtype=dtype, offset=start)
    array = values.reshape(shape, order="F" if fortran_order else "C")
    return np.ascontiguousarray(array, dtype=dtype.newbyteorder("="))


def float_rows(rows: NDArray[Any], n_features: int) -> Float32Array:
    """Return finite float32 rows with ``n_features`` columns."""
    try:
        return checked_vectors(rows, n_features, "vectors")
    except ValueError as error:
        raise bad("bad_vector", one_line(error)) from None


def decode_codes(texts: Sequence[str], n_bits: int) -> PackedCodes:
    """Return packed codes from hex or base64.

    Their lengths tell them apart. For two and four bytes these are equal, and base64 then ends in "=".
    """
    size = n_bytes(n_bits)
    rows = []
    for number, text in enumerate(texts):
        try:
            is_hex = len(text) == 2 * size and not text.endswith("=")
            row = bytes.fromhex(text) if is_hex else base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            row = b""
        if len(row) != size:
            message = f"codes must be hex or base64 of {size} bytes ({n_bits} bits); number {number} is not."
            raise bad("bad_code", message)
        rows.append(row)
    return packed_codes(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), size), n_bits)


def packed_codes(codes: NDArray[np.uint8], n_bits: int) -> PackedCodes:
    """Return codes of the right width whose padding bits are zero."""
    try:
        return check_codes(codes, n_bits)
    except ValueError as error:
        raise bad("bad_code", one_line(error)) from None
