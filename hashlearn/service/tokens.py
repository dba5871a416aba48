"""Tokens: which there are, what each may do, and how a request shows one."""

from __future__ import annotations

import base64
import binascii
import hmac
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
    """The token with this secret, or None.

    Every token is compared, each in constant time, so that the time of an answer tells nothing about them.
    """
    given = secret.encode("utf-8", "replace")
    same = [token for token in tokens if hmac.compare_digest(token.secret.encode(), given)]
    return same[0] if same else None


def secret_in(authorization: str) -> str:
    """The secret in an ``Authorization`` header, or an empty text.

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
    """The tokens in a file, or else in the environment.

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
    """The tokens in a text with one per line: ``TOKEN``, ``read TOKEN`` or ``write TOKEN``, then a name if wanted.

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
    """Whether every user of this machine may read a file (never on Windows, whose rights are of another kind)."""
    return os.name == "posix" and bool(path.stat().st_mode & stat.S_IROTH)
