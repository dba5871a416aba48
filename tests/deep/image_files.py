"""Small image files for the tests of this folder."""

import io
import zipfile

import numpy as np
from PIL import Image


def encoded(pixels, kind="PNG", mode=None, **options):
    """The bytes of an image file with these pixels."""
    stream = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(np.asarray(pixels))
    (image.convert(mode) if mode else image).save(stream, kind, **options)
    return stream.getvalue()


def flat(colour, width=8, height=8):
    return np.full((height, width, 3), colour, dtype=np.uint8)


def noise(seed, width=8, height=8):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def write_zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path
