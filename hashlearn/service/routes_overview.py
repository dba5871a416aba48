"""Routes about all rows of a collection at once: fields, statistics, the map, and labels that are confused."""

from __future__ import annotations

from fastapi import APIRouter, Response

from hashlearn.service import overview_schemas, schemas, statistics
from hashlearn.service.code_map import map_of
from hashlearn.service.confusion import confusion_of
from hashlearn.service.errors import json_response, to_json
from hashlearn.service.fields import known_fields
from hashlearn.service.service import CollectionDep, ServiceDep

router = APIRouter(prefix="/api/v1/collections/{collection}", tags=["overview"])


@router.get("/stats", response_model=overview_schemas.StatisticsResponse, responses=schemas.error_responses())
async def get_statistics(service: ServiceDep, served: CollectionDep) -> Response:
    """Rows, bytes, and how balanced and how independent the bits are."""
    return json_response(to_json(await service.reads.run(statistics.bit_statistics, served)))


@router.get("/fields", response_model=overview_schemas.FieldsResponse, responses=schemas.error_responses())
async def get_fields(service: ServiceDep, served: CollectionDep) -> Response:
    """The fields of the payloads, from a sample: their kinds, and values that filters can ask for."""
    return json_response(await service.kept(served).answer(known_fields, service.reads))


@router.get("/map", response_model=overview_schemas.MapResponse, responses=schemas.error_responses())
async def get_map(service: ServiceDep, served: CollectionDep) -> Response:
    """A place in two dimensions for every row, rows with similar codes together; at most 100,000 rows, drawn at random.

    It is computed once, and again when the collection has changed.
    """
    return json_response(await service.kept(served).answer(map_of, service.reads))


@router.get("/confusion", response_model=overview_schemas.ConfusionResponse, responses=schemas.error_responses())
async def get_confusion(service: ServiceDep, served: CollectionDep) -> Response:
    """For every label, which labels the nearest rows of its rows have; from a sample of 1,000 rows."""
    return json_response(await service.kept(served).answer(confusion_of, service.reads))
