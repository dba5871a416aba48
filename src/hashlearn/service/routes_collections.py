"""Routes about the server, its collections and their items: show, make, change and drop them."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Query, Response
from fastapi import Path as PathPart

from hashlearn.collection import Collection, NoSuchRowsError
from hashlearn.collection.health import Health
from hashlearn.collection.ids import MAX_CHARACTERS, json_id
from hashlearn.collection.stores.embedded.database import FILE
from hashlearn.files.arrays import FileError
from hashlearn.service import schemas
from hashlearn.service.errors import ApiError, bad, json_response
from hashlearn.service.images import LARGEST_SIDE
from hashlearn.service.routes_search import item_facts
from hashlearn.service.schemas import (
    NPY_TYPE,
    AddRequest,
    CreateRequest,
    DeleteRequest,
    UpdateItemRequest,
    UpdateRequest,
    body_of,
    described,
    parsed,
)
from hashlearn.service.served_collection import ServedCollection, open_collection
from hashlearn.service.service import CollectionDep, Service, ServiceDep, WritableDep, reading, writing
from hashlearn.service.settings import Limits

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PRIVATE = ("uri", "host", "hasher")  # clients need not know where a collection lies; of the hasher there is more
ItemId = Annotated[str, PathPart(min_length=1, max_length=MAX_CHARACTERS)]
_ALL_PARTS = {"code", "payload", "vector"}
_GUESSES = 64
_METRICS: dict[str, Any] = {"content": {"text/plain": {"schema": {"type": "string"}}}}

router = APIRouter()
items = APIRouter(prefix="/api/v1/collections/{collection}", tags=["items"])


@router.get("/healthz", tags=["about"], response_model=schemas.StatusResponse)
async def health() -> Response:
    """Whether the process answers at all. Nothing is waited for."""
    return json_response({"status": "ok"})


@router.get("/readyz", tags=["about"], **described(schemas.StatusResponse))
async def readiness(service: ServiceDep) -> Response:
    """Whether every collection can be searched: each is, once."""
    if service.ready:
        with suppress(TimeoutError, ApiError):  # what failed is in the log
            await service.probe(service.search_all)
            return json_response({"status": "ready"})
    raise ApiError(503, "not_ready", "The collections are not ready to be searched.", {"Retry-After": "1"})


@router.get("/metrics", tags=["about"], response_class=Response, responses={200: _METRICS})
async def metrics(service: ServiceDep) -> Response:
    """Figures for Prometheus. Those of the collections are left out while their storage does not answer."""
    health: dict[str, Health] = {}
    with suppress(TimeoutError, ApiError):
        health = await service.probe(service.all_health)
    return Response(service.metrics.text(health), media_type=METRICS_TYPE)


@router.get("/api/v1/collections", tags=["about"], **described(schemas.CollectionList))
@reading
def list_collections(service: ServiceDep) -> Response:
    """All collections, and what can be done with each."""
    settings = service.settings
    facts = [served.facts(settings.may_write) for served in list(service.collections.values())]
    can_create = settings.may_write and settings.create_in is not None
    return json_response({"collections": facts, "bench": settings.bench is not None, "can_create": can_create})


@router.get("/api/v1/collections/{collection}", tags=["about"], **described(schemas.CollectionInfo))
@reading
def get_collection(service: ServiceDep, served: CollectionDep) -> Response:
    """One collection, with what its storage tells about itself."""
    info = {name: value for name, value in served.collection.info().items() if name not in _PRIVATE}
    return json_response({**info, **served.facts(service.settings.may_write)})


@router.post(
    "/api/v1/collections",
    tags=["collections"],
    **described(schemas.CollectionInfo, 409, body=CreateRequest, writes=True),
)
@writing
def create_collection(service: ServiceDep, asked: Annotated[CreateRequest, parsed(CreateRequest)]) -> Response:
    """Make an empty collection in the folder of --create-in, for codes of n_bits or for another one's hasher."""
    folder = check_may_create(service, asked.name)
    other = None if asked.hasher_of is None else service.collections.get(asked.hasher_of)
    if other is None and asked.hasher_of is not None:
        name = asked.hasher_of[:64]
        raise ApiError(404, "no_collection", f"There is no collection {name!r} here whose hasher to take.")
    if other is not None and other.hasher is None:
        raise bad("bad_request", f"The collection {other.name} has no hasher: give n_bits instead of hasher_of.")
    collection = Collection.create(
        folder / asked.name,
        None if other is None else other.hasher,
        n_bits=asked.n_bits,
        store_vectors=asked.store_vectors,
        vector_size=asked.vector_size,
        kind=asked.kind,
        indexed=asked.indexed,
        ids=asked.ids,
    )
    served = ServedCollection(asked.name, collection)
    served.texts = None if other is None else other.texts
    add_served(service, served)
    return json_response(served.facts(service.settings.may_write))


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


