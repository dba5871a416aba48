"""GIST features that are computed once from images and kept as .npy files."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import numpy as np

from hashlearn.data.fetch import cache_folder
from hashlearn.data.gist import N_FEATURES, gist
from hashlearn.data.pool import Pool
from hashlearn.files.arrays import FileError
from hashlearn.files.output import written_whole


def gist_pool(pool: Pool, folder: Path, n_jobs: int | None = None) -> Pool:
    """Return a pool of images as 512-d GIST. The first call computes the features, later calls read them from disk."""
    path = gist_file(pool, folder)
    name = f"{pool.name} GIST"
    if path.exists():
        X = np.load(path, mmap_mode="r", allow_pickle=False)
        if X.shape != (len(pool), N_FEATURES) or X.dtype != np.float32:
            raise FileError(f"{path} does not hold the GIST of {len(pool)} images: delete it and it is made again.")
        return pool.with_features(X, name)
    X = gist(pool.images, n_jobs)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as stream:
        np.save(stream, X)
    return pool.with_features(X, name)


def gist_file(pool: Pool, folder: Path) -> Path:
    """The file of the GIST features of these pixels. Its name has a hash of the pixels."""
    pixels = np.ascontiguousarray(pool.images)
    content = hashlib.sha256(repr(pixels.shape).encode())
    content.update(pixels.data)
    return writable_folder(folder) / f"gist{N_FEATURES}-{content.hexdigest()[:16]}.npy"


def writable_folder(folder: Path) -> Path:
    """The folder itself or, if it is read-only, the platform's cache."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    # os.access lets root write everywhere, so the mode bits tell whether the folder is meant to be read-only.
    meant = bool(there.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return folder if meant and os.access(there, os.W_OK) else cache_folder() / "features"
