"""Which columns of a table are meant: those that are asked for, or all but the ones that are no features or labels."""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hashlearn.files.arrays import FileError

MOST_NAMES = 20  # of columns in a message
LABEL_NAMES = {
    "label", "labels", "class", "classes", "y", "target", "targets", "category", "tag", "intent",
    "class_id", "class_name", "label_id", "label_name",
}  # fmt: skip
# Columns of texts are what a table is about if it has few columns of numbers: an embedding has more.
SAMPLE_ROWS = 200
_LEAST_TEXTS, _LEAST_WORDS, _MOST_NUMBERS_BESIDE_PROSE = 3, 3, 7
# "id", "row_id", "image ID", "userId", "index", the "Unnamed: 0" of pandas; "grid" and "valid" are other words.
_ID_NAME = re.compile(
    r"(?:.*[\W_])?(?:id|ids|idx|index|uid|uuid|guid|rowid|key)|unnamed: \d+|.*[a-z](?-i:I[dD])", re.IGNORECASE
)


def looks_like_id(name: str) -> bool:
    """Return whether a column of this name numbers the rows rather than describes them.

    >>> [name for name in ("id", "user_id", "imageID", "valid", "grid", "class_id") if looks_like_id(name)]
    ['id', 'user_id', 'imageID']
    """
    name = name.strip()
    return name.lower() not in LABEL_NAMES and _ID_NAME.fullmatch(name) is not None


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")


def named_places(path: Path, names: Sequence[str], part: str) -> list[int]:
    """Return the places of the columns that ``part`` names: names or patterns with commas between them."""
    wanted: list[str] = []
    for name in [part] if part in names else part.split(","):
        found = [name] if name in names else fnmatch.filter(names, name)
        if not found:
            raise FileError(f"{path} has no column '{name}'; it has {_shown(names)}.")
        wanted += found
    return [list(names).index(name) for name in dict.fromkeys(wanted)]


def warn_left_out(path: Path, what: str, names: Sequence[str], how: str) -> None:
    """Say which columns are left out, and what is used instead or how to have them."""
    warnings.warn(f"{path}: columns that {what} are left out: {_few(names)}; {how}.", stacklevel=2)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")


def refuse_texts(path: Path, texts: Mapping[str, Sequence[Any]], numbers: Sequence[str]) -> None:
    """FileError where texts are what the table is about, and not the few numbers beside them.

    ``texts`` has some values of each column that is not numbers, by its name. ``numbers`` names the other columns.
    """
    prose = [name for name, values in texts.items() if _is_prose(values)]
    if not prose or len(numbers) > _MOST_NUMBERS_BESIDE_PROSE:
        return
    besides, choice = "no numbers", ""
    if numbers:
        besides = f"besides only numbers in {', '.join(numbers)}"
        choice = f"; to use the numbers, name those, as in {path}:{numbers[0]}"
    raise FileError(
        f"{path} holds texts in its column {prose[0]!r} and {besides}: to use the texts, name their column with "
        f"--text{choice}."
    )


def warn_of_text(path: Path, texts: Sequence[str], used: Sequence[str]) -> None:
    """Say that columns of text are left out, if there are any, and which columns are used."""
    if texts:
        warn_left_out(path, "are not numbers", texts, f"used: {_few(used)}")


def _is_prose(values: Sequence[Any]) -> bool:
    """Return whether most of the values have several words, and most of them differ."""
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    long = sum(len(text.split()) >= _LEAST_WORDS for text in texts)
    return len(texts) >= _LEAST_TEXTS and 2 * long > len(texts) and 2 * len(set(texts)) > len(texts)


def without_ids(path: Path, names: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Return the names but those in ``ids``, with a warning; FileError where nothing else is there."""
    if not ids:
        return list(names)
    left = [name for name in names if name not in ids]
    if not left:
        raise FileError(f"{path} holds nothing but ids ({', '.join(ids)}); to use them, write {path}:{ids[0]}.")
    warn_left_out(path, "look like ids", ids, f"name the columns to use them, as in {path}:{ids[0]},{left[0]}")
    return left
