"""Routes that show items and their pictures, add them, give them new payloads and delete them."""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from hashlearn.collection import NoSuchRowsError
from hashlearn.collection.ids import MAX_CHARACTERS, json_id
from hashlearn.service import schemas
from hashlearn.service.bodies import (
    JSON_TYPE,
    NPY_TYPE,
    decode_codes,
    float_rows,
    packed_codes,
    parse_npy,
    parse_request,
    read_body,
)
from hashlearn.service.errors import ApiError, bad, collection_errors, json_response, to_json
from hashlearn.service.images import LARGEST_SIDE
from hashlearn.service.middleware import require_writer
from hashlearn.service.routes_collections import check_there
from hashlearn.service.routes_search import item_facts
from hashlearn.service.served_collection import ServedCollection, id_in_address, ids_in_body, rows_of_texts
from hashlearn.service.service import CollectionDep, Service, ServiceDep
from hashlearn.service.settings import Limits

router = APIRouter(prefix="/api/v1/collections/{collection}", tags=["items"])
ItemId = Annotated[str, Path(min_length=1, max_length=MAX_CHARACTERS)]
_ALL_PARTS = {"code", "payload", "vector"}
_GUESSES = 64


@router.get("/items", **schemas.described(schemas.ItemPage))
async def list_items(
    service: ServiceDep,
    served: CollectionDep,
    limit: Annotated[int, Query(ge=1, le=Limits.page)] = 100,
    after: Annotated[
        str | None, Query(min_length=1, max_length=MAX_CHARACTERS, description="The largest id of the page before.")
    ] = None,
) -> Response:
    """Items by id, one page at a time."""
    last = None if after in (None, "-1") else id_in_address(served, str(after))
    return json_response(await service.reads.run(_page, served, limit, last))


def _page(served: ServedCollection, limit: int, last: Any) -> bytes:
    with collection_errors():
        ids = served.ids()
        start = 0 if last is None else bisect_right(ids, last)
        items = [item for item in served.collection.get(ids[start : start + limit], vectors=False) if item is not None]
    has_more = start + limit < len(ids)
    facts = [item_facts(served, item, {"code", "payload"}) for item in items]
    return to_json({"items": facts, "next": json_id(ids[start + limit - 1 :][:1].tolist()[0]) if has_more else None})


@router.get("/random", **schemas.described(schemas.ItemInfo))
async def random_item(service: ServiceDep, served: CollectionDep) -> Response:
    """Any item, each with the same probability."""
    return json_response(await service.reads.run(_random_item, served))


def _random_item(served: ServedCollection) -> bytes:
    rng = np.random.default_rng()
    item = None
    with collection_errors():
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
    return to_json(item_facts(served, item, _ALL_PARTS))


@router.get("/items/{id:path}", **schemas.described(schemas.ItemInfo))
async def get_item(service: ServiceDep, served: CollectionDep, id: ItemId) -> Response:
    """One item: its code (hex), its payload, and its vector where vectors are kept."""
    return json_response(await service.reads.run(_item, served, id_in_address(served, id)))


def _item(served: ServedCollection, id: Any) -> bytes:
    with collection_errors():
        item = served.collection.get(id)
    if item is None:
        raise no_item(served, id)
    return to_json(item_facts(served, item, _ALL_PARTS))


def no_item(served: ServedCollection, id: Any) -> ApiError:
    return ApiError(404, "no_item", f"There is no item {id} in {served.name}.")


@router.get("/images/{id:path}", **schemas.described(["image/png", "image/jpeg"]))
async def get_image(
    service: ServiceDep,
    served: CollectionDep,
    id: ItemId,
    size: Annotated[int | None, Query(ge=1, le=LARGEST_SIDE, description="The most pixels either way.")] = None,
) -> Response:
    """The picture of an item."""
    data, kind = await service.reads.run(_picture, service, served, id_in_address(served, id), size)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=300"})


