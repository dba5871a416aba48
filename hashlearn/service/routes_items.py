"""Items: looking at them, adding and deleting them, and their pictures."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from hashlearn.service import shapes
from hashlearn.service.bodies import NPY_TYPE, StrictRoute, checked_codes, float_rows, packed_codes, parse_npy
from hashlearn.service.errors import ApiError, bad, json_response, sentences
from hashlearn.service.opened import Opened
from hashlearn.service.pictures import LARGEST_SIDE
from hashlearn.service.routes_search import binary_body, check_type
from hashlearn.service.searching import item_shown
from hashlearn.service.security import writer
from hashlearn.service.service import Chosen, Here, Service
from hashlearn.service.settings import Limits

router = APIRouter(prefix="/api/v1/collections/{collection}", route_class=StrictRoute, tags=["items"])
ItemId = Annotated[int, Path(ge=0, le=2**63 - 1)]
_ALL = {"code", "payload", "vector"}
_PROBED = 64
_PICTURE = {"schema": {"type": "string", "format": "binary"}}


@router.get("/items", response_model=shapes.ItemsShown, responses=shapes.errors())
async def list_items(
    here: Here,
    opened: Chosen,
    limit: Annotated[int, Query(ge=1, le=Limits.page)] = 100,
    after: Annotated[int, Query(ge=-1, le=2**63 - 1, description="The largest id of the page before.")] = -1,
) -> Response:
    """Items by id, a page at a time."""
    return json_response(await here.workers.read(_page, opened, limit, after))


def _page(opened: Opened, limit: int, after: int) -> dict[str, Any]:
    with sentences():
        ids = opened.ids()
        start = int(np.searchsorted(ids, after, side="right"))
        items = [item for item in opened.collection.get(ids[start : start + limit], vectors=False) if item is not None]
    more = start + limit < len(ids)
    shown = [item_shown(opened, item, {"code", "payload"}) for item in items]
    return {"items": shown, "next": int(ids[start + limit - 1]) if more else None}


@router.get("/random", response_model=shapes.ItemShown, responses=shapes.errors())
async def random_item(here: Here, opened: Chosen) -> Response:
    """Any item, each as likely as the next."""
    return json_response(await here.workers.read(_random, opened))


def _random(opened: Opened) -> dict[str, Any]:
    rng = np.random.default_rng()
    with sentences():
        # Most collections use most numbers below the next one, so a few guesses find an item without listing all.
        bound = int(opened.collection.info().get("next_id") or 0)
        if bound:
            guesses = rng.integers(0, bound, _PROBED)
            item = next((item for item in opened.collection.get(guesses, vectors=True) if item is not None), None)
            if item is not None:
                return item_shown(opened, item, _ALL)
        ids = opened.ids()
        item = opened.collection.get(int(rng.choice(ids))) if len(ids) else None
    if item is None:
        raise ApiError(404, "empty", f"The collection {opened.name} is empty.")
    return item_shown(opened, item, _ALL)


@router.get("/items/{id}", response_model=shapes.ItemShown, responses=shapes.errors())
async def get_item(here: Here, opened: Chosen, id: ItemId) -> Response:
    """One item: its code (hex), its payload, and its vector where vectors are kept."""
    return json_response(await here.workers.read(_item, opened, id))


def _item(opened: Opened, number: int) -> dict[str, Any]:
    with sentences():
        item = opened.collection.get(number)
    if item is None:
        raise _no_item(opened, number)
    return item_shown(opened, item, _ALL)


def _no_item(opened: Opened, number: int) -> ApiError:
    return ApiError(404, "no_item", f"There is no item {number} in {opened.name}.")


@router.get(
    "/images/{id}",
    response_class=Response,
    responses={**shapes.errors(413), 200: {"content": dict.fromkeys(("image/png", "image/jpeg"), _PICTURE)}},
)
async def get_image(
    here: Here,
    opened: Chosen,
    id: ItemId,
    size: Annotated[int | None, Query(ge=1, le=LARGEST_SIDE, description="The most pixels either way.")] = None,
) -> Response:
    """The picture of an item."""
    data, kind = await here.workers.read(_picture, here, opened, id, size)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=300"})


def _picture(here: Service, opened: Opened, number: int, side: int | None) -> tuple[bytes, str]:
    with sentences():
        item = opened.collection.get(number, vectors=False)
    if item is None:
        raise _no_item(opened, number)
    name = None if opened.pictures is None else opened.pictures.name(number, item.payload)
    if name is None or opened.pictures is None:
        raise ApiError(404, "no_image", f"Item {number} of {opened.name} has no picture.")
    return opened.pictures.picture(name, side, here.decoder)


_writes: Any = {"dependencies": [Depends(writer)]}


def _writable(opened: Opened) -> Opened:
    if not opened.writable:
        raise ApiError(403, "read_only", f"The collection {opened.name} was opened to be read only.")
    return opened


@router.post("/items", response_model=shapes.AddedShown, responses=shapes.errors(401, 408, 413, 415), **_writes)
async def add_items(here: Here, opened: Chosen, asked: shapes.ItemsAsked) -> Response:
    """Add items, or replace those whose id exists. What is answered is on the disk. All are added, or none."""
    return json_response(await here.workers.write(_add, _writable(opened), asked, here.settings.limits))


def _add(opened: Opened, asked: shapes.ItemsAsked, limits: Limits) -> dict[str, Any]:
    _check_count(max(len(asked.vectors or ()), len(asked.codes or ())), limits)
    if asked.codes is not None:
        codes = packed_codes(asked.codes, opened.n_bits)
        kept = None if asked.vectors is None else float_rows(asked.vectors, opened.collection.vector_size)
        if kept is not None and opened.collection.vector_size is None:
            raise bad("bad_vector", f"The collection {opened.name} keeps no vectors: give codes alone.")
        return _added(opened, ids=asked.ids, payload=asked.payload, codes=codes, vectors=kept)
    rows = _rows(opened, asked.vectors)
    return _added(opened, rows, ids=asked.ids, payload=asked.payload)


def _rows(opened: Opened, vectors: Any) -> Any:
    if not opened.takes_vectors:
        raise bad("bad_vector", f"The collection {opened.name} takes no vectors: give codes.")
    return float_rows(vectors, opened.n_features)


def _added(opened: Opened, *rows: Any, **more: Any) -> dict[str, Any]:
    with sentences():
        ids = opened.collection.add(*rows, **more)
    return {"ids": ids.tolist(), "count": len(ids)}


def _check_count(count: int, limits: Limits) -> None:
    if count > limits.rows:
        raise ApiError(413, "too_many", f"At most {limits.rows:,} items are taken at once. Got {count:,}.")


@router.post(
    "/items.npy",
    response_model=shapes.AddedShown,
    responses=shapes.errors(401, 408, 413, 415),
    openapi_extra=binary_body(NPY_TYPE),
    **_writes,
)
async def add_npy(
    request: Request, here: Here, opened: Chosen, first_id: Annotated[int | None, Query(ge=0, le=2**62)] = None
) -> Response:
    """Add an .npy array of vectors (float32, float64) or packed codes (uint8), with ids that count on from first_id."""
    check_type(request, NPY_TYPE)
    body = await request.body()
    return json_response(await here.workers.write(_add_npy, _writable(opened), body, first_id, here.settings.limits))


def _add_npy(opened: Opened, body: bytes, first_id: int | None, limits: Limits) -> dict[str, Any]:
    array = parse_npy(body, limits.rows)
    ids = None if first_id is None else first_id + np.arange(len(array), dtype=np.int64)
    if array.dtype == np.uint8:
        return _added(opened, ids=ids, codes=checked_codes(array, opened.n_bits))
    return _added(opened, _rows(opened, array), ids=ids)


@router.delete("/items", response_model=shapes.DeletedShown, responses=shapes.errors(401, 408, 413, 415), **_writes)
async def delete_items(here: Here, opened: Chosen, asked: shapes.DeleteAsked) -> Response:
    """Delete items by their ids, or all whose payload matches a filter; ids that are not there do no harm."""
    _check_count(len(asked.ids or ()), here.settings.limits)
    return json_response(await here.workers.write(_delete, _writable(opened), asked.ids, asked.where))


@router.delete("/items/{id}", response_model=shapes.DeletedShown, responses=shapes.errors(401), **_writes)
async def delete_item(here: Here, opened: Chosen, id: ItemId) -> Response:
    """Delete one item."""
    answer = await here.workers.write(_delete, _writable(opened), [id], None)
    if not answer["deleted"]:
        raise _no_item(opened, id)
    return json_response(answer)


def _delete(opened: Opened, ids: list[int] | None, where: dict[str, Any] | None) -> dict[str, Any]:
    with sentences():
        return {"deleted": opened.collection.delete(ids, where=where)}
