"""Copy a collection to another place, batch by batch; the same call again goes on after an interruption."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hashlearn.collection.ids import ids_of_kind
from hashlearn.collection.new_spec import check_same, check_tables
from hashlearn.collection.store import CollectionError, CollectionSpec, Store, StoredRows
from hashlearn.collection.stores import store_class
from hashlearn.collection.uri import as_uri, with_token
from hashlearn.progress import report

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection

_BATCH_ROWS, _FLOATS = 50_000, 2**24


def copy(self: Collection, uri: str | os.PathLike[str], *, token: str | None = None) -> Collection:
    """Copy all rows to another place, such as from a folder to a server, and return the copy, open.

    Hasher, names of fields, kind of ids, codes, payloads and kept vectors are the same. The kind of index and
    indexed fields are kept where the other storage has them; otherwise the index is flat, and fields are not
    indexed. Rows are read and written in batches; of a folder, all codes are read first. After an interruption the
    same call goes on: rows that are in the copy already are read and compared, and only those that are missing or
    differ are written. The source must not change meanwhile, because rows that are deleted from it stay in the
    copy.

    Parameters
    ----------
    uri : str or path-like
        Where the copy is made, as in ``create``. A collection that is there already must have been made with the
        same hasher, kind of ids and size of vectors; rows of it with other ids stay.
    token : str, default=None
        As in ``create``.

    Returns
    -------
    Collection

    Raises
    ------
    UnsupportedByStoreError
        If the hasher is an OpenHasher and the storage PostgreSQL or Milvus, which have only Hamming distance.
    """
    place, spec = with_token(as_uri(uri), token), self._store.spec
    storage = store_class(place)
    check_tables(storage, self.hasher, place)
    new = not storage.exists(place)
    if new:
        target = type(self)(place, storage.create(place, _spec_for(storage, place, spec)))
    else:
        target = self.open(place)
    try:
        if not new:
            found = target._store.spec
            check_same(
                found, replace(spec, kind=found.kind, settings=found.settings, indexed=found.indexed), target.uri
            )
            if spec.model:
                target._encoder.accept(self.hasher)
        _copy_rows(self._store, target._store, new)
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
