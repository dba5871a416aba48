"""The bytes of an image file to square RGB pixels."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.data.images import EXTRA
from hashlearn.files.arrays import FileError, one_line

Pixels = NDArray[np.uint8]

FITS = ("crop", "squash")
RESAMPLES = ("bicubic", "bilinear")
# Above what cameras make; an image that claims more is refused before its pixels are unpacked.
MAX_PIXELS = 89_000_000
MAX_BYTES = 512 << 20


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


def decode(data: bytes, name: str, scaling: Scaling) -> Pixels:
    """The pixels (side, side, 3) of the image in ``data``; FileError, which names it, if there is none.

    The camera's orientation is applied. Grey becomes colour, CMYK is converted, 16 bits become 8, transparent pixels
    lie on white; of an animation the first frame counts.
    """
    Image, ImageOps = _pillow(name)
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise FileError(
                    f"{name} claims {width}×{height} pixels, more than the {MAX_PIXELS:,} that are unpacked: "
                    "scale it down, or leave it out."
                )
            # A JPEG can be unpacked at half or a quarter of its size, which is most of the work; twice what is needed
            # leaves the scaling below enough to average over.
            image.draft(None, (2 * scaling.side, 2 * scaling.side))
            return _square(_colour(ImageOps.exif_transpose(image)), scaling)
    except FileError:
        raise
    except Image.UnidentifiedImageError as error:
        # Pillow's own message shows the address of an object.
        raise FileError(f"{name} is no image that can be read: of no known format.") from error
    # Damaged bytes reach every corner of a decoder, so no list of exceptions is complete.
    except Exception as error:
        raise FileError(f"{name} is no image that can be read: {one_line(error)}") from error


def scaled(pixels: Pixels, scaling: Scaling) -> Pixels:
    """An image (height, width, 3) of an array, as a square."""
    if pixels.shape[:2] == (scaling.side, scaling.side):
        return pixels
    Image, _ = _pillow("The array of images")
    return _square(Image.fromarray(pixels), scaling)


def _pillow(name: str) -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise FileError(f"{name} needs Pillow to be read: {EXTRA}.") from error
    return Image, ImageOps


def _colour(image: Any) -> Any:
    from PIL import Image

    if image.mode == "F":
        raise ValueError("its pixels are floats, whose scale nobody knows")
    if image.mode.startswith("I"):
        # Pillow cuts 16 bits at 255 when it converts, which makes almost everything white.
        grey = np.clip(np.asarray(image, dtype=np.int64), 0, 65535)
        return Image.fromarray(((grey + 128) // 257).astype(np.uint8)).convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _square(image: Any, scaling: Scaling) -> Pixels:
    from PIL import Image, ImageOps

    side = (scaling.side, scaling.side)
    method = Image.Resampling[scaling.resample.upper()]
    if image.size != side:
        image = image.resize(side, method) if scaling.fit == "squash" else ImageOps.fit(image, side, method=method)
    return np.asarray(image)
