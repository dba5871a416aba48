"""GIST: 512 numbers that describe the strength of edges by orientation, scale and place (Oliva and Torralba, 2001).

The steps are those of the authors' LMgist: average the colors and stretch the result to 0..255; whiten and normalize
the local contrast; apply Gabor filters of 4 scales and 8 orientations to the image with mirrored borders of 32 pixels;
average the amplitude of each filter in each cell of a 4×4 grid. As in LMgist, numbers are ordered by filter and, within
a filter, by column of the grid.

LMgist transforms every filtered image back by FFT and then discards the borders. This module transforms back by two
matrix products, which compute only the pixels that are kept, from only the frequencies that a filter passes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from hashlearn.data.fetch import cache_folder
from hashlearn.data.pool import Pool
from hashlearn.files.arrays import FileError
from hashlearn.files.output import written_whole
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.progress import report

SCALES, ORIENTATIONS, GRID = 4, 8, 4
N_FEATURES = SCALES * ORIENTATIONS * GRID * GRID
BORDER = 32
_PREFILTER_BORDER = 5
_PREFILTER_CYCLES = 4.0
# A gain this small is lost when float32 adds it to a peak of 1, so these frequencies can be left out.
_NEGLIGIBLE = 1e-8
_BATCH = 64


def gist(images: NDArray[Any], n_jobs: int | None = None) -> NDArray[np.float32]:
    """Compute GIST features of square images.

    Parameters
    ----------
    images : array of shape (n, side, side), (n, side, side, 1) or (n, side, side, 3)
    n_jobs : int or None
        Threads; None takes all cores.

    Returns
    -------
    features : float32 array of shape (n, 512)

    Raises
    ------
    ValueError
        If the images are not square or less than 4 pixels wide.

    Examples
    --------
    >>> gist(np.zeros((2, 32, 32))).shape
    (2, 512)
    """
    images = np.asarray(images)
    if images.ndim not in (3, 4) or images.shape[1] != images.shape[2]:
        raise ValueError(f"images must be square, of shape (n, side, side[, channels]). Got {images.shape} instead.")
    side = images.shape[1]
    if side < GRID:
        raise ValueError(f"images must be at least {GRID} pixels wide. Got {side} instead.")
    _bank(side)  # once, before threads ask for it
    features = np.empty((len(images), N_FEATURES), dtype=np.float32)

    def compute(rows: slice) -> int:
        features[rows] = _filtered(_prefiltered(_gray(images[rows])))
        return rows.stop

    for done in ordered_map(compute, row_blocks(len(images), _BATCH), n_jobs):
        report("GIST", done, len(images))
    return features


def _gray(images: NDArray[Any]) -> NDArray[np.float32]:
    """Average the colors and stretch each image to 0..255. An image of a single color becomes black."""
    gray = np.asarray(images, dtype=np.float32)
    if gray.ndim == 4:
        gray = gray.mean(axis=3)
    low = gray.min(axis=(1, 2), keepdims=True)
    span = gray.max(axis=(1, 2), keepdims=True) - low
    return (gray - low) * np.where(span > 0, 255 / np.where(span > 0, span, 1), 0).astype(np.float32)


def _prefiltered(gray: NDArray[np.float32]) -> NDArray[np.float32]:
    """Whiten (remove frequencies below 4 cycles per image), then divide by the local deviation."""
    side = gray.shape[1]
    width = _PREFILTER_BORDER
    odd = side % 2
    padded = np.pad(np.log1p(gray), ((0, 0), (width, width + odd), (width, width + odd)), mode="symmetric")
    low_pass = _low_pass(padded.shape[1])
    shape = padded.shape[1:]

    def smooth(image: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(fft.irfft2(fft.rfft2(image) * low_pass, s=shape), dtype=np.float32)

    white = padded - smooth(padded)
    deviation = np.sqrt(np.abs(smooth(white * white)))
    kept = slice(width, width + side)
    return np.asarray(white / (np.float32(0.2) + deviation), dtype=np.float32)[:, kept, kept]


@lru_cache(maxsize=8)
def _low_pass(side: int) -> NDArray[np.float32]:
    spread = _PREFILTER_CYCLES / np.sqrt(np.log(2))
    vertical, horizontal = np.fft.fftfreq(side, 1 / side), np.fft.rfftfreq(side, 1 / side)
    gain: NDArray[np.float64] = np.exp(-(vertical[:, None] ** 2 + horizontal**2) / spread**2)
    return gain.astype(np.float32)


class _Filter(NamedTuple):
    """A Gabor filter on the box of frequencies that it passes, and the two factors of the transform back."""

    rows: slice
    columns: slice
    gain: NDArray[np.float32]
    left: NDArray[np.complex64]
    right: NDArray[np.complex64]


@lru_cache(maxsize=8)
def _bank(side: int) -> tuple[list[_Filter], NDArray[np.complex64], NDArray[np.float32]]:
    """Return all filters, ordered by scale and then orientation, and two matrices.

    The first one leads from pixels to frequencies, the second one from amplitudes to grid means.
    """
    length = side + 2 * BORDER
    cycles = np.arange(length) - length // 2
    waves = np.exp(-2j * np.pi * np.outer(cycles, np.arange(length)) / length)
    # Mirroring the borders and transforming are both linear, so one matrix does both.
    forward = waves @ np.eye(side)[np.pad(np.arange(side), BORDER, mode="symmetric")]
    backward = waves[:, BORDER : BORDER + side].conj().T / length
    borders = np.linspace(0, side, GRID + 1).astype(int)
    means = np.zeros((side, GRID), dtype=np.float32)
    for cell, (start, end) in enumerate(pairwise(borders)):
        means[start:end, cell] = 1 / (end - start)
    across, down = np.meshgrid(cycles / length, cycles / length)
    radius, angle = np.hypot(across, down), np.arctan2(down, across)
    filters = []
    for scale, orientation in product(range(SCALES), range(ORIENTATIONS)):
        turned = angle + np.pi / ORIENTATIONS * orientation
        turned = turned - 2 * np.pi * (turned > np.pi)
        radial = np.exp(-3.5 * (radius / (0.3 / 1.85**scale) - 1) ** 2)
        gain = radial * np.exp(-2 * np.pi * 16 * ORIENTATIONS**2 / 32**2 * turned**2)
        passed = gain > _NEGLIGIBLE
        rows, columns = (
            slice(int(found[0]), int(found[-1]) + 1)
            for found in (np.flatnonzero(passed.any(axis=axis)) for axis in (1, 0))
        )
        left, right = backward[:, rows].astype(np.complex64), backward[:, columns].T.astype(np.complex64, order="C")
        filters.append(_Filter(rows, columns, gain[rows, columns].astype(np.float32), left, right))
    return filters, forward.astype(np.complex64), means


def _filtered(images: NDArray[np.float32]) -> NDArray[np.float32]:
    n_images, side, _ = images.shape
    filters, forward, means = _bank(side)
    spectra = forward @ images.astype(np.complex64) @ forward.T
    features = np.empty((n_images, SCALES * ORIENTATIONS, GRID, GRID), dtype=np.float32)
    for number, part in enumerate(filters):
        height, width = part.gain.shape
        passed = spectra[:, part.rows, part.columns] * part.gain
        # One tall product is twice as fast in BLAS as one product per image.
        half = (passed.reshape(-1, width) @ part.right).reshape(n_images, height, side)
        pixels = part.left @ half
        amplitude = np.sqrt(pixels.real**2 + pixels.imag**2)
        sums = (amplitude.reshape(-1, side) @ means).reshape(n_images, side, GRID)
        features[:, number] = (means.T @ sums).transpose(0, 2, 1)
    return features.reshape(n_images, N_FEATURES)


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
    """Return the file of the GIST features of these pixels. Its name has a hash of the pixels."""
    pixels = np.ascontiguousarray(pool.images)
    content = hashlib.sha256(repr(pixels.shape).encode())
    content.update(pixels.data)
    return writable_folder(folder) / f"gist{N_FEATURES}-{content.hexdigest()[:16]}.npy"


def writable_folder(folder: Path) -> Path:
    """Return the folder itself or, if it is read-only, the platform's cache."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    # os.access lets root write everywhere, so the mode bits tell whether the folder is meant to be read-only.
    meant = bool(there.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return folder if meant and os.access(there, os.W_OK) else cache_folder() / "features"
