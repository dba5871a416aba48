"""Routes about the server and its collections: readiness, figures, lists, making and dropping."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, Request, Response

from hashlearn.collection import Collection
from hashlearn.collection.health import Health
from hashlearn.collection.stores.embedded.database import FILE
from hashlearn.files.arrays import FileError
from hashlearn.service import schemas
from hashlearn.service.bodies import JSON_TYPE, parse_request, read_body
from hashlearn.service.errors import ApiError, bad, collection_errors, json_response, to_json
from hashlearn.service.metrics import CONTENT_TYPE
from hashlearn.service.middleware import require_writer
from hashlearn.service.schemas import CreateRequest
from hashlearn.service.served_collection import ServedCollection, open_collection
from hashlearn.service.service import CollectionDep, Service, ServiceDep


def open_made(folder: Path) -> list[ServedCollection]:
    """Open the collections that are in the folder already, which is made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = sorted(path.parent for path in folder.glob(f"*/{FILE}"))
    except OSError as error:
        raise FileError(f"{folder} cannot hold collections: {error.strerror or error}.") from error
    opened: list[ServedCollection] = []
    try:
        for path in paths:
            opened.append(open_collection(str(path), path.name))
            opened[-1].droppable = True
    except BaseException:
        for served in opened:
            served.collection.close()
        raise
    return opened


def create(service: Service, asked: CreateRequest) -> bytes:
    """Make a collection and serve it. Only the one thread that writes may call this."""
    folder = check_may_create(service, asked.name)
    with collection_errors():
        collection = Collection.create(
            folder / asked.name,
            _hasher(service, asked.hasher_of),
            n_bits=asked.n_bits,
            store_vectors=asked.store_vectors,
            vector_size=asked.vector_size,
            kind=asked.kind,
            indexed=asked.indexed,
            ids=asked.ids,
        )
    served = ServedCollection(asked.name, collection)
    if asked.hasher_of is not None:
        served.texts = service.collections[asked.hasher_of].texts
    add_served(service, served)
    with collection_errors():
        return to_json(served.facts(service.settings.may_write))


def check_may_create(service: Service, name: str) -> Path:
    """Return the folder for collections of clients, if another one of this name may be made there."""
    folder = service.settings.create_in
    if folder is None:
        message = "Creating collections is off: start the server with --create-in FOLDER."
        raise ApiError(403, "no_creating", message)
    if name in service.collections or (folder / name).exists():
        raise ApiError(409, "exists", f"There is a collection or a folder {name!r} already: take another name.")
    if len(service.collections) >= service.limits.collections:
        message = f"At most {service.limits.collections} collections are served: drop one first."
        raise ApiError(413, "too_many", message)
    return folder


def add_served(service: Service, served: ServedCollection) -> None:
    """Serve a collection that was just made."""
    served.droppable = True
    service.follow_hasher(served)
    service.collections[served.name] = served


def _hasher(service: Service, name: str | None) -> Any:
    if name is None:
        return None
    other = service.collections.get(name)
    if other is None:
        raise ApiError(404, "no_collection", f"There is no collection {name[:64]!r} here whose hasher to take.")
    if other.hasher is None:
        raise bad("bad_request", f"The collection {name} has no hasher: give n_bits instead of hasher_of.")
    return other.hasher


def drop(service: Service, served: ServedCollection) -> bytes:
    """Serve a collection no longer, and remove it for good. Only the one thread that writes may call this."""
    folder = service.settings.create_in
    if folder is None or not served.droppable:
        message = f"The collection {served.name} lies outside of --create-in FOLDER, so only its owner can drop it."
        raise ApiError(403, "not_droppable", message)
    check_there(service, served)
    service.forget(served)
    with collection_errors():
        served.collection.close()
        Collection.drop(folder / served.name)
    return to_json({"dropped": served.name})


def check_there(service: Service, served: ServedCollection) -> None:
    """Refuse to write to a collection that was dropped while the request waited for its turn."""
    if service.collections.get(served.name) is not served:
        raise ApiError(404, "no_collection", f"There is no collection {served.name!r} here any more.")


router = APIRouter()
_PRIVATE = ("uri", "host", "hasher")  # clients need not know where a collection lies; of the hasher there is more


@router.get("/healthz", tags=["about"], response_model=schemas.StatusResponse)
async def health() -> Response:
    """Whether the process answers at all. Nothing is waited for."""
    return json_response(b'{"status":"ok"}')


@router.get("/readyz", tags=["about"], **schemas.described(schemas.StatusResponse))
async def readiness(service: ServiceDep) -> Response:
    """Whether every collection can be searched: each is, once."""
    if service.ready:
        with suppress(TimeoutError, ApiError):  # what failed is in the log
            await service.search_probe.result(service.limits.probe_seconds)
            return json_response(b'{"status":"ready"}')
    raise ApiError(503, "not_ready", "The collections are not ready to be searched.", {"Retry-After": "1"})


@router.get(
    "/metrics",
    tags=["about"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(service: ServiceDep) -> Response:
    """Figures for Prometheus. Those of the collections are left out while their storage does not answer."""
    health: dict[str, Health] = {}
    with suppress(TimeoutError, ApiError):
        health = await service.health_probe.result(service.limits.probe_seconds)
    return Response(service.metrics.text(health), media_type=CONTENT_TYPE)


@router.get("/api/v1/collections", tags=["about"], **schemas.described(schemas.CollectionList))
async def list_collections(service: ServiceDep) -> Response:
    """All collections, and what can be done with each."""
    return json_response(await service.reads.run(_collection_list, service))


def _collection_list(service: Service) -> bytes:
    settings = service.settings
    with collection_errors():
        facts = [served.facts(settings.may_write) for served in list(service.collections.values())]
    can_create = settings.may_write and settings.create_in is not None
    return to_json({"collections": facts, "bench": settings.bench is not None, "can_create": can_create})


@router.get("/api/v1/collections/{collection}", tags=["about"], **schemas.described(schemas.CollectionInfo))
async def get_collection(service: ServiceDep, served: CollectionDep) -> Response:
    """One collection, with what its storage tells about itself."""
    return json_response(await service.reads.run(_collection, service, served))


def _collection(service: Service, served: ServedCollection) -> bytes:
    with collection_errors():
        info = {name: value for name, value in served.collection.info().items() if name not in _PRIVATE}
        return to_json({**info, **served.facts(service.settings.may_write)})


_WRITER: Any = {"tags": ["collections"], "dependencies": [Depends(require_writer)]}


@router.post(
    "/api/v1/collections", **_WRITER, **schemas.described(schemas.CollectionInfo, 401, 409, body=schemas.CreateRequest)
)
async def create_collection(request: Request, service: ServiceDep) -> Response:
    """Make an empty collection in the folder of --create-in, for codes of n_bits or for another one's hasher."""
    body = await read_body(request, JSON_TYPE)
    asked = await service.reads.run(parse_request, schemas.CreateRequest, body, service.limits)
    return json_response(await service.writes.run(create, service, asked))


@router.delete("/api/v1/collections/{collection}", **_WRITER, **schemas.described(schemas.DropResponse, 401))
async def drop_collection(service: ServiceDep, served: CollectionDep) -> Response:
    """Remove a collection of the folder of --create-in and all its rows for good."""
    return json_response(await service.writes.run(drop, service, served))
