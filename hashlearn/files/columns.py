"""Which columns of a table are meant: those that are asked for, or all but the ones that are no features or labels."""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

from hashlearn.files.arrays import FileError

MOST_NAMES = 20  # of columns in a message
LABEL_NAMES = {
    "label", "labels", "class", "classes", "y", "target", "targets", "category", "tag", "intent",
    "class_id", "class_name", "label_id", "label_name",
}  # fmt: skip
# "id", "row_id", "image ID", "userId", "index", the "Unnamed: 0" of pandas; "grid" and "valid" are other words.
_ID_NAME = re.compile(
    r"(?:.*[\W_])?(?:id|ids|idx|index|uid|uuid|guid|rowid|key)|unnamed: \d+|.*[a-z](?-i:I[dD])", re.IGNORECASE
)


def looks_like_id(name: str) -> bool:
    """Whether a column of this name numbers the rows rather than describes them.

    >>> [name for name in ("id", "user_id", "imageID", "valid", "grid", "class_id") if looks_like_id(name)]
    ['id', 'user_id', 'imageID']
    """
    name = name.strip()
    return name.lower() not in LABEL_NAMES and _ID_NAME.fullmatch(name) is not None


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")


def named_places(path: Path, names: Sequence[str], part: str) -> list[int]:
    """The places of the columns that ``part`` names: one name or pattern, or several with commas between them."""
    wanted: list[str] = []
    for name in [part] if part in names else part.split(","):
        found = [name] if name in names else fnmatch.filter(names, name)
        if not found:
            raise FileError(f"{path} has no column '{name}'; it has {_shown(names)}.")
        wanted += found
    return [list(names).index(name) for name in dict.fromkeys(wanted)]


def warn_left_out(path: Path, what: str, names: Sequence[str], how: str = "") -> None:
    """Say which columns are left out, and how to have them."""
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    warnings.warn(f"{path}: columns that {what} are left out: {shown}{how}.", stacklevel=2)


def without_ids(path: Path, names: Sequence[str], ids: Sequence[str]) -> list[str]:
    """The names but those in ``ids``, with a warning; FileError where nothing else is there."""
    if not ids:
        return list(names)
    left = [name for name in names if name not in ids]
    if not left:
        raise FileError(f"{path} holds nothing but ids ({', '.join(ids)}); to use them, write {path}:{ids[0]}.")
    warn_left_out(path, "look like ids", ids, f"; name the columns to use them, as in {path}:{ids[0]},{left[0]}")
    return left
