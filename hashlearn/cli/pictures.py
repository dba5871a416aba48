"""Folders and zips of images as input instead of feature files, for methods with a backbone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn import files


def takes_images(hasher: Any, features: str) -> bool:
    """Whether the method has a backbone and the path is a folder or a zip."""
    path = Path(features)
    return getattr(hasher, "backbone", None) is not None and (path.is_dir() or path.suffix.lower() == ".zip")


def fit_images(hasher: Any, images: str, labels: str | None) -> dict[str, Any]:
    """Fit to all images of a folder or zip, in the sorted order of their paths.

    Without a file of labels, the class of an image is the name of its folder.
    """
    from hashlearn.deep.stores import folder_classes, open_store

    started = time.perf_counter()
    store = open_store(images)
    try:
        names = list(store.names)
    finally:
        store.close()
    if labels is None:
        y = np.asarray(folder_classes(names))
    else:
        y = files.read_labels(labels, missing=True, n_rows=len(names))
    if y.shape[0] != len(names):
        raise files.FileError(f"{labels} has {y.shape[0]} labels, {images} has {len(names)} images.")
    hasher.fit(images, y)
    return {
        "images": len(names),
        "labels": labels or "folders",
        "seconds_fit": round(time.perf_counter() - started, 3),
        "iterations": hasher.n_iter_,
    }
