"""Searches: by JSON, by .npy, by a picture; and how far away all rows are."""

from __future__ import annotations

import io
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Depends, Query, Response
from numpy.typing import NDArray

from hashlearn.collection import Item
from hashlearn.collection.ids import MAX_CHARACTERS, json_id
from hashlearn.collection.rescore import DEFAULT_FACTOR
from hashlearn.collection.store import Include
from hashlearn.index import Hit, Hits, RangeHits
from hashlearn.service import schemas
from hashlearn.service.errors import ApiError, bad, json_response, to_json
from hashlearn.service.schemas import JSON_TYPE, NPY_TYPE, SearchRequest, body_of, described
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.service import CollectionDep, ServiceDep, reading
from hashlearn.service.settings import Limits
from hashlearn.typing import Metric, PackedCodes

NPZ_TYPE = "application/x-npz"
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")
_FILTER_CHARS = 64 * 1024  # as much as the server takes of an address
_ROWS_AT_ONCE = 2_000_000  # that the queries of one step of a radius search may find

router = APIRouter(prefix="/api/v1/collections/{collection}", tags=["search"])


@dataclass(frozen=True)
class Queries:
    """Codes to search for; the vectors they come from, where known; the stored items they are, for a search by ids."""

    codes: PackedCodes
    vectors: NDArray[Any] | None = None
    items: list[Item] | None = None


@router.post("/search", **described(schemas.SearchResponse, body=SearchRequest))
@reading
def search(service: ServiceDep, served: CollectionDep, body: Annotated[bytes, body_of(JSON_TYPE)]) -> Response:
    """Find the nearest items of vectors, of stored items, of codes, or of texts."""
    started, limits = time.perf_counter(), service.limits
    asked = schemas.parse_request(SearchRequest, body, limits)
    given = (asked.vectors, asked.ids, asked.codes, asked.texts)
    n_queries = next(len(part) for part in given if part is not None)
    check_options(asked, n_queries, limits.k, limits.hits_json, limits)
    if asked.vectors is not None:
        queries = queries_from_vectors(served, asked.vectors)
    elif asked.ids is not None:
        queries = queries_from_ids(served, asked.ids, asked.mode != "hamming")
    elif asked.texts is not None:
        queries = queries_from_vectors(served, served.rows_of_texts(asked.texts, limits))
    else:
        queries = Queries(schemas.decode_codes(asked.codes or (), served.n_bits))
    return answer(served, queries, asked, limits, started)


def check_options(options: SearchRequest, n_queries: int, max_k: int, max_hits: int, limits: Limits) -> None:
    """Refuse what asks for too much."""
    if n_queries > limits.queries:
        raise ApiError(413, "too_many", f"At most {limits.queries:,} queries are taken at once. Got {n_queries:,}.")
    if options.radius is not None and options.mode != "hamming":
        raise bad("bad_request", f"A radius counts bits, so its mode is hamming. Got {options.mode}.")
    if options.radius is not None and options.offset:
        raise bad("bad_request", f"An offset goes with k, not with a radius. Got offset={options.offset}.")
    if options.top_k > max_k:
        raise bad("bad_k", f"k and offset may be at most {max_k:,} together here. Got {options.top_k}.")
    if options.oversample > limits.oversample:
        raise bad("bad_request", f"oversample may be at most {limits.oversample:g}. Got {options.oversample:g}.")
    candidates = options.top_k * (options.oversample if options.mode == "rescore" else 1)
    if n_queries * options.top_k > max_hits or n_queries * candidates > limits.hits_npy:
        message = f"{n_queries:,} queries with k={options.top_k:,} find too much at once: at most {max_hits:,} hits."
        raise ApiError(413, "too_many", message)


def queries_from_vectors(served: ServedCollection, vectors: NDArray[Any]) -> Queries:
    """Return the codes of rows that a client sent."""
    if served.n_features is None:
        why = "has no hasher: search by codes or ids" if served.hasher is None else "takes pictures, not vectors"
        raise bad("bad_vector", f"The collection {served.name} {why}.")
    rows = schemas.float_rows(vectors, served.n_features)
    return Queries(served.collection.encode_queries(rows), rows)


