"""Pictures: found by the payload, decoded safely, and turned into rows that a hasher takes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.data import gist
from hashlearn.files.arrays import FileError
from hashlearn.files.images import (
    ENDINGS,
    ImageError,
    Scaling,
    TooManyPixels,
    as_png,
    need_pillow,
    opened_image,
    shrink_on_load,
    square,
    upright,
)
from hashlearn.files.tree import DAMAGE, tree_at
from hashlearn.service.errors import ApiError, bad
from hashlearn.service.settings import Limits

UPLOAD_FORMATS = ("PNG", "JPEG", "WEBP")
# The formats of data sets. None of them starts a program, as EPS does, or reads other files.
STORED_FORMATS = (*UPLOAD_FORMATS, "GIF", "BMP", "PPM", "TIFF")


class ImageDecoder:
    """Decodes image files. Pixels take much memory, so only ``limits.decoding`` files are decoded at a time."""

    def __init__(self, limits: Limits) -> None:
        need_pillow("pictures")
        self.limits = limits
        self._places = threading.Semaphore(limits.decoding)

    @contextmanager
    def opened(self, data: bytes, formats: tuple[str, ...]) -> Iterator[Any]:
        """Yield an image of Pillow whose pixels are not unpacked yet."""
        with self._places:
            try:
                with opened_image(data, "The image", formats=formats, max_pixels=self.limits.image_pixels) as image:
                    yield image
            except TooManyPixels as error:
                message = f"The image claims more than the {self.limits.image_pixels:,} pixels that are decoded."
                raise ApiError(413, "too_large", message) from error
            except ImageError as error:
                names = ", ".join(formats[:-1]) + " or " + formats[-1]
                raise bad("bad_image", f"This is no {names} image that can be read.") from error

    def upload(self, data: bytes, side: int | None) -> Any:
        """Return an upright RGB image of Pillow, no larger than needed for squares of ``side`` pixels."""
        with self.opened(data, UPLOAD_FORMATS) as image:
            if side is not None:
                shrink_on_load(image, side)
            return upright(image)


DEFAULT_FIELD = "image"
LARGEST_SIDE = 1024
# The first bytes tell the type, not the name: so a browser never gets something else as a picture.
_KINDS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


class Pictures:
    """Pictures by the path in an item's payload or, without one, by the item's id as the file name ("17.png").

    In a folder, files added later are found too, and links that lead outside are not followed.
    """

    def __init__(self, path: Path, field: str = DEFAULT_FIELD) -> None:
        if not path.is_dir() and not (path.suffix.lower() == ".zip" and path.is_file()):
            raise FileError(f"{path} is no folder and no zip of pictures.")
        self.field = field
        self._tree = tree_at(path)

    def name(self, id: Any, payload: Mapping[str, Any]) -> str | None:
        """Return the path of an item's picture, or None when it has none."""
        given = payload.get(self.field)
        if isinstance(given, str):
            return given if given.lower().endswith(ENDINGS) and self._tree.contains(given) else None
        return next((name for ending in ENDINGS if self._tree.contains(name := f"{id}{ending}")), None)

    def picture(self, name: str, side: int | None, decoder: ImageDecoder) -> tuple[bytes, str]:
        """Return the bytes and type of a picture; with ``side``, no wider and no higher than that."""
        try:
            if not self._tree.contains(name):
                raise KeyError(name)
            data = self._tree.read(name, decoder.limits.image_bytes)
            kind = kind_of(data)
            if side is None and kind is not None:
                return data, kind
            most = side or LARGEST_SIDE
            with decoder.opened(data, STORED_FORMATS) as image:
                if max(image.size) <= most and kind is not None:
                    return data, kind
                shrink_on_load(image, most)
                small = upright(image)
                small.thumbnail((most, most))
                return as_png(small), "image/png"
        except (*DAMAGE, KeyError, FileError, ApiError) as error:
            raise ApiError(404, "no_image", "The picture of this item cannot be read, or is too large.") from error


def kind_of(data: bytes) -> str | None:
    """Return the type of a picture that every browser shows, or None."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS if data.startswith(start)), None)


_TEXT = re.compile(r"(gist|pixels|gray):(\d{1,4})")


@dataclass(frozen=True)
class ImageFeatures:
    """Makes rows such as the hasher was fitted on, of a square that is cut from the middle of a picture.

    Parameters
    ----------
    kind : str
        "gist" for 512 numbers, "pixels" for the colors in 0..1, "gray" for their brightness in 0..1; "backbone" for the
        whole picture, which a hasher with an image backbone scales itself.
    side : int
        The side of the square in pixels; 0 for a backbone.
    """

    kind: str
    side: int = 0

    @property
    def size(self) -> int:
        """How many numbers a row has."""
        return {"gist": gist.N_FEATURES, "pixels": 3 * self.side**2, "gray": self.side**2}[self.kind]

    def row(self, data: bytes, decoder: ImageDecoder) -> NDArray[Any]:
        """Return the row of an image file, of shape (1, …)."""
        from PIL import Image

        if self.kind == "backbone":
            return np.asarray(decoder.upload(data, None))[None]
        pixels = square(decoder.upload(data, self.side), Scaling(self.side, resample="bilinear"))
        if self.kind == "gist":
            return gist.gist(pixels[None], n_jobs=1)
        if self.kind == "gray":
            pixels = np.asarray(Image.fromarray(pixels).convert("L"))
        return pixels.astype(np.float32).reshape(1, -1) / np.float32(255)


def has_backbone(hasher: Any) -> bool:
    return getattr(hasher, "backbone", None) is not None


def image_features(text: str | None, hasher: Any) -> ImageFeatures | None:
    """Return what ``--image-features`` or serve.json says ("gist:32"), or what a hasher with a backbone needs.

    Else None.
    """
    if text is None:
        return ImageFeatures("backbone") if has_backbone(hasher) else None
    found = _TEXT.fullmatch(text)
    if not found or not 4 <= int(found[2]) <= LARGEST_SIDE:
        raise ValueError(f"Image features are gist:32, pixels:32 or gray:28, with the side in pixels. Got {text!r}.")
    features = ImageFeatures(found[1], int(found[2]))
    wanted = None if hasher is None else int(hasher.n_features_in_)
    if wanted != features.size:
        have = "there is no hasher" if wanted is None else f"the hasher was fitted on rows of {wanted}"
        raise ValueError(f"{text} makes rows of {features.size} numbers, and {have}.")
    return features
