"""The pictures of items, from one folder or zip file and from nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hashlearn.files.arrays import FileError
from hashlearn.files.images import ENDINGS
from hashlearn.files.tree import DAMAGE, tree_at
from hashlearn.service.errors import ApiError
from hashlearn.service.image_decoding import ImageDecoder

DEFAULT_FIELD = "image"
LARGEST_SIDE = 1024
# The first bytes tell the type, not the name: so a browser never gets something else as a picture.
_KINDS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


class Pictures:
    """Pictures by the path in an item's payload or, without one, by the item's id as the file name ("17.png").

    In a folder, files added later are found too, and links that lead outside are not followed.
    """

    def __init__(self, path: Path, field: str = DEFAULT_FIELD) -> None:
        self.path = path
        self.field = field
        self._tree = tree_at(path)

    def name(self, id: Any, payload: Mapping[str, Any]) -> str | None:
        """The path of an item's picture, or None when it has none."""
        given = payload.get(self.field)
        if isinstance(given, str):
            return given if given.lower().endswith(ENDINGS) and self._tree.contains(given) else None
        return next((name for ending in ENDINGS if self._tree.contains(name := f"{id}{ending}")), None)

    def picture(self, name: str, side: int | None, decoder: ImageDecoder) -> tuple[bytes, str]:
        """The bytes and type of a picture; with ``side``, no wider and no higher than that."""
        try:
            if not self._tree.contains(name):
                raise KeyError(name)
            data = self._tree.read(name, decoder.limits.image_bytes)
            kind = kind_of(data)
            if side is None and kind is not None:
                return data, kind
            small = decoder.thumbnail(data, side or LARGEST_SIDE)
            if small is None and kind is not None:
                return data, kind
            return small or decoder.png(data), "image/png"
        except (*DAMAGE, KeyError, FileError, ApiError) as error:
            raise ApiError(404, "no_image", "The picture of this item cannot be read, or is too large.") from error


def open_pictures(path: Path, field: str = DEFAULT_FIELD) -> Pictures:
    """A folder or a zip of pictures."""
    if not path.is_dir() and not (path.suffix.lower() == ".zip" and path.is_file()):
        raise FileError(f"{path} is no folder and no zip of pictures.")
    return Pictures(path, field)


def kind_of(data: bytes) -> str | None:
    """The type of a picture that every browser shows, or None."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS if data.startswith(start)), None)
