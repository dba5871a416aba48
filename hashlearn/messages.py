"""Errors as sentences for people. Nothing is imported here, so that the command line can say them at once."""

from __future__ import annotations


def one_line(error: BaseException) -> str:
    """An exception's message as one sentence."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith((".", "!", "?")) else text + "."
