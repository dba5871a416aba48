"""Servers for the tests of collections. With pytest-xdist every worker that needs a server has its own."""

from collection.servers import milvus_server, milvus_uri, postgres_server, postgres_uri

__all__ = ["milvus_server", "milvus_uri", "postgres_server", "postgres_uri"]
