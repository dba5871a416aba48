"""Collections: a hasher, codes, ids and payloads that are kept in a folder or on a server; a URI says where."""

from hashlearn.collection.awaited import AsyncCollection
from hashlearn.collection.collection import Collection, collections
from hashlearn.collection.reading import Item, Items
from hashlearn.collection.store import (
    CollectionError,
    CollectionExistsError,
    NoSuchRowsError,
    UnsupportedByStoreError,
)
from hashlearn.collection.where import WhereError

__all__ = [
    "AsyncCollection",
    "Collection",
    "CollectionError",
    "CollectionExistsError",
    "Item",
    "Items",
    "NoSuchRowsError",
    "UnsupportedByStoreError",
    "WhereError",
    "collections",
]
