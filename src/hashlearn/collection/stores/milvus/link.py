"""A connection to Milvus: its URI, errors as one sentence, repeated calls, and what a collection is on the server.

The spec and model are in a second small collection beside it, ``<name>__hashlearn``.

    part 0            JSON: format, n_bits, fingerprint, vector_size, kind, settings, ids, model's length and SHA-256
    part 1, 2, …      the bytes of the model in base64, 49,149 bytes each
    part 2^40 + g     JSON as in part 0 after the g-th migration, and first_part: where its model begins
    parts above 2^41  the bytes of the models of migrations

Milvus has no transactions, so a migration changes no part: it writes the new model beside the old ones, and then the
JSON that makes it count, which is one row. The JSON with the largest number counts. A crash leaves the collection with
the old model or with the new one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import secrets
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from hashlearn.collection.store import CollectionError, CollectionSpec, NoCollectionError, model_was_replaced
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


FORMAT = 1
META_FIELDS = {"part", "text", "nothing"}
_MAX_TEXT = 65_535  # of a VARCHAR
_PART_BYTES = _MAX_TEXT // 4 * 3
_PARTS_AT_ONCE = 100
_FIRST_HEAD, _FIRST_MODEL, _MOST_PARTS = 2**40, 2**41, 2**20


def create_meta(link: MilvusLink, spec: CollectionSpec) -> None:
    """Write the spec. The collection for rows is made after this, so an interrupted creation leaves no collection."""
    from pymilvus import DataType, MilvusClient

    name = _name(link)
    link.call("drop_collection", name)
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description="hashlearn: what it is")
    schema.add_field("part", DataType.INT64, is_primary=True)
    schema.add_field("text", DataType.VARCHAR, max_length=_MAX_TEXT)
    # Milvus requires a vector field in every collection.
    schema.add_field("nothing", DataType.BINARY_VECTOR, dim=8)
    make_collection(link, name, schema, "nothing", "BIN_FLAT", {})
    _write_model(link, spec.model, 1)
    _write(link, 0, [_head(spec)])


def replace_spec(link: MilvusLink, before: CollectionSpec, spec: CollectionSpec) -> None:
    """Write another spec and model, if the present ones are still those of ``before``."""
    newest, head = _newest_head(link)
    if head["fingerprint"] != before.fingerprint:
        raise model_was_replaced(link.address.shown)
    first = _FIRST_MODEL + secrets.randbelow(_FIRST_MODEL) * _MOST_PARTS
    _write_model(link, spec.model, first)
    _write(link, max(newest, _FIRST_HEAD) + 1, [_head(spec, first_part=first)])
    # Nothing locks this out: another process may have written the same part at this moment.
    if _newest_head(link)[1].get("first_part") != first:
        raise model_was_replaced(link.address.shown)


def _head(spec: CollectionSpec, **more: int) -> str:
    # Older versions do not know kinds of ids, but can read a collection with numbers.
    left_out = ("model", "indexed", *(["ids"] if spec.ids == "int" else []))
    facts = {name: value for name, value in asdict(spec).items() if name not in left_out}
    digest = hashlib.sha256(spec.model).hexdigest()
    return json.dumps({"format": FORMAT, **facts, "model_bytes": len(spec.model), "model_sha256": digest, **more})


def _write_model(link: MilvusLink, model: bytes, first_part: int) -> None:
    pieces = [model[start : start + _PART_BYTES] for start in range(0, len(model), _PART_BYTES)]
    _write(link, first_part, [base64.b64encode(piece).decode("ascii") for piece in pieces])


def _write(link: MilvusLink, first_part: int, texts: list[str]) -> None:
    """Write texts as consecutive parts."""
    for start in range(0, len(texts), _PARTS_AT_ONCE):
        some = enumerate(texts[start : start + _PARTS_AT_ONCE], first_part + start)
        link.call("upsert", _name(link), [{"part": part, "text": text, "nothing": b"\0"} for part, text in some])


def make_collection(link: MilvusLink, name: str, schema: Any, field: str, index: str, settings: dict[str, int]) -> None:
    from pymilvus import MilvusClient

    parameters = MilvusClient.prepare_index_params()
    parameters.add_index(field_name=field, index_type=index, metric_type="HAMMING", params=settings)
    # One shard, so that a request goes to one channel.
    link.call("create_collection", name, schema=schema, consistency_level="Strong", num_shards=1)
    # The collection is empty, so there is no need to wait for the index.
    link.call("create_index", name, parameters, sync=False)


def load(link: MilvusLink) -> None:
    """Load both collections at the same time, so that the server answers for them."""
    for options in ({"_async": True}, {}):
        for name in (link.address.collection, link.address.collection + META_SUFFIX):
            link.call("load_collection", name, **options)


def read_spec(link: MilvusLink) -> CollectionSpec:
    head = _newest_head(link)[1]
    found = head.pop("format", None)
    if found != FORMAT:
        raise CollectionError(
            f"The collection at {link.address.shown} has the format {found}, this hashlearn reads {FORMAT}."
        )
    size, digest, first_part = head.pop("model_bytes"), head.pop("model_sha256"), head.pop("first_part", 1)
    texts: list[str] = []
    stop = first_part - (-size // _PART_BYTES)
    for first in range(first_part, stop, _PARTS_AT_ONCE):
        texts += _texts(link, first, min(first + _PARTS_AT_ONCE, stop)).values()
    model = b"".join(base64.b64decode(text) for text in texts)
    if len(model) != size or hashlib.sha256(model).hexdigest() != digest:
        raise _damaged(link)
    return CollectionSpec(model=model, **head)


def _newest_head(link: MilvusLink) -> tuple[int, dict[str, Any]]:
    """Return the part and the facts of the JSON that counts."""
    heads = _texts(link, 0, 1) | _texts(link, _FIRST_HEAD, _FIRST_MODEL)
    if not heads:
        raise _damaged(link)
    newest = max(heads)
    return newest, json.loads(heads[newest])


def _damaged(link: MilvusLink) -> CollectionError:
    return CollectionError(
        f"The model of the collection at {link.address.shown} is damaged: restore it by Milvus' own tools, or drop and "
        "create it again."
    )


def _name(link: MilvusLink) -> str:
    return link.address.collection + META_SUFFIX


def _texts(link: MilvusLink, first: int, stop: int) -> dict[int, str]:
    """Return the texts of these parts, by increasing part."""
    rows = link.call(
        "query",
        _name(link),
        filter=f"part >= {first} and part < {stop}",
        output_fields=["part", "text"],
        consistency_level="Strong",
    )
    return dict(sorted((int(row["part"]), row["text"]) for row in rows))


def foreign(place: str) -> str:
    return f"The collection at {place} was not made by hashlearn: choose another name."


def fields_of_ours(link: MilvusLink) -> dict[str, str]:
    """Return the fields of the rows, after checking that both collections exist and were made by hashlearn."""
    name, place = link.address.collection, link.address.shown
    if not link.call("has_collection", name):
        raise NoCollectionError(f"There is no collection at {place}: create it first.")
    meta = name + META_SUFFIX
    if not link.call("has_collection", meta) or set(_fields(link, meta)) != META_FIELDS:
        raise CollectionError(foreign(place))
    found = _fields(link, name)
    if not {"id", "code", "payload"} <= set(found):
        raise CollectionError(foreign(place))
    return found


def _fields(link: MilvusLink, name: str) -> dict[str, str]:
    return _types(link.call("describe_collection", name)["fields"])


def row_schema(spec: CollectionSpec) -> Any:
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description="hashlearn")
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=(spec.n_bits + 7) // 8 * 8)
    schema.add_field("payload", DataType.JSON)
    if spec.vector_size:
        # Milvus 2.3 allows one vector field per collection, and the code is that field.
        schema.add_field("vector", DataType.ARRAY, element_type=DataType.FLOAT, max_capacity=spec.vector_size)
    return schema


def _types(fields: list[dict[str, Any]]) -> dict[str, str]:
    """Return name and type of each field, in the same form for expected and for found fields."""
    types = {}
    for field in fields:
        sizes = field.get("params", {})
        size = sizes.get("dim") or sizes.get("max_capacity")
        types[field["name"]] = field["type"].name + (f"({size})" if size else "")
    return types


def wanted_fields(spec: CollectionSpec) -> dict[str, str]:
    return _types(row_schema(spec).to_dict()["fields"])
