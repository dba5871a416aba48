"""A search as clients ask for it. Everything here runs in a worker thread and knows nothing of HTTP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection import Item
from hashlearn.collection.id_kinds import json_id
from hashlearn.collection.rescore import DEFAULT_FACTOR
from hashlearn.index import Hits
from hashlearn.service.errors import ApiError, bad, collection_errors, to_json
from hashlearn.service.item_ids import ids_in_body, plain_ids
from hashlearn.service.request_bodies import decode_codes, float_rows, packed_codes, parse_npy, parse_request
from hashlearn.service.schemas import SearchRequest
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.settings import Limits
from hashlearn.service.text_features import rows_of_texts
from hashlearn.typing import PackedCodes

DEFAULT_K = 10
_ATTEMPTS = 4
_ROWS_AT_ONCE = 2_000_000  # that the queries of one step of a radius search may find


@dataclass(frozen=True)
class SearchOptions:
    """How to search, whatever the queries are."""

    k: int | None = None
    radius: int | None = None
    mode: str = "hamming"
    oversample: float = DEFAULT_FACTOR
    metric: str = "cosine"
    where: dict[str, Any] | None = None

    @property
    def top_k(self) -> int:
        return DEFAULT_K if self.k is None else self.k

    def check(self, n_queries: int, max_k: int, max_hits: int, limits: Limits) -> None:
        """Refuse what asks for too much."""
        if n_queries > limits.queries:
            raise ApiError(413, "too_many", f"At most {limits.queries:,} queries are taken at once. Got {n_queries:,}.")
        if self.radius is not None and self.mode != "hamming":
            raise bad("bad_request", f"A radius counts bits, so its mode is hamming. Got {self.mode}.")
        if self.top_k > max_k:
            raise bad("bad_k", f"k may be at most {max_k:,} here. Got {self.top_k}.")
        if self.oversample > limits.oversample:
            raise bad("bad_request", f"oversample may be at most {limits.oversample:g}. Got {self.oversample:g}.")
        candidates = self.top_k * (self.oversample if self.mode == "rescore" else 1)
        if n_queries * self.top_k > max_hits or n_queries * candidates > limits.hits_npy:
            message = f"{n_queries:,} queries with k={self.top_k:,} find too much at once: at most {max_hits:,} hits."
            raise ApiError(413, "too_many", message)


@dataclass(frozen=True)
class Queries:
    """Codes to search for; the vectors they come from, where known; the stored items they are, for a search by ids."""

    codes: PackedCodes
    vectors: NDArray[Any] | None = None
    items: list[Item] | None = None


@dataclass(frozen=True)
class QueryHits:
    """The hits of one query. ``found`` counts all rows within a radius, also those that k cut off."""

    ids: NDArray[Any]
    distances: NDArray[Any]
    found: int | None = None


def queries_from_vectors(served: ServedCollection, vectors: NDArray[Any]) -> Queries:
    """The codes of rows that a client sent."""
    if served.n_features is None:
        why = "has no hasher: search by codes or ids" if served.hasher is None else "takes pictures, not vectors"
        raise bad("bad_vector", f"The collection {served.name} {why}.")
    rows = float_rows(vectors, served.n_features)
    with collection_errors():
        return Queries(served.collection.encode_queries(rows), rows)


def queries_from_texts(served: ServedCollection, texts: Sequence[str], limits: Limits) -> Queries:
    """The codes of texts that a client sent."""
    return queries_from_vectors(served, rows_of_texts(served, texts, limits))


def queries_from_ids(served: ServedCollection, ids: Sequence[int | str], needs_vectors: bool) -> Queries:
    """The codes of stored items, with their vectors where the collection keeps such as its hasher takes."""
    with_vectors = needs_vectors and served.collection.vector_size == served.n_features
    wanted = ids_in_body(served, list(ids))
    with collection_errors():
        items = served.collection.get(wanted, vectors=with_vectors)
    missing = [one for one, item in zip(wanted, items, strict=True) if item is None]
    if missing:
        raise ApiError(404, "no_item", f"There is no item {json_id(missing[0])!r} in {served.name}.")
    vectors = np.stack([item.vector for item in items]) if with_vectors and items[0].vector is not None else None
    return Queries(np.stack([item.code for item in items]), vectors, items)


def search_json(served: ServedCollection, body: bytes, limits: Limits) -> bytes:
    """The JSON answer to a JSON search."""
    started = time.perf_counter()
    asked = parse_request(SearchRequest, body, limits)
    options = SearchOptions(asked.k, asked.radius, asked.mode, asked.oversample, asked.metric, asked.where)
    given = (asked.vectors, asked.ids, asked.codes, asked.texts)
    n_queries = next(len(part) for part in given if part is not None)
    options.check(n_queries, limits.k, limits.hits_json, limits)
    if asked.vectors is not None:
        queries = queries_from_vectors(served, asked.vectors)
    elif asked.ids is not None:
        queries = queries_from_ids(served, asked.ids, asked.mode != "hamming")
    elif asked.texts is not None:
        queries = queries_from_texts(served, asked.texts, limits)
    else:
        queries = Queries(decode_codes(asked.codes or (), served.n_bits))
    return answer(served, queries, options, set(asked.include), asked.exclude_self, limits, started)


def search_npy(
    served: ServedCollection, body: bytes, options: SearchOptions, limits: Limits
) -> dict[str, NDArray[Any]]:
    """The answer to a .npy search: ids and distances (queries, k), -1 in empty places; with a radius also lims.

    Where a filter found nothing and has fields that cannot match, ``warnings`` are texts about them.
    """
    array = parse_npy(body, limits.queries)
    options.check(len(array), limits.k_npy, limits.hits_npy, limits)
    if array.dtype == np.uint8:
        queries = Queries(packed_codes(array, served.n_bits))
    else:
        queries = queries_from_vectors(served, array)
    if options.radius is None:
        hits = _nearest(served, queries, options)
        told = served.filter_warnings(options.where, bool(hits.filled.any()))
        return {"ids": plain_ids(hits.ids), "distances": hits.distances, **_as_arrays(told)}
    found = _within(served, queries.codes, options, limits.hits_npy, limits)
    lims = np.cumsum([0, *(len(hits.ids) for hits in found)], dtype=np.int64)
    ids, distances = (np.concatenate([getattr(hits, name) for hits in found]) for name in ("ids", "distances"))
    told = served.filter_warnings(options.where, len(ids) > 0)
    return {"lims": lims, "ids": plain_ids(ids), "distances": distances, **_as_arrays(told)}


def _as_arrays(told: dict[str, list[str]]) -> dict[str, NDArray[Any]]:
    return {name: np.array(sentences, dtype=np.str_) for name, sentences in told.items()}


def answer(
    served: ServedCollection,
    queries: Queries,
    options: SearchOptions,
    include: set[str],
    exclude_self: bool,
    limits: Limits,
    started: float,
) -> bytes:
    """Search, and tell what was asked about the hits, as JSON."""
    for _ in range(_ATTEMPTS):
        found = _hits_of_all(served, queries, options, exclude_self and queries.items is not None, limits)
        items = _items_of_hits(served, found, "vector" in include, limits)
        # A row may be deleted or replaced between search and get. The answer is then made again, so that it shows
        # every row at one moment.
        current = [_still_fit(hits, code, items, options) for hits, code in zip(found, queries.codes, strict=True)]
        if all(part.all() for part in current):
            break
    results = []
    for number, (hits, keep) in enumerate(zip(found, current, strict=True)):
        query: dict[str, Any] = {"code": queries.codes[number].tobytes().hex()}
        if queries.items is not None:
            query = item_facts(served, queries.items[number], {"code", *(include & {"payload"})})
        # Each hit is encoded by itself: one call for a long answer would not let other threads run.
        parts = [
            to_json({**item_facts(served, items[id], include), "distance": distance})
            for id, distance in zip(hits.ids[keep].tolist(), hits.distances[keep].tolist(), strict=True)
        ]
        count = b"" if hits.found is None else b',"found":%d' % hits.found
        results.append(b'{"query":' + to_json(query) + b',"hits":[' + b",".join(parts) + b"]" + count + b"}")
    told = served.filter_warnings(options.where, any(len(hits.ids) for hits in found))
    took = round(1000 * (time.perf_counter() - started), 3)
    head = to_json({"mode": options.mode, "n_bits": served.n_bits, "took_ms": took, **told})
    return head[:-1] + b',"results":[' + b",".join(results) + b"]}"


def item_facts(served: ServedCollection, item: Item, include: set[str]) -> dict[str, Any]:
    """What the API tells about an item: its id, what is included, and where its picture is."""
    facts: dict[str, Any] = {"id": json_id(item.id)}
    if "code" in include:
        facts["code"] = item.code.tobytes().hex()
    if "payload" in include:
        facts["payload"] = item.payload
    if "vector" in include and item.vector is not None:
        facts["vector"] = item.vector.tolist()
    if served.pictures is not None and served.pictures.name(item.id, item.payload) is not None:
        facts["image"] = f"/api/v1/collections/{served.name}/images/{quote(str(item.id), safe='')}"
    return facts


def _hits_of_all(
    served: ServedCollection, queries: Queries, options: SearchOptions, exclude_self: bool, limits: Limits
) -> list[QueryHits]:
    """The hits of every query; with ``exclude_self`` one more is searched for, and the queries' own items go."""
    if exclude_self and (options.k is not None or options.radius is None):
        options = replace(options, k=options.top_k + 1)
    if options.radius is not None:
        found = _within(served, queries.codes, options, limits.hits_json + len(queries.codes), limits)
    else:
        hits = _nearest(served, queries, options)
        pairs = zip(hits.ids, hits.distances, hits.filled, strict=True)
        found = [QueryHits(ids[filled], distances[filled]) for ids, distances, filled in pairs]
    if not exclude_self:
        return found
    max_hits = None if options.k is None else options.k - 1
    items = queries.items or ()
    return [_without(hits, item.id, max_hits) for hits, item in zip(found, items, strict=True)]


