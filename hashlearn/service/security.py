"""Headers of every answer, and who may write."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from hashlearn.service.errors import ApiError
from hashlearn.service.settings import ServerSettings
from hashlearn.service.tokens import Token

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
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_BEARER = HTTPBearer(auto_error=False, description="A token of --token-file or HASHLEARN_TOKEN that may write.")


async def require_writer(
    request: Request, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
) -> None:
    """Refuse requests without a token that may write.

    The token must come as a bearer: no page elsewhere can make a browser send that, while a browser adds a password
    that it has stored to every request by itself.
    """
    settings: ServerSettings = request.app.state.service.settings
    token: Token | None = request.state.token
    if not settings.may_write:
        raise ApiError(403, "read_only", "Writing is off: start the server with --token-file or HASHLEARN_TOKEN.")
    if token is None or bearer is None:
        message = "Writing needs a token of this server: Authorization: Bearer TOKEN."
        raise ApiError(401, "no_token", message, {"WWW-Authenticate": 'Bearer realm="hashlearn"'})
    if not token.can_write:
        raise ApiError(403, "read_only_token", f"The token {token.name!r} may read and not write.")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ApiError(403, "wrong_origin", "Pages of other servers may not write here.")
