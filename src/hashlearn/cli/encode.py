"""``hashlearn encode``: convert features to codes, one chunk of rows after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import hashlearn
from hashlearn import codes, files
from hashlearn.cli.columns import text_hint, with_columns
from hashlearn.cli.images import takes_images
from hashlearn.cli.options import AsJson, Cluster, Jobs, Workers, is_many, working
from hashlearn.cli.shell import BadUse, epilog, progress, tell
from hashlearn.cli.texts import TextOption, open_texts
from hashlearn.files.arrays import split_part
from hashlearn.files.codes import CODE_SUFFIXES, FLOAT_FORMATS, Format
from hashlearn.parallel import BLOCK_ROWS
from hashlearn.rows import Source, as_source

app = typer.Typer()

_EXAMPLES = (
    "hashlearn encode model.hl X.npy -o codes.npy",
    "hashlearn encode model.hl X.npy -o faiss.npy --bit-order little",
    "hashlearn encode model.hl queries.npy -o queries.npz --format expected",
    "hashlearn encode model.hl 'shards/*.npy' -o codes --workers 4",
)


@app.command(epilog=epilog(*_EXAMPLES))
def encode(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file from 'hashlearn fit'.")],
    features: Annotated[str, typer.Argument(metavar="X", help="Features: .npy .npz .csv .parquet .fvecs .h5 …")],
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
    from hashlearn.models import load

    if format != "packed" and bit_order != "big":
        raise BadUse("--bit-order is for packed codes only.")
    if not Path(out).suffix:
        if format != "packed" or bit_order != "big" or queries:
            raise BadUse(
                "A folder takes packed codes of database rows in the usual bit order: give a .npy or .npz file."
            )
        if text is not None:
            raise BadUse("Codes of texts go to one file: give -o a name that ends in .npy or .npz.")
        _to_folder(model, features, out, jobs, workers, cluster, as_json)
        return
    if workers is not None or cluster is not None:
        raise BadUse("Several workers write several files: give a folder to -o, a name without an ending.")
    path = files.check_output(out, CODE_SUFFIXES)
    for source in (split_part(features)[0], Path(model)):
        if path.resolve() == source.resolve():
            raise BadUse(f"{path} is read by this command, so the codes cannot go there.")
    hasher = load(model)
    if jobs is not None:
        hasher.n_jobs = jobs
    n_rows, blocks = _encoded_blocks(hasher, model, features, text, format, queries)
    facts = {"source": "hashed", "model": Path(model).name, "hashlearn": hashlearn.__version__}
    info = files.CodeInfo.for_rows(hasher.n_bits_, format, bit_order, n_rows, **facts)
    started = time.perf_counter()
    with progress(f"encoding {features}") as listener, files.CodeWriter.to(path, info) as writer:
        for stop, block in blocks:
            writer.append(block)
            listener(f"encoding {features}", stop, info.rows)
    _tell(info, path, time.perf_counter() - started, as_json)


def _encoded_blocks(
    hasher: Any, model: str, features: str, text: str | None, format: Format, queries: bool
) -> tuple[int, Iterator[tuple[int, NDArray[Any]]]]:
    """Return the number of rows, and an iterator over what is written of them, with the number of rows so far."""
    if takes_images(hasher, features):
        with progress(f"encoding {features}"):
            encoded = _encoded(hasher, features, format, queries)
        return len(encoded), iter([(len(encoded), encoded)])
    rows: Any
    if text is not None:
        with progress(f"embedding {features}"):
            rows = open_texts(hasher, model, features, text)[...]
    else:
        rows = _many_for(hasher, model, features) if is_many(features) else open_for(hasher, model, features)
    n_rows = rows.n_rows if isinstance(rows, Source) else rows.shape[0]
    blocks = _checked_blocks(rows, features)
    return n_rows, ((stop, _encoded(hasher, block, format, queries)) for stop, block in blocks)


def _tell(info: files.CodeInfo, path: Path, seconds: float, as_json: bool) -> None:
    facts = {
        "rows": info.rows,
        "bits": info.bits,
        "format": info.format,
        "bit_order": info.bit_order,
        "padding": info.padding,
        "bytes_per_row": info.width * (4 if info.format in FLOAT_FORMATS else 1),
        "seconds": round(seconds, 3),
        "codes": str(path),
    }
    tell(facts, as_json)


def _to_folder(
    model: str, features: str, out: str, jobs: int | None, workers: int | None, cluster: str | None, as_json: bool
) -> None:
    from hashlearn.models import load

    hasher = load(model)
    if takes_images(hasher, features):
        raise BadUse("Codes of images go to one file: give -o a name that ends in .npy or .npz.")
    hasher.n_jobs = jobs
    source = _many_for(hasher, model, features)
    started = time.perf_counter()
    with progress(f"encoding {features}"), working(workers, cluster) as executor:
        shards = hasher.encode_chunks(source, out, executor=executor, model=Path(model).name)
    facts = {
        "rows": source.n_rows,
        "bits": hasher.n_bits_,
        "files": len(shards),
        "seconds": round(time.perf_counter() - started, 3),
        "codes": out,
    }
    tell(facts, as_json)


def _many_for(hasher: Any, model: str, features: str) -> Source:
    """Open the rows of one or several files, and check that they have as many features as the model."""
    source = as_source(with_columns(hasher, features))
    assert isinstance(source, Source)
    _check_width(hasher, model, features, source.n_features)
    return source


def _checked_blocks(rows: Any, features: str) -> Iterator[tuple[int, Any]]:
    """Yield blocks of checked rows, each with the number of rows up to its end."""
    if not isinstance(rows, Source):
        yield from ((chunk.stop, block) for chunk, block in files.checked_chunks(rows, features))
        return
    for part in rows.ranges(8 * BLOCK_ROWS):
        yield part.stop, part.read_checked(part.start, part.stop, rows.n_features)


def open_for(hasher: Any, model: str, features: str) -> Any:
    """Open the feature rows, and check that they have as many features as the model."""
    rows = files.open_features(with_columns(hasher, features))
    _check_width(hasher, model, features, rows.shape[1])
    return rows


def _check_width(hasher: Any, model: str, features: str, width: int) -> None:
    if width != hasher.n_features_in_:
        hint = text_hint(hasher, features)
        raise files.FileError(f"{features} has {width} features, {model} was fitted on {hasher.n_features_in_}{hint}.")


def encode_all(hasher: Any, rows: Any, name: str, format: Format = "packed", queries: bool = False) -> NDArray[Any]:
    """Encode all rows of a feature file that is open. Only the codes are kept in memory."""
    blocks = files.checked_chunks(rows, name)
    return np.concatenate([_encoded(hasher, block, format, queries) for _, block in blocks])


def _encoded(hasher: Any, block: Any, format: Format, queries: bool) -> NDArray[Any]:
    if format == "projections":
        return hasher.decision_function(block)
    if format == "expected":
        return hasher.expected_bits(block)
    packed = hasher.encode_queries(block) if queries else hasher.encode(block)
    return packed if format == "packed" else codes.unpack(packed, hasher.n_bits_)
