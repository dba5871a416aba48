"""Routes that show items, and their pictures."""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Response

from hashlearn.collection.id_kinds import MAX_CHARACTERS, json_id
from hashlearn.service import schemas
from hashlearn.service.errors import ApiError, collection_errors, json_response, to_json
from hashlearn.service.item_ids import id_in_address
from hashlearn.service.pictures import LARGEST_SIDE
from hashlearn.service.search import item_facts
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.service import CollectionDep, Service, ServiceDep
from hashlearn.service.settings import Limits

router = APIRouter(prefix="/api/v1/collections/{collection}", tags=["items"])
ItemId = Annotated[str, Path(min_length=1, max_length=MAX_CHARACTERS)]
_ALL_PARTS = {"code", "payload", "vector"}
_GUESSES = 64
_PICTURE = {"schema": {"type": "string", "format": "binary"}}


@router.get("/items", response_model=schemas.ItemPage, responses=schemas.error_responses())
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


@router.get("/random", response_model=schemas.ItemInfo, responses=schemas.error_responses())
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


@router.get("/items/{id:path}", response_model=schemas.ItemInfo, responses=schemas.error_responses())
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


@router.get(
    "/images/{id:path}",
    response_class=Response,
    responses={
        **schemas.error_responses(),
        200: {"content": dict.fromkeys(("image/png", "image/jpeg"), _PICTURE)},
    },
)
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
