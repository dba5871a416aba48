"""Routes for clients that are stores: each call of a store is one request (``collection/stores/wire.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import numpy as np
from fastapi import APIRouter, Depends, Response

from hashlearn import models
from hashlearn.codes import check_codes
from hashlearn.collection import Collection, NoSuchRowsError
from hashlearn.collection.encoder import checked_vectors
from hashlearn.collection.ids import number_of
from hashlearn.collection.new_spec import make_spec
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.store import Payload, PayloadUpdate, Query, StoredRows, VerifyReport
from hashlearn.collection.stores import store_class, wire
from hashlearn.collection.where import TEXT_FIELD, condition_of, parse
from hashlearn.index import ScoreTables
from hashlearn.index.inputs import checked_ids
from hashlearn.models.format import ModelFileError
from hashlearn.service.errors import ApiError, bad
from hashlearn.service.routes_collections import add_served, check_count, check_may_create
from hashlearn.service.schemas import COLLECTION_NAME, body_of
from hashlearn.service.served_collection import ServedCollection
from hashlearn.service.service import (
    CollectionDep,
    Service,
    ServiceDep,
    WritableDep,
    reading,
    require_writer,
    writing,
)
from hashlearn.typing import Float32Array

_PRIVATE = ("uri", "host")
_LARGEST_COUNT = 2**40

router = APIRouter(prefix="/api/v1/collections", include_in_schema=False)


def _spec(service: Service, served: ServedCollection, call: wire.NoCall) -> wire.ServedSpec:
    writable = served.writable and service.settings.may_write
    return wire.ServedSpec(served.collection._store.spec, writable, served.codes_by)


def _check_hasher(served: ServedCollection, call: wire.SearchCall | wire.WithinCall | wire.AddCall) -> None:
    """Refuse queries and rows of a client whose hasher is not the one that made the codes."""
    if call.codes_by and call.codes_by != served.codes_by:
        raise ApiError(409, "replaced", "The codes were replaced by those of another hasher.")


def _search(service: Service, served: ServedCollection, call: wire.SearchCall) -> wire.WireAnswer:
    _check_hasher(served, call)
    query, limits = _checked_query(service, served, call.query), service.limits
    n_queries, size = len(query.values), served.collection.vector_size
    found = n_queries * min(max(call.k, 1), served.collection.count()) if query.include else 0
    floats = found * (size or 0) if "vector" in query.include else 0
    plan = query.rescoring
    looked_at = max(call.k, 0 if plan is None else plan.nearest)
    if call.k < 1 or (plan is not None and not call.k <= plan.nearest < plan.max_rows <= limits.hits_npy):
        raise bad("bad_k", "k must be at least 1, and rescoring must look at k rows or more.")
    if found > limits.hits_json or max(floats, n_queries * looked_at) > limits.hits_npy:
        raise ApiError(413, "too_many", f"{n_queries:,} queries with k={call.k:,} find too much at once.")
    return wire.WireAnswer.pack(served.collection._store.search(query, call.k))


def _within(service: Service, served: ServedCollection, call: wire.WithinCall) -> wire.WireAnswer:
    _check_hasher(served, call)
    query, limits = _checked_query(service, served, call.query), service.limits
    most = limits.hits_json if query.include else limits.hits_npy
    if "vector" in query.include:
        most = min(most, limits.hits_npy // (served.collection.vector_size or 1))
    limit = most + 1 if call.limit is None else min(max(call.limit, 1), most + 1)
    # Ids come first, so that too many of them cost no more.
    store = served.collection._store
    if len(query.values) * served.collection.count() > most:
        bare = store.within(query._replace(include=()), call.radius, limit)
        if len(bare.hits.ids) > most:
            raise ApiError(413, "too_many", f"More than {most:,} rows lie within the radius: ask for fewer at once.")
    return wire.WireAnswer.pack(store.within(query, call.radius, limit))


def _get(service: Service, served: ServedCollection, call: wire.GetCall) -> StoredRows:
    ids = checked_ids(call.ids)
    check_count(len(ids), service.limits)
    return served.collection._store.get(ids, call.vectors)


def _count(service: Service, served: ServedCollection, call: wire.CountCall) -> int:
    return served.collection._store.count(condition_of(call.where))


def _scan(service: Service, served: ServedCollection, call: wire.ScanCall) -> StoredRows:
    check_count(max(call.batch_rows, 1), service.limits)
    store = served.collection._store
    batches = store.scan(max(call.batch_rows, 1), condition_of(call.where), call.vectors, call.after)
    try:
        rows = next(batches, None)
    finally:
        batches.close()  # type: ignore[attr-defined]  # a generator, which holds a transaction
    if rows is None:
        size = store.spec.vector_size if call.vectors else None
        codes = np.empty((0, (store.spec.n_bits + 7) // 8), dtype=np.uint8)
        floats = None if size is None else np.empty((0, size), dtype=np.float32)
        rows = StoredRows(np.empty(0, dtype=np.int64), codes, [], floats)
    return rows


def _info(service: Service, served: ServedCollection, call: wire.NoCall) -> dict[str, Any]:
    facts = served.collection._store.info()
    return {name: value for name, value in facts.items() if name not in _PRIVATE}


def _verify(service: Service, served: ServedCollection, call: wire.NoCall) -> VerifyReport:
    return served.collection._store.verify()


def _embed(service: Service, served: ServedCollection, call: wire.EmbedCall) -> Float32Array:
    return served.rows_of_texts(call.texts, service.limits)


def _add(service: Service, served: ServedCollection, call: wire.AddCall) -> int:
    _check_hasher(served, call)
    ids, payloads = checked_ids(call.ids), call.payloads
    check_count(len(ids), service.limits)
    names: Any = ids
    if served.collection.id_kind != "int":
        names = [str((payload or {}).get(TEXT_FIELD)) for payload in payloads or [{} for _ in ids]]
        if len(names) != len(ids) or [number_of(name) for name in names] != ids.tolist():
            raise bad("bad_id", "Each row needs the text of its id, and the number of that text.")
        payloads = [{name: item for name, item in row.items() if name != TEXT_FIELD} for row in payloads or ()]
    return len(served.collection.add(codes=call.codes, ids=names, payload=payloads, vectors=call.vectors))


def _update(service: Service, served: ServedCollection, call: wire.UpdateCall) -> wire.Updated:
    named = served.collection.id_kind != "int"
    if (call.ids is None) == (call.where is None):
        raise bad("bad_request", "Give ids or a filter.")
    wanted = condition_of(call.where) if call.ids is None else checked_ids(call.ids)
    count = len(wanted) if isinstance(wanted, np.ndarray) else 1
    check_count(count, service.limits)
    payloads: list[Payload] = checked_payloads(call.payloads, count) or []
    if isinstance(wanted, np.ndarray):
        if (wanted[1:] <= wanted[:-1]).any():
            raise bad("bad_id", "ids must increase.")
        texts = [payload.get(TEXT_FIELD) for payload in payloads]
        if named and [number_of(str(text)) for text in texts] != wanted.tolist():
            raise bad("bad_id", "Each payload needs the text of its id.")
    elif named and TEXT_FIELD in payloads[0]:
        raise bad("bad_request", f"The field {TEXT_FIELD!r} cannot be changed.")
    try:
        return wire.Updated(
            served.collection._store.update_payloads(PayloadUpdate(wanted, payloads, call.merge, named))
        )
    except NoSuchRowsError as error:
        return wire.Updated(0, error.missing)


def _delete(service: Service, served: ServedCollection, call: wire.DeleteCall) -> int:
    if (call.ids is None) == (not call.where):
        raise bad("bad_request", "Give ids or a filter that is not empty.")
    wanted: Any = parse(call.where or {}) if call.ids is None else checked_ids(call.ids)
    if isinstance(wanted, np.ndarray):
        check_count(len(wanted), service.limits)
    return served.collection._store.delete(wanted)


def _take_ids(service: Service, served: ServedCollection, call: wire.TakeIdsCall) -> int:
    if not 0 <= call.count <= _LARGEST_COUNT:
        raise bad("bad_request", f"count must be between 0 and {_LARGEST_COUNT}. Got {call.count} instead.")
    return served.collection._store.take_ids(call.count)


def _replace(service: Service, served: ServedCollection, call: wire.ReplaceCall) -> int:
    collection = served.collection
    if collection._store.spec.fingerprint != call.before:
        raise ApiError(409, "replaced", "The model was replaced meanwhile.")
    hasher = _hasher(call.model)
    if hasher is not None and hasher.n_bits_ != collection.n_bits:
        raise bad("bad_request", f"The hasher must make codes of {collection.n_bits} bits.")
    if call.vector_size is not None and call.vector_size < 1:
        raise bad("bad_request", "vector_size must be at least 1.")
    if call.ids is None or call.codes is None:
        collection._replace_hasher(hasher, call.vector_size)
    else:
        ids, codes = checked_ids(call.ids), check_codes(call.codes, collection.n_bits)
        if len(ids) != len(codes):
            raise bad("bad_request", f"There must be one code per id. Got {len(codes)} codes and {len(ids)} ids.")
        collection._replace_codes(hasher, ids, codes)
    service.follow_hasher(served)
    return 1


def _compact(service: Service, served: ServedCollection, call: wire.NoCall) -> int:
    served.collection.compact()
    return 0


_Call = Callable[[Service, ServedCollection, Any], Any]


def _calls(*works: _Call) -> dict[str, tuple[type[wire.Call], _Call]]:
    """Return functions by the names of the calls that they answer, each with the structure that it takes."""
    return {work.__name__.strip("_"): (get_type_hints(work)["call"], work) for work in works}


_READS = _calls(_spec, _search, _within, _get, _count, _scan, _info, _verify, _embed)
_WRITES = _calls(_add, _update, _delete, _take_ids, _replace, _compact)
Body = Annotated[bytes, body_of(wire.CONTENT_TYPE)]


@reading
def new_spec_of(service: ServiceDep, body: Body) -> wire.CreateCall:
    return wire.decode(body, wire.CreateCall)


@router.post("/{name}/store/create", dependencies=[Depends(require_writer)])
@writing
def create_by_store(service: ServiceDep, name: str, call: Annotated[wire.CreateCall, Depends(new_spec_of)]) -> Response:
    """Make a collection in the folder of --create-in, with the hasher that the client sends."""
    if not COLLECTION_NAME.fullmatch(name):
        raise bad(
            "bad_request", f"A collection's name has 1 to 64 letters, digits, '_', '.' or '-'. Got {name[:64]!r}."
        )
    folder = check_may_create(service, name)
    asked: Any = call.spec
    facts = (asked.n_bits, False, asked.vector_size, asked.kind, asked.settings, asked.indexed, asked.ids)
    hasher = _hasher(asked.model)
    spec = make_spec(hasher, *facts)
    store = store_class(str(folder))
    store.check_new(str(folder / name), spec)
    if not call.check_only:
        collection = Collection(str(folder / name), store.create(str(folder / name), spec), hasher)
        add_served(service, ServedCollection(name, collection))
    return _response(0)


@reading
def change_of(service: ServiceDep, served: WritableDep, call: str, body: Body) -> tuple[_Call, wire.Call]:
    kind, work = _found(_WRITES, call)
    return work, wire.decode(body, kind)


@router.post("/{collection}/store/write/{call}", dependencies=[Depends(require_writer)])
@writing
def write_to_store(
    service: ServiceDep, served: CollectionDep, change: Annotated[tuple[_Call, wire.Call], Depends(change_of)]
) -> Response:
    """Do what a client asks of the store, one change after the other."""
    work, message = change
    return _response(work(service, served, message))


@router.post("/{collection}/store/{call}")
@reading
def ask_store(service: ServiceDep, served: CollectionDep, call: str, body: Body) -> Response:
    """Answer what a client asks of the store."""
    kind, work = _found(_READS, call)
    return _response(work(service, served, wire.decode(body, kind)))


def _found(calls: dict[str, tuple[type[wire.Call], _Call]], name: str) -> tuple[type[wire.Call], _Call]:
    if name not in calls:
        raise ApiError(404, "not_found", "There is no such call of a store.")
    return calls[name]


def _response(message: Any) -> Response:
    return Response(wire.encode(message), media_type=wire.CONTENT_TYPE)


def _hasher(model: bytes) -> Any:
    try:
        return models.loads(model, "The model") if model else None
    except ModelFileError as error:
        raise bad("bad_request", str(error)) from error


def _checked_query(service: Service, served: ServedCollection, sent: wire.WireQuery) -> Query:
    """Return the queries of a client, whose arrays may have any shape."""
    query, n_bits = sent.unpack(), served.n_bits
    values, plan = query.values, query.rescoring
    if len(values) > service.limits.queries:
        raise ApiError(413, "too_many", f"At most {service.limits.queries:,} queries are taken at once.")
    if query.by_bits:
        check_codes(values, n_bits)  # type: ignore[arg-type]
    elif isinstance(values, ScoreTables):
        if values.nibbles.shape[1] != 2 * ((n_bits + 7) // 8):
            raise ValueError(f"Tables must have two nibbles per byte of a code of {n_bits} bits.")
    else:
        checked_vectors(values, n_bits, "Expected bits")
    if plan is not None:
        size = served.collection.vector_size
        if size is None:
            raise bad("bad_mode", f"rescore needs kept vectors, and the collection {served.name} keeps none.")
        checked_vectors(plan.vectors, size, "The vectors of queries")
        if plan.also is not None:
            check_codes(plan.also, n_bits)
        if any(len(part) != len(values) for part in (plan.vectors, plan.also) if part is not None):
            raise ValueError("Rescoring needs one vector per query.")
    return query
