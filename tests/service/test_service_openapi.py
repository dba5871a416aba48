"""The service does what its own OpenAPI says, whatever is sent."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from service_box import ROWS, TOKEN, client, new_service

from hashlearn.service.app import Gate, make_api

# What fits the schema may still be wrong for this collection, a vector of another length say: 400 is right then.
SETTINGS = {
    "checks": {
        "positive_data_acceptance": {
            "expected-statuses": ["2xx", "400", "401", "403", "404", "413", "415", "503"],
        },
        "missing_required_header": {"expected-statuses": ["400", "401", "403", "415"]},
    },
    "headers": {"Authorization": f"Bearer {TOKEN}"},
}


@cache
def _tool():
    """Schemathesis takes seconds to import, so only the tests that use it import it."""
    import schemathesis

    @schemathesis.serializer("application/x-npy", "image/png", "image/jpeg", "image/webp")
    def binary(context, value):
        return value if isinstance(value, bytes) else str(value).encode()

    return schemathesis


def _left_open(app):
    """The application without its end: the client of schemathesis begins and ends it for every request."""

    async def application(scope, receive, send):
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for event in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{event}"
            await send({"type": f"lifespan.{event}.complete"})

    return application


def _narrowed(schema, name=""):
    """The schema with what only this collection knows: its ids, the width of its rows and codes. Most of what fits it
    is answered with a result then, and not with an error that is right."""
    if isinstance(schema, list):
        for part in schema:
            _narrowed(part, name)
    elif isinstance(schema, dict):
        if schema.get("maximum") == 2**63 - 1:
            schema["maximum"] = ROWS - 1
        if schema.get("type") == "array" and schema.get("items") == {"type": "number"}:
            schema |= {"minItems": 16, "maxItems": 16, "items": {"type": "number", "minimum": -1, "maximum": 1}}
        if schema.get("title") == "Id" and schema.get("type") == "string":
            # Of ten ids all could be deleted before a picture is asked for.
            schema |= {"pattern": f"^[1-{ROWS // 10 - 1}][0-9]$"}
        if name in ("code", "codes") and schema.get("type") == "string":
            schema["pattern"] = "^[0-9a-f]{3}0$"
        if name == "where" and schema.get("type") == "object":
            schema["additionalProperties"] = {"type": ["string", "integer", "boolean"], "maximum": 9}
        for key, part in schema.items():
            _narrowed(part, name if key in ("items", "anyOf") else key)


@contextmanager
def _api(folder, narrowed):
    service = new_service(folder, allow_hosts=("testserver",))
    service.search_all()
    service.ready = True
    app = make_api(service)
    if narrowed:
        schema = app.openapi()
        _narrowed({name: part for name, part in schema["components"]["schemas"].items() if "Request" in name})
        _narrowed([route.get("parameters") for path in schema["paths"].values() for route in path.values()])
    try:
        config = _tool().config.SchemathesisConfig.from_dict(SETTINGS)
        yield _tool().openapi.from_asgi("/openapi.json", _left_open(Gate(app, service)), config=config)
    finally:
        service.close_now()


def _kept(api, mode):
    """Ask every operation what the schema allows, or forbids; the operations, and those that gave a result."""
    labels, good = set(), set()
    for found in api.get_all_operations():
        operation = found.ok()
        labels.add(operation.label)

        @settings(
            max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy(generation_mode=_tool().GenerationMode[mode]))
        def keeps(case):
            if "collection" in (case.path_parameters or {}):
                case.path_parameters["collection"] = "shop"
            if case.call_and_validate().status_code == 200:
                good.add(case.operation.label)

        try:
            keeps()
        except Unsatisfiable:
            assert mode == "NEGATIVE"  # nothing can be wrong about a route without input
    return labels, good


@pytest.mark.slow
def test_what_the_schema_allows(tmp_path):
    with _api(tmp_path, narrowed=True) as api:
        labels, good = _kept(api, "POSITIVE")
    assert len(labels) == 26
    # No schema says how long three lists must be together, or what is in a file; and no folder for new collections
    # was given.
    hard = {label for label in labels if re.search(r"\.npy$|/image$|^(POST|PATCH) .*/(items|collections)$", label)}
    hard |= {label for label in labels if re.search(r"^DELETE .*/collections/{collection}$", label)}
    assert labels - good <= hard


@pytest.mark.slow
def test_what_the_schema_forbids(tmp_path):
    with _api(tmp_path, narrowed=False) as api:
        labels, _ = _kept(api, "NEGATIVE")
    assert len(labels) == 26


def test_the_schema_is_whole(tmp_path):
    """Bad requests get 400, so no route says 422; and what a route refers to is there."""
    service = new_service(tmp_path)
    with client(service) as http:
        schema = http.get("/openapi.json").json()
    routes = [route for path in schema["paths"].values() for route in path.values()]
    assert not any("422" in route["responses"] for route in routes)
    names = set(re.findall(r"#/components/schemas/(\w+)", str(schema)))
    assert {
        "SearchRequest",
        "AddRequest",
        "UpdateRequest",
        "DeleteRequest",
        "HistogramRequest",
        "SearchResponse",
    } <= names
    assert names <= set(schema["components"]["schemas"])