def _without(hits: QueryHits, id: Any, max_hits: int | None) -> QueryHits:
    keep = hits.ids != id
    found = None if hits.found is None else hits.found - len(keep) + int(keep.sum())
    return QueryHits(hits.ids[keep][:max_hits], hits.distances[keep][:max_hits], found)


def _nearest(served: ServedCollection, queries: Queries, options: SearchOptions) -> Hits:
    """The k nearest rows of every query."""
    mode, collection = options.mode, served.collection
    if mode != "hamming":
        if served.hasher is None:
            raise bad("bad_mode", f"{mode} needs a hasher, and the collection {served.name} has none.")
        if mode == "rescore" and (collection.vector_size is None or served.n_features is None):
            raise bad("bad_mode", f"rescore needs kept vectors, and the collection {served.name} keeps none.")
        if queries.vectors is None:
            raise bad("bad_mode", f"{mode} needs the vectors of the queries: codes, or ids without them, lack them.")
    with collection_errors():
        if mode == "hamming":
            return collection.search(codes=queries.codes, k=options.top_k, where=options.where)
        return collection.search(
            queries.vectors,
            k=options.top_k,
            where=options.where,
            asymmetric=mode == "asymmetric",
            rescore=options.oversample if mode == "rescore" else None,
            metric=options.metric,  # type: ignore[arg-type]
        )


