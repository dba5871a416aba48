"""Servers for the tests of collections. With ``--dist loadgroup`` one process of pytest-xdist has each of them."""

from collection.servers import http_server, http_uri, milvus_server, milvus_uri, postgres_server, postgres_uri

__all__ = ["http_server", "http_uri", "milvus_server", "milvus_uri", "postgres_server", "postgres_uri"]
