"""Which columns of a table are meant: those that are asked for, or all but the ones that are no features or labels."""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hashlearn.files.arrays import FileError, listed

LABEL_NAMES = {
    "label", "labels", "class", "classes", "y", "target", "targets", "category", "tag", "intent",
    "class_id", "class_name", "label_id", "label_name",
}  # fmt: skip
SAMPLE_ROWS = 200
# Columns of texts are what a table is about if it has few columns of numbers: an embedding has more.
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


class Column(NamedTuple):
    """A column of a table, and what it holds: numbers, whole numbers, lists of numbers, or anything else."""

    name: str
    kind: Literal["number", "whole", "list", "text"]


def named_places(path: Path, names: Sequence[str], part: str) -> list[int]:
    """Return the places of the columns that ``part`` names: names or patterns with commas between them."""
    wanted: list[str] = []
    for name in [part] if part in names else part.split(","):
        found = [name] if name in names else fnmatch.filter(names, name)
        if not found:
            raise FileError(f"{path} has no column '{name}'; it has {listed(names, 20)}.")
        wanted += found
    return [list(names).index(name) for name in dict.fromkeys(wanted)]


def feature_places(
    path: Path,
    columns: Sequence[Column],
    part: str | None,
    ids: bool,
    values: Callable[[list[int]], Sequence[Sequence[Any]]],
    hint: str = "",
) -> list[int]:
    """Return the places of the columns that are features: those that ``part`` picks, the only list, or all numbers.

    Columns that look like ids are left out, unless ``part`` picks them or ``ids`` is true. ``values`` returns some
    values of columns. ``hint`` ends the message about a table without numbers.
    """
    names = [column.name for column in columns]
    if part is not None and not part.startswith("-"):
        return named_places(path, names, part)
    dropped = named_places(path, names, part[1:]) if part else []
    left = [place for place in range(len(names)) if place not in dropped and not _is_index(place, names)]
    lists = [place for place in left if columns[place].kind == "list"]
    numbers = [place for place in left if columns[place].kind in ("number", "whole")]
    texts = [place for place in left if columns[place].kind == "text"]
    if len(lists) > 1:
        several = ", ".join(names[place] for place in lists)
        raise FileError(f"{path} has several list columns ({several}); choose one: {path}:{names[lists[0]]}.")
    if texts and not lists:
        _refuse_texts(path, names, texts, numbers, values(texts))
    chosen = lists or numbers
    if not chosen:
        raise FileError(f"{path} has no column of numbers{hint}.")
    if not lists and not ids:
        whole = [place for place in numbers if columns[place].kind == "whole"]
        chosen = _without_ids(path, names, numbers, whole)
    if texts:
        used = listed([names[place] for place in chosen], 5)
        _warn_left_out(path, "are not numbers", [names[place] for place in texts], f"used: {used}")
    return chosen


def label_places(path: Path, names: Sequence[str], part: str | None, ids: bool) -> list[int]:
    """Return the places of the columns of labels: those that ``part`` picks, or all that do not look like ids."""
    if part is not None:
        return named_places(path, names, part)
    places = [place for place in range(len(names)) if not _is_index(place, names)]
    return places if ids or len(places) == 1 else _without_ids(path, names, places, places)


def _is_index(place: int, names: Sequence[str]) -> bool:
    """Return whether pandas wrote this column as its index: the first one, without a name, or with a name of its own.

    >>> [_is_index(place, ["", "a", "__index_level_0__"]) for place in range(3)]
    [True, False, True]
    """
    return (place == 0 and names[0] == "" and len(names) > 1) or names[place].startswith("__index_level_")


def _warn_left_out(path: Path, what: str, names: Sequence[str], how: str) -> None:
    warnings.warn(f"{path}: columns that {what} are left out: {listed(names, 5)}; {how}.", stacklevel=2)


def _refuse_texts(
    path: Path, names: Sequence[str], texts: list[int], numbers: list[int], values: Sequence[Sequence[Any]]
) -> None:
    """FileError where texts are what the table is about, and not the few numbers beside them."""
    prose = [place for place, found in zip(texts, values, strict=True) if _is_prose(found)]
    if not prose or len(numbers) > _MOST_NUMBERS_BESIDE_PROSE:
        return
    besides, choice = "no numbers", ""
    if numbers:
        besides = f"besides only numbers in {', '.join(names[place] for place in numbers)}"
        choice = f"; to use the numbers, name those, as in {path}:{names[numbers[0]]}"
    raise FileError(
        f"{path} holds texts in its column {names[prose[0]]!r} and {besides}: to use the texts, name their column with "
        f"--text{choice}."
    )


def _is_prose(values: Sequence[Any]) -> bool:
    """Return whether most of the values have several words, and most of them differ."""
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    long = sum(len(text.split()) >= _LEAST_WORDS for text in texts)
    return len(texts) >= _LEAST_TEXTS and 2 * long > len(texts) and 2 * len(set(texts)) > len(texts)


def _without_ids(path: Path, names: Sequence[str], places: list[int], suspects: list[int]) -> list[int]:
    """Return the places without those of ``suspects`` that look like ids, with a warning."""
    ids = [place for place in suspects if looks_like_id(names[place])]
    if not ids:
        return places
    left = [place for place in places if place not in ids]
    shown = [names[place] for place in ids]
    if not left:
        raise FileError(f"{path} holds nothing but ids ({', '.join(shown)}); to use them, write {path}:{shown[0]}.")
    how = f"name the columns to use them, as in {path}:{shown[0]},{names[left[0]]}"
    _warn_left_out(path, "look like ids", shown, how)
    return left
