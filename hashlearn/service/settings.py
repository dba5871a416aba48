"""What a server is started with: its address, who may do what, and how much one request may ask for."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from hashlearn.service.tokens import Token

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
    keep_alive_seconds: int = 10  # that an idle connection stays open
    stop_seconds: int = 60  # that requests under way have after SIGTERM
    close_seconds: int = 10  # that threads have after that
    held_bytes: int = 256 * MIB  # bodies of all requests under way
    connections: int = 1_000
    decoding: int = 2  # images decoded at the same time


@dataclass(frozen=True)
class ServerSettings:
    """The defaults are safe: only this machine can connect, and nobody can write.

    Parameters
    ----------
    host : str
        The address to listen on.
    tokens : tuple of Token
        Who may read and write. Without a token that may write, nobody writes.
    allow_hosts : tuple of str
        Further names that the ``Host`` header of requests may have.
    limits : Limits
    bench : Path or None
        A folder with the report of a bench, shown at ``/bench/``.
    create_in : Path or None
        The folder for collections that clients make; without it they cannot make any.
    access_log : str or None
        The file for one JSON line per request; "-" means standard error.
    tls_certificate, tls_key : Path or None
        PEM files. With them the server speaks HTTPS.
    """

    host: str = "127.0.0.1"
    tokens: tuple[Token, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    bench: Path | None = None
    create_in: Path | None = None
    access_log: str | None = None
    tls_certificate: Path | None = None
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
