"""``hashlearn encode``: features to codes, a chunk of rows at a time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import hashlearn
from hashlearn import codes, files
from hashlearn.cli.shell import BadUse, epilog, print_facts, print_json, progress
from hashlearn.files.arrays import split_part
from hashlearn.files.codes import CODE_SUFFIXES, Format

app = typer.Typer()

_EXAMPLES = (
    "hashlearn encode model.hl X.npy -o codes.npy",
    "hashlearn encode model.hl X.npy -o faiss.npy --bit-order little",
    "hashlearn encode model.hl queries.npy -o queries.npz --format projections",
)


@app.command(epilog=epilog(*_EXAMPLES))
def encode(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file from 'hashlearn fit'.")],
    features: Annotated[str, typer.Argument(metavar="X", help="Features: .npy .npz .csv .parquet .fvecs .h5 …")],
    out: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where the codes go: .npy or .npz.")],
    format: Annotated[
        Format, typer.Option(help="Packed bytes, one byte a bit, or float projections for asymmetric search.")
    ] = "packed",
    bit_order: Annotated[
        codes.BitOrder, typer.Option(help="Bit 0 in the highest place of a byte (big) or the lowest (faiss: little).")
    ] = "big",
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Turn features into codes. Rows stream through, so .npy, .fvecs and .h5 files may be bigger than memory.

    Bits, bit order and padding are written beside the codes, as codes.npy.json, or inside a .npz.
    """
    from hashlearn.models import load

    if format != "packed" and bit_order != "big":
        raise BadUse("--bit-order is for packed codes only.")
    path = files.check_output(out, CODE_SUFFIXES)
    for source in (split_part(features)[0], Path(model)):
        if path.resolve() == source.resolve():
            raise BadUse(f"{path} is read by this command, so the codes cannot go there.")
    hasher = load(model)
    if jobs is not None:
        hasher.n_jobs = jobs
    rows = open_for(hasher, model, features)
    info = files.CodeInfo.of(
        hasher.n_bits_,
        format,
        bit_order,
        rows.shape[0],
        source="hashed",
        model=Path(model).name,
        hashlearn=hashlearn.__version__,
    )
    started = time.perf_counter()
    with progress(f"encoding {features}") as listener, files.CodeWriter.to(path, info) as writer:
        for chunk, block in files.checked_chunks(rows, features):
            writer.append(_encoded(hasher, block, format))
            listener(f"encoding {features}", chunk.stop, rows.shape[0])
    seconds = time.perf_counter() - started
    facts = {
        "rows": info.rows,
        "bits": info.bits,
        "format": info.format,
        "bit_order": info.bit_order,
        "padding": info.padding,
        "bytes_per_row": info.width * (4 if format == "projections" else 1),
        "seconds": round(seconds, 3),
        "codes": str(path),
    }
    if as_json:
        print_json(facts)
    else:
        print_facts({name.replace("_", " "): value for name, value in facts.items() if value is not None})


def open_for(hasher: Any, model: str, features: str) -> Any:
    """The feature rows, if they are of the width that the model was fitted on."""
    rows = files.open_features(features)
    if rows.shape[1] != hasher.n_features_in_:
        raise files.FileError(
            f"{features} has {rows.shape[1]} features, {model} was fitted on {hasher.n_features_in_}."
        )
    return rows


def encode_all(hasher: Any, model: str, features: str) -> NDArray[np.uint8]:
    """Packed codes of a whole feature file; only the codes are held in memory."""
    rows = open_for(hasher, model, features)
    return np.concatenate([hasher.encode(block) for _, block in files.checked_chunks(rows, features)])


def _encoded(hasher: Any, block: Any, format: Format) -> NDArray[Any]:
    if format == "projections":
        return hasher.decision_function(block)
    return hasher.encode(block) if format == "packed" else hasher.transform(block)
