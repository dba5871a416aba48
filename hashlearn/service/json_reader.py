"""JSON of requests: read strictly, and in steps between which other threads run.

Python's decoder is one call into C that no other thread interrupts. For a body of 8 MiB it takes up to half a second,
in which the server would answer nobody. So the outer object and the arrays in it are walked here, and the decoder gets
one element of an array at a time. Short bodies are decoded at once.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hashlearn.service.errors import ApiError, bad

_SHORT_TEXT = 64 * 1024
_SPACE = re.compile(r"[ \t\n\r]*")


def read_json_object(body: bytes, max_items: int, max_chars: int) -> dict[str, Any]:
    """The JSON object in ``body``, which must be UTF-8, without NaN and without a name twice in one object.

    Parameters
    ----------
    body : bytes
    max_items : int
        How many elements an array directly in the object may have.
    max_chars : int
        How many characters one element of such an array, or any other value in the object, may have.
    """
    try:
        text = body.decode("utf-8")
        if len(text) > _SHORT_TEXT:
            return _Reader(text, max_items, max_chars).object()
        value = _DECODER.decode(text)
    except UnicodeDecodeError:
        raise bad("bad_json", "The JSON is not UTF-8.") from None
    except RecursionError:
        raise bad("bad_json", "The JSON is nested too deep.") from None
    except json.JSONDecodeError as error:
        raise bad("bad_json", f"The body is no JSON: {error.msg} at character {error.pos}.") from None
    except ValueError as error:  # a number with thousands of digits
        raise bad("bad_json", f"The JSON cannot be read: {str(error).partition(':')[0]}.") from None
    if not isinstance(value, dict):
        raise bad("bad_json", "The body must be a JSON object.")
    return value


class _Reader:
    """Walks through a text. The decoder sees a window of it, which is a little longer than ``max_chars``."""

    def __init__(self, text: str, max_items: int, max_chars: int) -> None:
        self._text = text
        self._max_items = max_items
        self._max_chars = max_chars
        self._step = max(1, max_chars // 4)  # how far to go before the window moves
        self._window_start = 0
        self._window = text[: max_chars + self._step]
        self._at = 0  # in the window

    def object(self) -> dict[str, Any]:
        members: list[tuple[str, Any]] = []
        if self._next() != "{":
            raise self._wrong("an object is expected")
        self._at += 1
        if self._next() == "}":
            self._at += 1
        else:
            while True:
                if self._next() != '"':
                    raise self._wrong("a name in double quotes is expected")
                name = self._value()
                if self._next() != ":":
                    raise self._wrong("':' is expected")
                self._at += 1
                members.append((name, self._array(name) if self._next() == "[" else self._value()))
                if not self._goes_on("}"):
                    break
        if self._next():
            raise self._wrong("nothing more is expected")
        return _unique_names(members)

    def _array(self, name: str) -> list[Any]:
        items: list[Any] = []
        self._at += 1
        if self._next() == "]":
            self._at += 1
            return items
        while True:
            if len(items) == self._max_items:
                message = f"{name[:60]!r} may have at most {self._max_items:,} elements."
                raise ApiError(413, "too_many", message)
            self._next()
            items.append(self._value())
            if not self._goes_on("]"):
                return items

    def _goes_on(self, end: str) -> bool:
        """Step over a comma (True) or over the ``end`` of what is being read (False)."""
        found = self._next()
        if found not in (",", end) or not found:
            raise self._wrong(f"',' or '{end}' is expected")
        self._at += 1
        return found == ","

    def _next(self) -> str:
        """The next character that is no space, or an empty text at the end."""
        while True:
            found = _SPACE.match(self._window, self._at)
            assert found is not None  # it matches an empty text too
            self._at = found.end()
            if self._at < self._step or self._window_start + len(self._window) >= len(self._text):
                return self._window[self._at : self._at + 1]
            self._window_start += self._at
            self._window = self._text[self._window_start : self._window_start + self._max_chars + self._step]
            self._at = 0

    def _value(self) -> Any:
        """The value that begins here."""
        begin = self._at
        try:
            value, self._at = _DECODER.raw_decode(self._window, begin)
        except json.JSONDecodeError as error:
            if self._window_start + len(self._window) < len(self._text):
                raise self._too_long(begin) from None
            self._at = error.pos
            raise self._wrong(error.msg[:1].lower() + error.msg[1:]) from None
        if self._at - begin > self._max_chars:
            raise self._too_long(begin)
        return value

    def _too_long(self, begin: int) -> ApiError:
        message = (
            f"A vector, a payload or a filter may have at most {self._max_chars:,} characters of JSON; what begins at "
            f"character {self._window_start + begin} does not end within them."
        )
        return ApiError(413, "too_large", message)

    def _wrong(self, what: str) -> ApiError:
        return bad("bad_json", f"The body is no JSON object: {what} at character {self._window_start + self._at}.")


def _unique_names(members: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(members)
    if len(result) != len(members):
        seen: set[str] = set()
        for name, _ in members:
            if name in seen:
                raise bad("bad_json", f"The JSON has {name[:60]!r} twice in one object.")
            seen.add(name)
    return result


def _refuse_constant(name: str) -> Any:
    raise bad("bad_json", f"JSON has no {name}.")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_names, parse_constant=_refuse_constant)
