"""The JSON of requests and answers, as OpenAPI describes it. Requests are read strictly: no text for a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PlainValidator, WithJsonSchema, model_validator

from hashlearn.codes import MAX_BITS
from hashlearn.collection.ids import MAX_CHARACTERS, IdKind
from hashlearn.collection.rescore import DEFAULT_FACTOR
from hashlearn.typing import Float32Array, Metric

DEFAULT_K = 10
COLLECTION_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")
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


def _filter(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError('a filter must be an object such as {"year": {">=": 2020}}')
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
Where = Annotated[dict[str, Any], PlainValidator(_filter), WithJsonSchema(_OBJECT)]

_CODE = "A packed code as hex or base64; bit 0 is the most significant bit of the first byte."
_TEXTS = "Texts that the collection's text model embeds."
_WARNINGS = "Only where a filter found nothing: one sentence per field of it that cannot match, with why."
_MERGE = "Replace only the fields that the new payload has; false replaces payloads whole."
EMPHASIS = "Codes of OpenHasher: how much labels count: alike, auto, label, or a number from 0 to 1."
OFFSET = "Leave out this many of the nearest hits: a later page."
_WHERE = 'A filter over payloads: {"color": "red", "year": {">=": 2020}}.'


def _needs(keyword: str, *names: str) -> Callable[[dict[str, Any]], None]:
    """Return the OpenAPI of a body that needs exactly one ("oneOf") or at least one ("anyOf") of these fields."""

    def complete(schema: dict[str, Any]) -> None:
        _forbid_null(schema)
        schema[keyword] = [{"required": [name]} for name in names]

    return complete


def _forbid_null(schema: dict[str, Any]) -> None:
    """Tell optional fields that are left out from those that are null."""
    for name, field in schema.get("properties", {}).items():
        options = field.get("anyOf", [])
        if {"type": "null"} in options and len(options) == 2:
            rest = next(option for option in options if option != {"type": "null"})
            kept = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
            schema["properties"][name] = {**rest, **kept}


def emphasis_in_address(text: str | None) -> str | float | None:
    """Return the emphasis that an address gives: a number if it is one."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


class RequestModel(BaseModel):
    """A body that a client sends. Of the fields in ``one_of`` it must have exactly one."""

    model_config = ConfigDict(strict=True, extra="forbid")
    one_of: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, members: dict[str, Any]) -> dict[str, Any]:
        for name, value in members.items():
            if value is None:
                raise ValueError(f"{str(name)[:60]!r} is null: leave it out instead")
        if cls.one_of:
            given = [name for name in cls.one_of if name in members]
            if len(given) != 1:
                got = " and ".join(given) or "none of them"
                raise ValueError(f"give exactly one of {', '.join(cls.one_of)}; got {got}")
        return members


class SearchRequest(RequestModel):
    """What to search for, how, and what to tell about the hits."""

    one_of = ("vectors", "ids", "codes", "texts")
    model_config = ConfigDict(json_schema_extra=_needs("oneOf", *one_of))

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
    where: Where | None = Field(None, description=_WHERE)
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
    model_config = ConfigDict(json_schema_extra=_needs("oneOf", *one_of))

    vector: Vector | None = None
    id: Id | None = None
    code: str | None = Field(None, description=_CODE)


