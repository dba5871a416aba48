"""Encode rows in chunks into a folder of code files. A task writes each file whole: a stopped run can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.files.arrays import FileError
from hashlearn.files.codes import CodeInfo, CodeWriter, read_codes, sidecar
from hashlearn.files.output import written_whole
from hashlearn.parallel import BLOCK_ROWS
from hashlearn.progress import report
from hashlearn.rows.reduce import run
from hashlearn.rows.source import AnySource, RowRange, Stream

ABOUT = "codes.json"
SHARD_ROWS = 128 * BLOCK_ROWS
STREAM_BYTES = 256 * 2**20


@dataclass
class EncodePlan:
    """What every task needs: how to project a block of rows, and where its file goes."""

    project: Callable[[Any], NDArray[Any]]
    folder: str
    n_bits: int
    n_features: int
    shard_rows: int
    facts: dict[str, str]


def shard_name(number: int) -> str:
    return f"codes-{number:06d}.npy"


def encode_source(
    source: AnySource,
    project: Callable[[Any], NDArray[Any]],
    n_bits: int,
    folder: str | Path,
    executor: Any,
    n_jobs: int | None,
    shard_rows: int | None,
    facts: dict[str, str],
) -> list[Path]:
    """Write packed codes of all rows to files of ``shard_rows`` rows in a folder; finished files are kept.

    Parameters
    ----------
    source : Source or Stream
    project : callable
        Maps a block of rows to projections; it must be possible to pickle it.
    folder : str or Path
    executor, n_jobs : who does the work; see ``executors.run``.
    shard_rows : int or None
        A multiple of 2048. None for 262,144, or fewer for a stream of wide rows.
    facts : dict
        Noted beside the codes.

    Returns
    -------
    paths of the files, in order of the rows
    """
    if shard_rows is None:
        shard_rows = SHARD_ROWS
        if isinstance(source, Stream):
            # The rows of a few shards wait in this process at a time.
            row_bytes = 4 * source.n_features
            shard_rows = int(np.clip(STREAM_BYTES // 8 // (row_bytes * BLOCK_ROWS), 1, 128)) * BLOCK_ROWS
    if shard_rows < 1 or shard_rows % BLOCK_ROWS:
        # ``encode`` works in such blocks, and codes must be the same.
        raise ValueError(f"shard_rows must be a multiple of {BLOCK_ROWS}. Got {shard_rows} instead.")
    folder = Path(folder).resolve()
    about = {
        "bits": n_bits,
        "shard_rows": shard_rows,
        "function": _fingerprint(project, source.n_features),
        "data": source.signature(),
        **facts,
    }
    _check_folder(folder, about)
    plan = EncodePlan(project, str(folder), n_bits, source.n_features, shard_rows, facts)
    done = 0
    for stop in run(encode_shard, plan, _missing(source, folder, shard_rows, n_bits), executor, n_jobs):
        done = max(done, stop)
        report("encode rows", stop, source.n_rows or stop)
    assert source.n_rows is not None
    with written_whole(folder / ABOUT) as stream:
        stream.write(json.dumps({**about, "rows": source.n_rows}, indent=1).encode() + b"\n")
    return [folder / shard_name(k) for k in range(-(-source.n_rows // shard_rows))]


def encode_shard(plan: EncodePlan, rows: RowRange) -> int:
    """Run one task: write the code file of a range of rows."""
    path = Path(plan.folder) / shard_name(rows.start // plan.shard_rows)
    info = CodeInfo.of(plan.n_bits, "packed", "big", rows.stop - rows.start, source="hashed", **plan.facts)
    with CodeWriter.to(path, info) as writer:
        for start in range(rows.start, rows.stop, BLOCK_ROWS):
            block = rows.read_checked(start, min(start + BLOCK_ROWS, rows.stop), plan.n_features)
            writer.append(codes.pack(plan.project(block) >= 0))
    return rows.stop


def _missing(source: AnySource, folder: Path, size: int, n_bits: int) -> Iterator[RowRange]:
    """Yield the ranges whose files are missing."""
    if isinstance(source, Stream):
        for rows in source.ranges(size):
            if not _is_done(folder / shard_name(rows.start // size), rows.stop - rows.start, n_bits):
                yield rows
        return
    for start in range(0, source.n_rows, size):
        stop = min(start + size, source.n_rows)
        if not _is_done(folder / shard_name(start // size), stop - start, n_bits):
            yield from source.ranges(size, start, stop)


def _is_done(path: Path, n_rows: int, n_bits: int) -> bool:
    """Return whether a file is there with all its rows.

    It is whole, because it was renamed, but may be of another run.
    """
    if not path.exists() or not sidecar(path).exists():
        return False
    try:
        info = read_codes(path).info
    except FileError:
        return False
    return (info.rows, info.bits) == (n_rows, n_bits)


def _check_folder(folder: Path, about: dict[str, Any]) -> None:
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file; the codes of chunks go to a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ABOUT
    if not file.exists():
        if any(folder.iterdir()):
            raise FileError(f"{folder} is not empty and holds no codes: give another folder.")
        with written_whole(file) as stream:
            stream.write(json.dumps(about, indent=1).encode() + b"\n")
        return
    try:
        known = json.loads(file.read_bytes())
    except ValueError as error:
        raise FileError(f"{file} is damaged: delete the folder {folder} to begin anew.") from error
    different = [name for name, value in about.items() if known.get(name) != value]
    if different:
        raise FileError(
            f"{folder} holds codes of another run ({', '.join(different)} differ): give another folder, or delete it."
        )


def _fingerprint(project: Callable[[Any], NDArray[Any]], width: int) -> str:
    """Hash the projections of a few fixed rows: equal for the same model, different for any other."""
    probe = np.random.default_rng(0).standard_normal((8, width))
    return hashlib.sha256(np.asarray(project(probe), dtype=np.float32).tobytes()).hexdigest()
