"""``hashlearn encode``: convert features to codes, one chunk of rows after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

import hashlearn
from hashlearn import codes, files
from hashlearn.cli.inputs import (
    check_width,
    embedded_texts,
    is_many,
    load_model,
    open_features,
    takes_images,
    with_columns,
)
from hashlearn.cli.options import AsJson, Cluster, Features, Jobs, Model, TextOption, Workers, working
from hashlearn.cli.shell import BadUse, epilog, progress, tell
from hashlearn.files.arrays import split_part
from hashlearn.files.codes import CODE_SUFFIXES, FLOAT_FORMATS, Format
from hashlearn.parallel import BLOCK_ROWS
from hashlearn.rows import Source, as_source

app = typer.Typer()


@app.command(
    epilog=epilog(
        "hashlearn encode model.hl X.npy -o codes.npy",
        "hashlearn encode model.hl X.npy -o faiss.npy --bit-order little",
        "hashlearn encode model.hl queries.npy -o queries.npz --format expected",
        "hashlearn encode model.hl 'shards/*.npy' -o codes --workers 4",
    )
)
def encode(
    model: Model,
    features: Features,
    out: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Output for the codes: .npy, .npz, or a folder.")
    ],
    format: Annotated[
        Format,
        typer.Option(
            help="Packed bytes, one byte per bit, expected bits (floats, for asymmetric search) or projections."
        ),
    ] = "packed",
    queries: Annotated[
        bool,
        typer.Option("--queries", help="The rows are queries: their codes differ if the model has spread thresholds."),
    ] = False,
    bit_order: Annotated[
        codes.BitOrder, typer.Option(help="Bit 0 in the highest place of a byte (big) or the lowest (faiss: little).")
    ] = "big",
    text: TextOption = None,
    jobs: Jobs = None,
    workers: Workers = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Turn features into codes. Rows stream through, so .npy, .fvecs and .h5 files may be bigger than memory.

    Bits, bit order and padding are written beside the codes, as codes.npy.json, or inside a .npz. If the output is a
    folder (a name without an ending), it gets several files of some rows each; after a stop, the same command writes
    only the files that are missing.
    """
    if format != "packed" and bit_order != "big":
        raise BadUse("--bit-order is for packed codes only.")
    to_folder = not Path(out).suffix
    if to_folder and (format != "packed" or bit_order != "big" or queries):
        raise BadUse("A folder takes packed codes of database rows in the usual bit order: give a .npy or .npz file.")
    if not to_folder:
        if workers is not None or cluster is not None:
            raise BadUse("Several workers write several files: give a folder to -o, a name without an ending.")
        path = files.check_output(out, CODE_SUFFIXES)
        for source in (split_part(features)[0], Path(model)):
            if path.resolve() == source.resolve():
                raise BadUse(f"{path} is read by this command, so the codes cannot go there.")
    hasher = load_model(model, jobs)
    images = takes_images(hasher, features)
    if to_folder and (images or text is not None):
        raise BadUse("Codes of images and texts go to one file: give -o a name that ends in .npy or .npz.")
    started = time.perf_counter()
    facts = {"model": Path(model).name, "hashlearn": hashlearn.__version__}
    with progress(f"encoding {features}") as listener, working(workers, cluster) as executor:
        if to_folder:
            rows = _source(hasher, model, features)
            shards = hasher.encode_chunks(rows, out, executor=executor, model=facts["model"])
            told: dict[str, Any] = {"rows": rows.n_rows, "bits": hasher.n_bits_, "files": len(shards)}
        else:
            if images:
                whole = _encoded(hasher, features, format, queries)
                n_rows, blocks = len(whole), iter([whole])
            else:
                X: Any
                if text is not None:
                    X = embedded_texts(hasher, model, features, text)
                else:
                    X = (_source if is_many(features) else open_features)(hasher, model, features)
                n_rows = X.n_rows if isinstance(X, Source) else X.shape[0]
                blocks = (_encoded(hasher, rows, format, queries) for rows in _checked_blocks(X, features))
            info = files.CodeInfo.for_rows(hasher.n_bits_, format, bit_order, n_rows, source="hashed", **facts)
            done = 0
            with files.CodeWriter.to(path, info) as writer:
                for block in blocks:
                    writer.append(block)
                    done += len(block)
                    listener(f"encoding {features}", done, n_rows)
            told = {"rows": n_rows, "bits": info.bits, "format": format, "bit_order": info.bit_order}
            told |= {"padding": info.padding, "bytes_per_row": info.width * (4 if format in FLOAT_FORMATS else 1)}
    tell({**told, "seconds": round(time.perf_counter() - started, 3), "codes": out}, as_json)


def _source(hasher: Any, model: str, features: str) -> Source:
    """Open the rows of several files, and check that they have as many features as the model."""
    source = as_source(with_columns(hasher, features))
    assert isinstance(source, Source)
    check_width(hasher, model, features, source.n_features)
    return source


def _checked_blocks(rows: Any, name: str) -> Iterator[Any]:
    """Yield blocks of checked rows, so that only some of them are in memory."""
    if isinstance(rows, Source):
        ranges = rows.ranges(8 * BLOCK_ROWS)
        return (part.read_checked(part.start, part.stop, rows.n_features) for part in ranges)
    return (block for _, block in files.checked_chunks(rows, name))


def _encoded(hasher: Any, rows: Any, format: Format, queries: bool) -> NDArray[Any]:
    if format == "projections":
        return hasher.decision_function(rows)
    if format == "expected":
        return hasher.expected_bits(rows)
    packed = hasher.encode_queries(rows) if queries else hasher.encode(rows)
    return packed if format == "packed" else codes.unpack(packed, hasher.n_bits_)
