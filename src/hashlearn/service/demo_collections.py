"""What ``hashlearn demo --serve`` shows: a data set with pictures, encoded in two ways, side by side."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection import Collection
from hashlearn.data import Dataset
from hashlearn.data.mnist import DIGITS, GARMENTS
from hashlearn.files.images import as_png
from hashlearn.files.output import written_whole
from hashlearn.methods import find_method
from hashlearn.progress import report
from hashlearn.service.served_collection import DisplayConfig

PICTURES = "images.zip"
_ADDED_ROWS = 10_000


def make_demo(folder: Path, dataset: Dataset, n_bits: int, seed: int) -> list[Path]:
    """Make a collection of learned codes and one of random codes, of square gray pictures whose pixels are features.

    The first of them is the one to look at. The pictures are in the folder, too.
    """
    side = math.isqrt(dataset.train_X.shape[1])
    rows = np.concatenate([dataset.train_X, dataset.query_X])
    labels = np.concatenate([dataset.train_y, dataset.query_y]).tolist()
    names = GARMENTS if dataset.name == "Fashion-MNIST" else DIGITS
    parts = ["train"] * len(dataset.train_X) + ["test"] * len(dataset.query_X)
    payload = [{"label": names[label], "part": part} for label, part in zip(labels, parts, strict=True)]
    _write_pictures(folder / PICTURES, rows.reshape(len(rows), side, side))
    made = []
    for name in ("auto", "lsh"):
        hasher = find_method(name)(n_bits=n_bits, random_state=seed).fit(dataset.train_X, dataset.train_y)
        with Collection.create(folder / name, hasher, store_vectors=True, label_field="label") as collection:
            for start in range(0, len(rows), _ADDED_ROWS):
                stop = min(start + _ADDED_ROWS, len(rows))
                collection.add(rows[start:stop], ids=np.arange(start, stop), payload=payload[start:stop])
                report(f"filling {name}", stop, len(rows))
        DisplayConfig(image_features=f"gray:{side}").write(folder / name)
        made.append(folder / name)
    return made


def _write_pictures(path: Path, pictures: NDArray[np.float32]) -> None:
    gray = (pictures * np.float32(255)).round().astype(np.uint8)
    with written_whole(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for number, picture in enumerate(gray):
            archive.writestr(f"{number}.png", as_png(picture))
            if number % 1000 == 999 or number == len(gray) - 1:
                report("writing pictures", number + 1, len(gray))
