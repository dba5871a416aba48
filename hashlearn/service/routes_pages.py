"""Pages for people: the explorer, the list of routes, and the report of a bench."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Response
from starlette.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles

from hashlearn.service.errors import ApiError
from hashlearn.service.security import REPORT_POLICY
from hashlearn.service.service import Here

STATIC = Path(__file__).parent / "static"
REPORT = {"": "report.html", "report.html": "report.html", "report.md": "report.md", "report.csv": "report.csv"}
REPORT_TYPES = {".html": "text/html", ".md": "text/markdown", ".csv": "text/csv"}
_FRESH = {"Cache-Control": "no-cache"}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def explorer() -> Response:
    return FileResponse(STATIC / "index.html", headers=_FRESH)


@router.get("/bench/{name:path}")
async def bench(here: Here, name: str) -> Response:
    folder = here.settings.bench
    if folder is None:
        raise ApiError(404, "no_report", "There is no bench report here: start the server with --bench FOLDER.")
    path = folder / REPORT.get(name, "") if name in REPORT else None
    if path is None or not path.is_file():
        raise ApiError(404, "not_found", "There is no such file in the bench report.")
    kind = REPORT_TYPES[path.suffix]
    return FileResponse(path, media_type=kind, headers={**_FRESH, "Content-Security-Policy": REPORT_POLICY})


class _Static(StaticFiles):
    def file_response(self, *arguments: Any, **more: Any) -> Response:
        response = super().file_response(*arguments, **more)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


def install(app: FastAPI) -> None:
    app.include_router(router)
    app.mount("/static", _Static(directory=STATIC), name="static")
    page = routes_page(app.openapi())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(page, headers=_FRESH)


def routes_page(schema: dict[str, Any]) -> str:
    """The routes as one plain page, for the usual one fetches its script from elsewhere."""
    rows = []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            first = route.get("description", "").partition("\n\n")[0]
            names = ", ".join(part["name"] for part in route.get("parameters", []) if part["in"] == "query")
            lock = "token" if route.get("security") else ""
            cells = (method.upper(), path, names, lock, first)
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>hashlearn: HTTP API</title>'
        f"<h1>{html.escape(schema['info']['title'])}</h1>"
        '<p><a href="/">Explorer</a> · <a href="/openapi.json">openapi.json</a></p>'
        "<table><thead><tr><th>Method<th>Path<th>Query<th>Needs<th>What it does</thead><tbody>"
        f"{''.join(rows)}</tbody></table></html>"
    )
