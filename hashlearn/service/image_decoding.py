"""Image files that may be hostile, to pixels: few formats, few at a time, and none larger than allowed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from hashlearn.files.images import (
    ImageError,
    TooManyPixels,
    as_png,
    need_pillow,
    opened_image,
    shrink_on_load,
    upright,
)
from hashlearn.service.errors import ApiError, bad
from hashlearn.service.settings import Limits

Result = TypeVar("Result")

UPLOAD_FORMATS = ("PNG", "JPEG", "WEBP")
# The formats of data sets. None of them starts a program, as EPS does, or reads other files.
STORED_FORMATS = (*UPLOAD_FORMATS, "GIF", "BMP", "PPM", "TIFF")


class ImageDecoder:
    """Decodes image files. Pixels take much memory, so only ``limits.decoding`` files are decoded at a time."""

    def __init__(self, limits: Limits) -> None:
        need_pillow("pictures")
        self.limits = limits
        self._places = threading.Semaphore(limits.decoding)

    def upload(self, data: bytes, side: int | None) -> Any:
        """An upright RGB image of Pillow, no larger than needed for squares of ``side`` pixels."""

        def use(image: Any) -> Any:
            if side is not None:
                shrink_on_load(image, side)
            return upright(image)

        return self._decode(data, UPLOAD_FORMATS, use)

    def thumbnail(self, data: bytes, side: int) -> bytes | None:
        """A PNG of at most ``side`` pixels either way; None when the image is that small already."""

        def shrink(image: Any) -> bytes | None:
            if max(image.size) <= side:
                return None
            shrink_on_load(image, side)
            small = upright(image)
            small.thumbnail((side, side))
            return as_png(small)

        return self._decode(data, STORED_FORMATS, shrink)

    def png(self, data: bytes) -> bytes:
        """The image as a PNG."""
        return self._decode(data, STORED_FORMATS, lambda image: as_png(upright(image)))

    def _decode(self, data: bytes, formats: tuple[str, ...], use: Callable[[Any], Result]) -> Result:
        with self._places:
            try:
                with opened_image(data, "The image", formats=formats, max_pixels=self.limits.image_pixels) as image:
                    return use(image)
            except TooManyPixels as error:
                message = f"The image claims more than the {self.limits.image_pixels:,} pixels that are decoded."
                raise ApiError(413, "too_large", message) from error
            except ImageError as error:
                names = ", ".join(formats[:-1]) + " or " + formats[-1]
                raise bad("bad_image", f"This is no {names} image that can be read.") from error
