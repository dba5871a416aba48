"""Routes that search: by JSON, by .npy, by a picture; and how far away all rows are."""

from __future__ import annotations

import io
import time
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Query, Request, Response

from hashlearn.collection.id_kinds import MAX_CHARACTERS, json_id
from hashlearn.collection.rescore import DEFAULT_FACTOR
from hashlearn.service import schemas, statistics
from hashlearn.service.errors import bad, collection_errors, json_response, to_json
from hashlearn.service.item_ids import id_in_address
from hashlearn.service.json_reader import read_json_object
from hashlearn.service.request_bodies import JSON_TYPE, NPY_TYPE, decode_codes, parse_request, read_body
from hashlearn.service.search import (
    Queries,
    SearchOptions,
    answer,
    queries_from_ids,
    queries_from_vectors,
    search_json,
    search_npy,
)
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.service import CollectionDep, Service, ServiceDep
from hashlearn.service.settings import Limits
from hashlearn.typing import Metric

NPZ_TYPE = "application/x-npz"
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")
_FILTER_CHARS = 64 * 1024  # as much as the server takes of an address

router = APIRouter(prefix="/api/v1/collections/{collection}", tags=["search"])


def options_in_address(
    k: Annotated[int | None, Query(ge=1, description="Hits per query; 10 if there is no radius either.")] = None,
    radius: Annotated[int | None, Query(ge=0, description="All hits at most this many bits away.")] = None,
    mode: schemas.Mode = "hamming",
    oversample: Annotated[float, Query(ge=1, allow_inf_nan=False)] = DEFAULT_FACTOR,
    metric: Metric = "cosine",
    where: Annotated[str | None, Query(description="A filter as JSON text.")] = None,
) -> SearchOptions:
    """How to search, from the query part of the address: for bodies that are not JSON."""
    condition = None
    if where is not None:
        condition = read_json_object(where.encode("utf-8", "replace"), _FILTER_CHARS, _FILTER_CHARS)
    return SearchOptions(k, radius, mode, oversample, metric, condition)


OptionsDep = Annotated[SearchOptions, Depends(options_in_address)]


@router.post(
    "/search",
    response_model=schemas.SearchResponse,
    responses=schemas.error_responses(408, 413, 415),
    openapi_extra=schemas.json_body(schemas.SearchRequest),
)
async def search(request: Request, service: ServiceDep, served: CollectionDep) -> Response:
    """Find the nearest items of vectors, of stored items, of codes, or of texts."""
    body = await read_body(request, JSON_TYPE)
    return json_response(await service.reads.run(search_json, served, body, service.limits))


@router.post(
    "/search.npy",
    response_class=Response,
    responses={
        **schemas.error_responses(408, 413, 415),
        200: {
            "description": "ids and distances",
            "content": {NPZ_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        },
    },
    openapi_extra=schemas.binary_body(NPY_TYPE),
)
async def search_by_npy(request: Request, service: ServiceDep, served: CollectionDep, options: OptionsDep) -> Response:
    """A batch: an .npy array of vectors (float32, float64) or packed codes (uint8); the answer is an .npz.

    It holds ids and distances (queries, k), with -1 in empty places; with a radius, lims, ids and distances. If
    there are warnings, it holds them as texts, as in the answer to a JSON search.
    """
    body = await read_body(request, NPY_TYPE)
    return Response(await service.reads.run(_npz, served, body, options, service.limits), media_type=NPZ_TYPE)


def _npz(served: ServedCollection, body: bytes, options: SearchOptions, limits: Limits) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **search_npy(served, body, options, limits))  # type: ignore[arg-type]
    return stream.getvalue()


@router.post(
    "/search/image",
    response_model=schemas.SearchResponse,
    responses=schemas.error_responses(408, 413, 415),
    openapi_extra=schemas.binary_body(*IMAGE_TYPES),
)
async def search_by_image(
    request: Request,
    service: ServiceDep,
    served: CollectionDep,
    options: OptionsDep,
    include: Annotated[str, Query(description="payload, code, vector: joined by commas.")] = "payload",
) -> Response:
    """Find the nearest items of an uploaded picture (PNG, JPEG or WebP)."""
    included = {name for name in include.split(",") if name}
    if included - {"payload", "code", "vector"}:
        raise bad("bad_request", "include may name payload, code and vector, joined by commas.")
    body = await read_body(request, *IMAGE_TYPES)
    return json_response(await service.reads.run(_search_image, service, served, body, options, included))


def _search_image(
    service: Service, served: ServedCollection, body: bytes, options: SearchOptions, include: set[str]
) -> bytes:
    started, limits = time.perf_counter(), service.limits
    if served.features is None:
        message = f"The collection {served.name} cannot be searched by a picture: its hasher takes other features."
        raise bad("no_images", message)
    options.check(1, limits.k, limits.hits_json, limits)
    row = served.features.row(body, service.decoder)
    with collection_errors():
        queries = Queries(served.collection.encode_queries(row), row)
    return answer(served, queries, options, include, False, limits, started)


@router.get("/histogram", response_model=schemas.HistogramResponse, responses=schemas.error_responses())
async def histogram_of_item(
    service: ServiceDep, served: CollectionDep, id: Annotated[str, Query(min_length=1, max_length=MAX_CHARACTERS)]
) -> Response:
    """How many items lie at every distance from a stored one, itself included."""
    return json_response(
        await service.reads.run(_histogram, served, to_json({"id": json_id(id_in_address(served, id))}), service.limits)
    )


@router.post(
    "/histogram",
    response_model=schemas.HistogramResponse,
    responses=schemas.error_responses(408, 413, 415),
    openapi_extra=schemas.json_body(schemas.HistogramRequest),
)
async def histogram(request: Request, service: ServiceDep, served: CollectionDep) -> Response:
    """How many items lie at every distance from a vector, an item or a code."""
    body = await read_body(request, JSON_TYPE)
    return json_response(await service.reads.run(_histogram, served, body, service.limits))


def _histogram(served: ServedCollection, body: bytes, limits: Limits) -> bytes:
    asked: Any = parse_request(schemas.HistogramRequest, body, limits)
    if asked.vector is not None:
        codes = queries_from_vectors(served, asked.vector[None]).codes
    elif asked.id is not None:
        codes = queries_from_ids(served, [asked.id], needs_vectors=False).codes
    else:
        codes = decode_codes([asked.code], served.n_bits)
    return to_json(statistics.distance_histogram(served, codes[0]))
