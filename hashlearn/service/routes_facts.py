"""About the server and its collections: which there are, how they are, and whether all is well."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from hashlearn.service import figures, shapes
from hashlearn.service.errors import ApiError, json_response, sentences
from hashlearn.service.metrics import CONTENT_TYPE
from hashlearn.service.opened import Opened
from hashlearn.service.service import Chosen, Here, Service

router = APIRouter(tags=["about"])
_LOOK_SECONDS = 5.0
_PRIVATE = ("uri", "host", "hasher")  # where a collection lies is nobody's business


@router.get("/healthz", response_model=shapes.Status)
async def health() -> Response:
    """Whether the process answers at all. Nothing is waited for."""
    return json_response({"status": "ok"})


@router.get("/readyz", response_model=shapes.Status, responses=shapes.errors())
async def readiness(here: Here) -> Response:
    """Whether every collection can be searched."""
    if here.ready:
        try:
            await asyncio.wait_for(here.workers.read(_look, here), _LOOK_SECONDS)
        except (TimeoutError, ApiError):
            pass
        else:
            return json_response({"status": "ready"})
    raise ApiError(503, "not_ready", "The collections are not ready to be searched.", {"Retry-After": "1"})


def _look(here: Service) -> dict[str, int]:
    with sentences():
        return here.rows()


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, 503: {"model": shapes.ErrorShown}},
)
async def metrics(here: Here) -> Response:
    """Counts for Prometheus."""
    rows = await here.workers.read(_look, here)
    return Response(here.metrics.text(rows), media_type=CONTENT_TYPE)


@router.get("/api/v1/collections", response_model=shapes.CollectionsShown, responses=shapes.errors())
async def list_collections(here: Here) -> Response:
    """All collections, and what can be done with each."""
    return json_response(await here.workers.read(_collections, here))


def _collections(here: Service) -> dict[str, Any]:
    with sentences():
        facts = [opened.facts(here.may_write) for opened in here.collections.values()]
        return {"collections": facts, "bench": here.settings.bench is not None}


@router.get("/api/v1/collections/{collection}", response_model=shapes.CollectionShown, responses=shapes.errors())
async def get_collection(here: Here, opened: Chosen) -> Response:
    """One collection, with what its storage tells about itself."""
    return json_response(await here.workers.read(_collection, here, opened))


def _collection(here: Service, opened: Opened) -> dict[str, Any]:
    with sentences():
        # Where it lies on the server is nobody's business.
        info = {
            name: value for name, value in opened.collection.info().items() if name not in ("uri", "hasher", "host")
        }
        return {**info, **opened.facts(here.may_write)}


@router.get("/api/v1/collections/{collection}/stats", response_model=shapes.StatsShown, responses=shapes.errors())
async def get_stats(here: Here, opened: Chosen) -> Response:
    """Rows, bytes, and how balanced and how independent the bits are."""
    return json_response(await here.workers.read(figures.stats, opened))
