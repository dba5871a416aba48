"""What a server is started with: where it listens, who may do what, and how much of it."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]", "::1")
LEAST_TOKEN = 16
MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """How much one request, and all of them together, may ask for."""

    json_bytes: int = 8 * MIB  # parsing holds up everybody else; larger batches come as .npy
    body_bytes: int = 32 * MIB
    image_bytes: int = 16 * MIB
    image_pixels: int = 40_000_000
    queries: int = 10_000
    k: int = 1_000
    k_npy: int = 10_000
    oversample: float = 100.0
    hits_json: int = 100_000
    floats_json: int = 2_000_000  # of the vectors of hits
    hits_npy: int = 10_000_000
    rows: int = 10_000  # of one add or delete by ids
    page: int = 1_000
    seconds: float = 30.0
    body_seconds: float = 30.0
    header_seconds: float = 10.0
    stop_seconds: float = 60.0
    held_bytes: int = 256 * MIB  # bodies of all requests under way
    working: int = 64  # requests that work or wait for a thread
    connections: int = 512
    decoding: int = 2  # images unpacked at the same time


@dataclass(frozen=True)
class Settings:
    """Safe as they are: only this machine can connect, and nobody can write."""

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    allow_hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    bench: Path | None = None

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise ValueError(f"The token must have at least {LEAST_TOKEN} characters. Got {len(self.token)}.")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            raise ValueError("The token must be printable ASCII characters without spaces.")
        if not self.loopback and self.token is None:
            raise ValueError(
                f"Listening on {self.host} lets other machines in, and needs a token: give --token-file, or "
                "HASHLEARN_TOKEN in the environment."
            )

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
    def known_hosts(self) -> frozenset[str]:
        """What the Host header of a request to a loopback address may name."""
        return frozenset(name.lower() for name in (*LOCAL_NAMES, self.host, *self.allow_hosts))


def read_token(path: Path | None) -> str | None:
    """The token from a file or else the environment; never from the command line, which everybody can list."""
    if path is None:
        return os.environ.get("HASHLEARN_TOKEN") or None
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise ValueError(f"{path} holds no token.")
    return token
