"""Features computed once from images and kept as .npy."""

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
    """The rows of a pool of images as 512-d GIST; computed the first time, then read from ``folder``."""
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
    """Where the GIST of these very pixels is kept: other images never find it."""
    pixels = np.ascontiguousarray(pool.images)
    content = hashlib.sha256(repr(pixels.shape).encode())
    content.update(pixels.data)
    return _writable(folder) / f"gist{N_FEATURES}-{content.hexdigest()[:16]}.npy"


def _writable(folder: Path) -> Path:
    """The folder or, where it is kept read-only, the cache; what is there already is used either way."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    # Root may write anywhere; a folder that nobody was meant to write to says so in its mode.
    meant = bool(there.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return folder if meant and os.access(there, os.W_OK) else cache_folder() / "features"