@router.delete("/api/v1/collections/{collection}", tags=["collections"], **described(schemas.DropResponse, writes=True))
@writing
def drop_collection(service: ServiceDep, served: CollectionDep) -> Response:
    """Remove a collection of the folder of --create-in and all its rows for good."""
    folder = service.settings.create_in
    if folder is None or not served.droppable:
        message = f"The collection {served.name} lies outside of --create-in FOLDER, so only its owner can drop it."
        raise ApiError(403, "not_droppable", message)
    service.forget(served)
    served.collection.close()
    Collection.drop(folder / served.name)
    return json_response({"dropped": served.name})


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


@items.get("/items", **described(schemas.ItemPage))
@reading
def list_items(
    service: ServiceDep,
    served: CollectionDep,
    limit: Annotated[int, Query(ge=1, le=Limits.page)] = 100,
    after: Annotated[
        str | None, Query(min_length=1, max_length=MAX_CHARACTERS, description="The largest id of the page before.")
    ] = None,
) -> Response:
    """Items by id, one page at a time."""
    ids = served.ids()
    start = 0 if after in (None, "-1") else bisect_right(ids, served.id_in_address(str(after)))
    page = ids[start : start + limit]
    items = [item for item in served.collection.get(page, vectors=False) if item is not None]
    facts = [item_facts(served, item, {"code", "payload"}) for item in items]
    has_more = start + limit < len(ids)
    return json_response({"items": facts, "next": json_id(page[-1:].tolist()[0]) if has_more else None})


@items.get("/random", **described(schemas.Row))
@reading
def random_item(service: ServiceDep, served: CollectionDep) -> Response:
    """Any item, each with the same probability."""
    rng = np.random.default_rng()
    item = None
    # Most collections use most numbers below the next id, so a few guesses find an item without listing all ids.
    numbered = served.collection.id_kind == "int"
    bound = int(served.collection.info().get("next_id") or 0) if numbered else 0
    if bound:
        guesses = served.collection.get(rng.integers(0, bound, _GUESSES), vectors=True)
        item = next((guess for guess in guesses if guess is not None), None)
    if item is None and len(ids := served.ids()):
        place = int(rng.integers(len(ids)))
        (item,) = served.collection.get(ids[place : place + 1])
    if item is None:
        raise ApiError(404, "empty", f"The collection {served.name} is empty.")
    return json_response(item_facts(served, item, _ALL_PARTS))


@items.get("/items/{id:path}", **described(schemas.Row))
@reading
def get_item(service: ServiceDep, served: CollectionDep, id: ItemId) -> Response:
    """One item: its code (hex), its payload, and its vector where vectors are kept."""
    item = served.collection.get(served.id_in_address(id))
    if item is None:
        raise _no_item(served, id)
    return json_response(item_facts(served, item, _ALL_PARTS))


def _no_item(served: ServedCollection, id: Any) -> ApiError:
    return ApiError(404, "no_item", f"There is no item {id} in {served.name}.")


@items.get("/images/{id:path}", **described(["image/png", "image/jpeg"]))
@reading
def get_image(
    service: ServiceDep,
    served: CollectionDep,
    id: ItemId,
    size: Annotated[int | None, Query(ge=1, le=LARGEST_SIDE, description="The most pixels either way.")] = None,
) -> Response:
    """The picture of an item."""
    wanted = served.id_in_address(id)
    item = served.collection.get(wanted, vectors=False)
    if item is None:
        raise _no_item(served, id)
    name = None if served.pictures is None else served.pictures.name(wanted, item.payload)
    if name is None or served.pictures is None:
        raise ApiError(404, "no_image", f"Item {id} of {served.name} has no picture.")
    data, kind = served.pictures.picture(name, size, service.decoder)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=300"})


# A body is parsed in the threads for reading, so that the one thread that writes does nothing else.


@reading
def rows_of_json(
    service: ServiceDep, served: WritableDep, asked: Annotated[AddRequest, parsed(AddRequest)]
) -> dict[str, Any]:
    """Return the arguments of ``Collection.add`` for a JSON body."""
    limits = service.limits
    check_count(max(len(part) for part in (asked.vectors, asked.codes, asked.texts) if part is not None), limits)
    ids = None if asked.ids is None else served.ids_in_body(asked.ids)
    rows: dict[str, Any] = {"ids": ids, "payload": asked.payload}
    if asked.texts is not None:
        return {**rows, "X": served.rows_of_texts(asked.texts, limits)}
    if asked.codes is None:
        return {**rows, "X": _encodable(served, asked.vectors)}
    rows["codes"] = schemas.decode_codes(asked.codes, served.n_bits)
    if asked.vectors is not None:
        if served.collection.vector_size is None:
            raise bad("bad_vector", f"The collection {served.name} keeps no vectors: give codes alone.")
        rows["vectors"] = schemas.float_rows(asked.vectors, served.collection.vector_size)
    return rows


