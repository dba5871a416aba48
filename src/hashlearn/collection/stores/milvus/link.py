"""A connection to Milvus: its URI, errors as one sentence, and calls that are repeated while the server is away."""

from __future__ import annotations

import logging
import re
import sys
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from hashlearn.collection.store import CollectionError
from hashlearn.collection.stores.remote import first_sentence
from hashlearn.collection.uri import shown

META_SUFFIX = "__hashlearn"
_FORM = "milvus://user:password@host:19530/collection"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_NAME = 255 - len(META_SUFFIX)
_OPTIONS = {"db", "token", "timeout"}
_TIMEOUT = 60.0
_CONNECT_TIMEOUT = 10.0
# Messages of a server that starts, or moves a collection from one node to another: the call can be repeated.
_PASSING = re.compile(
    r"not ready|not healthy|not available|unavailable|no available shard|not fully loaded|node not (found|match)|"
    r"service initializing|connection refused|deadline.exceeded",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class MilvusAddress:
    """The parts of a URI."""

    server: str
    user: str
    password: str
    token: str
    database: str
    collection: str
    timeout: float
    shown: str


def read_uri(uri: str) -> MilvusAddress:
    """``milvus://[user:password@]host[:port]/collection[?db=][&token=][&timeout=seconds]``; milvus+tls:// with TLS."""
    place = shown(uri)
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or 19530
    except ValueError:
        raise CollectionError(f"{place} is no Milvus URI: write {_FORM}.") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(set(options) - _OPTIONS)
    if parts.scheme not in ("milvus", "milvus+tls") or not host or unknown:
        raise CollectionError(
            f"{place} is no Milvus URI{f' ({unknown[0]!r} is no option of it)' if unknown else ''}: write {_FORM}, "
            "milvus+tls:// for TLS, and ?db=, ?token= and ?timeout= where needed."
        )
    name = unquote(parts.path.removeprefix("/"))
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME or name.endswith(META_SUFFIX):
        raise CollectionError(
            f"A collection on Milvus has a name of at most {MAX_NAME} English letters, digits and underscores, not "
            f"starting with a digit and not ending in {META_SUFFIX}. Got {name[:80]!r} instead."
        )
    try:
        timeout = float(options.get("timeout") or _TIMEOUT)
    except ValueError:
        timeout = -1.0
    if not 0 < timeout < 1e6:
        raise CollectionError(f"timeout= in {place} must be a number of seconds. Got {options['timeout']!r} instead.")
    return MilvusAddress(
        server=f"{'https' if parts.scheme.endswith('tls') else 'http'}://{f'[{host}]' if ':' in host else host}:{port}",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        token=options.get("token", ""),
        database=options.get("db", ""),
        collection=name,
        timeout=timeout,
        shown=place,
    )


class MilvusLink:
    """A client whose calls are repeated for ``timeout`` seconds while the server cannot be reached."""

    def __init__(self, address: MilvusAddress) -> None:
        self.address = address
        self._client: Any = None
        MilvusClient = _pymilvus().MilvusClient
        try:
            self._client = MilvusClient(
                uri=address.server,
                user=address.user,
                password=address.password,
                token=address.token,
                db_name=address.database,
                timeout=min(_CONNECT_TIMEOUT, address.timeout),
            )
        except Exception as error:  # whatever gRPC and pymilvus raise: their kinds differ between versions
            raise self.sentence("Cannot connect to", error) from error

    def sentence(self, start: str, error: Exception) -> CollectionError:
        message = getattr(error, "message", "") or getattr(error, "details", lambda: "")() or error
        secret = self.address.password or self.address.token
        return CollectionError(f"{start} {self.address.shown}: {first_sentence(message, secret)}.")

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of MilvusClient. Changes are upserts or deletions by id, so repeating them does no harm."""
        if self._client is None:
            raise CollectionError(f"The collection {self.address.shown} is closed.")
        import grpc

        errors = (_pymilvus().MilvusException, grpc.RpcError)
        end, wait = time.monotonic() + self.address.timeout, 0.1
        while True:
            left = max(end - time.monotonic(), 1.0)
            try:
                # pymilvus itself repeats what gRPC could not deliver, with growing pauses, until the timeout.
                return getattr(self._client, method)(*arguments, timeout=left, **options)
            except errors as error:
                passing = _PASSING.search(str(error)) is not None
                if not passing:
                    raise self.sentence("Milvus refuses at", error) from error
                if time.monotonic() + wait > end:
                    raise self.sentence(f"No answer for {self.address.timeout:g} s from", error) from error
                time.sleep(wait)
                wait = min(2 * wait, 2.0)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None


def _pymilvus() -> Any:
    first_import = "pymilvus" not in sys.modules
    try:
        import pymilvus
    except ImportError as error:
        raise ImportError("Collections on Milvus need pymilvus: install it with pip install '.[milvus]'.") from error
    if first_import:
        # pymilvus logs a traceback for every error that it also raises. Programs that imported it before keep their
        # own settings of its logs.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return pymilvus