def queries_from_ids(served: ServedCollection, ids: Sequence[int | str], needs_vectors: bool) -> Queries:
    """Return the codes of stored items, with their vectors where the collection keeps such as its hasher takes."""
    with_vectors = needs_vectors and served.collection.vector_size == served.n_features
    wanted = served.ids_in_body(ids)
    items = served.collection.get(wanted, vectors=with_vectors)
    missing = [one for one, item in zip(wanted, items, strict=True) if item is None]
    if missing:
        raise ApiError(404, "no_item", f"There is no item {json_id(missing[0])!r} in {served.name}.")
    vectors = np.stack([item.vector for item in items]) if with_vectors and items[0].vector is not None else None
    return Queries(np.stack([item.code for item in items]), vectors, items)


def answer(
    served: ServedCollection, queries: Queries, options: SearchRequest, limits: Limits, started: float
) -> Response:
    """Search, and tell as JSON what the client asked to know about the hits."""
    include: set[str] = set(options.include)
    results, found_any = [], False
    for number, (hits, facts) in enumerate(_hits_of_all(served, queries, options, limits)):
        query: dict[str, Any] = {"code": queries.codes[number].tobytes().hex()}
        if queries.items is not None:
            query = item_facts(served, queries.items[number], {"code", *(include & {"payload"})})
        # Each hit is encoded by itself: one call for a long answer would not let other threads run.
        parts = [to_json({**item_facts(served, hit, include), "distance": hit.distance}) for hit in hits]
        told = b"".join(b',"%s":%d' % (name.encode(), count) for name, count in facts.items())
        results.append(b'{"query":' + to_json(query) + b',"hits":[' + b",".join(parts) + b"]" + told + b"}")
        found_any |= bool(hits)
    warnings = served.filter_warnings(options.where, found_any)
    took = round(1000 * (time.perf_counter() - started), 3)
    head = to_json({"mode": options.mode, "n_bits": served.n_bits, "took_ms": took, **warnings})
    return json_response(head[:-1] + b',"results":[' + b",".join(results) + b"]}")


def item_facts(served: ServedCollection, item: Item | Hit, include: set[str]) -> dict[str, Any]:
    """Return what the API tells about an item: its id, what is included, and where its picture is."""
    facts: dict[str, Any] = {"id": json_id(item.id)}
    if "code" in include and item.code is not None:
        facts["code"] = item.code.tobytes().hex()
    if "payload" in include:
        facts["payload"] = item.payload
    if "vector" in include and item.vector is not None:
        facts["vector"] = item.vector.tolist()
    if served.pictures is not None and served.pictures.name(item.id, item.payload or {}) is not None:
        facts["image"] = f"/api/v1/collections/{served.name}/images/{quote(str(item.id), safe='')}"
    return facts


