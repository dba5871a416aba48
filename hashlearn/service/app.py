"""The application: the routes, and the middleware around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

import hashlearn
from hashlearn.service import (
    errors,
    routes_about,
    routes_collections,
    routes_items,
    routes_overview,
    routes_pages,
    routes_search,
    routes_writes,
)
from hashlearn.service.body_limits import BodyLimitMiddleware
from hashlearn.service.middleware import RecordingMiddleware, TokenMiddleware
from hashlearn.service.schemas import REQUESTS
from hashlearn.service.service import Service

DESCRIPTION = """Search collections of binary codes.

Errors are `{"error": {"code": "…", "message": "one sentence"}}`. Writing needs `Authorization: Bearer TOKEN`."""


def make_app(service: Service, on_start: Callable[[], None] | None = None) -> ASGIApp:
    """The ASGI application that serves these collections.

    Its lifespan calls ``on_start`` when it begins and closes the collections when it ends.
    """
    app = make_api(service, on_start)
    return RecordingMiddleware(app, service.metrics, service.access_log)


def make_api(service: Service, on_start: Callable[[], None] | None = None) -> FastAPI:
    """The application without the layer that records its answers."""
    settings = service.settings
    app = FastAPI(
        title="hashlearn",
        version=hashlearn.__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(service, on_start),
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=settings.allowed_hosts, www_redirect=False),
            Middleware(TokenMiddleware, settings=settings),
            Middleware(BodyLimitMiddleware, limits=settings.limits, metrics=service.metrics),
        ],
    )
    app.state.service = service
    errors.install(app)
    modules = (routes_about, routes_collections, routes_overview, routes_search, routes_items, routes_writes)
    routers = [module.router for module in modules]
    app.state.api_routes = [route for router in routers for route in router.routes]
    for router in routers:
        app.include_router(router)
    routes_pages.install(app)
    schema = _complete_openapi(app)
    app.openapi = lambda: schema  # type: ignore[method-assign]  # the way that FastAPI's documentation shows
    return app


def _lifespan(service: Service, on_start: Callable[[], None] | None) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        if on_start is not None:
            on_start()
        try:
            yield
        finally:
            await service.close()

    return lifespan


def _complete_openapi(app: FastAPI) -> dict[str, Any]:
    """Describe also the bodies that routes read themselves, and no 422: bad requests are answered with 400."""
    schema = app.openapi()
    for methods in schema["paths"].values():
        for route in methods.values():
            route["responses"].pop("422", None)
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    for model in REQUESTS:
        components[model.__name__] = model.model_json_schema()
    return schema