def _picture(service: Service, served: ServedCollection, id: Any, side: int | None) -> tuple[bytes, str]:
    with collection_errors():
        item = served.collection.get(id, vectors=False)
    if item is None:
        raise no_item(served, id)
    name = None if served.pictures is None else served.pictures.name(id, item.payload)
    if name is None or served.pictures is None:
        raise ApiError(404, "no_image", f"Item {id} of {served.name} has no picture.")
    return served.pictures.picture(name, side, service.decoder)


_WRITER: Any = {"dependencies": [Depends(require_writer)]}

# A body is parsed in the threads for reading, so that the one thread that writes does nothing else.


@router.post("/items", **_WRITER, **schemas.described(schemas.AddResponse, 401, body=schemas.AddRequest))
async def add_items(request: Request, service: ServiceDep, served: CollectionDep) -> Response:
    """Add items, or replace those whose id exists. What is answered is on the disk. All are added, or none."""
    check_writable(served)
    body = await read_body(request, JSON_TYPE)
    rows = await service.reads.run(_rows_of_json, served, body, service.limits)
    return json_response(await service.writes.run(_add, service, served, rows))


def _rows_of_json(served: ServedCollection, body: bytes, limits: Limits) -> dict[str, Any]:
    """Return the arguments of ``Collection.add`` for a JSON body."""
    asked = parse_request(schemas.AddRequest, body, limits)
    check_count(max(len(part) for part in (asked.vectors, asked.codes, asked.texts) if part is not None), limits)
    ids = None if asked.ids is None else ids_in_body(served, asked.ids)
    rows: dict[str, Any] = {"ids": ids, "payload": asked.payload}
    if asked.texts is not None:
        return {**rows, "X": rows_of_texts(served, asked.texts, limits)}
    if asked.codes is None:
        return {**rows, "X": _encodable(served, asked.vectors)}
    rows["codes"] = decode_codes(asked.codes, served.n_bits)
    if asked.vectors is not None:
        if served.collection.vector_size is None:
            raise bad("bad_vector", f"The collection {served.name} keeps no vectors: give codes alone.")
        rows["vectors"] = float_rows(asked.vectors, served.collection.vector_size)
    return rows


def _encodable(served: ServedCollection, vectors: Any) -> Any:
    if served.n_features is None:
        raise bad("bad_vector", f"The collection {served.name} takes no vectors: give codes.")
    return float_rows(vectors, served.n_features)


def _add(service: Service, served: ServedCollection, rows: dict[str, Any]) -> bytes:
    check_there(service, served)
    with collection_errors():
        ids = served.collection.add(**rows)
    return to_json({"ids": [json_id(one) for one in ids.tolist()], "count": len(ids)})


@router.post("/items.npy", **_WRITER, **schemas.described(schemas.AddResponse, 401, body=[NPY_TYPE]))
async def add_npy(
    request: Request,
    service: ServiceDep,
    served: CollectionDep,
    first_id: Annotated[int | None, Query(ge=0, le=2**62)] = None,
) -> Response:
    """Add an .npy array of vectors (float32, float64) or packed codes (uint8), with ids that count on from first_id."""
    check_writable(served)
    body = await read_body(request, NPY_TYPE)
    rows = await service.reads.run(_rows_of_npy, served, body, first_id, service.limits)
    return json_response(await service.writes.run(_add, service, served, rows))


def _rows_of_npy(served: ServedCollection, body: bytes, first_id: int | None, limits: Limits) -> dict[str, Any]:
    """Return the arguments of ``Collection.add`` for a .npy file."""
    array = parse_npy(body, limits.rows)
    ids = None if first_id is None else first_id + np.arange(len(array), dtype=np.int64)
    if array.dtype == np.uint8:
        return {"ids": ids, "codes": packed_codes(array, served.n_bits)}
    return {"ids": ids, "X": _encodable(served, array)}