class AddRequest(RequestModel):
    """Items to add, or to replace where the id exists."""

    model_config = ConfigDict(json_schema_extra=_needs("anyOf", "vectors", "codes", "texts"))

    vectors: Vectors | None = Field(None, description="Rows to encode; beside codes, rows to keep.")
    codes: list[str] | None = Field(None, min_length=1, description=_CODE)
    texts: list[str] | None = Field(None, min_length=1, description=f"{_TEXTS} Only payloads keep texts.")
    ids: list[Id] | None = Field(None, min_length=1, description="One per row. Texts must be given.")
    payload: Payloads | None = Field(None, description="One JSON object per row.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.vectors is None and self.codes is None and self.texts is None:
            raise ValueError("give vectors, codes or texts")
        if self.texts is not None and not (self.vectors is None and self.codes is None):
            raise ValueError("give texts alone: vectors and codes are made from them")
        return self


class UpdateRequest(RequestModel):
    """New payloads for items that exist, or the same fields for all items whose payload matches."""

    one_of = ("ids", "where")
    model_config = ConfigDict(json_schema_extra=_needs("oneOf", *one_of))

    ids: list[Id] | None = Field(None, min_length=1)
    where: Where | None = Field(None, description=_WHERE)
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
    model_config = ConfigDict(json_schema_extra=_needs("oneOf", *one_of))

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
    model_config = ConfigDict(json_schema_extra=_needs("oneOf", *one_of))

    ids: list[Id] | None = Field(None, min_length=1)
    where: Where | None = Field(None, description=_WHERE)


class Hit(BaseModel):
    id: int | str
    distance: float
    code: str | None = None
    payload: dict[str, Any] | None = None
    vector: list[float] | None = None
    image: str | None = None


class QueryInfo(BaseModel):
    code: str
    id: int | str | None = None
    payload: dict[str, Any] | None = None
    image: str | None = None


class SearchResult(BaseModel):
    query: QueryInfo
    hits: list[Hit]
    found: int | None = Field(None, description="With a radius: how many rows are within, also those that k cut off.")


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


class ItemInfo(BaseModel):
    id: int | str
    code: str
    payload: dict[str, Any]
    vector: list[float] | None = None
    image: str | None = None


class ItemPage(BaseModel):
    items: list[ItemInfo]
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
) -> dict[str, Any]:
    """Return what OpenAPI tells about a route: its answer, its errors, and the body that it reads itself.

    Parameters
    ----------
    answer : type of BaseModel, or list of str
        JSON, or the types of files of which the answer is one.
    *statuses : int
        Errors besides those that every route and every body may have.
    body : type of RequestModel, or list of str
        Likewise; None where the route takes no body.
    """
    if body is not None:
        statuses = (*statuses, 408, 413, 415)
    file: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
    responses: dict[int, Any] = {status: {"model": ErrorResponse} for status in (400, 403, 404, 503, *statuses)}
    facts: dict[str, Any] = {"responses": responses}
    if isinstance(answer, Sequence):
        facts["response_class"], responses[200] = Response, {"content": dict.fromkeys(answer, file)}
    else:
        facts["response_model"] = answer
    if body is not None:
        json = {} if isinstance(body, Sequence) else {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
        content = dict.fromkeys(body, file) if isinstance(body, Sequence) else {"application/json": json}
        facts["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    return facts


class StatisticsResponse(BaseModel):
    rows: int
    n_bits: int
    bytes: int | None
    code_bytes: int
    sampled: int = Field(description="Rows, drawn at random, that the figures about bits come from.")
    ones: list[float] = Field(description="Share of ones of every bit; 0.5 is balanced.")
    largest_correlation: float | None = Field(description="Between two different bits, without its sign.")
    distinct_codes: int = Field(description="Among the sampled rows.")


class FieldInfo(BaseModel):
    name: str = Field(description="As filters name it: names joined by dots.")
    path: list[str]
    rows: int = Field(description="Sampled rows that have the field.")
    kinds: list[str] = Field(description="Of text, number, truth, null, list and object.")
    characters: float = Field(description="Mean length of its texts.")
    distinct: int = Field(description="Different values, counted up to 2,000; of a list, those of its elements.")
    values: list[Any] = Field(description="The most frequent values, at most 20.")
    lowest: float | None
    highest: float | None


class FieldsResponse(BaseModel):
    sampled: int = Field(description="Rows, drawn at random, that were looked at.")
    fields: list[FieldInfo]


class MapLandmark(BaseModel):
    code: str = Field(description="Hexadecimal.")
    x: float
    y: float


class MapResponse(BaseModel):
    rows: int
    shown: int = Field(description="Rows on the map: all, or 100,000 drawn at random.")
    trust: float | None = Field(description="Trustworthiness of the map, from 0 to 1; null for fewer than 21 rows.")
    landmarks: list[MapLandmark] = Field(
        description="Codes that place any other code: at the mean of the 3 landmarks with the fewest differing bits, "
        "weighted by exp(-bits) and, among equally near ones, taken in their order."
    )
    labels: list[str] = Field(description="The most frequent first.")
    ids: list[int | str]
    x: list[float]
    y: list[float]
    label: list[int] = Field(description="Per row the place of its first label in labels; -1 for none of them.")


class ConfusionCell(BaseModel):
    share: float
    id: int | str | None = Field(description="A row of this label whose nearest rows show it.")


class ConfusedWith(BaseModel):
    label: str
    share: float
    id: int | str = Field(description="A row whose nearest rows show it.")


class ConfusionResponse(BaseModel):
    k: int = Field(description="Nearest rows that were looked at per sampled row.")
    sampled: int = Field(description="Rows with labels, drawn at random.")
    all_labels: int
    own_share: float | None = Field(description="Of all nearest rows, those that have the label of the row.")
    labels: list[str] = Field(description="The most frequent first; of more than 20, those with the most misses.")
    rows: list[list[ConfusionCell]] = Field(
        description="Per label one cell per label, and a last one for other labels and rows without any."
    )
    most_confused: list[ConfusedWith | None] = Field(
        description="Per listed label the one, of all labels, that its nearest rows have most often instead of it."
    )
