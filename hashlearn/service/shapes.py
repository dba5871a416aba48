"""The JSON of requests and answers, as OpenAPI describes it. Requests are read strictly: no text for a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from hashlearn.collection.rescore import DEFAULT_FACTOR

Id = Annotated[int, Field(ge=0, le=2**63 - 1)]
Vector = list[FiniteFloat]
Mode = Literal["hamming", "asymmetric", "rescore"]
Metric = Literal["cosine", "euclidean", "dot"]
Where = dict[str, Any]

_CODE = "A packed code as hex or base64; bit 0 is the most significant bit of the first byte."
_WHERE = 'A filter over payloads: {"colour": "red", "year": {">=": 2020}}.'


def _needs(keyword: str, *names: str) -> Callable[[dict[str, Any]], None]:
    """OpenAPI of a body that needs one ("oneOf") or some ("anyOf") of these fields."""

    def complete(schema: dict[str, Any]) -> None:
        _forbid_null(schema)
        schema[keyword] = [{"required": [name]} for name in names]

    return complete


def _forbid_null(schema: dict[str, Any]) -> None:
    """Optional fields may be left out, which is not the same as null."""
    for name, field in schema.get("properties", {}).items():
        options = field.get("anyOf", [])
        if {"type": "null"} in options and len(options) == 2:
            rest = next(option for option in options if option != {"type": "null"})
            kept = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
            schema["properties"][name] = {**rest, **kept}


class _Asked(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, given: Any) -> Any:
        if isinstance(given, dict):
            empty = [name for name, value in given.items() if value is None]
            if empty:
                raise ValueError(f"{str(empty[0])[:60]!r} is null: leave it out instead")
        return given


def _exactly_one(asked: BaseModel, *names: str) -> None:
    given = [name for name in names if getattr(asked, name) is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none of them"
        raise ValueError(f"give exactly one of {', '.join(names)}; got {got}")


class SearchAsked(_Asked):
    """What to search for, how, and what to tell about the hits."""

    model_config = ConfigDict(json_schema_extra=_needs("oneOf", "vectors", "ids", "codes"))

    vectors: list[Vector] | None = Field(None, min_length=1, description="Rows that the collection's hasher encodes.")
    ids: list[Id] | None = Field(None, min_length=1, description="Items of the collection whose neighbours to find.")
    codes: list[str] | None = Field(None, min_length=1, description=_CODE)
    k: int | None = Field(None, ge=1, description="Hits a query, nearest first; 10 when there is no radius either.")
    radius: int | None = Field(None, ge=0, description="All hits at most this many bits away; k then cuts them off.")
    mode: Mode = Field("hamming", description="asymmetric: by real-valued projections; rescore: by kept vectors.")
    oversample: FiniteFloat = Field(DEFAULT_FACTOR, ge=1, description="rescore looks at this many times k candidates.")
    metric: Metric = Field("cosine", description="How rescore compares vectors.")
    where: Where | None = Field(None, description=_WHERE)
    include: list[Literal["payload", "code", "vector"]] = Field(["payload"], max_length=3)
    exclude_self: bool = Field(True, description="Leave the asked item out of its own hits.")

    @model_validator(mode="after")
    def _one_kind(self) -> SearchAsked:
        _exactly_one(self, "vectors", "ids", "codes")
        if self.radius is not None and self.mode != "hamming":
            raise ValueError(f"a radius counts bits, so its mode is hamming; got {self.mode}")
        return self


class HistogramAsked(_Asked):
    """One query whose distances to all rows are counted."""

    model_config = ConfigDict(json_schema_extra=_needs("oneOf", "vector", "id", "code"))

    vector: Vector | None = None
    id: Id | None = None
    code: str | None = Field(None, description=_CODE)

    @model_validator(mode="after")
    def _one_kind(self) -> HistogramAsked:
        _exactly_one(self, "vector", "id", "code")
        return self


class ItemsAsked(_Asked):
    """Items to add, or to replace where the id exists."""

    model_config = ConfigDict(json_schema_extra=_needs("anyOf", "vectors", "codes"))

    vectors: list[Vector] | None = Field(None, min_length=1, description="Rows to encode; beside codes, rows to keep.")
    codes: list[str] | None = Field(None, min_length=1, description=_CODE)
    ids: list[Id] | None = Field(None, min_length=1, description="One a row; without them they count on.")
    payload: list[dict[str, Any]] | None = Field(None, min_length=1, description="One JSON object a row.")

    @model_validator(mode="after")
    def _some(self) -> ItemsAsked:
        if self.vectors is None and self.codes is None:
            raise ValueError("give vectors or codes")
        return self


class DeleteAsked(_Asked):
    """Items to delete: by their ids, or all whose payload matches."""

    model_config = ConfigDict(json_schema_extra=_needs("oneOf", "ids", "where"))

    ids: list[Id] | None = Field(None, min_length=1)
    where: Where | None = Field(None, min_length=1, description=_WHERE)

    @model_validator(mode="after")
    def _one_kind(self) -> DeleteAsked:
        _exactly_one(self, "ids", "where")
        return self


class Hit(BaseModel):
    id: int
    distance: float
    code: str | None = None
    payload: dict[str, Any] | None = None
    vector: list[float] | None = None
    image: str | None = None


class QueryShown(BaseModel):
    code: str
    id: int | None = None
    payload: dict[str, Any] | None = None
    image: str | None = None


class Result(BaseModel):
    query: QueryShown
    hits: list[Hit]
    found: int | None = Field(None, description="With a radius: how many rows are within, also those that k cut off.")


class SearchAnswer(BaseModel):
    mode: Mode
    n_bits: int
    took_ms: float
    results: list[Result]


class Can(BaseModel):
    vector: bool
    image: bool
    asymmetric: bool
    rescore: bool
    write: bool


class HasherShown(BaseModel):
    method: str
    title: str
    n_features: int | None


class CollectionShown(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str
    rows: int
    n_bits: int
    hasher: HasherShown | None
    has_vectors: bool
    has_images: bool
    has_labels: bool
    label_field: str | None
    can: Can
    kind: str


class CollectionsShown(BaseModel):
    collections: list[CollectionShown]
    bench: bool


class ItemShown(BaseModel):
    id: int
    code: str
    payload: dict[str, Any]
    vector: list[float] | None = None
    image: str | None = None


class ItemsShown(BaseModel):
    items: list[ItemShown]
    next: int | None = Field(description="Give it as after= for the next page; null on the last one.")


class AddedShown(BaseModel):
    ids: list[int]
    count: int


class DeletedShown(BaseModel):
    deleted: int


class HistogramShown(BaseModel):
    n_bits: int
    counts: list[int] = Field(description="Rows at the distances 0 to n_bits.")


class StatsShown(BaseModel):
    rows: int
    n_bits: int
    bytes: int | None
    code_bytes: int
    sampled: int = Field(description="Rows, drawn at random, that the figures about bits come from.")
    ones: list[float] = Field(description="Share of ones of every bit; 0.5 is balanced.")
    largest_correlation: float | None = Field(description="Of two different bits, without its sign.")
    distinct_codes: int = Field(description="Among the sampled rows.")


class Status(BaseModel):
    status: str


class ErrorFacts(BaseModel):
    code: str
    message: str


class ErrorShown(BaseModel):
    error: ErrorFacts


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors a route may answer with, for OpenAPI."""
    return {status: {"model": ErrorShown} for status in (400, 403, 404, 503, *statuses)}
