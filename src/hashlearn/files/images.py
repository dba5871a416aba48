"""Turn the bytes of image files into pixels. Every part of the package opens images here."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.files.arrays import FileError, one_line

Pixels = NDArray[np.uint8]

EXTRA = "pip install '.[images]'"
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
FITS = ("crop", "squash")
RESAMPLES = ("bicubic", "bilinear")
# Above what cameras make; an image that claims more is refused before its pixels are unpacked.
MAX_PIXELS = 89_000_000
MAX_BYTES = 512 << 20


class ImageError(FileError):
    """Bytes that are no image that can be read."""


class TooManyPixels(ImageError):
    """An image that claims more pixels than are unpacked."""


@dataclass(frozen=True)
class Scaling:
    """How images of any size become squares of ``side`` pixels.

    ``fit="crop"`` scales the shorter side and cuts off the ends of the longer one; ``"squash"`` scales both.
    """

    side: int
    fit: str = "crop"
    resample: str = "bicubic"

    def __post_init__(self) -> None:
        if self.side < 1:
            raise ValueError(f"The size of the images must be a positive number of pixels. Got {self.side} instead.")
        for title, value, known in (("fit", self.fit, FITS), ("resample", self.resample, RESAMPLES)):
            if value not in known:
                raise ValueError(f"'{title}' must be one of {', '.join(known)}. Got {value!r} instead.")


def need_pillow(name: str) -> None:
    """FileError that names the extra where Pillow is not installed."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise FileError(f"Reading {name} needs Pillow: {EXTRA}.") from error


@contextmanager
def opened_image(
    data: bytes, name: str, *, formats: tuple[str, ...] | None = None, max_pixels: int = MAX_PIXELS
) -> Iterator[Any]:
    """Yield an image of Pillow whose pixels are not unpacked yet.

    Parameters
    ----------
    data : bytes of an image file
    name : str
        What errors call it.
    formats : names of formats as Pillow has them, default=None
        The only ones that are read; None for all.
    max_pixels : int
        An image that claims more is refused.

    Raises
    ------
    ImageError
        Here, or when the block that uses the image meets damage in it.
    """
    need_pillow(name)
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=formats) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise TooManyPixels(
                    f"{name} claims {width}×{height} pixels, more than the {max_pixels:,} that are unpacked: "
                    "scale it down, or leave it out."
                )
            yield image
    except FileError:
        raise
    except Image.DecompressionBombError as error:
        raise TooManyPixels(f"{name} claims more than the {max_pixels:,} pixels that are unpacked.") from error
    except Image.UnidentifiedImageError as error:
        # Pillow's own message shows the address of an object.
        raise ImageError(f"{name} is no image that can be read: of no known format.") from error
    # Damaged bytes reach every corner of a decoder, so no list of exceptions is complete.
    except Exception as error:
        raise ImageError(f"{name} is no image that can be read: {one_line(error)}") from error


def decode(data: bytes, name: str, scaling: Scaling) -> Pixels:
    """Return the pixels (side, side, 3) of the image in ``data``; ImageError, which names it, if there is none."""
    with opened_image(data, name) as image:
        shrink_on_load(image, scaling.side)
        return square(upright(image), scaling)


def shrink_on_load(image: Any, side: int) -> None:
    """Let a JPEG be unpacked at a fraction of its size, which saves most of the work.

    Twice the ``side`` that is needed leaves the scaling enough pixels to average over.
    """
    image.draft(None, (2 * side, 2 * side))


def upright(image: Any) -> Any:
    """Return an image of Pillow in RGB, with the orientation of the camera applied.

    Gray becomes color, CMYK is converted, 16 bits become 8, transparent pixels lie on white; of an animation the first
    frame counts.
    """
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise ValueError("its pixels are floats, whose scale nobody knows")
    if image.mode.startswith("I"):
        # Pillow cuts 16 bits at 255 when it converts, which makes almost everything white.
        gray = np.clip(np.asarray(image, dtype=np.int64), 0, 65535)
        return Image.fromarray(((gray + 128) // 257).astype(np.uint8)).convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def square(image: Any, scaling: Scaling) -> Pixels:
    """Return the pixels (side, side, 3) of an image of Pillow in RGB."""
    from PIL import Image, ImageOps

    side = (scaling.side, scaling.side)
    method = Image.Resampling[scaling.resample.upper()]
    if image.size != side:
        image = image.resize(side, method) if scaling.fit == "squash" else ImageOps.fit(image, side, method=method)
    return np.asarray(image)


def scaled(pixels: Pixels, scaling: Scaling) -> Pixels:
    """Return an image (height, width, 3) of an array, as a square."""
    if pixels.shape[:2] == (scaling.side, scaling.side):
        return pixels
    need_pillow("the array of images")
    from PIL import Image

    return square(Image.fromarray(pixels), scaling)


def as_png(image: Any) -> bytes:
    """Return the bytes of a PNG file, of an image of Pillow or an array (height, width[, 3]) of bytes."""
    from PIL import Image

    stream = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(stream, "PNG")
    return stream.getvalue()
