"""Routes that make collections and drop them."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from hashlearn.service import made_collections, schemas
from hashlearn.service.errors import json_response
from hashlearn.service.request_bodies import JSON_TYPE, parse_request, read_body
from hashlearn.service.security import require_writer
from hashlearn.service.service import CollectionDep, ServiceDep

router = APIRouter(prefix="/api/v1/collections", tags=["collections"], dependencies=[Depends(require_writer)])


@router.post(
    "",
    response_model=schemas.CollectionInfo,
    responses=schemas.error_responses(401, 408, 409, 413, 415),
    openapi_extra=schemas.json_body(schemas.CreateRequest),
)
async def create_collection(request: Request, service: ServiceDep) -> Response:
    """Make an empty collection in the folder of --create-in, for codes of n_bits or for another one's hasher."""
    body = await read_body(request, JSON_TYPE)
    asked = await service.reads.run(parse_request, schemas.CreateRequest, body, service.limits)
    return json_response(await service.writes.run(made_collections.create, service, asked))


@router.delete("/{collection}", response_model=schemas.DropResponse, responses=schemas.error_responses(401))
async def drop_collection(service: ServiceDep, served: CollectionDep) -> Response:
    """Remove a collection of the folder of --create-in and all its rows for good."""
    return json_response(await service.writes.run(made_collections.drop, service, served))
