"""Copy a collection to another place, batch by batch; the same call again goes on after an interruption."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hashlearn.collection.ids import ids_of_kind
from hashlearn.collection.new_spec import check_same, check_tables
from hashlearn.collection.store import CollectionError, CollectionSpec, Store, StoredRows
from hashlearn.collection.stores import store_class
from hashlearn.progress import report

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection

_BATCH_ROWS, _FLOATS = 50_000, 2**24


def copy(source: Collection, uri: str) -> Collection:
    """Copy all rows to the collection at ``uri``, which is made if it is not there, and return it open."""
    storage, spec = store_class(uri), source._store.spec
    check_tables(storage, source.hasher, uri)
    new = not storage.exists(uri)
    target = type(source)(uri, storage.create(uri, _spec_for(storage, uri, spec))) if new else source.open(uri)
    try:
        if not new:
            found = target._store.spec
            check_same(
                found, replace(spec, kind=found.kind, settings=found.settings, indexed=found.indexed), target.uri
            )
            if spec.model:
                target._encoder.accept(source.hasher)
        _copy_rows(source._store, target._store, new)
    except BaseException:
        target.close()
        raise
    return target


def _spec_for(storage: type[Store], uri: str, spec: CollectionSpec) -> CollectionSpec:
    """Return the spec without the kind of index, or the indexed fields, that the storage does not have."""
    flat: dict[str, Any] = {"kind": "flat", "settings": {}}
    for changes in ({}, flat, {"indexed": ()}):
        try:
            storage.check_new(uri, replace(spec, **changes))
        except (CollectionError, ValueError):
            continue
        return replace(spec, **changes)
    return replace(spec, **flat, indexed=())


def _copy_rows(source: Store, target: Store, new: bool) -> None:
    """Write the rows that the target does not have as they are in the source."""
    size, total, done = source.spec.vector_size, source.count(), 0
    step = max(1, min(_BATCH_ROWS, target.batch_rows, _FLOATS // (size or 1)))
    for rows in source.scan(step, vectors=size is not None):
        missing = rows if new else _missing(rows, target)
        if len(missing.ids):
            target.add(*missing)
        done += len(rows.ids)
        report("copying", done, max(done, total))


def _missing(rows: StoredRows, target: Store) -> StoredRows:
    """Return those of the rows that are not in the target, or are there with another code, payload or vector."""
    kind = ids_of_kind(target.spec.ids)
    kind.check_free(target, kind.shown(rows).ids)
    found = target.get(rows.ids, vectors=rows.vectors is not None)
    places = np.flatnonzero(np.isin(rows.ids, found.ids))
    same = (rows.codes[places] == found.codes).all(axis=1)
    pairs = zip(places, found.payloads, strict=True)
    same &= np.array([rows.payloads[place] == payload for place, payload in pairs], dtype=bool)
    if rows.vectors is not None and found.vectors is not None:
        same &= (rows.vectors[places] == found.vectors).all(axis=1)
    keep = np.setdiff1d(np.arange(len(rows.ids)), places[same])
    payloads = [rows.payloads[place] for place in keep]
    return StoredRows(rows.ids[keep], rows.codes[keep], payloads, None if rows.vectors is None else rows.vectors[keep])
