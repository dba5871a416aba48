"""Searching: by JSON, by .npy, by a picture; and how far away everything is."""

from __future__ import annotations

import io
import time
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Query, Request, Response
from numpy.typing import NDArray

from hashlearn.collection.rescore import DEFAULT_FACTOR
from hashlearn.service import figures, searching, shapes
from hashlearn.service.bodies import NPY_TYPE, StrictRoute, packed_codes, parse_json, parse_npy
from hashlearn.service.errors import ApiError, bad, json_response
from hashlearn.service.opened import Opened
from hashlearn.service.searching import How
from hashlearn.service.service import Chosen, Here

NPZ_TYPE = "application/x-npz"
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")

router = APIRouter(prefix="/api/v1/collections/{collection}", route_class=StrictRoute, tags=["search"])


def _filter(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    where = parse_json(text.encode("utf-8", "replace"))
    if not isinstance(where, dict):
        raise bad("bad_filter", 'where must be a JSON object such as {"year": {">=": 2020}}.')
    return where


def how_asked(
    k: Annotated[int | None, Query(ge=1, description="Hits a query; 10 when there is no radius either.")] = None,
    radius: Annotated[int | None, Query(ge=0, description="All hits at most this many bits away.")] = None,
    mode: shapes.Mode = "hamming",
    oversample: Annotated[float, Query(ge=1, allow_inf_nan=False)] = DEFAULT_FACTOR,
    metric: shapes.Metric = "cosine",
    where: Annotated[str | None, Query(description="A filter as JSON text.")] = None,
) -> How:
    """How to search, from the query part of the address: for bodies that are not JSON."""
    return How(k, radius, mode, oversample, metric, _filter(where))


Asked = Annotated[How, Depends(how_asked)]


def binary_body(*kinds: str) -> dict[str, Any]:
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


def check_type(request: Request, *kinds: str) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise ApiError(415, "wrong_type", f"The body must be {' or '.join(kinds)}. Got {kind[:60]!r} instead.")


@router.post("/search", response_model=shapes.SearchAnswer, responses=shapes.errors(408, 413, 415))
async def search(here: Here, opened: Chosen, asked: shapes.SearchAsked) -> Response:
    """Find the nearest items of vectors, of stored items, or of codes."""
    answer = await here.workers.read(searching.answer, opened, asked, here.settings.limits)
    return json_response(answer)


@router.post(
    "/search.npy",
    response_class=Response,
    responses={
        **shapes.errors(408, 413, 415),
        200: {
            "description": "ids and distances",
            "content": {NPZ_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        },
    },
    openapi_extra=binary_body(NPY_TYPE),
)
async def search_npy(
    request: Request,
    here: Here,
    opened: Chosen,
    how: Asked,
) -> Response:
    """A batch: an .npy array of vectors (float32, float64) or packed codes (uint8); the answer is an .npz.

    It holds ids and distances (queries, k), with -1 in empty places; with a radius, lims, ids and distances.
    """
    check_type(request, NPY_TYPE)
    body = await request.body()
    return Response(await here.workers.read(_npz, here, opened, body, how), media_type=NPZ_TYPE)


def _npz(here: Here, opened: Opened, body: bytes, how: How) -> bytes:
    limits = here.settings.limits
    arrays = searching.answer_npy(opened, parse_npy(body, limits.queries), how, limits)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


@router.post(
    "/search/image",
    response_model=shapes.SearchAnswer,
    responses=shapes.errors(408, 413, 415),
    openapi_extra=binary_body(*IMAGE_TYPES),
)
async def search_image(
    request: Request,
    here: Here,
    opened: Chosen,
    how: Asked,
    include: Annotated[str, Query(description="payload, code, vector: joined by commas.")] = "payload",
) -> Response:
    """Find the nearest items of an uploaded picture (PNG, JPEG or WebP)."""
    check_type(request, *IMAGE_TYPES)
    if opened.features is None:
        message = f"The collection {opened.name} cannot be searched by a picture: its hasher takes other features."
        raise bad("no_images", message)
    wanted = {name for name in include.split(",") if name}
    if wanted - {"payload", "code", "vector"}:
        raise bad("bad_request", "include may name payload, code and vector, joined by commas.")
    body = await request.body()
    return json_response(await here.workers.read(_by_picture, here, opened, body, how, wanted))


def _by_picture(here: Here, opened: Opened, body: bytes, how: How, include: set[str]) -> dict[str, Any]:
    started, limits = time.perf_counter(), here.settings.limits
    how.check(1, limits.k, limits.hits_json, limits)
    assert opened.features is not None
    queries = searching.from_rows(opened, opened.features.row(body, here.decoder))
    return searching.shown(opened, queries, how, include, False, limits, started)


@router.get("/histogram", response_model=shapes.HistogramShown, responses=shapes.errors())
async def histogram_of_item(here: Here, opened: Chosen, id: Annotated[shapes.Id, Query()]) -> Response:
    """How many items lie at every distance from a stored one, itself included."""
    return json_response(await here.workers.read(_histogram, opened, shapes.HistogramAsked.model_validate({"id": id})))


@router.post("/histogram", response_model=shapes.HistogramShown, responses=shapes.errors(408, 413, 415))
async def histogram(here: Here, opened: Chosen, asked: shapes.HistogramAsked) -> Response:
    """How many items lie at every distance from a vector, an item or a code."""
    return json_response(await here.workers.read(_histogram, opened, asked))


def _histogram(opened: Opened, asked: shapes.HistogramAsked) -> dict[str, Any]:
    codes: NDArray[np.uint8]
    if asked.vector is not None:
        codes = searching.from_vectors(opened, [asked.vector]).codes
    elif asked.id is not None:
        codes = searching.from_ids(opened, [asked.id], False).codes
    else:
        codes = packed_codes([asked.code or ""], opened.n_bits)
    return figures.histogram(opened, codes[0])
