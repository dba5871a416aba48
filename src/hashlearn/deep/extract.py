"""Features of images, computed once and kept in a .npy file. It can be resumed; the file appears when complete."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hashlearn.deep.backbones import Backbone, build
from hashlearn.deep.images import ImageSource
from hashlearn.deep.network import pick_device, torch_threads
from hashlearn.files.arrays import FileError
from hashlearn.files.feature_file import FeatureWriter, is_finished, read_finished
from hashlearn.parallel import in_order, thread_count
from hashlearn.progress import report
from hashlearn.typing import IntArray

DTYPES = ("float32", "float16")
PHASE = "features"
# Small batches fit in a processor's cache; a GPU is faster with large ones.
_CPU_BATCH, _GPU_BATCH = 16, 256


@dataclass(frozen=True)
class Extracted:
    """Features ``X`` (n, n_features), the ``names`` of their images, and why others were ``skipped``, by name."""

    X: NDArray[Any]
    names: list[str]
    skipped: dict[str, str]


def extract(
    images: Any,
    backbone: str | torch.nn.Module | Backbone = "efficientnet_lite2",
    path: str | Path | None = None,
    *,
    image_size: int | None = None,
    weights: str | Path | None = None,
    dtype: str = "float32",
    on_error: str = "stop",
    batch_size: int | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    restart: bool = False,
) -> Extracted:
    """Features of images through a backbone: of the middle of each image, scaled as the backbone's recipe says.

    With ``path`` (.npy) they are written while they are made. After a kill the same call goes on where it was; when the
    file is complete the same call reads it. A file made of other images or by another network is an error, unless
    ``restart`` says to make it again.

    Parameters
    ----------
    images : folder, zip, list of files, or array of bytes; see ``ImageSource``
    backbone : a name, a module of your own, or a ``Backbone``
    image_size, weights : settings of a backbone that is given by name; None leaves its own
    dtype : "float32" or "float16"
    on_error : "stop" at a damaged image, or "skip" it: its row is left out, and ``names`` says which rows there are
    batch_size : images at once; None chooses for the device
    device : "auto", "cpu", "cuda", …
    n_jobs : threads; None means all cores
    """
    if dtype not in DTYPES:
        raise ValueError(f"'dtype' must be one of {', '.join(DTYPES)}. Got {dtype!r} instead.")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"'batch_size' must be a positive number. Got {batch_size} instead.")
    chosen: dict[str, Any] = {"image_size": image_size, "weights": weights}
    made = build(backbone, **{key: value for key, value in chosen.items() if value is not None})
    if made.image_size is None:
        raise ValueError(f"The backbone {made.name} takes rows of features, not images.")
    if isinstance(backbone, str) and made.weights == "random":
        raise ValueError(f"The backbone {made.name} has learned nothing yet: give it trained, as a module.")
    with ImageSource(images, made.image_size, on_error=on_error, recipe=made.recipe, memory=0, n_jobs=n_jobs) as source:
        batches = partial(_batches, source, made, dtype, batch_size, device, thread_count(n_jobs))
        if path is None:
            X, rows = np.empty((len(source), made.n_features), dtype), 0
            for features, _ in batches(0):
                X[rows : rows + len(features)] = features
                rows += len(features)
            return Extracted(X[:rows], *_kept_and_skipped(source))
        facts = {
            "backbone": made.name,
            "image_size": made.image_size,
            "weights": made.weights,
            "network": network_hash(made.module),
            "images": source.stamp(),
            "n_images": len(source),
            "on_error": on_error,
        }
        path, width = Path(path), made.n_features
        if not restart and is_finished(path):
            about = read_finished(path, facts, width, dtype)
            names, skipped = about["names"], about["skipped"]
        else:
            with FeatureWriter(path, facts, width, dtype, restart=restart) as writer:
                before = writer.skipped
                for features, done in batches(writer.done):
                    writer.add(features, done, before | _kept_and_skipped(source, done)[1])
                names, skipped = _kept_and_skipped(source, before=before)
                writer.finish({"skipped": skipped, "names": names})
        return Extracted(np.load(path, mmap_mode="r", allow_pickle=False), names, skipped)


def network_hash(module: torch.nn.Module) -> str:
    """Return a hash of a network's layers and weights."""
    digest = hashlib.sha256(repr(module).encode())
    for name, tensor in module.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _kept_and_skipped(
    source: ImageSource, done: int | None = None, before: dict[str, str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Return the names of the images that have features, and why others were left out, by name.

    Only the first ``done`` images count, because decoding runs ahead. ``before`` are those that an earlier call left
    out.
    """
    met = sorted(row for row in source.damaged if done is None or row < done)
    skipped = (before or {}) | {source.names[row]: source.damaged[row] for row in met}
    return [name for name in source.names if name not in skipped], skipped


def _batches(
    source: ImageSource, backbone: Backbone, dtype: str, batch_size: int | None, device: str, jobs: int, start: int
) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield the features of each batch of images, and how many images are finished."""
    place = pick_device(device)
    network = backbone.for_features().to(place)
    size = batch_size or (_CPU_BATCH if place.type == "cpu" else _GPU_BATCH)
    total = len(source)

    def forward(images: tuple[IntArray, Tensor]) -> NDArray[Any]:
        rows, pixels = images
        if not len(rows):
            return np.empty((0, backbone.n_features), dtype)
        with torch.inference_mode():
            features = network(pixels.to(place, non_blocking=True)).float().cpu().numpy()
        with np.errstate(over="ignore"):
            stored: NDArray[Any] = features.astype(dtype)
        good = np.isfinite(stored).all(axis=1)
        if not good.all():
            name = source.names[int(rows[np.flatnonzero(~good)[0]])]
            raise FileError(f"The features of {name} are NaN, infinite, or too large for {dtype}: check the weights.")
        return stored

    report(PHASE, start, total)
    images = source.batches([np.arange(first, min(first + size, total)) for first in range(start, total, size)])
    # torch divides the work itself on a GPU, and with a module of the user, which may keep state between its layers.
    workers = None if place.type != "cpu" or backbone.name == "module" else jobs
    for number, features in enumerate(_run(forward, images, workers), 1):
        done = min(start + number * size, total)
        yield features, done
        report(PHASE, done, total)


def _run(forward: Callable[[Any], Any], images: Iterator[Any], workers: int | None) -> Iterator[Any]:
    """Yield results in order.

    Several batches with one thread each are faster than one batch with several threads, mostly on a busy machine, and
    the numbers do not depend on the number of threads.
    """
    if workers is None:
        yield from map(forward, images)
        return
    with torch_threads(1), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from in_order(lambda batch: pool.submit(forward, batch), images, workers)
