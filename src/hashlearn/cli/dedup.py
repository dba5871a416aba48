"""``hashlearn dedup``: find near-duplicates among codes."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hashlearn import files
from hashlearn.cli.options import AsJson, BitOrder, Bits, Jobs
from hashlearn.cli.shell import BadUse, epilog, progress, tell
from hashlearn.files.arrays import EXTRA
from hashlearn.files.codes import FLOAT_FORMATS
from hashlearn.index.near_duplicates import near_duplicates

app = typer.Typer()


@app.command(
    epilog=epilog(
        "hashlearn dedup codes.npy --radius 3 --pairs pairs.parquet",
        "hashlearn dedup codes.npy --radius 3 --clusters clusters.parquet --json",
    )
)
def dedup(
    codes: Annotated[str, typer.Argument(metavar="CODES", help="Code files, as from 'hashlearn encode'.")],
    radius: Annotated[int, typer.Option(min=0, help="Largest number of bits in which near-duplicates differ.")],
    pairs: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the pairs: row, other, distance (.parquet or .npy).")
    ] = None,
    clusters: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the first row of each row's cluster (.parquet or .npy).")
    ] = None,
    bits: Bits = None,
    bit_order: BitOrder = "big",
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Find all pairs of codes within a Hamming radius, exactly, and the clusters that they form.

    Rows with equal codes are paired with the first of them only. While the command works, what it has found lies in
    a folder beside the output; after a stop, the same command goes on from there.
    """
    outputs = [files.check_output(name, (".parquet", ".npy")) for name in (pairs, clusters) if name is not None]
    if any(path.suffix.lower() == ".parquet" for path in outputs):
        _need_pyarrow()
    started = time.perf_counter()
    with progress(f"reading {codes}") as listener:
        stored = files.read_codes(codes, bits, bit_order)
        if stored.info.format in FLOAT_FORMATS:
            raise BadUse(f"{codes} holds floats, not codes: encode them first.")
        folder = outputs[0].with_name(f"{outputs[0].name}.parts") if outputs else None
        found = near_duplicates(stored.codes, radius, n_jobs=jobs, folder=folder, progress=listener)
        if pairs is not None:
            columns = {name: found.pairs[:, place] for place, name in enumerate(("row", "other", "distance"))}
            _write(Path(pairs), columns, found.pairs)
        if clusters is not None:
            _write(Path(clusters), {"row": np.arange(found.n_rows), "cluster": found.clusters}, found.clusters)
    if folder is not None:
        shutil.rmtree(folder)
    facts = {
        "rows": found.n_rows,
        "pairs": len(found.pairs),
        "clusters_of_several": int(np.count_nonzero(np.unique(found.clusters, return_counts=True)[1] > 1)),
        "kept": int(found.keep.sum()),
        "seconds": round(time.perf_counter() - started, 3),
    }
    tell(facts, as_json)


def _need_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise files.FileError(f"Writing Parquet files needs pyarrow: {EXTRA}.") from error


def _write(path: Path, columns: dict[str, NDArray[Any]], array: NDArray[np.int64]) -> None:
    with files.written_whole(path) as file:
        if path.suffix.lower() == ".npy":
            np.save(file, array)
            return
        import pyarrow as pa
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.table(columns), file)
