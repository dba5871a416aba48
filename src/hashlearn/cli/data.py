"""``hashlearn data``: list and download data sets; turn images and texts into features."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from hashlearn import files
from hashlearn.cli.options import AsJson, DataDir, Jobs, Restart, command_group
from hashlearn.cli.shell import (
    PROSE_WIDTH,
    BadUse,
    epilog,
    folded,
    print_json,
    print_table,
    progress,
    say,
    tell,
    unknown_name,
    width_of_output,
)
from hashlearn.data.catalog import DATA_SETS, CatalogEntry, here, home, prepare
from hashlearn.data.embed import embed_texts
from hashlearn.data.fetch import data_folder
from hashlearn.data.protocols import PROTOCOLS
from hashlearn.data.texts import read_texts

app, data = command_group(
    "data",
    "List data sets, show their files and licenses, and download them.",
    "hashlearn data list",
    "hashlearn data info cifar10",
    "hashlearn data prepare cifar10",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from [bold]hashlearn data list[/bold].")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="X.npy", help="Output file for the features.")]
_SHOWN = 10


@data.command("list", epilog=epilog("hashlearn data list", "hashlearn data list --data-dir /data --json"))
def list_sets(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the data sets and the named splits."""
    there = {name: here(spec, data_dir) for name, spec in DATA_SETS.items()}
    if as_json:
        sets = [
            {"name": name, "title": spec.title, "rows": spec.rows, "labels": spec.labels, "here": there[name]}
            for name, spec in DATA_SETS.items()
        ]
        protocols = [{"name": name, "about": protocol.about} for name, protocol in PROTOCOLS.items()]
        print_json({"folder": str(data_folder(data_dir)), "data_sets": sets, "protocols": protocols})
        return
    width = width_of_output() or PROSE_WIDTH
    print(folded(f"Here already: {', '.join(name for name, found in there.items() if found)}", width=width))
    print("Download another: hashlearn data prepare NAME")
    print("Your own rows: hashlearn bench run --data mine.npz --labels y --methods auto itq\n")
    rows = [
        (name, f"{spec.rows:,}", "yes" if there[name] else "no", f"{spec.title}; {spec.labels}")
        for name, spec in DATA_SETS.items()
    ]
    print_table(("data set", "rows", "here", "what it is"), rows, right=("rows",), width=width)
    print()
    protocol_rows = [(name, protocol.about.replace("``", "")) for name, protocol in PROTOCOLS.items()]
    print_table(("protocol", "what it does"), protocol_rows, width=width)
    print(f"\nFolder: {data_folder(data_dir)}")


