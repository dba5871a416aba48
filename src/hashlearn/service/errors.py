"""Errors as clients see them: one JSON form, one sentence, and nothing about the inside of the server."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from hashlearn.collection import CollectionError, UnsupportedByStoreError, WhereError
from hashlearn.messages import one_line

log = logging.getLogger("hashlearn.service")

LONGEST_MESSAGE = 500
_CODES = {400: "bad_request", 404: "not_found", 405: "wrong_method"}
_FIELDS = {
    "vector": "bad_vector",
    "vectors": "bad_vector",
    "ids": "bad_id",
    "id": "bad_id",
    "codes": "bad_code",
    "where": "bad_filter",
}


class ApiError(HTTPException):
    """What is answered instead of a result: a status, a word for programs, and one sentence, or two, for people."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.code = code


def bad(code: str, message: str) -> ApiError:
    """Return the error for a request that is wrong."""
    return ApiError(400, code, message)


def to_json(value: Any) -> bytes:
    """Return JSON as UTF-8. Half a surrogate pair, which only an echo of bad input can hold, becomes "?"."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def json_response(answer: Any) -> Response:
    """Return an answer of JSON; bytes are JSON already."""
    content = answer if isinstance(answer, bytes) else to_json(answer)
    return Response(content, media_type="application/json")


def error_response(error: ApiError) -> Response:
    """Return an error as an answer."""
    message = str(error.detail)
    if len(message) > LONGEST_MESSAGE:
        message = message[: LONGEST_MESSAGE - 1] + "…"
    body = to_json({"error": {"code": error.code, "message": message}})
    return Response(body, error.status_code, error.headers, "application/json")


@contextmanager
def collection_errors() -> Iterator[None]:
    """Turn what a collection raises about bad input into an answer, and what it raises about itself into a log line."""
    try:
        yield
    except WhereError as error:
        raise bad("bad_filter", one_line(error)) from error
    except UnsupportedByStoreError as error:
        log.warning("%s", one_line(error))
        message = "The storage of this collection cannot do that; the server's log says more."
        raise bad("unsupported", message) from error
    except CollectionError as error:
        # Its message may name files and hosts.
        log.error("%s", one_line(error))
        message = "The storage of this collection failed; the server's log says why."
        raise ApiError(503, "storage", message, {"Retry-After": "5"}) from error
    except RecursionError as error:
        raise bad("bad_request", "The request is nested too deep.") from error
    except ValueError as error:
        raise bad("bad_request", one_line(error)) from error


async def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, ApiError):
        return error_response(error)
    path, headers = request.url.path[:100], dict(error.headers or {})
    message = f"{str(error.detail).rstrip('.')}."
    if error.status_code == 404:
        message = f"There is nothing at {path}."
    elif error.status_code == 405:
        methods = _methods(request) or ["GET"]
        headers["Allow"] = ", ".join(methods)
        message = f"{request.method[:20]} is not possible at {path}; use {' or '.join(methods)}."
    code = _CODES.get(error.status_code, "error")
    return error_response(ApiError(error.status_code, code, message, headers))


def _methods(request: Request) -> list[str]:
    """Return all methods of a path: the framework names only those of the first route that has it."""
    found: set[str] = set()
    for route in request.app.state.api_routes:
        if route.matches(request.scope)[0] != Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


async def _answer_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_response(validation_error(error.errors()))


async def _answer_failure(request: Request, error: Exception) -> Response:
    return error_response(ApiError(500, "failed", "The server failed; its log says why."))


# They answer every error of the framework in our form.
HANDLERS = {HTTPException: _answer_http, RequestValidationError: _answer_validation, Exception: _answer_failure}


def validation_error(errors: Sequence[Any]) -> ApiError:
    """Return the first thing that pydantic finds wrong with a request."""
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
    return bad(code, f"{name}: {message}." if name else f"{message}.")
