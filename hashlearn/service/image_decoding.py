"""Image files that may be hostile, to pixels: few formats, few at a time, and none larger than allowed."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from hashlearn.data.images import EXTRA
from hashlearn.files.arrays import FileError
from hashlearn.service.errors import ApiError, bad
from hashlearn.service.settings import Limits

Result = TypeVar("Result")

UPLOAD_FORMATS = ("PNG", "JPEG", "WEBP")
# The formats of data sets. None of them starts a program, as EPS does, or reads other files.
STORED_FORMATS = (*UPLOAD_FORMATS, "GIF", "BMP", "PPM", "TIFF")


class ImageDecoder:
    """Decodes image files. Pixels take much memory, so only ``limits.decoding`` files are decoded at a time."""

    def __init__(self, limits: Limits) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError as error:
            raise FileError(f"Pictures need Pillow: {EXTRA}.") from error
        self.limits = limits
        self._places = threading.Semaphore(limits.decoding)

    def upload(self, data: bytes, side: int | None) -> Any:
        """An upright RGB image of Pillow, no larger than needed for squares of ``side`` pixels."""
        return self._decode(data, UPLOAD_FORMATS, lambda image: _upright(_draft(image, side)))

    def thumbnail(self, data: bytes, side: int) -> bytes | None:
        """A PNG of at most ``side`` pixels either way; None when the image is that small already."""

        def shrink(image: Any) -> bytes | None:
            if max(image.size) <= side:
                return None
            upright = _upright(_draft(image, side))
            upright.thumbnail((side, side))
            return _png(upright)

        return self._decode(data, STORED_FORMATS, shrink)

    def png(self, data: bytes) -> bytes:
        """The image as a PNG."""
        return self._decode(data, STORED_FORMATS, lambda image: _png(_upright(image)))

    def _decode(self, data: bytes, formats: tuple[str, ...], use: Callable[[Any], Result]) -> Result:
        from PIL import Image

        with self._places:
            try:
                with Image.open(io.BytesIO(data), formats=formats) as image:
                    width, height = image.size
                    if width * height > self.limits.image_pixels:
                        raise Image.DecompressionBombError
                    return use(image)
            except Image.DecompressionBombError as error:
                message = f"The image claims more than the {self.limits.image_pixels:,} pixels that are decoded."
                raise ApiError(413, "too_large", message) from error
            # Damaged bytes reach every corner of a decoder, so no list of exceptions is complete.
            except Exception as error:
                names = ", ".join(formats[:-1]) + " or " + formats[-1]
                raise bad("bad_image", f"This is no {names} image that can be read.") from error


def _draft(image: Any, side: int | None) -> Any:
    # A JPEG can be decoded at a fraction of its size. Twice what is needed leaves enough pixels to average over.
    if side is not None:
        image.draft("RGB", (2 * side, 2 * side))
    return image


def _upright(image: Any) -> Any:
    from PIL import Image, ImageOps

    turned = ImageOps.exif_transpose(image)
    if "A" in turned.getbands() or "transparency" in turned.info:
        turned = turned.convert("RGBA")
        turned = Image.alpha_composite(Image.new("RGBA", turned.size, (255, 255, 255, 255)), turned)
    return turned.convert("RGB")


def _png(image: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
