"""The spec and model of a collection on Milvus, in a second small collection beside it, ``<name>__hashlearn``.

    part 0            JSON: format, n_bits, fingerprint, vector_size, kind, settings, ids, model's length and SHA-256
    part 1, 2, …      the bytes of the model in base64, 49,149 bytes each

Collections of hashlearn 0.2 also have parts below 0, which counted ids and are no longer used.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict
from typing import Any

from hashlearn.collection.milvus.link import META_SUFFIX, MilvusLink
from hashlearn.collection.store import CollectionError, CollectionSpec

FORMAT = 1
META_FIELDS = {"part", "text", "nothing"}
_MAX_TEXT = 65_535  # of a VARCHAR
_PART_BYTES = _MAX_TEXT // 4 * 3
_PARTS_AT_ONCE = 100


def create_meta(link: MilvusLink, spec: CollectionSpec) -> None:
    """Write the spec. The collection for rows is made after this, so an interrupted creation leaves no collection."""
    from pymilvus import DataType, MilvusClient

    name = link.address.collection + META_SUFFIX
    link.call("drop_collection", name)
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description="hashlearn: what it is")
    schema.add_field("part", DataType.INT64, is_primary=True)
    schema.add_field("text", DataType.VARCHAR, max_length=_MAX_TEXT)
    # Milvus requires a vector field in every collection.
    schema.add_field("nothing", DataType.BINARY_VECTOR, dim=8)
    make_collection(link, name, schema, "nothing", "BIN_FLAT", {})
    # Older versions do not know kinds of ids, but can read a collection with numbers.
    left_out = ("model", "indexed", *(["ids"] if spec.ids == "int" else []))
    facts = {name: value for name, value in asdict(spec).items() if name not in left_out}
    head = {
        "format": FORMAT,
        **facts,
        "model_bytes": len(spec.model),
        "model_sha256": hashlib.sha256(spec.model).hexdigest(),
    }
    texts = [json.dumps(head)]
    for start in range(0, len(spec.model), _PART_BYTES):
        texts.append(base64.b64encode(spec.model[start : start + _PART_BYTES]).decode("ascii"))
    for first in range(0, len(texts), _PARTS_AT_ONCE):
        some = texts[first : first + _PARTS_AT_ONCE]
        link.call("upsert", name, [_row(first + place, text) for place, text in enumerate(some)])


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


def _row(part: int, text: str) -> dict[str, Any]:
    return {"part": part, "text": text, "nothing": b"\0"}


def read_spec(link: MilvusLink) -> CollectionSpec:
    damaged = CollectionError(
        f"The model of the collection at {link.address.shown} is damaged: restore it by Milvus' own tools, or drop and "
        "create it again."
    )
    name = link.address.collection + META_SUFFIX
    head_text = _texts(link, name, 0, 1)
    if not head_text:
        raise damaged
    head = json.loads(head_text[0])
    found = head.pop("format", None)
    if found != FORMAT:
        raise CollectionError(
            f"The collection at {link.address.shown} has the format {found}, this hashlearn reads {FORMAT}."
        )
    size, digest = head.pop("model_bytes"), head.pop("model_sha256")
    texts: list[str] = []
    count = -(-size // _PART_BYTES)
    for first in range(1, count + 1, _PARTS_AT_ONCE):
        texts += _texts(link, name, first, min(first + _PARTS_AT_ONCE, count + 1))
    model = b"".join(base64.b64decode(text) for text in texts)
    if len(model) != size or hashlib.sha256(model).hexdigest() != digest:
        raise damaged
    return CollectionSpec(model=model, **head)


def _texts(link: MilvusLink, name: str, first: int, stop: int) -> list[str]:
    rows = link.call(
        "query",
        name,
        filter=f"part >= {first} and part < {stop}",
        output_fields=["part", "text"],
        consistency_level="Strong",
    )
    return [row["text"] for row in sorted(rows, key=lambda row: int(row["part"]))]
