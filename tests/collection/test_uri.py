"""URIs: what they mean, and that their secrets are not shown."""

import subprocess
import sys

import pytest

from hashlearn.collection import CollectionError
from hashlearn.collection.stores import store_class
from hashlearn.collection.uri import is_folder, shown


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("shop/", "shop/"),
        ("/a:b@c/shop", "/a:b@c/shop"),
        ("postgresql://me:secret@host:5432/db?collection=shop", "postgresql://me:***@host:5432/db?collection=shop"),
        ("postgresql://me:se@cr:et@host/db", "postgresql://me:***@host/db"),
        ("postgresql:///db?host=/tmp/x&user=me&password=secret", "postgresql:///db?host=/tmp/x&user=me&password=***"),
        ("milvus://root:secret@host:19530/shop", "milvus://root:***@host:19530/shop"),
        ("milvus://host/shop?token=secret", "milvus://host/shop?token=***"),
        ("milvus://[bad:secret", "milvus://***"),
    ],
)
def test_secrets_are_not_shown(uri, text):
    assert shown(uri) == text


def test_kinds_of_storage():
    assert store_class("shop").__name__ == "EmbeddedStore"
    assert store_class("C:/shop").__name__ == "EmbeddedStore"
    assert store_class(":memory:").__name__ == "TemporaryStore"
    assert is_folder("./milvus")
    assert is_folder("./:memory:")
    assert not is_folder(":memory:")
    assert not is_folder("milvus://host/x")
    with pytest.raises(CollectionError, match="redis:// is no known storage") as caught:
        store_class("redis://me:secret@host/x")
    assert "secret" not in str(caught.value)


def test_importing_brings_no_storage_along():
    storage = ("sqlite3", "faiss", "pymilvus", "psycopg")
    script = f"import sys, hashlearn; print([name for name in {storage} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
