"""Uploaded pictures as rows that a collection's hasher takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hashlearn.data import gist
from hashlearn.files.images import Scaling, square
from hashlearn.service.image_decoding import ImageDecoder

# Configurations of 0.2 spell gray "grey"; they are read like the others.
_TEXT = re.compile(r"(gist|pixels|gray|grey):(\d{1,4})")
_LARGEST_SIDE = 1024


class ImageFeatures(Protocol):
    """Makes rows such as the hasher was fitted on."""

    def row(self, data: bytes, decoder: ImageDecoder) -> NDArray[Any]:
        """The row of an image file, of shape (1, …)."""


@dataclass(frozen=True)
class SquareFeatures:
    """Features of a square of ``side`` pixels, cut from the middle of the picture as ``data.image_folder`` does.

    Parameters
    ----------
    kind : str
        "gist" for 512 numbers, "pixels" for the colors in 0..1, "gray" for their brightness in 0..1.
    side : int
    """

    kind: str
    side: int

    @property
    def size(self) -> int:
        """How many numbers a row has."""
        return {"gist": gist.N_FEATURES, "pixels": 3 * self.side**2, "gray": self.side**2}[self.kind]

    def __str__(self) -> str:
        return f"{self.kind}:{self.side}"

    def row(self, data: bytes, decoder: ImageDecoder) -> NDArray[np.float32]:
        from PIL import Image

        pixels = square(decoder.upload(data, self.side), Scaling(self.side, resample="bilinear"))
        if self.kind == "gist":
            return gist.gist(pixels[None], n_jobs=1)
        if self.kind == "gray":
            pixels = np.asarray(Image.fromarray(pixels).convert("L"))
        return pixels.astype(np.float32).reshape(1, -1) / np.float32(255)


class BackboneFeatures:
    """Pixels for a hasher with an image backbone, which scales them itself."""

    def row(self, data: bytes, decoder: ImageDecoder) -> NDArray[np.uint8]:
        return np.asarray(decoder.upload(data, None))[None]


def has_backbone(hasher: Any) -> bool:
    return getattr(hasher, "backbone", None) is not None


def image_features(text: str | None, hasher: Any) -> ImageFeatures | None:
    """What ``--image-features`` or serve.json says ("gist:32"), or what a hasher with a backbone needs; else None."""
    if text is None:
        return BackboneFeatures() if has_backbone(hasher) else None
    found = _TEXT.fullmatch(text)
    if not found or not 4 <= int(found[2]) <= _LARGEST_SIDE:
        raise ValueError(f"Image features are gist:32, pixels:32 or gray:28, with the side in pixels. Got {text!r}.")
    features = SquareFeatures(found[1].replace("grey", "gray"), int(found[2]))
    wanted = None if hasher is None else int(hasher.n_features_in_)
    if wanted != features.size:
        have = "there is no hasher" if wanted is None else f"the hasher was fitted on rows of {wanted}"
        raise ValueError(f"{features} makes rows of {features.size} numbers, and {have}.")
    return features
