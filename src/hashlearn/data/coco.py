"""MS-COCO: label sets from the official ``instances_*.json``, features from a .npy file with a list of its images."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.data.pool import TEST, TRAIN, DatasetMissing, Pool
from hashlearn.files.arrays import FileError
from hashlearn.files.read import read_features
from hashlearn.files.tree import open_tree

FEATURES, IMAGE_IDS = "features.npy", ("image_ids.npy", "image_ids.txt")
_INSTANCES = re.compile(r"(?:^|/)instances_(train|val)\w*\.json$")
# Labels need only these fields. Polygons take up most of a file and would take up most of the memory.
_KEPT = {"images", "annotations", "categories", "id", "image_id", "category_id", "name"}


def coco(path: Path) -> Pool:
    """MS-COCO: features of images with label sets over the 80 categories.

    ``path`` is a folder with ``instances_train*.json`` and ``instances_val*.json`` (or ``annotations_trainval*.zip``),
    ``features.npy`` and, row for row, ``image_ids.npy`` or ``image_ids.txt``: COCO's numbers or its file names.
    Images without any object are dropped.
    """
    image_ids, labels, part, label_names = _read_instances(path)
    features = path / FEATURES
    ids_file = next((path / name for name in IMAGE_IDS if (path / name).exists()), None)
    if not features.exists() or ids_file is None:
        raise DatasetMissing(
            f"Features of COCO are not in {path}: put {FEATURES} (rows, features) and {' or '.join(IMAGE_IDS)}, "
            "the image of every row, there."
        )
    X, ids = read_features(features), read_image_ids(ids_file)
    if X.shape[0] != len(ids):
        raise FileError(f"{features} has {X.shape[0]} rows but {ids_file} has {len(ids)} images.")
    known = np.isin(ids, image_ids)
    if not known.all():
        raise FileError(f"{ids_file}: image {ids[~known][0]} is in no instances_*.json of {path}.")
    places = np.searchsorted(image_ids, ids)
    rows = np.flatnonzero(labels[places].any(axis=1))
    return Pool("COCO", X[rows], labels[places[rows]], label_names, part=part[places[rows]], ids=ids[rows])


def _read_instances(path: Path) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8], tuple[str, ...]]:
    """Read ``instances_*.json`` of a folder or zip: image numbers in order, label sets, parts, names of the labels."""
    parts: list[tuple[int, dict[str, Any]]] = []
    for place in [path, *sorted(path.glob("annotations_trainval*.zip"))] if path.is_dir() else [path]:
        if parts or not place.exists():
            break
        with open_tree(place) as tree:
            for name in tree.names():
                match = _INSTANCES.search(name)
                if match:
                    where = f"{place}: {name}"
                    parts.append((TRAIN if match[1] == "train" else TEST, _parsed(tree.read(name), where)))
    if not parts:
        raise DatasetMissing(
            f"COCO's labels are not in {path}: put instances_train2014.json and instances_val2014.json there, or "
            "annotations_trainval2014.zip from http://images.cocodataset.org/annotations/."
        )
    names = {category["id"]: category["name"] for _, raw in parts for category in raw["categories"]}
    columns = {number: column for column, number in enumerate(sorted(names))}
    tables = [_table(raw, columns) for _, raw in parts]
    image_ids = np.concatenate([ids for ids, _ in tables])
    order = np.argsort(image_ids, kind="stable")
    if len(np.unique(image_ids)) != len(image_ids):
        raise FileError(f"{path}: an image is in two instances_*.json; keep the files of one year only.")
    labels = np.concatenate([rows for _, rows in tables])
    part = np.repeat(np.array([mark for mark, _ in parts], dtype=np.uint8), [len(ids) for ids, _ in tables])
    return image_ids[order], labels[order], part[order], tuple(names[number] for number in sorted(names))


def _parsed(raw: bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(raw, object_pairs_hook=lambda pairs: {k: v for k, v in pairs if k in _KEPT})
        complete = isinstance(content, dict) and {"images", "annotations", "categories"} <= content.keys()
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where} is damaged or cut short: it is no JSON.") from error
    if not complete:
        raise FileError(f"{where} is no COCO file of instances: it lacks images, annotations or categories.")
    return content


def _table(raw: dict[str, Any], columns: dict[int, int]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    try:
        ids = np.array(sorted(image["id"] for image in raw["images"]), dtype=np.int64)
        images = np.array([found["image_id"] for found in raw["annotations"]], dtype=np.int64)
        categories = np.array([columns[found["category_id"]] for found in raw["annotations"]], dtype=np.int64)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"A COCO annotation lacks its image or a known category ({error}).") from error
    if not np.isin(images, ids).all():
        raise FileError("A COCO annotation is of an image that its file does not list.")
    labels = np.zeros((len(ids), len(columns)), dtype=np.uint8)
    labels[np.searchsorted(ids, images), categories] = 1
    return ids, labels


def read_image_ids(path: Path) -> NDArray[np.int64]:
    """Read COCO's image numbers from a file of numbers or of file names such as COCO_val2014_000000000042.jpg."""
    if path.suffix == ".npy":
        values = np.load(path, allow_pickle=False)
        lines = [str(value) for value in values.ravel().tolist()]
    else:
        lines = path.read_text(encoding="utf-8").split()
    ids = []
    for number, line in enumerate(lines):
        match = re.search(r"(\d+)(?:\.\w+)?$", line)
        if not match:
            raise FileError(f"{path}: {line!r} in row {number} is no image of COCO.")
        ids.append(int(match[1]))
    return np.array(ids, dtype=np.int64)
