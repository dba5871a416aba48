"""Collections: a hasher, codes, ids and payloads that last, in a folder or on a server, chosen by URI."""

from hashlearn.collection.collection import Collection, Item
from hashlearn.collection.store import CollectionError, UnsupportedByStoreError
from hashlearn.collection.where import WhereError

__all__ = ["Collection", "CollectionError", "Item", "UnsupportedByStoreError", "WhereError"]
