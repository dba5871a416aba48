"""What a server is started with: its address, its tokens, and how much one request may ask for."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

SHORTEST_TOKEN = 16
VARIABLE = "HASHLEARN_TOKEN"
_RIGHTS = {"read": False, "write": True}


@dataclass(frozen=True)
class Token:
    """A secret that lets a client read, and write where ``can_write`` says so.

    ``name`` is what the access log calls it.
    """

    secret: str = field(repr=False)
    can_write: bool = True
    name: str = "token"

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_TOKEN:
            raise ValueError(f"A token must have at least {SHORTEST_TOKEN} characters. Got {len(self.secret)}.")
        if not (self.secret.isascii() and self.secret.isprintable() and " " not in self.secret):
            raise ValueError("A token must be printable ASCII characters without spaces.")


def find_token(tokens: Sequence[Token], secret: str) -> Token | None:
    """Return the token with this secret, or None.

    Every token is compared, each in constant time, so that the time of an answer tells nothing about them.
    """
    given = secret.encode("utf-8", "replace")
    same = [token for token in tokens if hmac.compare_digest(token.secret.encode(), given)]
    return same[0] if same else None


def secret_in(authorization: str) -> str:
    """Return the secret in an ``Authorization`` header, or an empty text.

    It is what follows ``Bearer``, or the password of ``Basic``, which a browser asks its user for.
    """
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            pass
    return ""


def read_tokens(path: Path | None) -> tuple[Token, ...]:
    """Return the tokens in a file, or else in the environment.

    They never come from the command line, which every user of the machine can list.
    """
    if path is None:
        return parse_tokens(os.environ.get(VARIABLE, ""), VARIABLE)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except OSError as error:
        raise OSError(f"Cannot read the tokens in {path}: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise ValueError(f"{path} holds no tokens: it is no text in UTF-8.") from None
    tokens = parse_tokens(text, str(path))
    if not tokens:
        raise ValueError(f"{path} holds no token.")
    return tokens


def parse_tokens(text: str, place: str) -> tuple[Token, ...]:
    """Parse one token per line: ``TOKEN``, ``read TOKEN`` or ``write TOKEN``, then a name if wanted.

    A token alone may write. Lines that are empty or begin with ``#`` mean nothing.
    """
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.lstrip().startswith("#"):
            continue
        if len(words) > 1 and (words[0] not in _RIGHTS or len(words) > 3):
            # The line itself may hold a secret, so it is not quoted.
            raise ValueError(f"Line {number} of {place} must be TOKEN, or 'read' or 'write', TOKEN and perhaps a name.")
        if len(words) == 1:
            words = ["write", *words]
        name = words[2] if len(words) == 3 else f"{words[0]}-{number}"
        try:
            tokens.append(Token(words[1], _RIGHTS[words[0]], name))
        except ValueError as error:
            raise ValueError(f"Line {number} of {place}: {error}") from None
    if len({token.secret for token in tokens}) < len(tokens):
        raise ValueError(f"{place} holds the same token twice.")
    return tuple(tokens)


def world_readable(path: Path) -> bool:
    """Return whether every user of this machine may read a file; never on Windows, which has other rights."""
    return os.name == "posix" and bool(path.stat().st_mode & stat.S_IROTH)


LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """How much one request, and all requests together, may ask for."""

    json_bytes: int = 8 * MIB
    body_bytes: int = 32 * MIB
    image_bytes: int = 16 * MIB
    image_pixels: int = 40_000_000
    queries: int = 10_000
    k: int = 1_000
    k_npy: int = 10_000
    oversample: float = 100.0
    hits_json: int = 100_000
    floats_json: int = 2_000_000  # in the vectors of all hits of a JSON answer
    hits_npy: int = 10_000_000
    rows: int = 10_000  # per add, and per delete by ids
    element_chars: int = MIB  # of one vector or one payload in a JSON body
    texts: int = 100  # per search, and per add
    text_chars: int = 10_000  # of one text
    page: int = 1_000
    collections: int = 100  # that are served once clients make them
    seconds: float = 30.0  # of work, counted from when a thread takes the request
    queue_seconds: float = 10.0  # that a request waits for a thread
    waiting: int = 512  # requests that wait for a thread
    body_seconds: float = 30.0  # until the whole body has arrived
    probe_seconds: float = 5.0  # that /readyz waits for the collections
    head_seconds: float = 10.0  # until a new connection has sent the head of its first request
    keep_alive_seconds: int = 10  # that an idle connection stays open
    stop_seconds: int = 60  # that requests under way have after SIGTERM
    close_seconds: int = 10  # that threads have after that
    held_bytes: int = 256 * MIB  # bodies of all requests under way
    connections: int = 1_000  # fewer where the limit on open files is low
    decoding: int = 2  # images decoded at the same time


@dataclass(frozen=True)
class ServerSettings:
    """The defaults are safe: only this machine can connect, and nobody can write."""

    host: str = "127.0.0.1"  # the address to listen on
    tokens: tuple[Token, ...] = ()  # who may read and write; without a token that may write, nobody writes
    allow_hosts: tuple[str, ...] = ()  # further names that the Host header of requests may have
    limits: Limits = field(default_factory=Limits)
    bench: Path | None = None  # a folder with the report of a bench, shown at /bench/
    create_in: Path | None = None  # the folder for collections that clients make; without it they cannot make any
    access_log: str | None = None  # the file for one JSON line per request; "-" means standard error
    search_texts: bool = True  # load the text models that hashers name, so that texts can be queries and be added
    tls_certificate: Path | None = None  # PEM files; with them the server speaks HTTPS
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        if not self.loopback and not self.tokens:
            raise ValueError(
                f"Listening on {self.host} lets other machines in, and needs a token: give --token-file, or "
                "HASHLEARN_TOKEN in the environment."
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("TLS needs both --tls-certificate and --tls-key.")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False  # a name could mean any address

    @property
    def reading_needs_token(self) -> bool:
        """Whether requests that only read need a token.

        A token that may only read would be of no use if everybody could read, so one such token closes reading on
        loopback too. A server behind a proxy on the same machine is closed in this way.
        """
        return not self.loopback or any(not token.can_write for token in self.tokens)

    @property
    def may_write(self) -> bool:
        return any(token.can_write for token in self.tokens)

    @property
    def allowed_hosts(self) -> list[str]:
        """The names that the ``Host`` header may have.

        A web page elsewhere can let its own name point to 127.0.0.1 and so reach this server through the browser of
        somebody who sits here. The ``Host`` header still holds that name, which is how such requests are told.
        Requests from other machines are kept out by the token instead.
        """
        if not self.loopback:
            return ["*"]
        own = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return [*LOOPBACK_NAMES, own, *self.allow_hosts]
