"""The application: the routes, the pages, and the gate that every request passes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import hashlearn
from hashlearn.service import errors, routes_collections, routes_overview, routes_search, routes_store
from hashlearn.service.errors import ApiError, bad, error_response, log
from hashlearn.service.schemas import REQUESTS
from hashlearn.service.service import Service, ServiceDep
from hashlearn.service.settings import Token, find_token, secret_in

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The report of a bench contains its styles and drawings, and no scripts.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
STATIC = Path(__file__).parent / "static"
SWAGGER_FILES = Path(fastapi_offline.__file__).parent / "static"
REPORT_FILES = {"": "report.html", "report.html": "report.html", "report.md": "report.md", "report.csv": "report.csv"}
REPORT_TYPES = {".html": "text/html", ".md": "text/markdown", ".csv": "text/csv"}
_REVALIDATE = {"Cache-Control": "no-cache"}
_CLOSE = {"Connection": "close"}
_CLIENT_LEFT = 499  # nginx's number for a client that did not wait for its answer
_OPEN_PATHS = ("/healthz",)
_ASK_FOR_TOKEN = {"WWW-Authenticate": 'Bearer realm="hashlearn", Basic realm="hashlearn", charset="UTF-8"'}


class Gate:
    """The outermost layer: what every request must pass, and what is noted about it.

    It finds the token of a request, keeps the limits on bodies, adds headers to the answer, counts it and writes it to
    the access log. HEAD is answered as GET without a body.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service
        self.held_bytes = 0  # of the bodies of all requests under way
        service.metrics.held_bytes.set_function(lambda: self.held_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _Exchange(self, scope, receive, send).answer()
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)


class _Exchange:
    """One request with its body, and what is sent as its answer."""

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self._gate = gate
        self._service = gate.service
        self._limits = gate.service.limits
        self._receive = receive
        self._send = send
        self.method, self.path = scope["method"], scope["path"]
        # A copy: the server looks into its own one to leave out the body of an answer to HEAD.
        self.scope: dict[str, Any] = {**scope, "method": "GET" if self.method == "HEAD" else self.method}
        self.scope["state"] = dict(scope.get("state", {}))
        self.headers = dict(scope["headers"])
        self.started = time.perf_counter()
        self.status = 500
        self.sent_bytes = 0
        self.ended = False
        self.body_bytes = 0
        self.body_ended = not self.headers.keys() & {b"content-length", b"transfer-encoding"}
        self._deadline = asyncio.get_running_loop().time() + self._limits.body_seconds
        kind = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        self.body_limit = self._limits.body_bytes
        if kind == b"application/json":
            self.body_limit = self._limits.json_bytes
        elif kind.startswith(b"image/"):
            self.body_limit = self._limits.image_bytes

    async def answer(self) -> None:
        metrics = self._service.metrics
        refusal = self._refusal()
        metrics.under_way.inc()
        try:
            app = self._gate.app if refusal is None else error_response(refusal)
            await app(self.scope, self.receive, self.send)
        except ClientDisconnect:
            self.status = _CLIENT_LEFT
        except Exception:
            # The framework raises the exception again after it has answered with 500.
            log.exception("%s %s failed", self.method, _one_line(self.path))
            if not self.ended:
                raise
        finally:
            metrics.under_way.dec()
            self._gate.held_bytes -= self.body_bytes
            self._record()

    def _refusal(self) -> ApiError | None:
        """Return why the request is refused before anything looks at it, and note its token."""
        settings = self._service.settings
        given = [value for name, value in self.scope["headers"] if name == b"authorization"]
        token = find_token(settings.tokens, secret_in(given[0].decode("latin-1"))) if given else None
        self.scope["state"]["token"] = token
        if len(given) > 1:
            # Two readers of the request could choose different ones, and a rule could be met by one alone.
            return bad("bad_request", "A request may have only one Authorization header.")
        if token is None and settings.reading_needs_token and self.path not in _OPEN_PATHS:
            message = "Give a token of this server: Authorization: Bearer TOKEN."
            return ApiError(401, "no_token", message, _ASK_FOR_TOKEN)
        if self.headers.keys() >= {b"content-length", b"transfer-encoding"}:
            # A proxy before us may believe the other one of the two, and take a part of the body for a request.
            return ApiError(400, "bad_http", "A request has Content-Length or Transfer-Encoding, not both.", _CLOSE)
        announced = self.headers.get(b"content-length", b"0")
        return self._too_large() if announced.isdigit() and int(announced) > self.body_limit else None

    async def receive(self) -> Message:
        if self.body_ended:
            return await self._receive()  # this waits for the client to leave, however long
        try:
            message = await self._next_part()
        except TimeoutError:
            why = f"The body did not arrive within {self._limits.body_seconds:g} s."
            raise ApiError(408, "too_slow", why, _CLOSE) from None
        size = len(message.get("body", b""))
        self.body_bytes += size
        self._gate.held_bytes += size
        if self.body_bytes > self.body_limit:
            raise self._too_large()
        if self._gate.held_bytes > self._limits.held_bytes:
            why = "The server holds too many large requests: try again in a second."
            raise ApiError(503, "busy", why, {"Retry-After": "1", **_CLOSE})
        return message

    async def _next_part(self) -> Message:
        async with asyncio.timeout_at(self._deadline):
            message = await self._receive()
        self.body_ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    def _too_large(self) -> ApiError:
        return ApiError(413, "too_large", f"The body may have at most {self.body_limit:,} bytes.", _CLOSE)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message.get("headers", [])
            names = {name.lower() for name, _ in given}
            message["headers"] = [*given, *(pair for pair in HEADERS.items() if pair[0] not in names)]
        elif message["type"] == "http.response.body":
            if self.method == "HEAD":
                message = {**message, "body": b""}
            self.sent_bytes += len(message.get("body", b""))
            self.ended = not message.get("more_body", False)
            if self.ended and not self.body_ended:
                # The server closes the connection after the last message. If the client were still sending then, its
                # system would drop the answer and report a reset connection instead.
                await self._send({**message, "more_body": True})
                await self._read_to_end()
                message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _read_to_end(self) -> None:
        if b"expect" in self.headers and not self.body_bytes:
            return  # the client waits for our answer before it sends anything
        try:
            while not self.body_ended:
                await self._next_part()
        except TimeoutError:
            pass  # it had its time

    def _record(self) -> None:
        service, seconds = self._service, time.perf_counter() - self.started
        route = getattr(self.scope.get("route"), "path", "other").replace(":path}", "}")
        service.metrics.answered(self.method, route, self.status, seconds)
        client = (self.scope.get("client") or ("unknown",))[0]
        if self.status == 401 and b"authorization" in self.headers:
            service.metrics.failed_logins.inc()
            log.warning("Failed login from %s: %s %s", client, self.method, _one_line(self.path))
        if service.access_log is not None:
            token: Token | None = self.scope["state"]["token"]
            service.access_log.write(
                client=client,
                method=self.method,
                path=self.path,
                status=self.status,
                seconds=round(seconds, 6),
                bytes=self.sent_bytes,
                token=None if token is None else token.name,
            )


