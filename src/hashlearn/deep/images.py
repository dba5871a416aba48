"""Images for a network: decoded, scaled, cropped and mirrored in threads, ahead of the network that uses them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hashlearn.deep.backbones import Recipe
from hashlearn.deep.stores import ArrayStore, ImageStore, folder_classes, open_store
from hashlearn.files.arrays import FileError
from hashlearn.files.images import Pixels, Scaling
from hashlearn.parallel import in_order, row_blocks, thread_count
from hashlearn.progress import report
from hashlearn.typing import Int64Array, IntArray

__all__ = ["ImageSource", "folder_classes", "image_source"]

ON_ERROR = ("stop", "skip")
# Images per task: few, so that a batch is spread over threads, and not so few that scheduling takes time.
_TASK, _READY_TASK = 4, 128
_AHEAD = 3
MEMORY = 1 << 30


def image_source(
    images: Any,
    size: int,
    *,
    on_error: str = "stop",
    recipe: Recipe | None = None,
    memory: int = MEMORY,
    n_jobs: int | None = None,
) -> ImageSource:
    """Images of a folder, zip, list of files or array as batches of ``size`` × ``size`` pixels.

    Parameters
    ----------
    images : path of a folder or zip, list of files, or array
        Folders and zips give all images in them, however deep, in the sorted order of their paths. Arrays hold bytes:
        (n, height, width, 3), (n, 3, height, width) or, gray, (n, height, width).
    size : int
        What the network takes.
    on_error : "stop" or "skip"
        What a damaged image does: raise FileError, which names it, or be left out; see ``ImageSource.usable``.
    recipe : Recipe
        Scaling and augmentation; without one images are scaled to ``size``, and mirrored in training.
    memory : int
        Bytes of decoded images that are kept for the next epoch.
    n_jobs : int, optional
        Threads; None means all cores.

    Examples
    --------
    >>> source = image_source(np.zeros((10, 32, 32, 3), np.uint8), size=24)
    >>> source.batch(np.arange(4)).shape
    torch.Size([4, 3, 24, 24])
    """
    if on_error not in ON_ERROR:
        raise ValueError(f"'on_error' must be one of {', '.join(ON_ERROR)}. Got {on_error!r} instead.")
    recipe = recipe or Recipe()
    side = size if recipe.resize is None else recipe.resize
    if size < 1 or side + 2 * recipe.pad < size:
        raise ValueError(
            f"Crops of {size} pixels cannot be taken of images scaled to {side} with {recipe.pad} pixels around."
        )
    scaling = Scaling(side, recipe.fit, recipe.resample)
    return ImageSource(open_store(images), size, scaling, recipe.pad, recipe.mirror, on_error, memory, n_jobs)


class ImageSource:
    """Numbered images that come as batches: uint8 tensors (b, 3, size, size), in the channels-last layout.

    Random crops and mirroring happen only in training. They are drawn before anything is decoded, so the same
    generator gives the same batches for any number of threads.
    """

    def __init__(
        self,
        store: ImageStore,
        size: int,
        scaling: Scaling,
        pad: int,
        mirror: bool,
        on_error: str,
        memory: int,
        n_jobs: int | None,
    ) -> None:
        self.size = size
        self.on_error = on_error
        self.damaged: dict[int, str] = {}
        """Why images could not be read, by row number: those met so far."""
        self._store, self._scaling, self._pad, self._mirror = store, scaling, pad, mirror
        self._ready = store.ready(scaling.side) if isinstance(store, ArrayStore) else None
        self._kept: dict[int, Pixels] = {}
        self._room = memory // (3 * scaling.side**2) if self._ready is None else 0
        self._threads = thread_count(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return len(self._store.names)

    @property
    def names(self) -> list[str]:
        """What the images are called: their paths, or row numbers of an array."""
        return self._store.names

    def batch(self, rows: Any, train: bool = False, rng: np.random.Generator | None = None) -> Tensor:
        """Return the images of these rows.

        A damaged one is an error even if ``on_error`` is "skip", because labels and images would no longer match; take
        rows from ``usable()``.
        """
        rows = np.asarray(rows, dtype=np.intp)
        work = self._begin(rows, self._windows(len(rows), train, rng))
        kept, tensor = work.result()
        if len(kept) < len(rows):
            raise FileError(self.damaged[int(np.setdiff1d(rows, kept)[0])])
        return tensor

    def batches(
        self, order: Any, batch_size: int, train: bool = False, rng: np.random.Generator | None = None
    ) -> Iterator[tuple[IntArray, Tensor]]:
        """Return pairs (row numbers, images) in the given order; the next ones are prepared meanwhile.

        With ``on_error="skip"`` damaged images are left out of both and noted in ``damaged``.
        """
        order = np.asarray(order, dtype=np.intp)
        windows = self._windows(len(order), train, rng)
        return in_order(
            lambda part: self._begin(order[part], windows[part]), row_blocks(len(order), batch_size), _AHEAD
        )

    def usable(self) -> IntArray:
        """Read all images once, keep those that fit in memory, and return the rows whose images can be read."""
        everything = np.arange(len(self), dtype=np.intp)
        if self._store.can_fail:
            for done in in_order(self._begin_check, row_blocks(len(self), _TASK), 2 * self._threads):
                report("checking images", done, len(self))
        return np.setdiff1d(everything, np.array(sorted(self.damaged), dtype=np.intp))

    def stamp(self) -> str:
        """Return a hash that changes when the images or their scaling do."""
        facts = (self._store.stamp(), self.size, self._scaling, self._pad)
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def close(self) -> None:
        """End the threads and close files."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._store.close()

    def __enter__(self) -> ImageSource:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _windows(self, count: int, train: bool, rng: np.random.Generator | None) -> Int64Array:
        """Top, left and whether mirrored, one row per image; places are counted from the image, without its border."""
        spare = self._scaling.side + 2 * self._pad - self.size
        if not train:
            return np.tile(np.array([spare // 2 - self._pad] * 2 + [0]), (count, 1))
        if rng is None:
            raise ValueError("Training batches need a random generator: give rng=np.random.default_rng(seed).")
        places = rng.integers(0, spare + 1, (count, 2)) - self._pad
        return np.column_stack([places, rng.integers(0, 2, count) * self._mirror])

    def _begin(self, rows: IntArray, windows: Int64Array) -> _Work:
        size = self.size
        # Padding leaves pixels unwritten, which must be black.
        made = np.zeros if self._pad else np.empty
        pixels = made((len(rows), size, size, 3), dtype=np.uint8)

        def fill(part: slice) -> list[int]:
            return [
                place
                for place in range(part.start, part.stop)
                if not self._fill(pixels[place], int(rows[place]), windows[place])
            ]

        tasks = row_blocks(len(rows), _TASK if self._ready is None else _READY_TASK)
        return _Work(rows, pixels, [self._threads_pool().submit(fill, task) for task in tasks])

    def _begin_check(self, rows: slice) -> Future[int]:
        def check() -> int:
            for row in range(rows.start, rows.stop):
                self._image(row)
            return int(rows.stop)

        return self._threads_pool().submit(check)

    def _threads_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="hashlearn-images")
        return self._pool

    def _fill(self, pixels: Pixels, row: int, window: Int64Array) -> bool:
        """Put the window of an image into its place. Returns False if the image is damaged and is to be skipped."""
        image = self._image(row)
        if image is None:
            return False
        top, left, mirrored = window.tolist()
        side, size = self._scaling.side, self.size
        rows, columns = (slice(max(0, -start), min(size, side - start)) for start in (top, left))
        if mirrored:
            pixels = pixels[:, ::-1]
        pixels[rows, columns] = image[rows.start + top : rows.stop + top, columns.start + left : columns.stop + left]
        return True

    def _image(self, row: int) -> Pixels | None:
        if self._ready is not None:
            ready: Pixels = self._ready[row]
            return ready
        image = self._kept.get(row)
        if image is not None or row in self.damaged:
            return image
        try:
            image = self._store.pixels(row, self._scaling)
        except FileError as error:
            if self.on_error == "stop":
                raise
            self.damaged[row] = str(error)
            return None
        if len(self._kept) < self._room:
            self._kept[row] = image
        return image


class _Work:
    """A batch whose parts several threads fill."""

    def __init__(self, rows: IntArray, pixels: NDArray[np.uint8], parts: Sequence[Future[list[int]]]) -> None:
        self.rows, self.pixels, self.parts = rows, pixels, parts

    def result(self) -> tuple[IntArray, Tensor]:
        try:
            lost = [place for part in self.parts for place in part.result()]
        except BaseException:
            self.cancel()
            raise
        rows, pixels = self.rows, self.pixels
        if lost:
            rows, pixels = np.delete(rows, lost), np.delete(pixels, lost, axis=0)
        # The view has the channels-last layout that convolutions are fastest with; nothing is copied.
        return rows, torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def cancel(self) -> None:
        for part in self.parts:
            part.cancel()
