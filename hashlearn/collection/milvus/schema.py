"""The fields of a collection on Milvus, and whether hashlearn made it."""

from __future__ import annotations

from typing import Any

from hashlearn.collection.milvus.link import META_SUFFIX, MilvusLink
from hashlearn.collection.milvus.meta import META_FIELDS
from hashlearn.collection.store import CollectionError, CollectionSpec


def foreign(place: str) -> str:
    return f"The collection at {place} was not made by hashlearn: choose another name."


def fields_of_ours(link: MilvusLink) -> dict[str, str]:
    """Return the fields of the rows, after checking that both collections exist and were made by hashlearn."""
    name, place = link.address.collection, link.address.shown
    if not link.call("has_collection", name):
        raise CollectionError(f"There is no collection at {place}: create it first.")
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
    """Name and type of each field, in the same form for expected and for found fields."""
    types = {}
    for field in fields:
        sizes = field.get("params", {})
        size = sizes.get("dim") or sizes.get("max_capacity")
        types[field["name"]] = field["type"].name + (f"({size})" if size else "")
    return types


def wanted_fields(spec: CollectionSpec) -> dict[str, str]:
    return _types(row_schema(spec).to_dict()["fields"])