def _one_line(path: str) -> str:
    """Return a path for the log. The client chooses it: it may hold line ends, which would forge lines of the log."""
    return ascii(path[:200])[1:-1]


pages = APIRouter(include_in_schema=False)


@pages.get("/")
async def explorer() -> Response:
    return FileResponse(STATIC / "index.html", headers=_REVALIDATE)


@pages.get("/bench/{name:path}")
async def bench(service: ServiceDep, name: str) -> Response:
    folder = service.settings.bench
    if folder is None:
        raise ApiError(404, "no_report", "There is no bench report here: start the server with --bench FOLDER.")
    path = folder / REPORT_FILES[name] if name in REPORT_FILES else None
    if path is None or not path.is_file():
        raise ApiError(404, "not_found", "There is no such file in the bench report.")
    headers = {**_REVALIDATE, "Content-Security-Policy": REPORT_POLICY}
    return FileResponse(path, media_type=REPORT_TYPES[path.suffix], headers=headers)


@pages.get("/docs")
async def docs() -> Response:
    """FastAPI's page for the API, with its files from this server instead of a CDN.

    The page begins with an inline script, which its security policy allows by its hash.
    """
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="hashlearn: HTTP API",
        swagger_js_url="/docs/files/swagger-ui-bundle.js",
        swagger_css_url="/docs/files/swagger-ui.css",
        swagger_favicon_url="/static/icon.svg",
    )
    content = bytes(page.body)
    scripts = re.findall(rb"<script>(.*?)</script>", content, re.DOTALL)
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts)
    policy = POLICY.replace("script-src 'self'", f"script-src 'self' {hashes}")
    return HTMLResponse(content, headers={**_REVALIDATE, "Content-Security-Policy": policy})


class _RevalidatedFiles(StaticFiles):
    """Files that a browser keeps but asks about before it uses them, so that an update is seen at once."""

    def file_response(self, *arguments: Any, **more: Any) -> Response:
        response = super().file_response(*arguments, **more)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


DESCRIPTION = """Search collections of binary codes.

Errors are `{"error": {"code": "…", "message": "one sentence"}}`. Writing needs `Authorization: Bearer TOKEN`."""


def make_app(service: Service, on_start: Callable[[], None] | None = None) -> ASGIApp:
    """Return the ASGI application that serves these collections.

    Its lifespan calls ``on_start`` when it begins and closes the collections when it ends.
    """
    return Gate(make_api(service, on_start), service)


def make_api(service: Service, on_start: Callable[[], None] | None = None) -> FastAPI:
    """Return the application without its gate."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        if on_start is not None:
            on_start()
        try:
            yield
        finally:
            await service.close()

    hosts = service.settings.allowed_hosts
    app = FastAPI(
        title="hashlearn",
        version=hashlearn.__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers=errors.HANDLERS,  # type: ignore[arg-type]  # which has a narrower type for each of them
    )
    app.state.service = service
    routers = [module.router for module in (routes_collections, routes_overview, routes_search, routes_store)]
    routers.append(routes_collections.items)
    app.state.api_routes = [route for router in routers for route in router.routes]
    for router in (*routers, pages):
        app.include_router(router)
    app.mount("/static", _RevalidatedFiles(directory=STATIC), name="static")
    app.mount("/docs/files", _RevalidatedFiles(directory=SWAGGER_FILES), name="docs-files")
    # The way that FastAPI's documentation shows to change the schema.
    schema = _complete_openapi(app)
    app.openapi = lambda: schema  # type: ignore[method-assign]
    return app


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