@reading
def rows_of_npy(
    service: ServiceDep,
    served: WritableDep,
    body: Annotated[bytes, body_of(NPY_TYPE)],
    first_id: Annotated[int | None, Query(ge=0, le=2**62)] = None,
) -> dict[str, Any]:
    """Return the arguments of ``Collection.add`` for a .npy file."""
    array = schemas.parse_npy(body, service.limits.rows)
    ids = None if first_id is None else first_id + np.arange(len(array), dtype=np.int64)
    if array.dtype == np.uint8:
        return {"ids": ids, "codes": schemas.packed_codes(array, served.n_bits)}
    return {"ids": ids, "X": _encodable(served, array)}


def _encodable(served: ServedCollection, vectors: Any) -> Any:
    if served.n_features is None:
        raise bad("bad_vector", f"The collection {served.name} takes no vectors: give codes.")
    return schemas.float_rows(vectors, served.n_features)


def check_count(count: int, limits: Limits) -> None:
    """Refuse more items than one request may name."""
    if count > limits.rows:
        raise ApiError(413, "too_many", f"At most {limits.rows:,} items are taken at once. Got {count:,}.")


@items.post("/items", **described(schemas.AddResponse, body=AddRequest, writes=True))
@writing
def add_items(
    service: ServiceDep, served: WritableDep, rows: Annotated[dict[str, Any], Depends(rows_of_json)]
) -> Response:
    """Add items, or replace those whose id exists. What is answered is on the disk. All are added, or none."""
    return _added(served, rows)


@items.post("/items.npy", **described(schemas.AddResponse, body=[NPY_TYPE], writes=True))
@writing
def add_npy(
    service: ServiceDep, served: WritableDep, rows: Annotated[dict[str, Any], Depends(rows_of_npy)]
) -> Response:
    """Add an .npy array of vectors (float32, float64) or packed codes (uint8), with ids that count on from first_id."""
    return _added(served, rows)


def _added(served: ServedCollection, rows: dict[str, Any]) -> Response:
    ids = served.collection.add(**rows)
    return json_response({"ids": [json_id(one) for one in ids.tolist()], "count": len(ids)})


@items.patch("/items", **described(schemas.UpdateResponse, body=UpdateRequest, writes=True))
@writing
def update_items(
    service: ServiceDep, served: WritableDep, asked: Annotated[UpdateRequest, parsed(UpdateRequest)]
) -> Response:
    """Give items new payloads; their codes and vectors stay. If one of the ids does not exist, nothing is changed."""
    if asked.where is None:
        return _updated(service, served, asked.ids or [], asked.payload, asked.merge)
    check_count(served.collection.count(asked.where), service.limits)
    updated = served.collection.update_payload(where=asked.where, payload=asked.payload, merge=asked.merge)
    return json_response({"updated": updated, **served.filter_warnings(asked.where, updated > 0)})


@items.patch("/items/{id:path}", **described(schemas.UpdateResponse, body=UpdateItemRequest, writes=True))
@writing
def update_item(
    service: ServiceDep, served: WritableDep, id: ItemId, asked: Annotated[UpdateItemRequest, parsed(UpdateItemRequest)]
) -> Response:
    """Give one item a new payload; its code and its vector stay."""
    return _updated(service, served, [served.id_in_address(id)], [asked.payload], asked.merge)


def _updated(service: ServiceDep, served: ServedCollection, ids: list[Any], payload: Any, merge: bool) -> Response:
    check_count(len(ids), service.limits)
    try:
        updated = served.collection.update_payload(served.ids_in_body(ids), payload, merge=merge)
    except NoSuchRowsError as error:
        raise _no_item(served, error.missing[0]) from error
    return json_response({"updated": updated})


@items.delete("/items", **described(schemas.DeleteResponse, body=DeleteRequest, writes=True))
@writing
def delete_items(
    service: ServiceDep, served: WritableDep, asked: Annotated[DeleteRequest, parsed(DeleteRequest)]
) -> Response:
    """Delete items by their ids, or all whose payload matches a filter. Ids that do not exist do no harm."""
    check_count(len(asked.ids or ()), service.limits)
    ids = None if asked.ids is None else served.ids_in_body(asked.ids)
    deleted = served.collection.delete(ids, where=asked.where)
    return json_response({"deleted": deleted, **served.filter_warnings(asked.where, deleted > 0)})


@items.delete("/items/{id:path}", **described(schemas.DeleteResponse, writes=True))
@writing
def delete_item(service: ServiceDep, served: WritableDep, id: ItemId) -> Response:
    """Delete one item."""
    deleted = served.collection.delete([served.id_in_address(id)])
    if not deleted:
        raise _no_item(served, id)
    return json_response({"deleted": deleted})
