"""The JSON of answers about all rows of a collection, as OpenAPI describes it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


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
