"""Images for a network: found, decoded, scaled, cropped and mirrored, in threads ahead of the network."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hashlearn.deep.backbones import Recipe
from hashlearn.files.arrays import FileError, one_line
from hashlearn.files.images import ENDINGS, MAX_BYTES, Pixels, Scaling, decode, scaled
from hashlearn.files.tree import Tree, tree_at
from hashlearn.parallel import in_order, thread_count
from hashlearn.progress import report
from hashlearn.typing import IntArray

__all__ = ["ImageSource", "folder_classes", "image_names"]

ON_ERROR = ("stop", "skip")
# Batches that are decoded ahead of the one that is used.
_AHEAD = 3
MEMORY = 1 << 30


class _ListedFiles(Tree):
    """Image files in the order of a list, by the names that it gives them."""

    def __init__(self, listed: Sequence[str | Path]) -> None:
        self._names = [str(path) for path in listed]

    def names(self) -> list[str]:
        return self._names

    def _open(self, name: str) -> IO[bytes]:
        return Path(name).open("rb")

    def stamp(self, name: str) -> tuple[int, int]:
        there = Path(name).stat()
        return there.st_size, there.st_mtime_ns


class _Files:
    """All images of a folder or zip, in the sorted order of their paths, or a list of image files."""

    def __init__(self, images: str | Path | Sequence[str | Path]) -> None:
        if not isinstance(images, (str, Path)):
            self._tree: Tree = _ListedFiles(images)
            self._where, self.names = "", self._tree.names()
            if not self.names:
                raise FileError("The list of image files is empty.")
            return
        path = Path(images)
        if path.exists() and not path.is_dir() and path.suffix.lower() != ".zip":
            raise FileError(f"{path} is neither a folder nor a zip of images; unpack other archives first.")
        self._tree, self._where = tree_at(path), f"{path}: "
        self.names = [name for name in self._tree.names() if name.lower().endswith(ENDINGS)]
        if not self.names:
            self.close()
            raise FileError(f"{path} holds no images ({', '.join(ENDINGS)}).")

    def pixels(self, row: int, scaling: Scaling) -> Pixels:
        """Return the square pixels of an image, or raise a FileError with its name. Threads may call this together."""
        name = self.names[row]
        title = self._where + name
        try:
            n_bytes = self._tree.stamp(name)[0]
            if n_bytes > MAX_BYTES:
                raise FileError(
                    f"{title} has {n_bytes:,} bytes, more than the {MAX_BYTES:,} that are read for one image."
                )
            data = self._tree.read(name)
        except FileError:
            raise
        # A zip member may be damaged, encrypted, or packed by a method that Python does not have.
        except Exception as error:
            raise FileError(f"{title} cannot be read: {getattr(error, 'strerror', None) or one_line(error)}") from error
        return decode(data, title, scaling)

    def stamp(self) -> str:
        digest = hashlib.sha256()
        for name in self.names:
            try:
                facts: tuple[int, ...] = self._tree.stamp(name)
            except OSError:
                facts = ()  # a listed file that is not there: reading it says so
            digest.update(repr((name, *facts)).encode())
        return digest.hexdigest()

    def close(self) -> None:
        self._tree.close()


class _Array:
    """Bytes (n, height, width, 3), (n, 3, height, width) in torch's order, or gray (n, height, width[, 1])."""

    def __init__(self, images: NDArray[Any]) -> None:
        if images.dtype != np.uint8:
            raise ValueError(f"Arrays of images must hold bytes (uint8) 0..255. Got {images.dtype} instead.")
        if images.ndim == 3:
            images = images[..., None]
        if images.ndim == 4 and images.shape[3] not in (1, 3) and images.shape[1] in (1, 3):
            images = images.transpose(0, 2, 3, 1)
        if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape:
            raise ValueError(
                "Arrays of images must have the shape (n, height, width, 3), (n, 3, height, width) or (n, height, "
                f"width). Got {images.shape} instead."
            )
        self._images = np.broadcast_to(images, (*images.shape[:3], 3))
        self.names = [str(row) for row in range(len(images))]

    def pixels(self, row: int, scaling: Scaling) -> Pixels:
        return scaled(self._images[row], scaling)

    def stamp(self) -> str:
        digest = hashlib.sha256(repr(self._images.shape).encode())
        for start in range(0, len(self._images), 1024):
            digest.update(np.ascontiguousarray(self._images[start : start + 1024]).data)
        return digest.hexdigest()

    def close(self) -> None:
        """Nothing is open."""


