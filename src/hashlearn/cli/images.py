"""``hashlearn data features``, and images as input of ``fit`` and ``encode`` in place of feature files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from hashlearn import files
from hashlearn.cli.options import AsJson, Jobs, Restart
from hashlearn.cli.shell import BadUse, epilog, progress, say, tell
from hashlearn.files import FileError, check_output, written_whole

_SHOWN = 10

EPILOG = epilog(
    "hashlearn data features photos -o X.npy --labels-out y.npy",
    "hashlearn data features photos.zip --backbone efficientnet_lite2 --size 160 -o X.npy --on-error skip",
    "hashlearn data features photos --backbone alexnet --weights alexnet.pth -o X.npy",
)


def features(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of images, at any depth, or a zip of them.")],
    out: Annotated[Path, typer.Option("--output", "-o", metavar="X.npy", help="Output file for the features.")],
    backbone: Annotated[str, typer.Option(help="The network that computes the features.")] = "efficientnet_lite2",
    size: Annotated[
        int | None, typer.Option(metavar="PIXELS", help="Images are scaled to this size (default: the network's own).")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Weights, .pth or .safetensors (default: those of its package)."),
    ] = None,
    on_error: Annotated[
        Literal["stop", "skip"], typer.Option(help="At a damaged image, stop, or skip it with a message.")
    ] = "stop",
    labels_out: Annotated[
        Path | None,
        typer.Option(metavar="y.npy", help="Also write the folder of each image as its class, .npy or .txt."),
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="Type of the features; float16 takes half as many bytes.")
    ] = "float32",
    batch_size: Annotated[int | None, typer.Option(help="Images per batch (default: chosen for the device).")] = None,
    device: Annotated[str, typer.Option(help="Device to compute on: auto, cpu, cuda, …")] = "auto",
    jobs: Jobs = None,
    restart: Restart = False,
    as_json: AsJson = False,
) -> None:
    """Compute features of all images in a folder or zip, once.

    After an interruption the same command resumes. The file X.npy.json beside X.npy lists the image of each row, the
    images that were skipped, and the network.
    """
    from hashlearn.deep.extra import require_torch

    if not source.exists():
        raise FileError(f"There is no folder or zip {source}.")
    require_torch()
    from hashlearn.deep.backbones import BACKBONES
    from hashlearn.deep.extract import extract
    from hashlearn.deep.images import folder_classes

    if backbone not in BACKBONES or backbone == "none":
        raise BadUse(f"--backbone must be one of {', '.join(name for name in BACKBONES if name != 'none')}.")
    check_output(out, (".npy",))
    if labels_out is not None:
        check_output(labels_out, (".npy", ".txt"))
    started = time.perf_counter()
    with progress(f"features of {source}"):
        made = extract(
            source,
            backbone,
            out,
            image_size=size,
            weights=weights,
            dtype=dtype,
            on_error=on_error,
            batch_size=batch_size,
            device=device,
            n_jobs=jobs,
            restart=restart,
        )
    for number, reason in enumerate(made.skipped.values()):
        if number == _SHOWN:
            say(f"… and {len(made.skipped) - _SHOWN} more, all named in {out}.json.")
            break
        say(f"skipped: {reason}")
    if labels_out is not None:
        _write_labels(labels_out, folder_classes(made.names))
    facts: dict[str, Any] = {
        "images": len(made.names) + len(made.skipped),
        "rows": int(made.X.shape[0]),
        "features": int(made.X.shape[1]),
        "skipped": len(made.skipped),
        "seconds": round(time.perf_counter() - started, 3),
        "output": str(out),
    }
    tell({**facts, "skipped": made.skipped} if as_json else facts, as_json)


def _write_labels(path: Path, classes: list[str]) -> None:
    with written_whole(path) as stream:
        if path.suffix.lower() == ".npy":
            np.save(stream, np.array(classes))
            return
        strange = next((name for name in classes if len(name.splitlines()) > 1 or name != name.strip()), None)
        if strange is not None:
            raise FileError(f"The class {strange!r} cannot stand in a line of text: write labels as .npy.")
        stream.write("".join(f"{name}\n" for name in classes).encode())


def takes_images(hasher: Any, features: str) -> bool:
    """Return whether the method has a backbone and the path is a folder or a zip."""
    path = Path(features)
    return getattr(hasher, "backbone", None) is not None and (path.is_dir() or path.suffix.lower() == ".zip")


def fit_images(hasher: Any, images: str, labels: str | None) -> dict[str, Any]:
    """Fit to all images of a folder or zip, in the sorted order of their paths.

    Without a file of labels, the class of an image is the name of its folder.
    """
    from hashlearn.deep.extra import require_torch

    require_torch()
    from hashlearn.deep.images import folder_classes, image_names

    started = time.perf_counter()
    names = image_names(images)
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
