"""Errors as clients see them: one JSON shape, one sentence, and nothing of the inside of the server."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from hashlearn.collection import CollectionError, UnsupportedByStoreError, WhereError
from hashlearn.files.arrays import one_line

log = logging.getLogger("hashlearn.service")

LONGEST_MESSAGE = 500
_CODES = {
    400: "bad_request",
    401: "no_token",
    403: "forbidden",
    404: "not_found",
    405: "wrong_method",
    408: "too_slow",
    413: "too_large",
    415: "wrong_type",
    503: "busy",
}
_FIELDS = {"vectors": "bad_vector", "ids": "bad_id", "id": "bad_id", "codes": "bad_code", "where": "bad_filter"}


class ApiError(HTTPException):
    """What is answered instead of a result. ``message`` is one sentence, or two, for people."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.code = code


def bad(code: str, message: str) -> ApiError:
    return ApiError(400, code, message)


def to_json(value: Any) -> bytes:
    """JSON as UTF-8. Half a surrogate pair, which only an echo of bad input can hold, becomes a question mark."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(value), status, headers, "application/json")


def error_body(code: str, message: str) -> dict[str, Any]:
    short = message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"
    return {"error": {"code": code, "message": short}}


@contextmanager
def sentences() -> Iterator[None]:
    """What a collection says about bad input, as an answer; what it says about itself, to the log."""
    try:
        yield
    except WhereError as error:
        raise bad("bad_filter", one_line(error)) from error
    except UnsupportedByStoreError as error:
        log.warning("%s", one_line(error))
        raise bad(
            "unsupported", "The storage of this collection cannot do that; the server's log says more."
        ) from error
    except CollectionError as error:
        # Its message may name files and hosts.
        log.error("%s", one_line(error))
        raise ApiError(
            503, "storage", "The storage of this collection failed; the server's log says why.", {"Retry-After": "5"}
        ) from error
    except RecursionError as error:
        raise bad("bad_request", "The request is nested too deep.") from error
    except ValueError as error:
        raise bad("bad_request", one_line(error)) from error


def install(app: FastAPI) -> None:
    """Answer every error of the framework in our shape."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(Exception, _failure)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, ApiError):
        code, message = error.code, str(error.detail)
    else:
        code, message = _CODES.get(error.status_code, "error"), _framework(request, error)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request)) or headers.get("Allow", "GET")
    return json_response(error_body(code, message), error.status_code, headers)


def _framework(request: Request, error: HTTPException) -> str:
    path = request.url.path[:100]
    if error.status_code == 404:
        return f"There is nothing at {path}."
    if error.status_code == 405:
        return f"{request.method[:20]} is not possible at {path}; use {' or '.join(_methods(request)) or 'GET'}."
    return f"{str(error.detail).rstrip('.')}."


def _methods(request: Request) -> list[str]:
    """All methods of a path: the framework names only those of the first route that has it."""
    found: set[str] = set()
    for route in request.app.state.api_routes:
        if route.matches(request.scope)[0] != Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    return sorted(found)


async def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    code, message = sentence_of(error.errors())
    return json_response(error_body(code, message), 400)


async def _failure(request: Request, error: Exception) -> Response:
    return json_response(error_body("failed", "The server failed; its log says why."), 500)


def sentence_of(errors: Sequence[Any]) -> tuple[str, str]:
    """The code and sentence of the first thing that is wrong with a request."""
    first = errors[0]
    place = [part for part in first["loc"] if part not in ("body", "query", "path")]
    name = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" if at else str(part) for at, part in enumerate(place)
    )
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    given = first.get("input")
    if first["type"] == "missing":
        name, message = name or "The body", "it is needed"
    elif isinstance(given, (str, int, float, bool)) and first["type"] != "value_error":
        message += f". Got {str(given)[:60]!r} instead" if isinstance(given, str) else f". Got {given} instead"
    code = next((_FIELDS[part] for part in place if isinstance(part, str) and part in _FIELDS), "bad_request")
    return code, f"{name}: {message}." if name else f"{message}."