@data.command(epilog=epilog("hashlearn data info cifar10"))
def info(name: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Print the facts of a data set: its files, its license, and which of its files are on this machine."""
    spec = _spec(name)
    folder = home(spec, data_dir)
    listed: list[dict[str, Any]] = [
        asdict(file) | {"here": (folder / file.name).exists()} for file in (*spec.files, *spec.instead)
    ]
    facts: dict[str, Any] = {
        "name": spec.name,
        "title": spec.title,
        "rows": spec.rows,
        "labels": spec.labels,
        "license": spec.license,
        "homepage": spec.homepage or "none",
        "layout": spec.layout,
        "folder": str(folder),
    }
    if as_json:
        print_json({**facts, "files": listed})
        return
    for title, value in facts.items():
        line = f"{title:<8}  {value}"
        print(folded(line, indent=10) if " " in str(value) else line)
    for number, file in enumerate(listed):
        size = f"{file['size']:,} bytes" if file["size"] else "size not known"
        role = "or" if number >= len(spec.files) else "file"
        place = "here" if file["here"] else "not here"
        print(f"{role:<8}  {file['name']}: {size}, {place}")
        for line in (file["checksum"] or "checksum not known", file["url"] or file["note"]):
            print(folded(" " * 10 + line, indent=10))


@data.command(
    "prepare", epilog=epilog("hashlearn data prepare cifar10", "hashlearn data prepare mnist --data-dir data")
)
def prepare_set(name: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Download, check and unpack a data set, and compute its features. Files that exist are only checked."""
    spec = _spec(name)
    with progress(f"preparing {spec.name}"):
        pool = prepare(spec.name, data_dir)
    several = f"label sets of {pool.y.shape[1]} labels" if pool.multilabel else f"{len(set(pool.y.tolist()))} classes"
    parts = (None, None) if pool.part is None else (int((pool.part == 0).sum()), int((pool.part == 1).sum()))
    facts = {"name": pool.name, "rows": len(pool), "features": int(pool.X.shape[1]), "labels": several}
    facts |= {"training rows": parts[0], "test rows": parts[1], "folder": str(home(spec, data_dir))}
    tell(facts, as_json)


def _spec(name: str) -> CatalogEntry:
    if name not in DATA_SETS:
        raise unknown_name("data set", name, list(DATA_SETS))
    return DATA_SETS[name]


@data.command(
    epilog=epilog(
        "hashlearn data embed texts.csv --text question --model all-MiniLM-L6-v2 -o X.npy",
        "hashlearn data embed texts.jsonl --text body --labels topic --labels-out y.npy --model ./my-model -o X.npy",
    )
)
def embed(
    source: Annotated[Path, typer.Argument(metavar="TEXTS", help="Texts in a .csv, .tsv, .jsonl or .parquet file.")],
    text: Annotated[str, typer.Option("--text", metavar="COLUMN", help="The column of the texts.")],
    model: Annotated[str, typer.Option(metavar="MODEL", help="Name or folder of a sentence-transformers model.")],
    out: Output,
    labels: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of the classes.")] = None,
    labels_out: Annotated[
        Path | None, typer.Option(metavar="y.npy", help="Also write the classes, in the order of the rows.")
    ] = None,
    restart: Restart = False,
    as_json: AsJson = False,
) -> None:
    """Turn texts into vectors of unit length with a sentence-transformers model, once.

    After an interruption the same command resumes. The file X.npy.json beside X.npy names the model.
    """
    if (labels is None) != (labels_out is None):
        raise BadUse("--labels and --labels-out go together: give both or neither.")
    _check_outputs(out, labels_out)
    started = time.perf_counter()
    found = read_texts(source, text, labels)
    with progress(f"embedding {source}"):
        X = embed_texts(found.texts, model, out, restart=restart)
    if labels_out is not None:
        _write_labels(labels_out, found.labels)
    facts: dict[str, Any] = {"texts": int(X.shape[0]), "features": int(X.shape[1]), "model": model}
    tell({**facts, "seconds": round(time.perf_counter() - started, 3), "output": str(out)}, as_json)


@data.command(
    epilog=epilog(
        "hashlearn data features photos -o X.npy --labels-out y.npy",
        "hashlearn data features photos.zip --backbone efficientnet_lite2 --size 160 -o X.npy --on-error skip",
        "hashlearn data features photos --backbone alexnet --weights alexnet.pth -o X.npy",
    )
)
def features(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of images, at any depth, or a zip of them.")],
    out: Output,
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
        Path | None, typer.Option(metavar="y.npy", help="Also write the folder of each image as its class.")
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="Type of the features; float16 takes half as many bytes.")
    ] = "float32",
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
        raise files.FileError(f"There is no folder or zip {source}.")
    require_torch()
    from hashlearn.deep.backbones import BACKBONES
    from hashlearn.deep.extract import extract
    from hashlearn.deep.images import folder_classes

    if backbone not in BACKBONES or backbone == "none":
        raise BadUse(f"--backbone must be one of {', '.join(name for name in BACKBONES if name != 'none')}.")
    _check_outputs(out, labels_out)
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
            device=device,
            n_jobs=jobs,
            restart=restart,
        )
    for reason in list(made.skipped.values())[:_SHOWN]:
        say(f"skipped: {reason}")
    if len(made.skipped) > _SHOWN:
        say(f"… and {len(made.skipped) - _SHOWN} more, all named in {out}.json.")
    if labels_out is not None:
        _write_labels(labels_out, folder_classes(made.names))
    facts: dict[str, Any] = {
        "images": len(made.names) + len(made.skipped),
        "rows": int(made.X.shape[0]),
        "features": int(made.X.shape[1]),
        "skipped": made.skipped if as_json else len(made.skipped),
        "seconds": round(time.perf_counter() - started, 3),
        "output": str(out),
    }
    tell(facts, as_json)


def _check_outputs(*paths: Path | None) -> None:
    for path in paths:
        if path is not None:
            files.check_output(path, (".npy",))


def _write_labels(path: Path, labels: Any) -> None:
    with files.written_whole(path) as stream:
        np.save(stream, np.asarray(labels))
