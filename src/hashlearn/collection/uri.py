"""URIs of collections: their parts, and how messages show them without secrets."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SECRET = re.compile(r"pass|secret|token|key", re.IGNORECASE)
_HIDDEN = "***"

MEMORY = ":memory:"
"""A collection that ends with the object that made it; SQLite, Qdrant and others call it so too."""


def as_uri(uri: str | os.PathLike[str]) -> str:
    """Return the URI as text; ValueError for anything that cannot be a URI."""
    text = os.fspath(uri)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ValueError(f"A collection is a folder, milvus://host:port/name or postgresql://…. Got {uri!r} instead.")
    return text


def with_token(uri: str, token: str | None) -> str:
    """Return the URI of a collection on a server of hashlearn with the token of this client."""
    if token is None:
        return uri
    if not uri.lower().startswith(("http://", "https://")):
        raise ValueError(
            f"token= is for collections on a server of hashlearn, http://host:port/name. Got {shown(uri)}."
        )
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode({'token': token})}"


def scheme_of(uri: str) -> str:
    """Return what stands before ``://`` in lower case; empty for a folder and for ``:memory:``."""
    found = _SCHEME.match(uri)
    return found.group(1).lower() if found else ""


def is_folder(uri: str) -> bool:
    """Return whether the collection is kept in a folder that the URI names."""
    return uri != MEMORY and not scheme_of(uri)


def shown(uri: str) -> str:
    """Return the URI without its secrets, for messages and facts."""
    if not _SCHEME.match(uri):
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return _SCHEME.match(uri).group(0) + _HIDDEN  # type: ignore[union-attr]
    if parts.scheme in ("http", "https"):  # its only option is the token
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    login, at, place = parts.netloc.rpartition("@")
    if ":" in login:
        login = login.split(":", 1)[0] + ":" + _HIDDEN
    query = parts.query
    if any(_SECRET.search(name) for name, _ in parse_qsl(query, keep_blank_values=True)):
        kept = [(name, _HIDDEN if _SECRET.search(name) else value) for name, value in parse_qsl(query, True)]
        query = urlencode(kept, quote_via=quote, safe="*/")
    return f"{parts.scheme}://{login}{at}{place}{parts.path}" + (f"?{query}" if query else "")
