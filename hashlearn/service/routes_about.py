"""Routes about the server and its collections: which there are, how they are, and whether all is well."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter, Response

from hashlearn.collection.health import Health
from hashlearn.service import schemas
from hashlearn.service.errors import ApiError, collection_errors, json_response, to_json
from hashlearn.service.metrics import CONTENT_TYPE
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.service import CollectionDep, Service, ServiceDep

router = APIRouter(tags=["about"])
_PRIVATE = ("uri", "host", "hasher")  # clients need not know where a collection lies; of the hasher there is more


@router.get("/healthz", response_model=schemas.StatusResponse)
async def health() -> Response:
    """Whether the process answers at all. Nothing is waited for."""
    return json_response(b'{"status":"ok"}')


@router.get("/readyz", response_model=schemas.StatusResponse, responses=schemas.error_responses())
async def readiness(service: ServiceDep) -> Response:
    """Whether every collection can be searched: each is, once."""
    if service.ready:
        with suppress(TimeoutError, ApiError):  # what failed is in the log
            await service.search_probe.result(service.limits.probe_seconds)
            return json_response(b'{"status":"ready"}')
    raise ApiError(503, "not_ready", "The collections are not ready to be searched.", {"Retry-After": "1"})


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(service: ServiceDep) -> Response:
    """Figures for Prometheus. Those of the collections are left out while their storage does not answer."""
    health: dict[str, Health] = {}
    with suppress(TimeoutError, ApiError):
        health = await service.health_probe.result(service.limits.probe_seconds)
    return Response(service.metrics.text(health), media_type=CONTENT_TYPE)


@router.get("/api/v1/collections", response_model=schemas.CollectionList, responses=schemas.error_responses())
async def list_collections(service: ServiceDep) -> Response:
    """All collections, and what can be done with each."""
    return json_response(await service.reads.run(_collection_list, service))


def _collection_list(service: Service) -> bytes:
    settings = service.settings
    with collection_errors():
        facts = [served.facts(settings.may_write) for served in list(service.collections.values())]
    can_create = settings.may_write and settings.create_in is not None
    return to_json({"collections": facts, "bench": settings.bench is not None, "can_create": can_create})


@router.get(
    "/api/v1/collections/{collection}", response_model=schemas.CollectionInfo, responses=schemas.error_responses()
)
async def get_collection(service: ServiceDep, served: CollectionDep) -> Response:
    """One collection, with what its storage tells about itself."""
    return json_response(await service.reads.run(_collection, service, served))


def _collection(service: Service, served: ServedCollection) -> bytes:
    with collection_errors():
        info = {name: value for name, value in served.collection.info().items() if name not in _PRIVATE}
        return to_json({**info, **served.facts(service.settings.may_write)})
