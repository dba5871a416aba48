"""``hashlearn data features``: images through a network once, kept as a .npy file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from hashlearn.cli.shell import BadUse, epilog, print_facts, print_json, progress, say
from hashlearn.files import FileError, check_output, written_whole

_SHOWN = 10

EPILOG = epilog(
    "hashlearn data features photos -o X.npy --labels-out y.npy",
    "hashlearn data features photos.zip --backbone efficientnet_lite2 --size 160 -o X.npy --on-error skip",
    "hashlearn data features photos --backbone alexnet --weights alexnet.pth -o X.npy",
)


def features(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of images, however deep, or a zip of them.")],
    out: Annotated[Path, typer.Option("--output", "-o", metavar="X.npy", help="Where the features go.")],
    backbone: Annotated[str, typer.Option(help="The network that makes them.")] = "efficientnet_lite2",
    size: Annotated[
        int | None, typer.Option(metavar="PIXELS", help="Images are scaled to this size; the network's own by default.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Weights, .pth or .safetensors; those of its package by default."),
    ] = None,
    on_error: Annotated[
        Literal["stop", "skip"], typer.Option(help="At a damaged image, stop, or leave it out and say so.")
    ] = "stop",
    labels_out: Annotated[
        Path | None,
        typer.Option(metavar="y.npy", help="Also write the folder of each image as its class, .npy or .txt."),
    ] = None,
    dtype: Annotated[Literal["float32", "float16"], typer.Option(help="Half as many bytes with float16.")] = "float32",
    batch_size: Annotated[int | None, typer.Option(help="Images at once; chosen for the device by default.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, and replace a file that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Compute features of all images in a folder or zip, once.

    An interrupted run goes on where it was when the same command is given again. Beside X.npy, X.npy.json says which
    image each row is, what was skipped, and what made the features.
    """
    from hashlearn.deep.extra import require_torch

    require_torch()
    from hashlearn.deep.backbones import BACKBONES
    from hashlearn.deep.extract import extract
    from hashlearn.deep.stores import folder_classes

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
    if as_json:
        print_json({**facts, "skipped": made.skipped})
    else:
        print_facts(facts)


def _write_labels(path: Path, classes: list[str]) -> None:
    with written_whole(path) as stream:
        if path.suffix.lower() == ".npy":
            np.save(stream, np.array(classes))
            return
        strange = next((name for name in classes if len(name.splitlines()) > 1 or name != name.strip()), None)
        if strange is not None:
            raise FileError(f"The class {strange!r} cannot stand in a line of text: write labels as .npy.")
        stream.write("".join(f"{name}\n" for name in classes).encode())
