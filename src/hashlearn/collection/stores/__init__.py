"""The stores of collections, one folder or file per storage."""

from hashlearn.collection.store import CollectionError, Store
from hashlearn.collection.uri import MEMORY, scheme_of


def store_class(uri: str) -> type[Store]:
    """Return the store class for a URI. The client package of a server is imported only for its URIs."""
    if uri == MEMORY:
        from hashlearn.collection.stores.embedded.store import TemporaryStore

        return TemporaryStore
    scheme = scheme_of(uri)
    if not scheme:
        from hashlearn.collection.stores.embedded.store import EmbeddedStore

        return EmbeddedStore
    if scheme.split("+")[0] == "milvus":
        from hashlearn.collection.stores.milvus.store import MilvusStore

        return MilvusStore
    if scheme in ("http", "https"):
        from hashlearn.collection.stores.http import HttpStore

        return HttpStore
    if scheme in ("postgresql", "postgres"):
        from hashlearn.collection.stores.postgres.store import PostgresStore

        return PostgresStore
    raise CollectionError(
        f"{scheme}:// is no known storage: give a folder, http://host:port/name, milvus://… or postgresql://…."
    )
