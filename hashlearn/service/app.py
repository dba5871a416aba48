"""The application: routes, and around all of them the checks, limits, headers and counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect

import hashlearn
from hashlearn.service import errors, routes_facts, routes_items, routes_pages, routes_search
from hashlearn.service.errors import ApiError, error_body, json_response, log
from hashlearn.service.limits import Bodies, Message, Receive, Send
from hashlearn.service.security import HEADERS, check_host, check_reader
from hashlearn.service.service import Service

_LEFT = 499  # what nginx made the usual number for a client that did not wait
Application = Callable[[Message, Receive, Send], Awaitable[None]]

DESCRIPTION = """Search collections of binary codes.

Errors are always `{"error": {"code": "…", "message": "one sentence"}}`. Writing needs `Authorization: Bearer TOKEN`."""


def make_app(service: Service) -> Application:
    """The ASGI application that serves these collections; its lifespan closes them."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(_warm(service))
        try:
            yield
        finally:
            service.ready = False
            warming.cancel()
            # Waits for threads that still work, so the loop must not do it.
            await asyncio.to_thread(service.close)

    app = FastAPI(
        title="hashlearn",
        version=hashlearn.__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    errors.install(app)
    routers = [module.router for module in (routes_facts, routes_search, routes_items)]
    app.state.api_routes = [route for router in routers for route in router.routes]
    for router in routers:
        app.include_router(router)
    _without_422(app)
    routes_pages.install(app)
    return Guard(app, service)


async def _warm(service: Service) -> None:
    try:
        await asyncio.to_thread(service.warm)
        service.ready = True
    except Exception as error:
        log.error("A collection cannot be searched: %s", error)


def _without_422(app: FastAPI) -> None:
    """OpenAPI as it is: bad requests are answered with 400, never with the framework's 422."""
    schema = app.openapi()
    for methods in schema["paths"].values():
        for route in methods.values():
            route["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schema.get("components", {}).get("schemas", {}).pop(name, None)


class Guard:
    """The outermost layer: no request reaches a route unchecked, and no answer leaves without its headers."""

    def __init__(self, app: Any, service: Service) -> None:
        self.app = app
        self.service = service
        self._bodies = Bodies(service.settings.limits)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        started, status, begun, ended = time.perf_counter(), 500, False, False
        metrics = self.service.metrics

        async def complete(message: Message) -> None:
            nonlocal status, begun, ended
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message["headers"] = _with_headers(message.get("headers", []))
            else:
                ended = not message.get("more_body", False)
            await send(message)

        metrics.under_way.inc()
        try:
            await self._answer(scope, receive, complete)
        except ApiError as error:
            if not begun:
                body = error_body(error.code, str(error.detail))
                await json_response(body, error.status_code, error.headers)(scope, receive, complete)
        except ClientDisconnect:
            status = _LEFT
        except Exception:
            # The framework has answered already, by errors.install, and tells us here.
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not ended:
                raise
        finally:
            metrics.under_way.dec()
            route = getattr(scope.get("route"), "path", "other")
            metrics.answered(scope["method"], route, status, time.perf_counter() - started)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        check_host(self.service.settings, headers.get(b"host", b"").decode("latin-1"))
        check_reader(self.service.settings, scope["path"], headers.get(b"authorization", b"").decode("latin-1"))
        await self._bodies.guarded(scope, receive, send, self.app)


def _with_headers(given: Any) -> list[tuple[bytes, bytes]]:
    present = {name.lower() for name, _ in given}
    more = ((name.lower().encode(), value.encode()) for name, value in HEADERS.items())
    return [*given, *(pair for pair in more if pair[0] not in present)]
