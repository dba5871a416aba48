"""The pictures of items, from one folder or zip file and from nowhere else."""

from __future__ import annotations

import io
import os
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hashlearn.data.images import ENDINGS
from hashlearn.files.arrays import FileError
from hashlearn.service.errors import ApiError
from hashlearn.service.image_decoding import ImageDecoder

DEFAULT_FIELD = "image"
LARGEST_SIDE = 1024
# The first bytes tell the type, not the name: so a browser never gets something else as a picture.
_KINDS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_UNREADABLE = (OSError, KeyError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


class Pictures(ABC):
    """Pictures by the path in an item's payload or, without one, by the item's id as the file name ("17.png")."""

    def __init__(self, path: Path, field: str = DEFAULT_FIELD) -> None:
        self.path = path
        self.field = field

    @abstractmethod
    def _exists(self, name: str) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def _read(self, name: str, limit: int) -> bytes: ...

    def name(self, number: int, payload: Mapping[str, Any]) -> str | None:
        """The path of an item's picture, or None when it has none."""
        given = payload.get(self.field)
        if isinstance(given, str):
            return given if given.lower().endswith(ENDINGS) and self._exists(given) else None
        return next((name for ending in ENDINGS if self._exists(name := f"{number}{ending}")), None)

    def picture(self, name: str, side: int | None, decoder: ImageDecoder) -> tuple[bytes, str]:
        """The bytes and type of a picture; with ``side``, no wider and no higher than that."""
        try:
            data = self._read(name, decoder.limits.image_bytes)
            kind = kind_of(data)
            if side is None and kind is not None:
                return data, kind
            small = decoder.thumbnail(data, side or LARGEST_SIDE)
            if small is None and kind is not None:
                return data, kind
            return small or decoder.png(data), "image/png"
        except (*_UNREADABLE, ApiError) as error:
            raise ApiError(404, "no_image", "The picture of this item cannot be read, or is too large.") from error


class FolderPictures(Pictures):
    """A folder. Files added later are found too; links that lead outside are not followed."""

    def __init__(self, path: Path, field: str = DEFAULT_FIELD) -> None:
        super().__init__(path, field)
        self._root = path.resolve(strict=True)

    def _inside(self, name: str) -> Path | None:
        if "\0" in name:
            return None
        path = self._root / name
        try:
            kind = path.lstat().st_mode
            # Following links takes as long as a search. A plain file directly in the folder needs none followed.
            if stat.S_ISREG(kind) and "/" not in name and os.sep not in name:
                return path
            path = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return path if path.is_relative_to(self._root) and path.is_file() else None

    def _exists(self, name: str) -> bool:
        return self._inside(name) is not None

    def _read(self, name: str, limit: int) -> bytes:
        path = self._inside(name)
        if path is None:
            raise KeyError(name)
        with path.open("rb") as stream:
            return _bounded(stream, limit)


class ZipPictures(Pictures):
    """A zip, whose files are known from the start."""

    def __init__(self, path: Path, field: str = DEFAULT_FIELD) -> None:
        super().__init__(path, field)
        try:
            self._archive = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise FileError(f"{path} is no zip that can be read: {error}.") from error
        self._names = {info.filename for info in self._archive.infolist() if not info.is_dir()}

    def _exists(self, name: str) -> bool:
        return name in self._names

    def _read(self, name: str, limit: int) -> bytes:
        with self._archive.open(name) as stream:
            return _bounded(stream, limit)


def _bounded(stream: Any, limit: int) -> bytes:
    data: bytes = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError("too large")
    return data


def open_pictures(path: Path, field: str = DEFAULT_FIELD) -> Pictures:
    """A folder or a zip of pictures."""
    if path.is_dir():
        return FolderPictures(path, field)
    if path.suffix.lower() == ".zip" and path.is_file():
        return ZipPictures(path, field)
    raise FileError(f"{path} is no folder and no zip of pictures.")


def kind_of(data: bytes) -> str | None:
    """The type of a picture that every browser shows, or None."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS if data.startswith(start)), None)


def as_png(pixels: Any) -> bytes:
    """An array of bytes, (height, width) or (height, width, 3), as a PNG."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()