@router.patch("/items", **_WRITER, **schemas.described(schemas.UpdateResponse, 401, body=schemas.UpdateRequest))
async def update_items(request: Request, service: ServiceDep, served: CollectionDep) -> Response:
    """Give items new payloads; their codes and vectors stay. If one of the ids does not exist, nothing is changed."""
    check_writable(served)
    body = await read_body(request, JSON_TYPE)
    asked = await service.reads.run(parse_request, schemas.UpdateRequest, body, service.limits)
    if asked.where is not None:
        return json_response(await service.writes.run(_update_where, service, served, asked))
    check_count(len(asked.ids), service.limits)
    ids = ids_in_body(served, asked.ids)
    return json_response(await service.writes.run(_update, service, served, ids, asked.payload, asked.merge))


@router.patch(
    "/items/{id:path}", **_WRITER, **schemas.described(schemas.UpdateResponse, 401, body=schemas.UpdateItemRequest)
)
async def update_item(request: Request, service: ServiceDep, served: CollectionDep, id: ItemId) -> Response:
    """Give one item a new payload; its code and its vector stay."""
    check_writable(served)
    wanted = id_in_address(served, id)
    body = await read_body(request, JSON_TYPE)
    asked = await service.reads.run(parse_request, schemas.UpdateItemRequest, body, service.limits)
    return json_response(await service.writes.run(_update, service, served, [wanted], [asked.payload], asked.merge))


def _update(
    service: Service, served: ServedCollection, ids: list[Any], payload: list[dict[str, Any]], merge: bool
) -> bytes:
    check_there(service, served)
    with collection_errors():
        try:
            updated = served.collection.update_payload(ids, payload, merge=merge)
        except NoSuchRowsError as error:
            raise no_item(served, error.missing[0]) from error
    return to_json({"updated": updated})


def _update_where(service: Service, served: ServedCollection, asked: schemas.UpdateRequest) -> bytes:
    check_there(service, served)
    with collection_errors():
        check_count(served.collection.count(asked.where), service.limits)
        updated = served.collection.update_payload(where=asked.where, payload=asked.payload, merge=asked.merge)
    return to_json({"updated": updated, **served.filter_warnings(asked.where, updated > 0)})


@router.delete("/items", **_WRITER, **schemas.described(schemas.DeleteResponse, 401, body=schemas.DeleteRequest))
async def delete_items(request: Request, service: ServiceDep, served: CollectionDep) -> Response:
    """Delete items by their ids, or all whose payload matches a filter. Ids that do not exist do no harm."""
    check_writable(served)
    body = await read_body(request, JSON_TYPE)
    asked = await service.reads.run(parse_request, schemas.DeleteRequest, body, service.limits)
    check_count(len(asked.ids or ()), service.limits)
    ids = None if asked.ids is None else ids_in_body(served, asked.ids)
    deleted = await service.writes.run(_delete, service, served, ids, asked.where)
    told = await service.reads.run(served.filter_warnings, asked.where, deleted > 0)
    return json_response(to_json({"deleted": deleted, **told}))


@router.delete("/items/{id:path}", **_WRITER, **schemas.described(schemas.DeleteResponse, 401))
async def delete_item(service: ServiceDep, served: CollectionDep, id: ItemId) -> Response:
    """Delete one item."""
    check_writable(served)
    wanted = id_in_address(served, id)
    deleted = await service.writes.run(_delete, service, served, [wanted], None)
    if not deleted:
        raise no_item(served, wanted)
    return json_response(to_json({"deleted": deleted}))


def _delete(service: Service, served: ServedCollection, ids: list[Any] | None, where: dict[str, Any] | None) -> int:
    check_there(service, served)
    with collection_errors():
        return served.collection.delete(ids, where=where)


def check_writable(served: ServedCollection) -> None:
    """Refuse to change a collection that was opened to be read only."""
    if not served.writable:
        raise ApiError(403, "read_only", f"The collection {served.name} was opened to be read only.")


def check_count(count: int, limits: Limits) -> None:
    """Refuse more items than one request may name."""
    if count > limits.rows:
        raise ApiError(413, "too_many", f"At most {limits.rows:,} items are taken at once. Got {count:,}.")
