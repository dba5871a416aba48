"""Error messages as sentences. This module imports nothing, so that the command line can use it at once."""

from __future__ import annotations


def one_line(error: BaseException) -> str:
    """Return an exception's message as one sentence on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith((".", "!", "?")) else text + "."
