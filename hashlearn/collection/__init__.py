"""Collections: a hasher, codes, ids and payloads that are kept in a folder or on a server; a URI says where."""

from hashlearn.collection.collection import Collection, Item
from hashlearn.collection.store import CollectionError, UnsupportedByStoreError
from hashlearn.collection.where import WhereError

__all__ = ["Collection", "CollectionError", "Item", "UnsupportedByStoreError", "WhereError"]
