"""Who may ask: the Host of a request, its token, where a write comes from; and the headers of every answer."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from hashlearn.service.errors import ApiError
from hashlearn.service.settings import Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The report of a bench holds its styles and drawings; scripts it has none.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
OPEN_PATHS = ("/healthz",)
_PORT = re.compile(r":\d+$")
_ASK = {"WWW-Authenticate": 'Bearer realm="hashlearn", Basic realm="hashlearn", charset="UTF-8"'}


def check_host(settings: Settings, host: str) -> None:
    """Refuse names that are not this machine's own.

    A page elsewhere can let its own name point to 127.0.0.1 and so reach a server here from the browser; the Host
    header then still holds that name.
    """
    if settings.loopback and _PORT.sub("", host).lower() not in settings.known_hosts:
        message = f"This server is not called {host[:100]!r}: use localhost, or start it with --allow-host."
        raise ApiError(403, "wrong_host", message)


def check_reader(settings: Settings, path: str, authorization: str) -> None:
    """Other machines need the token for everything: as a bearer, or as the password when a browser asks for one."""
    if settings.loopback or path in OPEN_PATHS:
        return
    if not _same(settings, _bearer(authorization)) and not _same(settings, _password(authorization)):
        raise ApiError(401, "no_token", "Give the token of this server: Authorization: Bearer TOKEN.", _ASK)


_scheme = HTTPBearer(auto_error=False, description="The token of --token-file or HASHLEARN_TOKEN, for writing.")


async def writer(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_scheme)]) -> None:
    """Writing needs the token as a bearer, which no page elsewhere can make a browser send."""
    settings: Settings = request.app.state.service.settings
    if settings.token is None:
        raise ApiError(403, "read_only", "Writing is off: start the server with --token-file or HASHLEARN_TOKEN.")
    if not _same(settings, given.credentials if given is not None else ""):
        message = "Writing needs the token of this server: Authorization: Bearer TOKEN."
        raise ApiError(401, "no_token", message, {"WWW-Authenticate": 'Bearer realm="hashlearn"'})
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ApiError(403, "wrong_origin", "Pages of other servers may not write here.")


def _same(settings: Settings, given: str) -> bool:
    # Compared in constant time, so that the time of a refusal tells nothing.
    return hmac.compare_digest((settings.token or "").encode(), given.encode("utf-8", "replace")) and bool(given)


def _bearer(authorization: str) -> str:
    kind, _, value = authorization.partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


def _password(authorization: str) -> str:
    kind, _, value = authorization.partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""
