"""Collections that clients make and drop. They lie in one folder, which the server was given for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hashlearn.collection import Collection
from hashlearn.collection.embedded.connection import FILE
from hashlearn.files.arrays import FileError
from hashlearn.service.errors import ApiError, bad, collection_errors, to_json
from hashlearn.service.schemas import CreateRequest
from hashlearn.service.served_collection import ServedCollection, open_collection
from hashlearn.service.service import Service


def open_made(folder: Path) -> list[ServedCollection]:
    """The collections that are in the folder already, which is made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = sorted(path.parent for path in folder.glob(f"*/{FILE}"))
    except OSError as error:
        raise FileError(f"{folder} cannot hold collections: {error.strerror or error}.") from error
    opened: list[ServedCollection] = []
    try:
        for path in paths:
            opened.append(open_collection(str(path), path.name))
            opened[-1].droppable = True
    except BaseException:
        for served in opened:
            served.collection.close()
        raise
    return opened


def create(service: Service, asked: CreateRequest) -> bytes:
    """Make a collection and serve it. Only the one thread that writes may call this."""
    folder = service.settings.create_in
    if folder is None:
        message = "Creating collections is off: start the server with --create-in FOLDER."
        raise ApiError(403, "no_creating", message)
    if asked.name in service.collections or (folder / asked.name).exists():
        raise ApiError(409, "exists", f"There is a collection or a folder {asked.name!r} already: take another name.")
    if len(service.collections) >= service.limits.collections:
        message = f"At most {service.limits.collections} collections are served: drop one first."
        raise ApiError(413, "too_many", message)
    with collection_errors():
        collection = Collection.create(
            folder / asked.name,
            _hasher(service, asked.hasher_of),
            n_bits=asked.n_bits,
            store_vectors=asked.store_vectors,
            vector_size=asked.vector_size,
            kind=asked.kind,
            indexed=asked.indexed,
            ids=asked.ids,
        )
    served = ServedCollection(asked.name, collection)
    served.droppable = True
    if asked.hasher_of is not None:
        served.texts = service.collections[asked.hasher_of].texts
    service.collections[asked.name] = served
    with collection_errors():
        return to_json(served.facts(service.settings.may_write))


def _hasher(service: Service, name: str | None) -> Any:
    if name is None:
        return None
    other = service.collections.get(name)
    if other is None:
        raise ApiError(404, "no_collection", f"There is no collection {name[:64]!r} here whose hasher to take.")
    if other.hasher is None:
        raise bad("bad_request", f"The collection {name} has no hasher: give n_bits instead of hasher_of.")
    return other.hasher


def drop(service: Service, served: ServedCollection) -> bytes:
    """Serve a collection no longer, and remove it for good. Only the one thread that writes may call this."""
    folder = service.settings.create_in
    if folder is None or not served.droppable:
        message = f"The collection {served.name} lies outside of --create-in FOLDER, so only its owner can drop it."
        raise ApiError(403, "not_droppable", message)
    check_there(service, served)
    service.forget(served)
    with collection_errors():
        served.collection.close()
        Collection.drop(folder / served.name)
    return to_json({"dropped": served.name})


def check_there(service: Service, served: ServedCollection) -> None:
    """Refuse to write to a collection that was dropped while the request waited for its turn."""
    if service.collections.get(served.name) is not served:
        raise ApiError(404, "no_collection", f"There is no collection {served.name!r} here any more.")
