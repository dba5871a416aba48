"""What ``hashlearn demo --serve`` shows: a data set with pictures, encoded in two ways, side by side."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection import Collection
from hashlearn.data import Dataset
from hashlearn.data.fetch import cache_folder
from hashlearn.data.gist import gist_pool
from hashlearn.data.mnist import DIGITS, GARMENTS
from hashlearn.data.plain import image_folder
from hashlearn.data.pool import TRAIN
from hashlearn.files.arrays import FileError
from hashlearn.files.images import as_png
from hashlearn.files.output import written_whole
from hashlearn.methods import BaseHasher, find_method
from hashlearn.progress import report
from hashlearn.service.served_collection import DisplayConfig

DEMO_FILE = "demo.json"
PICTURES = "images.zip"
_ADDED_ROWS = 10_000


@dataclass(frozen=True)
class DemoData:
    """The rows of a demonstration, the hashers that encode them, and what to tell about each row."""

    hashers: dict[str, BaseHasher]
    rows: NDArray[np.float32]
    payload: list[dict[str, Any]]
    display: DisplayConfig


def pixel_demo(dataset: Dataset, n_bits: int, seed: int, folder: Path) -> DemoData:
    """Learned and random codes of square gray pictures whose pixels are the features."""
    side = math.isqrt(dataset.train_X.shape[1])
    rows = np.concatenate([dataset.train_X, dataset.query_X])
    labels = np.concatenate([dataset.train_y, dataset.query_y]).tolist()
    names = GARMENTS if dataset.name == "Fashion-MNIST" else DIGITS
    parts = ["train"] * len(dataset.train_X) + ["test"] * len(dataset.query_X)
    _write_pictures(folder / PICTURES, rows.reshape(len(rows), side, side))
    payload = [{"label": names[label], "part": part} for label, part in zip(labels, parts, strict=True)]
    display = DisplayConfig(image_features=f"gray:{side}")
    hashers = _fitted(dataset.train_X, dataset.train_y, n_bits, seed)
    return DemoData(hashers, rows, payload, display)


def gist_demo(images: Path, side: int, n_bits: int, seed: int) -> DemoData:
    """Learned and random codes of the user's own pictures, by their GIST features."""
    if not images.is_dir() and images.suffix.lower() != ".zip":
        raise FileError(f"{images} is no folder and no zip of pictures.")
    pool = image_folder(images, size=side)
    features = np.asarray(gist_pool(pool, cache_folder() / "features").X, dtype=np.float32)
    training = np.arange(len(pool)) if pool.part is None else np.flatnonzero(pool.part == TRAIN)
    hashers = _fitted(features[training], pool.y[training], n_bits, seed)
    learning = np.zeros(len(pool), dtype=bool)
    learning[training] = True
    assert pool.ids is not None
    payload = [
        {"label": pool.label_names[label], "part": "train" if train else "test", "image": path}
        for label, train, path in zip(pool.y.tolist(), learning.tolist(), pool.ids.tolist(), strict=True)
    ]
    display = DisplayConfig(image_features=f"gist:{side}")
    return DemoData(hashers, features, payload, display)


def _fitted(X: NDArray[np.float32], y: NDArray[Any], n_bits: int, seed: int) -> dict[str, BaseHasher]:
    """Return the hashers that are compared, by the names of their collections; the one to look at comes first."""
    return {name: find_method(name)(n_bits=n_bits, random_state=seed).fit(X, y) for name in ("auto", "lsh")}


def make_demo(folder: Path, settings: dict[str, Any], compute: Callable[[Path], DemoData]) -> list[Path]:
    """Make a collection in ``folder`` per way of encoding. Those that the same settings made before are used again."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / DEMO_FILE
    if path.exists():
        try:
            made = json.loads(path.read_text(encoding="utf-8"))
            known, names = made["settings"], made["collections"]
        except (ValueError, TypeError, KeyError) as error:
            raise FileError(f"{path} is damaged: delete the folder and the demo is made again.") from error
        if known != settings:
            raise FileError(f"{folder} holds a demo with other settings: choose another folder, or delete it.")
        if names is not None:
            return [folder / name for name in names]
        for old in folder.glob("*/collection.sqlite"):  # left by a run that was stopped
            Collection.drop(old.parent)
    elif any(folder.iterdir()):
        raise FileError(f"{folder} holds other files: choose an empty or a new folder for the demo.")
    _write(path, {"settings": settings, "collections": None})
    data = compute(folder)
    for name, hasher in data.hashers.items():
        with Collection.create(folder / name, hasher, store_vectors=True, label_field="label") as collection:
            for start in range(0, len(data.rows), _ADDED_ROWS):
                part = slice(start, start + _ADDED_ROWS)
                rows = data.rows[part]
                collection.add(rows, ids=np.arange(start, start + len(rows)), payload=data.payload[part])
                report(f"filling {name}", start + len(rows), len(data.rows))
        data.display.write(folder / name)
    _write(path, {"settings": settings, "collections": list(data.hashers)})
    return [folder / name for name in data.hashers]


def _write_pictures(path: Path, pictures: NDArray[np.float32]) -> None:
    gray = (pictures * np.float32(255)).round().astype(np.uint8)
    with written_whole(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for number, picture in enumerate(gray):
            archive.writestr(f"{number}.png", as_png(picture))
            if number % 1000 == 999 or number == len(gray) - 1:
                report("writing pictures", number + 1, len(gray))


def _write(path: Path, value: dict[str, Any]) -> None:
    with written_whole(path) as stream:
        stream.write(json.dumps(value, indent=2).encode())