def _hits_of_all(
    served: ServedCollection, queries: Queries, options: SearchRequest, limits: Limits
) -> list[tuple[list[Hit], dict[str, int]]]:
    """Return the hits of every query, each with how many rows are within the radius, or how many were skipped.

    With ``exclude_self`` one more is searched for, and own items are left out.
    """
    own = int(options.exclude_self and queries.items is not None)
    size, last = served.collection.vector_size, options.top_k
    wanted: set[Any] = {*options.include, *(["payload"] if served.pictures is not None else [])}
    most = limits.hits_json
    if size is None:
        wanted -= {"vector"}
    elif "vector" in wanted:
        most = min(most, limits.floats_json // size)
    found: list[tuple[list[Hit], dict[str, int]]] = []
    if options.radius is not None:
        last = most if options.k is None else options.k
        for ball in _within(served, queries.codes, options, wanted, most, limits, own):
            counts = ball.found.tolist()
            found += [([*hits], {"found": n}) for hits, n in zip(ball.per_query(), counts, strict=True)]
    else:
        if len(queries.codes) * min(options.top_k, served.collection.count()) > most:
            raise _too_many(most, limits)
        nearest = _nearest(served, queries, options, wanted, options.top_k + own)
        skipped = [0] * len(nearest) if nearest.skipped is None else nearest.skipped.tolist()
        found = [([*hits], {"skipped": n} if n else {}) for hits, n in zip(nearest.per_query(), skipped, strict=True)]
    for place, item in enumerate(queries.items or () if own else ()):
        hits, facts = found[place]
        others = [hit for hit in hits if hit.id != item.id]
        if "found" in facts:
            facts["found"] -= len(hits) - len(others)
        found[place] = others, facts
    return [(hits[options.offset : last], facts) for hits, facts in found]


def _nearest(
    served: ServedCollection, queries: Queries, options: SearchRequest, include: Collection[Include], k: int
) -> Hits:
    """Return the k nearest rows of every query."""
    mode, collection = options.mode, served.collection
    if mode != "hamming":
        if served.hasher is None:
            raise bad("bad_mode", f"{mode} needs a hasher, and the collection {served.name} has none.")
        if mode == "rescore" and (collection.vector_size is None or served.n_features is None):
            raise bad("bad_mode", f"rescore needs kept vectors, and the collection {served.name} keeps none.")
        if queries.vectors is None:
            raise bad("bad_mode", f"{mode} needs the vectors of the queries: codes, or ids without them, lack them.")
    # The code of a query says all about it by Hamming distance, and less than the query itself by tables.
    by_codes = mode == "hamming" and not (served.by_tables and queries.vectors is not None)
    vectors: Any = None if by_codes else queries.vectors
    return collection.search(
        vectors,
        k=k,
        codes=queries.codes if by_codes else None,
        where=options.where,
        emphasis=options.emphasis,
        asymmetric=mode == "asymmetric",
        rescore=options.oversample if mode == "rescore" else None,
        metric=options.metric,
        include=[*include],
    )


def _within(
    served: ServedCollection,
    codes: PackedCodes,
    options: SearchRequest,
    include: Collection[Include],
    most: int,
    limits: Limits,
    own: int = 0,
) -> Iterator[RangeHits]:
    """Yield the rows within the radius, some queries at a time, so that a large radius does not fill the memory.

    At most ``most`` rows may be found in all, and ``own`` more per query.
    """
    if served.by_tables:
        raise bad("bad_request", f"The codes of {served.name} are compared by scores and not by bits: ask for k.")
    n_hits, deadline = 0, time.monotonic() + limits.seconds
    step = max(1, (most if include else _ROWS_AT_ONCE) // max(1, served.collection.count()))
    for start in range(0, len(codes), step):
        if time.monotonic() > deadline:
            raise ApiError(503, "too_long", "Queries with this radius take too long: ask for fewer at once.")
        ball = served.collection.within(
            codes=codes[start : start + step],
            radius=options.radius or 0,
            where=options.where,
            include=[*include],
            limit=own + (options.k or most + 1),
        )
        n_hits += len(ball.ids) - own * len(ball)
        if n_hits > most:
            raise _too_many(most, limits)
        yield ball


def _too_many(most: int, limits: Limits) -> ApiError:
    if most < limits.hits_json:
        message = f"Vectors of more than {most:,} hits are too much for JSON: ask for fewer hits."
    else:
        message = f"More than {most:,} rows lie within the radius: give k, a smaller radius, or fewer queries."
    return ApiError(413, "too_many", message)


def options_in_address(
    k: Annotated[int | None, Query(ge=1, description="Hits per query; 10 if there is no radius either.")] = None,
    radius: Annotated[int | None, Query(ge=0, description="All hits at most this many bits away.")] = None,
    mode: schemas.Mode = "hamming",
    oversample: Annotated[float, Query(ge=1, allow_inf_nan=False)] = DEFAULT_FACTOR,
    metric: Metric = "cosine",
    where: Annotated[str | None, Query(description="A filter as JSON text.")] = None,
    emphasis: Annotated[str | None, Query(description=schemas.EMPHASIS)] = None,
    offset: Annotated[int, Query(ge=0, description=schemas.OFFSET)] = 0,
) -> SearchRequest:
    """How to search, from the query part of the address: for bodies that are not JSON."""
    condition, weight = None, emphasis
    if where is not None:
        condition = schemas.read_json_object(where.encode("utf-8", "replace"), _FILTER_CHARS, _FILTER_CHARS)
    with suppress(TypeError, ValueError):
        weight = float(emphasis)  # type: ignore[arg-type,assignment]
    return SearchRequest.model_construct(  # the framework has checked these
        k=k,
        radius=radius,
        mode=mode,
        oversample=oversample,
        metric=metric,
        where=condition,
        emphasis=weight,  # checked by the collection
        offset=offset,
    )


OptionsDep = Annotated[SearchRequest, Depends(options_in_address)]


@router.post("/search.npy", **described([NPZ_TYPE], body=[NPY_TYPE]))
@reading
def search_by_npy(
    service: ServiceDep, served: CollectionDep, options: OptionsDep, body: Annotated[bytes, body_of(NPY_TYPE)]
) -> Response:
    """A batch: an .npy array of vectors (float32, float64) or packed codes (uint8); the answer is an .npz.

    It holds ids and distances (queries, k), with -1 in empty places; with a radius, offsets, ids and distances. If
    there are warnings, it holds them as texts, as in the answer to a JSON search.
    """
    limits = service.limits
    array = schemas.parse_npy(body, limits.queries)
    check_options(options, len(array), limits.k_npy, limits.hits_npy, limits)
    if array.dtype == np.uint8:
        queries = Queries(schemas.packed_codes(array, served.n_bits))
    else:
        queries = queries_from_vectors(served, array)
    if options.radius is None:
        hits = _nearest(served, queries, options, (), options.top_k).after(options.offset)
        found_any, found = bool(hits.filled.any()), {"ids": _plain_ids(hits.ids), "distances": hits.distances}
    else:
        balls = list(_within(served, queries.codes, options, (), limits.hits_npy, limits))
        counts = np.concatenate([np.diff(ball.offsets) for ball in balls])
        ids, distances = (np.concatenate([getattr(ball, name) for ball in balls]) for name in ("ids", "distances"))
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
        found_any, found = len(ids) > 0, {"offsets": offsets, "ids": _plain_ids(ids), "distances": distances}
    for name, sentences in served.filter_warnings(options.where, found_any).items():
        found[name] = np.array(sentences, dtype=np.str_)
    stream = io.BytesIO()
    np.savez(stream, **found)  # type: ignore[arg-type]
    return Response(stream.getvalue(), media_type=NPZ_TYPE)


def _plain_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids as a .npy array without objects; empty places, which are None among texts, become empty texts."""
    if ids.dtype != object:
        return ids
    texts = ["" if one is None else str(one) for one in ids.ravel().tolist()]
    return np.array(texts, dtype=np.str_).reshape(ids.shape)


@router.post("/search/image", **described(schemas.SearchResponse, body=IMAGE_TYPES))
@reading
def search_by_image(
    service: ServiceDep,
    served: CollectionDep,
    options: OptionsDep,
    body: Annotated[bytes, body_of(*IMAGE_TYPES)],
    include: Annotated[str, Query(description="payload, code, vector: joined by commas.")] = "payload",
) -> Response:
    """Find the nearest items of an uploaded picture (PNG, JPEG or WebP)."""
    started, limits = time.perf_counter(), service.limits
    included = {name for name in include.split(",") if name}
    if included - {"payload", "code", "vector"}:
        raise bad("bad_request", "include may name payload, code and vector, joined by commas.")
    if served.features is None:
        message = f"The collection {served.name} cannot be searched by a picture: its hasher takes other features."
        raise bad("no_images", message)
    options = options.model_copy(update={"include": included})
    check_options(options, 1, limits.k, limits.hits_json, limits)
    row = served.features.row(body, service.decoder)
    return answer(served, Queries(served.collection.encode_queries(row), row), options, limits, started)


@router.get("/histogram", **described(schemas.HistogramResponse))
@reading
def histogram_of_item(
    service: ServiceDep, served: CollectionDep, id: Annotated[str, Query(min_length=1, max_length=MAX_CHARACTERS)]
) -> Response:
    """How many items lie at every distance from a stored one, itself included."""
    return _histogram(served, queries_from_ids(served, [served.id_in_address(id)], needs_vectors=False))


@router.post("/histogram", **described(schemas.HistogramResponse, body=schemas.HistogramRequest))
@reading
def histogram(service: ServiceDep, served: CollectionDep, body: Annotated[bytes, body_of(JSON_TYPE)]) -> Response:
    """How many items lie at every distance from a vector, an item or a code."""
    asked: Any = schemas.parse_request(schemas.HistogramRequest, body, service.limits)
    if asked.vector is not None:
        queries = queries_from_vectors(served, asked.vector[None])
    elif asked.id is not None:
        queries = queries_from_ids(served, [asked.id], needs_vectors=False)
    else:
        queries = Queries(schemas.decode_codes([asked.code], served.n_bits))
    return _histogram(served, queries)


def _histogram(served: ServedCollection, queries: Queries) -> Response:
    if served.by_tables:
        raise bad("unsupported", f"The codes of {served.name} are compared by scores, which are not counted.")
    ball = served.collection.within(codes=queries.codes, radius=served.n_bits)
    counts = np.bincount(ball.distances, minlength=served.n_bits + 1).tolist()
    return json_response({"n_bits": served.n_bits, "counts": counts})