def _within(
    served: ServedCollection, codes: PackedCodes, options: SearchOptions, max_hits: int, limits: Limits
) -> list[QueryHits]:
    """All rows within the radius, some queries at a time, so that a large radius fills neither memory nor the day."""
    result: list[QueryHits] = []
    n_hits, deadline = 0, time.monotonic() + limits.seconds
    with collection_errors():
        step = max(1, _ROWS_AT_ONCE // max(1, served.collection.count()))
        for start in range(0, len(codes), step):
            if time.monotonic() > deadline:
                raise ApiError(503, "too_long", "So many queries with a radius take too long: ask for fewer at once.")
            ball = served.collection.within(
                codes=codes[start : start + step], radius=options.radius or 0, where=options.where
            )
            for first, end in zip(ball.lims[:-1].tolist(), ball.lims[1:].tolist(), strict=True):
                cut = end if options.k is None else min(end, first + options.k)
                n_hits += cut - first
                if n_hits > max_hits:
                    raise _too_many_within(max_hits)
                result.append(QueryHits(ball.ids[first:cut].copy(), ball.distances[first:cut].copy(), end - first))
    return result


def _too_many_within(max_hits: int) -> ApiError:
    message = f"More than {max_hits:,} rows lie within the radius: give k, a smaller radius, or fewer queries."
    return ApiError(413, "too_many", message)


def _items_of_hits(served: ServedCollection, found: list[QueryHits], vectors: bool, limits: Limits) -> dict[Any, Item]:
    """The stored items of all hits, by id."""
    n_hits = sum(len(hits.ids) for hits in found)
    if n_hits > limits.hits_json:
        raise _too_many_within(limits.hits_json)
    if vectors and n_hits * (served.collection.vector_size or 0) > limits.floats_json:
        raise ApiError(413, "too_many", f"The vectors of {n_hits:,} hits are too much for JSON: ask for fewer hits.")
    wanted = np.unique(np.concatenate([hits.ids for hits in found]))
    with collection_errors():
        return {item.id: item for item in served.collection.get(wanted, vectors=vectors) if item is not None}


def _still_fit(
    hits: QueryHits, code: NDArray[np.uint8], items: dict[Any, Item], options: SearchOptions
) -> NDArray[np.bool_]:
    """Which hits still exist and, where bits are counted, are still as far away."""
    fit = np.array([id in items for id in hits.ids.tolist()], dtype=bool)
    if options.mode == "hamming" and fit.any():
        codes = np.stack([items[id].code for id in hits.ids[fit].tolist()])
        fit[fit] = np.bitwise_count(codes ^ code).sum(axis=1) == hits.distances[fit]
    return fit
