"""MNIST and Fashion-MNIST from their IDX files, gzipped or plain."""

from __future__ import annotations

from pathlib import Path

from hashlearn.data.embedded import FASHION_MNIST, DatasetMissing, fashion_mnist_there, read_idx
from hashlearn.data.pool import Pool, joined_parts
from hashlearn.files.arrays import FileError

DIGITS = tuple(map(str, range(10)))
GARMENTS = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def mnist(path: Path) -> Pool:
    """MNIST: 70,000 gray digits of 28×28; 60,000 for training, 10,000 for test.

    ``path`` is a folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same of ``t10k``, each
    gzipped (``.gz``) or plain.
    """
    return _idx_pool(path, "MNIST", DIGITS)


def fashion_mnist_pool(path: Path) -> Pool:
    """Fashion-MNIST: 70,000 gray garments of 28×28 in the layout of MNIST; Debian's package is found automatically."""
    if _found(path, "train", "images-idx3") is None and fashion_mnist_there():
        path = FASHION_MNIST
    return _idx_pool(path, "Fashion-MNIST", GARMENTS)


def _idx_pool(path: Path, name: str, label_names: tuple[str, ...]) -> Pool:
    parts = []
    for part in ("train", "t10k"):
        files = [_found(path, part, kind) for kind in ("images-idx3", "labels-idx1")]
        if files[0] is None or files[1] is None:
            raise DatasetMissing(
                f"{name} is not in {path}: put {part}-images-idx3-ubyte.gz and {part}-labels-idx1-ubyte.gz there."
            )
        images, labels = read_idx(files[0]), read_idx(files[1])
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise FileError(f"{files[0]} is {images.shape}, {files[1].name} is {labels.shape}: no images with labels.")
        if len(labels) and labels.max() >= len(label_names):
            raise FileError(f"{files[1]} has a label {labels.max()}; {name} has {len(label_names)} classes.")
        parts.append((images, labels.astype("int64")))
    shape = parts[0][0].shape[1:]
    if parts[1][0].shape[1:] != shape:
        raise FileError(f"{path}: training images are {shape}, test images {parts[1][0].shape[1:]}.")
    flat = [(images.reshape(len(images), -1), labels) for images, labels in parts]
    return joined_parts(name, flat, label_names, image_shape=(*shape, 1))


def _found(path: Path, part: str, kind: str) -> Path | None:
    # Some mirrors write a dot where LeCun's file names have a dash.
    first, last = kind.split("-")
    stems = (f"{part}-{first}-{last}-ubyte", f"{part}-{first}.{last}-ubyte")
    names = [name for stem in stems for name in (f"{stem}.gz", stem)]
    return next((path / name for name in names if (path / name).is_file()), None)
