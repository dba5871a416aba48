"""The application: the routes, the pages, and the middleware around them."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

import hashlearn
from hashlearn.service import (
    errors,
    routes_collections,
    routes_items,
    routes_overview,
    routes_search,
    routes_store,
)
from hashlearn.service.errors import ApiError
from hashlearn.service.middleware import (
    POLICY,
    REPORT_POLICY,
    BodyLimitMiddleware,
    RecordingMiddleware,
    TokenMiddleware,
)
from hashlearn.service.schemas import REQUESTS
from hashlearn.service.service import Service, ServiceDep

STATIC = Path(__file__).parent / "static"
SWAGGER_FILES = Path(fastapi_offline.__file__).parent / "static"
REPORT_FILES = {"": "report.html", "report.html": "report.html", "report.md": "report.md", "report.csv": "report.csv"}
REPORT_TYPES = {".html": "text/html", ".md": "text/markdown", ".csv": "text/csv"}
_REVALIDATE = {"Cache-Control": "no-cache"}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def explorer() -> Response:
    return FileResponse(STATIC / "index.html", headers=_REVALIDATE)


@router.get("/bench/{name:path}")
async def bench(service: ServiceDep, name: str) -> Response:
    folder = service.settings.bench
    if folder is None:
        raise ApiError(404, "no_report", "There is no bench report here: start the server with --bench FOLDER.")
    path = folder / REPORT_FILES[name] if name in REPORT_FILES else None
    if path is None or not path.is_file():
        raise ApiError(404, "not_found", "There is no such file in the bench report.")
    headers = {**_REVALIDATE, "Content-Security-Policy": REPORT_POLICY}
    return FileResponse(path, media_type=REPORT_TYPES[path.suffix], headers=headers)


class _RevalidatedFiles(StaticFiles):
    """Files that a browser keeps but asks about before it uses them, so that an update is seen at once."""

    def file_response(self, *arguments: Any, **more: Any) -> Response:
        response = super().file_response(*arguments, **more)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


def install(app: FastAPI) -> None:
    """Add the pages to the application, whose other routes exist already."""
    app.include_router(router)
    app.mount("/static", _RevalidatedFiles(directory=STATIC), name="static")
    app.mount("/docs/files", _RevalidatedFiles(directory=SWAGGER_FILES), name="docs-files")
    page, policy = swagger_page(app.title)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(page, headers={**_REVALIDATE, "Content-Security-Policy": policy})


def swagger_page(title: str) -> tuple[bytes, str]:
    """FastAPI's page for the API, with its files from this server instead of a CDN; and its security policy.

    The page begins with an inline script, which the policy allows by its hash.
    """
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=f"{title}: HTTP API",
        swagger_js_url="/docs/files/swagger-ui-bundle.js",
        swagger_css_url="/docs/files/swagger-ui.css",
        swagger_favicon_url="/static/icon.svg",
    )
    content = bytes(page.body)
    scripts = re.findall(rb"<script>(.*?)</script>", content, re.DOTALL)
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts)
    return content, POLICY.replace("script-src 'self'", f"script-src 'self' {hashes}")


DESCRIPTION = """Search collections of binary codes.

Errors are `{"error": {"code": "…", "message": "one sentence"}}`. Writing needs `Authorization: Bearer TOKEN`."""


def make_app(service: Service, on_start: Callable[[], None] | None = None) -> ASGIApp:
    """Return the ASGI application that serves these collections.

    Its lifespan calls ``on_start`` when it begins and closes the collections when it ends.
    """
    app = make_api(service, on_start)
    return RecordingMiddleware(app, service.metrics, service.access_log)


def make_api(service: Service, on_start: Callable[[], None] | None = None) -> FastAPI:
    """Return the application without the layer that records its answers."""
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
    modules = (routes_collections, routes_overview, routes_search, routes_items, routes_store)
    routers = [module.router for module in modules]
    app.state.api_routes = [route for router in routers for route in router.routes]
    for router in routers:
        app.include_router(router)
    install(app)
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