def _opened(images: Any) -> _Files | _Array:
    if isinstance(images, (str, Path)):
        return _Files(images)
    if hasattr(images, "detach"):
        images = images.detach().cpu().numpy()
    if isinstance(images, np.ndarray) and images.dtype.kind not in "USO":
        return _Array(images)
    listed = list(images)
    strange = next((item for item in listed if not isinstance(item, (str, Path))), None)
    if strange is not None:
        raise ValueError(
            "Images must be a folder, a zip, a list of files or an array of bytes. Got a list with "
            f"{type(strange).__name__} in it instead."
        )
    return _Files(listed)


def image_names(path: str | Path) -> list[str]:
    """Return the paths of the images inside a folder or zip, in the order in which they are read."""
    files = _Files(path)
    files.close()
    return files.names


def folder_classes(names: Sequence[str]) -> list[str]:
    """Return the name of the folder of each image; FileError if an image is in no folder.

    >>> folder_classes(["train/cat/1.jpg", "train/dog/2.jpg"])
    ['cat', 'dog']
    """
    classes = [PurePosixPath(name).parent.name for name in names]
    for name, found in zip(names, classes, strict=True):
        if not found:
            raise FileError(f"{name} lies in no folder that could name its class.")
    return classes


class ImageSource:
    """Images of a folder, zip, list of files or array as batches: uint8 tensors (b, 3, size, size), channels last.

    Random crops and mirroring happen only in training. They depend on a seed alone, for any number of threads.

    Parameters
    ----------
    images : path of a folder or zip, list of files, or array
        Folders and zips give all images in them, however deep, in the sorted order of their paths. Arrays hold bytes:
        (n, height, width, 3), (n, 3, height, width) or, gray, (n, height, width).
    size : int
        What the network takes.
    on_error : "stop" or "skip"
        What a damaged image does: raise FileError, which names it, or be left out; see ``usable``.
    recipe : Recipe
        Scaling and augmentation; without one images are scaled to ``size``, and mirrored in training.
    memory : int
        Bytes of decoded images that are kept for the next epoch.
    n_jobs : int, optional
        Threads; None means all cores.

    Attributes
    ----------
    names : list of str
        What the images are called: their paths, or row numbers of an array.
    damaged : dict of int to str
        Why images could not be read, by row number: those met so far.

    Examples
    --------
    >>> source = ImageSource(np.zeros((10, 32, 32, 3), np.uint8), size=24)
    >>> source.batch(np.arange(4)).shape
    torch.Size([4, 3, 24, 24])
    """

    def __init__(
        self,
        images: Any,
        size: int,
        *,
        on_error: str = "stop",
        recipe: Recipe | None = None,
        memory: int = MEMORY,
        n_jobs: int | None = None,
    ) -> None:
        if on_error not in ON_ERROR:
            raise ValueError(f"'on_error' must be one of {', '.join(ON_ERROR)}. Got {on_error!r} instead.")
        self._recipe = recipe or Recipe()
        self._side = size if self._recipe.resize is None else self._recipe.resize
        if size < 1 or self._side + 2 * self._recipe.pad < size:
            raise ValueError(
                f"Crops of {size} pixels cannot be taken of images scaled to {self._side} with {self._recipe.pad} "
                "pixels around."
            )
        self._scaling = Scaling(self._side, self._recipe.fit, self._recipe.resample)
        self._threads = thread_count(n_jobs)
        self._opened = _opened(images)
        self.names, self.size, self.on_error = self._opened.names, size, on_error
        self.damaged: dict[int, str] = {}
        self._kept: dict[int, Pixels] = {}
        self._room = memory // (3 * self._side**2)
        self._pool: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return len(self.names)

    def batch(self, rows: Any, seed: Sequence[int] | None = None) -> Tensor:
        """Return the images of these rows; FileError if one is damaged, whatever ``on_error`` is."""
        return next(self.whole_batches([rows], seed))

    def whole_batches(self, plan: Sequence[Any], seed: Sequence[int] | None = None) -> Iterator[Tensor]:
        """Yield images as ``batches`` does. A damaged one is an error even if ``on_error`` is "skip".

        Labels and images would no longer match; take rows from ``usable()``.
        """
        for rows, (found, images) in zip(plan, self.batches(plan, seed), strict=True):
            if len(found) < len(rows):
                raise FileError(self.damaged[int(np.setdiff1d(rows, found)[0])])
            yield images

    def batches(self, plan: Sequence[Any], seed: Sequence[int] | None = None) -> Iterator[tuple[IntArray, Tensor]]:
        """Yield pairs (row numbers, images) for batches of rows; the next ones are prepared meanwhile.

        With ``on_error="skip"`` damaged images are left out of both and noted in ``damaged``. A ``seed`` asks for
        random crops and mirrors, which each batch draws from a generator of its own.
        """
        every = (int(row) for rows in plan for row in rows)
        images = in_order(self._begin, every, _AHEAD * max(map(len, plan), default=0))
        for number, rows in enumerate(plan):
            rng = None if seed is None else np.random.default_rng([*seed, number])
            pixels = np.zeros((len(rows), self.size, self.size, 3), dtype=np.uint8)
            found: list[int] = []
            for row, window in zip(rows, self._windows(len(rows), rng), strict=True):
                image = next(images)
                if image is not None:
                    self._cut(image, window, pixels[len(found)])
                    found.append(row)
            # The view has the channels-last layout that convolutions are fastest with; nothing is copied.
            yield np.array(found, dtype=np.intp), torch.from_numpy(pixels[: len(found)]).permute(0, 3, 1, 2)

    def usable(self) -> IntArray:
        """Read all images once, keep those that fit in memory, and return the rows whose images can be read."""
        everything = range(len(self))
        if isinstance(self._opened, _Files):
            for row, _ in enumerate(in_order(self._begin, everything, 8 * self._threads)):
                report("checking images", row + 1, len(self))
        return np.setdiff1d(everything, sorted(self.damaged)).astype(np.intp)

    def stamp(self) -> str:
        """Return a hash that changes when the images or their scaling do."""
        facts = (self._opened.stamp(), self.size, self._scaling, self._recipe.pad)
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def close(self) -> None:
        """End the threads and close files."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._opened.close()

    def __enter__(self) -> ImageSource:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _windows(self, count: int, rng: np.random.Generator | None) -> list[list[int]]:
        """Top, left and whether mirrored of each window; places are counted from the image, without its border."""
        pad = self._recipe.pad
        spare = self._side + 2 * pad - self.size
        if rng is None:
            return [[spare // 2 - pad, spare // 2 - pad, 0]] * count
        places = rng.integers(0, spare + 1, (count, 2)) - pad
        windows: list[list[int]] = np.column_stack([places, rng.integers(0, 2, count) * self._recipe.mirror]).tolist()
        return windows

    def _cut(self, image: Pixels, window: Sequence[int], pixels: Pixels) -> None:
        """Copy the window of an image into ``pixels``, which are black."""
        top, left, mirrored = window
        if mirrored:
            pixels = pixels[:, ::-1]
        rows, columns = (slice(max(0, -start), min(self.size, self._side - start)) for start in (top, left))
        pixels[rows, columns] = image[rows.start + top : rows.stop + top, columns.start + left : columns.stop + left]

    def _begin(self, row: int) -> Future[Pixels | None]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="hashlearn-images")
        return self._pool.submit(self._image, row)

    def _image(self, row: int) -> Pixels | None:
        """Return an image, or None if it is damaged and is to be skipped."""
        image = self._kept.get(row)
        if image is not None or row in self.damaged:
            return image
        try:
            image = self._opened.pixels(row, self._scaling)
        except FileError as error:
            if self.on_error == "stop":
                raise
            self.damaged[row] = str(error)
            return None
        if len(self._kept) < self._room:
            self._kept[row] = image
        return image
