"""A search as clients ask for it, on a collection; plain Python that knows nothing of HTTP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection import Item
from hashlearn.collection.rescore import DEFAULT_FACTOR
from hashlearn.index import Hits
from hashlearn.service.bodies import checked_codes, float_rows, packed_codes
from hashlearn.service.errors import ApiError, bad, sentences
from hashlearn.service.opened import Opened
from hashlearn.service.settings import Limits
from hashlearn.service.shapes import SearchAsked

DEFAULT_K = 10
_ATTEMPTS = 4
_BALL_ROWS = 2_000_000  # rows that queries of one block may find at most


@dataclass(frozen=True)
class How:
    """How to search: the settings that vectors, ids, codes and pictures share."""

    k: int | None = None
    radius: int | None = None
    mode: str = "hamming"
    oversample: float = DEFAULT_FACTOR
    metric: str = "cosine"
    where: dict[str, Any] | None = None

    @property
    def top(self) -> int:
        return DEFAULT_K if self.k is None else self.k

    def check(self, n_queries: int, most_k: int, most_hits: int, limits: Limits) -> None:
        if n_queries > limits.queries:
            raise ApiError(413, "too_many", f"At most {limits.queries:,} queries are taken at once. Got {n_queries:,}.")
        if self.radius is not None and self.mode != "hamming":
            raise bad("bad_request", f"A radius counts bits, so its mode is hamming. Got {self.mode}.")
        if self.top > most_k:
            raise bad("bad_k", f"k may be at most {most_k:,} here. Got {self.top}.")
        if self.oversample > limits.oversample:
            raise bad("bad_request", f"oversample may be at most {limits.oversample:g}. Got {self.oversample:g}.")
        looked_at = self.top * (self.oversample if self.mode == "rescore" else 1)
        if n_queries * self.top > most_hits or n_queries * looked_at > limits.hits_npy:
            message = f"{n_queries:,} queries with k={self.top:,} find too much at once: at most {most_hits:,} hits."
            raise ApiError(413, "too_many", message)


@dataclass(frozen=True)
class Queries:
    """Codes to search for; the rows they come from, where these are known; the items they are, for ids."""

    codes: NDArray[np.uint8]
    rows: NDArray[Any] | None = None
    items: list[Item] | None = None


@dataclass(frozen=True)
class Found:
    """The hits of one query. ``found`` counts those within a radius, also those that k cut off."""

    ids: NDArray[np.int64]
    distances: NDArray[Any]
    found: int | None = None


def from_rows(opened: Opened, rows: NDArray[Any]) -> Queries:
    with sentences():
        return Queries(opened.hasher.encode(rows), rows)


def from_vectors(opened: Opened, vectors: Any) -> Queries:
    if not opened.takes_vectors:
        why = "has no hasher: search by codes or ids" if opened.hasher is None else "takes pictures, not vectors"
        raise bad("bad_vector", f"The collection {opened.name} {why}.")
    return from_rows(opened, float_rows(vectors, opened.n_features))


def from_ids(opened: Opened, ids: Sequence[int], need_rows: bool) -> Queries:
    rows_kept = need_rows and opened.collection.vector_size is not None
    with sentences():
        items = opened.collection.get(list(ids), vectors=rows_kept)
    missing = [number for number, item in zip(ids, items, strict=True) if item is None]
    if missing:
        raise ApiError(404, "no_item", f"There is no item {missing[0]} in {opened.name}.")
    codes = np.stack([item.code for item in items])
    rows = np.stack([item.vector for item in items]) if rows_kept else None
    if rows is not None and rows.shape[1] != opened.n_features:
        rows = None  # vectors of another kind than the hasher takes
    return Queries(codes, rows, items)


def search(opened: Opened, queries: Queries, how: How, limits: Limits) -> list[Found]:
    """The hits of every query."""
    if how.radius is not None:
        return _within(opened, queries.codes, how, limits.hits_json + len(queries.codes), limits)
    hits = _nearest(opened, queries, how)
    there = hits.ids >= 0
    return [Found(ids[keep], far[keep]) for ids, far, keep in zip(hits.ids, hits.distances, there, strict=True)]


def _nearest(opened: Opened, queries: Queries, how: How) -> Hits:
    with sentences():
        if how.mode == "hamming":
            return opened.collection.search(codes=queries.codes, k=how.top, where=how.where)
        _check_mode(opened, queries, how)
        return opened.collection.search(
            queries.rows,
            k=how.top,
            where=how.where,
            asymmetric=how.mode == "asymmetric",
            rescore=how.oversample if how.mode == "rescore" else None,
            metric=how.metric,  # type: ignore[arg-type]
        )


def _check_mode(opened: Opened, queries: Queries, how: How) -> None:
    if opened.hasher is None:
        raise bad("bad_mode", f"{how.mode} needs a hasher, and the collection {opened.name} has none.")
    if how.mode == "rescore" and (opened.collection.vector_size is None or not opened.takes_vectors):
        raise bad("bad_mode", f"rescore needs kept vectors, and the collection {opened.name} keeps none.")
    if queries.rows is None:
        raise bad("bad_mode", f"{how.mode} needs the vectors of the queries: codes, or ids without them, lack them.")


def _within(opened: Opened, codes: NDArray[np.uint8], how: How, most: int, limits: Limits) -> list[Found]:
    """Balls, some queries at a time, so that a large radius can fill neither the memory nor the day."""
    result: list[Found] = []
    kept, deadline = 0, time.monotonic() + limits.seconds
    with sentences():
        step = max(1, _BALL_ROWS // max(1, opened.collection.count()))
        for start in range(0, len(codes), step):
            if time.monotonic() > deadline:
                raise ApiError(503, "too_long", "So many balls take too long: ask for fewer at once.")
            ball = opened.collection.within(codes=codes[start : start + step], radius=how.radius or 0, where=how.where)
            for first, end in zip(ball.lims[:-1].tolist(), ball.lims[1:].tolist(), strict=True):
                cut = end if how.k is None else min(end, first + how.k)
                kept += cut - first
                _check_hits(kept, most)
                result.append(Found(ball.ids[first:cut].copy(), ball.distances[first:cut].copy(), end - first))
    return result


def answer(opened: Opened, asked: SearchAsked, limits: Limits) -> dict[str, Any]:
    """The answer to a JSON search."""
    started = time.perf_counter()
    how = How(asked.k, asked.radius, asked.mode, asked.oversample, asked.metric, asked.where)
    n_queries = len(asked.vectors or asked.ids or asked.codes or ())
    how.check(n_queries, limits.k, limits.hits_json, limits)
    if asked.vectors is not None:
        queries = from_vectors(opened, asked.vectors)
    elif asked.ids is not None:
        queries = from_ids(opened, asked.ids, asked.mode != "hamming")
    else:
        queries = Queries(packed_codes(asked.codes or (), opened.n_bits))
    return shown(opened, queries, how, set(asked.include), asked.exclude_self, limits, started)


def answer_npy(opened: Opened, array: NDArray[Any], how: How, limits: Limits) -> dict[str, NDArray[Any]]:
    """Arrays for a .npy search: ids and distances (queries, k), -1 in empty places; with a radius also lims."""
    how.check(len(array), limits.k_npy, limits.hits_npy, limits)
    if array.dtype == np.uint8:
        queries = Queries(checked_codes(array, opened.n_bits))
    else:
        queries = from_vectors(opened, array)
    if how.radius is None:
        return dict(_nearest(opened, queries, how)._asdict())
    found = _within(opened, queries.codes, how, limits.hits_npy, limits)
    lims = np.cumsum([0, *(len(hits.ids) for hits in found)], dtype=np.int64)
    ids, distances = (np.concatenate([getattr(hits, name) for hits in found]) for name in ("ids", "distances"))
    return {"lims": lims, "ids": ids, "distances": distances}


def _check_hits(count: int, most: int) -> None:
    if count > most:
        message = f"More than {most:,} rows lie within the radius: give k, a smaller radius, or fewer queries."
        raise ApiError(413, "too_many", message)


def shown(
    opened: Opened, queries: Queries, how: How, include: set[str], exclude_self: bool, limits: Limits, started: float
) -> dict[str, Any]:
    """Search, and tell what was asked about the hits."""
    own = [item.id for item in queries.items] if queries.items is not None and exclude_self else None
    for _ in range(_ATTEMPTS):
        found = search(opened, queries, how, limits) if own is None else _others(opened, queries, how, own, limits)
        count = sum(len(hits.ids) for hits in found)
        _check_hits(count, limits.hits_json)
        if "vector" in include and count * (opened.collection.vector_size or 0) > limits.floats_json:
            raise ApiError(413, "too_many", f"The vectors of {count:,} hits are too much for JSON: ask for fewer hits.")
        items = _items(opened, found, vectors="vector" in include)
        # A row may be deleted or replaced between search and get: then the answer is made again, of one moment.
        fits = [_fits(hits, code, items, how.mode) for hits, code in zip(found, queries.codes, strict=True)]
        if all(part.all() for part in fits):
            break
    results = []
    for number, (hits, good) in enumerate(zip(found, fits, strict=True)):
        pairs = zip(hits.ids[good].tolist(), hits.distances[good].tolist(), strict=True)
        told = [{**item_shown(opened, items[place], include), "distance": distance} for place, distance in pairs]
        result = {"query": _query(opened, queries, number, include), "hits": told}
        results.append(result if hits.found is None else {**result, "found": hits.found})
    took = round(1000 * (time.perf_counter() - started), 3)
    return {"mode": how.mode, "n_bits": opened.n_bits, "took_ms": took, "results": results}


def _others(opened: Opened, queries: Queries, how: How, own: list[int], limits: Limits) -> list[Found]:
    """Hits without the asked items themselves."""
    most = how.top if how.radius is None else how.k
    wider = how if most is None else replace(how, k=most + 1)
    found = search(opened, queries, wider, limits)
    return [_without(hits, number, most) for hits, number in zip(found, own, strict=True)]


def _without(hits: Found, own: int, most: int | None) -> Found:
    keep = hits.ids != own
    gone = len(keep) - int(keep.sum())
    found = None if hits.found is None else hits.found - gone
    return Found(hits.ids[keep][:most], hits.distances[keep][:most], found)


def _items(opened: Opened, found: list[Found], vectors: bool) -> dict[int, Item]:
    wanted = np.unique(np.concatenate([hits.ids for hits in found])) if found else np.empty(0, dtype=np.int64)
    with sentences():
        return {item.id: item for item in opened.collection.get(wanted, vectors=vectors) if item is not None}


def _fits(hits: Found, code: NDArray[np.uint8], items: dict[int, Item], mode: str) -> NDArray[np.bool_]:
    """Which hits are still there and, where bits are counted, still as far away."""
    there = np.array([number in items for number in hits.ids.tolist()], dtype=bool)
    if mode != "hamming" or not there.any():
        return there
    codes = np.stack([items[number].code for number in hits.ids[there].tolist()])
    there[there] = np.bitwise_count(codes ^ code).sum(axis=1) == hits.distances[there]
    return there


def _query(opened: Opened, queries: Queries, number: int, include: set[str]) -> dict[str, Any]:
    if queries.items is None:
        return {"code": queries.codes[number].tobytes().hex()}
    return item_shown(opened, queries.items[number], {"code", *(include & {"payload"})})


def item_shown(opened: Opened, item: Item, include: set[str]) -> dict[str, Any]:
    """An item as JSON."""
    result: dict[str, Any] = {"id": item.id}
    if "code" in include:
        result["code"] = item.code.tobytes().hex()
    if "payload" in include:
        result["payload"] = item.payload
    if "vector" in include and item.vector is not None:
        result["vector"] = item.vector.tolist()
    if opened.pictures is not None and opened.pictures.name(item.id, item.payload) is not None:
        result["image"] = f"/api/v1/collections/{opened.name}/images/{item.id}"
    return result
