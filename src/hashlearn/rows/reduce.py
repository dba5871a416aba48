"""Tasks over ranges of rows: who runs them, sums over all rows, and the codes that they write."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn import codes
from hashlearn.files.arrays import FileError
from hashlearn.files.codes import CODE_SUFFIXES, CodeInfo, CodeWriter, read_codes
from hashlearn.files.output import check_output, sidecar, written_whole
from hashlearn.kernel import FeatureMap
from hashlearn.parallel import BLOCK_ROWS, in_order, one_blas_thread, ordered_map, thread_count
from hashlearn.progress import PhaseTimer, report, verbose_listening
from hashlearn.rows.checkpoint import Checkpoint, claim_folder, from_arrays, to_arrays, under
from hashlearn.rows.groups import GroupLookup, Groups
from hashlearn.rows.source import AnySource, RowRange, Stream
from hashlearn.typing import Arrays, Float32Array, FloatArray, IntArray, Matrix, PackedCodes

RETRIES = 5
"""How often a cluster repeats a task whose worker died, and how often the shared plan is sent again after a loss."""

TaskFunction = Callable[[Any, Any], Any]

# For ``dask.config.set({"distributed.nanny.pre-spawn-environ": WORKER_ENVIRONMENT})`` before workers start. By default
# Dask makes them return memory to the system after every block, and getting it back costs a third of the speed.
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "MALLOC_TRIM_THRESHOLD_": 2**30,
    "MALLOC_MMAP_THRESHOLD_": 2**28,
}


class WorkersLost(RuntimeError):
    """The workers died and cannot be replaced. What they did is lost unless a checkpoint holds it."""


def _run_on_executor(executor: Any, function: TaskFunction, plan: Any, tasks: Iterable[Any]) -> Iterator[Any]:
    payload = _pickled(plan)
    digest = hashlib.sha256(payload).hexdigest()
    ahead = 2 * getattr(executor, "_max_workers", thread_count(None))
    try:
        yield from in_order(partial(executor.submit, _run_task, function, payload, digest), tasks, ahead)
    except BrokenExecutor as error:
        raise WorkersLost(
            "A worker process died, and with it the pool: out of memory perhaps. Make a new pool and fit again; with "
            "the same checkpoint= folder it goes on where it stopped."
        ) from error


def _pickled(plan: Any) -> bytes:
    try:
        return pickle.dumps(plan, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"This cannot be sent to other processes: {error}. A loss or relevance of your own must be a function of a "
            "module, not a lambda or a local one."
        ) from error


_last_plan: tuple[str, Any] = ("", None)


def _run_task(function: TaskFunction, payload: bytes, digest: str, task: Any) -> Any:
    """Run one task in a worker. The worker keeps the last plan, because the next tasks have the same one."""
    global _last_plan
    known, plan = _last_plan
    if known != digest:
        plan = pickle.loads(payload)
        _last_plan = (digest, plan)
    with one_blas_thread():
        return function(plan, task)


def _dask_client(executor: Any) -> Any:
    """Return the Dask client behind an executor; None if there is none."""
    if not type(executor).__module__.startswith("distributed"):
        return None
    return getattr(executor, "_client", executor)


def _run_on_cluster(client: Any, function: TaskFunction, plan: Any, tasks: Iterable[Any]) -> Iterator[Any]:
    """Run tasks on a Dask cluster, which repeats them when a worker dies.

    The cluster cannot compute the scattered plan again. When the last worker that holds it is gone, the plan is sent
    once more, with the tasks that needed it.
    """
    from distributed.scheduler import KilledWorker

    remaining, losses = iter(tasks), 0
    repeated: list[Any] = []
    submitted: list[Any] = []
    while True:
        scattered = client.scatter(plan, broadcast=True, hash=False)
        threads = max(1, sum(client.nthreads().values()))

        def submit(task: Any, scattered: Any = scattered) -> Any:
            submitted.append(task)
            # The cluster waits for futures among the arguments, and replaces them by their rows.
            futures = [part.future for part in _cluster_parts(task)]
            return client.submit(_run_cluster_task, function, scattered, futures, task, pure=False, retries=RETRIES)

        waiting, repeated = repeated, []
        submitted.clear()
        try:
            for result in in_order(submit, chain(waiting, remaining), 2 * threads):
                submitted.pop(0)
                yield result
            return
        except CancelledError as error:
            losses += 1
            if losses > RETRIES:
                raise WorkersLost("The cluster lost its workers again and again; is there memory enough?") from error
            repeated = list(submitted)
        except KilledWorker as error:
            raise WorkersLost(
                "A task took several workers down with it: out of memory perhaps. Give workers more memory, or use "
                "fewer threads per worker; with the same checkpoint= folder the fit goes on where it stopped."
            ) from error


def _cluster_parts(task: Any) -> list[Any]:
    """Return the parts of a task whose rows the cluster holds."""
    rows = task[0] if isinstance(task, tuple) else task
    parts = rows.parts() if isinstance(rows, RowRange) else []
    return [part for part in parts if hasattr(part, "future")]


def _run_cluster_task(function: TaskFunction, plan: Any, rows: list[Any], task: Any) -> Any:
    """Run one task in a worker of a cluster, with the rows that the cluster held for it."""
    for part, own_rows in zip(_cluster_parts(task), rows, strict=True):
        part.rows = own_rows
    with one_blas_thread():
        return function(plan, task)


WRITTEN_ROWS = 1 << 20
"""Rows per block in which codes are copied to their file."""
MOST_BLOCKS, MOST_TASKS, FEW_TASKS = 8, 1024, 32


def block_rows(n_rows: int) -> int:
    """Return the rows per block: at most 4096, in an even number of blocks, which keeps two threads busy.

    Fewer blocks would leave threads idle at the end, and more would spend their time on adding up large sums.
    """
    blocks = max(8, 2 * -(-n_rows // 8192))
    return max(512, -(-n_rows // blocks))


def task_rows(n_rows: int) -> int:
    """Return the rows per task: several blocks if there are many, because the sums of every task have to travel.

    The sums of a task are d^2 numbers. One process can add up about a thousand of them while a cluster computes.
    """
    size = block_rows(n_rows)
    blocks = -(-n_rows // size)
    return size * max(1, min(MOST_BLOCKS, blocks // FEW_TASKS), -(-blocks // MOST_TASKS))


def range_rows(source: AnySource) -> int:
    """Return the rows that one task gets. Rows of a stream wait in this process, so its tasks are single blocks."""
    return block_rows(source.n_rows) if isinstance(source, Stream) else task_rows(source.n_rows)


class FitContext:
    """How a fit is carried out, what it takes, and where the codes of its rows go.

    As a context manager it reports progress if asked to.

    Parameters
    ----------
    executor : None, concurrent.futures executor or Dask client
        None for ``n_jobs`` threads of this process.
    n_jobs : int or None
    checkpoint : Checkpoint or None
        Where finished work is saved; None to save nothing.
    codes : bool or file name
        Whether the codes of the rows are wanted, in memory or in a file.
    verbose : int or bool
        Whether progress is printed on standard error.

    Attributes
    ----------
    timer : PhaseTimer
    codes_out : uint8 (n_rows, n_bytes) or None
        The packed codes of the rows; None if no codes are wanted.
    """

    def __init__(
        self,
        executor: Any = None,
        n_jobs: int | None = None,
        checkpoint: Checkpoint | None = None,
        codes: bool | str | Path = True,
        verbose: int | bool = False,
    ) -> None:
        self.executor, self.n_jobs, self.checkpoint = executor, n_jobs, checkpoint
        self.timer, self._listening = PhaseTimer(), verbose_listening(verbose)
        self.codes_path = None if isinstance(codes, bool) else check_output(codes, CODE_SUFFIXES)
        self.codes_wanted = bool(codes)
        self.codes_out: PackedCodes | None = None

    def __enter__(self) -> Self:
        self._listening.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._listening.__exit__(*error)

    def part(self, name: str, codes: bool) -> FitContext:
        """Return the context of a fit that is part of this fit, with other codes and a checkpoint inside this one's."""
        checkpoint = None if self.checkpoint is None else self.checkpoint.part(name)
        return FitContext(self.executor, self.n_jobs, checkpoint, codes)

    def run(self, function: TaskFunction, plan: Any, tasks: Iterable[Any]) -> Iterator[Any]:
        """Compute ``function(plan, task)`` for every task and return the results in the order of the tasks.

        Parameters
        ----------
        function : callable
            It must be importable by name and depend on its arguments only, so that a task can be repeated elsewhere.
        plan : what all tasks need
            It is sent once to every worker of a cluster, and with every task to other executors.
        tasks : iterable
            Row ranges, or tuples that begin with one. Only a few are taken ahead of the result that is waited for.
        """
        if self.executor is None:
            return ordered_map(partial(function, plan), tasks, self.n_jobs)
        client = _dask_client(self.executor)
        if client is not None:
            return _run_on_cluster(client, function, plan, tasks)
        if not callable(getattr(self.executor, "submit", None)):
            raise TypeError(
                "executor must be None (threads), a concurrent.futures executor, a Dask client or "
                f"client.get_executor(). Got {type(self.executor).__name__} instead."
            )
        return _run_on_executor(self.executor, function, plan, tasks)

    def load(self, name: str) -> Arrays | None:
        """Load arrays from the checkpoint; None if there are none of this name or there is no checkpoint."""
        return None if self.checkpoint is None else self.checkpoint.load(name)

    def save(self, name: str, arrays: Arrays) -> None:
        """Save arrays in the checkpoint if there is one."""
        if self.checkpoint is not None:
            self.checkpoint.save(name, arrays)

    def open_codes(self, n_rows: int, n_bits: int, needed: bool = False) -> None:
        """Set ``codes_out`` if codes are wanted: in memory, or on disk if the codes go to a file or a checkpoint.

        A method that makes codes in a pass, and reads them afterwards, says that they are ``needed`` in any case.
        """
        shape = n_rows, codes.n_bytes(n_bits)
        if not (self.codes_wanted or needed):
            return
        if self.checkpoint is not None:
            file = self.checkpoint.path / "codes.bin"
            # A file of this size holds the codes of an earlier run.
            known = file.exists() and file.stat().st_size == shape[0] * shape[1]
            self.codes_out = np.memmap(file, dtype=np.uint8, mode="r+" if known else "w+", shape=shape)
        elif self.codes_path is None:
            self.codes_out = np.zeros(shape, dtype=np.uint8)
        else:
            # The file has no name, so that no error leaves it behind; the map keeps it.
            with TemporaryFile(dir=self.codes_path.parent) as unnamed:
                self.codes_out = np.memmap(unnamed, dtype=np.uint8, mode="w+", shape=shape)

    def put_codes(self, rows: slice | IntArray, packed: PackedCodes) -> None:
        """Write learned codes of rows, if codes are wanted."""
        if self.codes_out is not None:
            self.codes_out[rows] = packed

    def put_all_codes(self, packed: PackedCodes) -> None:
        """Write the codes of all rows, which a method holds; ``codes_out`` has them even if codes are not wanted."""
        if self.codes_out is None:
            self.codes_out = packed
        else:
            self.codes_out[:] = packed

    def finished_codes(self, n_bits: int, **facts: str) -> PackedCodes | None:
        """Return the codes, from memory or from the file that they are written to; None if they are not wanted.

        ``facts`` are noted beside the codes in the file.
        """
        if self.codes_out is None or not self.codes_wanted:
            return None
        if self.codes_path is None:
            # The file of a checkpoint is removed at the end of the fit.
            return np.array(self.codes_out) if isinstance(self.codes_out, np.memmap) else self.codes_out
        info = CodeInfo.for_rows(n_bits, "packed", "big", len(self.codes_out), **facts)
        with CodeWriter.to(self.codes_path, info) as writer:
            for start in range(0, len(self.codes_out), WRITTEN_ROWS):
                writer.append(self.codes_out[start : start + WRITTEN_ROWS])
        if self.codes_path.suffix.lower() == ".npz":
            with np.load(self.codes_path) as archive:
                return archive["codes"]
        return np.load(self.codes_path, mmap_mode="r")


def read_groups(groups: Groups, rows: RowRange, start: int, stop: int) -> IntArray:
    """Return the groups of rows start..stop-1, -1 for rows without labels."""
    if isinstance(groups, GroupLookup):
        return groups.group_numbers(rows.read_labels(start, stop))
    return groups[start:stop]


@dataclass
class RowBlock:
    """A block of rows: their features, and their groups (-1 without labels)."""

    rows: slice
    x: Float32Array
    group: IntArray

    @property
    def labeled(self) -> IntArray:
        """Places of the rows that have labels."""
        return np.flatnonzero(self.group >= 0)


@dataclass
class FeatureReader:
    """How tasks see rows: their features minus ``center``, and their groups.

    Attributes
    ----------
    center : a provisional mean of the features, None to leave them as they are.
    groups : the group of any row; None if all rows belong to one group.
    n_rows : rows of the whole source, which determine the size of blocks.
    """

    features: FeatureMap
    center: Float32Array | None
    groups: Groups | None
    n_rows: int

    def blocks(self, rows: RowRange) -> Iterator[RowBlock]:
        """Read a range block by block."""
        size = block_rows(self.n_rows)
        for start in range(rows.start, rows.stop, size):
            stop = min(start + size, rows.stop)
            x = self.features.map_block(rows.read(start, stop))
            if self.center is not None:
                x -= self.center
            if self.groups is None:
                group = np.zeros(len(x), dtype=np.intp)
            else:
                group = read_groups(self.groups, rows, start, stop)
            yield RowBlock(slice(start, stop), x, group)


@dataclass
class AdditiveSums:
    """Base of sums over rows. The sums of more rows are added field by field."""

    def __iadd__(self, other: Self) -> Self:
        for field in fields(self):
            value = getattr(self, field.name)
            value += getattr(other, field.name)
            setattr(self, field.name, value)
        return self


AnySums = TypeVar("AnySums", bound=AdditiveSums)


def reduce_rows(
    source: AnySource,
    function: Callable[[Any, Any], tuple[AnySums, slice, PackedCodes | None]],
    plan: Any,
    context: FitContext,
    phase: str,
    kind: type[AnySums] | None = None,
    tasks: Callable[[Iterator[RowRange]], Iterator[Any]] = iter,
) -> AnySums:
    """Make a pass over all rows, and return its sums.

    Parameters
    ----------
    source : Source or Stream
    function : callable
        ``function(plan, task)`` returns the sums of a task's rows, which rows they are, and their packed codes or None.
        Codes go to ``context.put_codes``.
    phase : str
        What progress reports call the pass.
    kind : class of the sums or None
        If given, the context's checkpoint holds the state of the pass, under the name of the phase.
    tasks : callable
        Makes tasks of row ranges; by default a task is a range.
    """
    size, start = task_rows(source.n_rows), 0
    done: AnySums | None = None
    part: AnySums | None = None
    name = phase.replace(" ", "-")
    checkpoint = None if kind is None else context.checkpoint
    if checkpoint is not None and kind is not None and (saved := checkpoint.load(name)):
        done, start = from_arrays(kind, under(saved, "sums.")), int(saved["stop"])

    def state() -> Arrays:
        if isinstance(context.codes_out, np.memmap):
            context.codes_out.flush()
        return {"stop": np.array(start), **{f"sums.{name}": array for name, array in to_arrays(done).items()}}

    # A stream that is finished is not iterated again.
    ranges = source.ranges(range_rows(source), start) if start < source.n_rows else iter(())
    with nullcontext() if checkpoint is None else checkpoint.saving(name, state) as save:
        for sums, rows, packed in context.run(function, plan, tasks(ranges)):
            if packed is not None:
                context.put_codes(rows, packed)
            if part is None:
                # A cluster may give out results that it shares, and that must not be changed.
                part = sums if context.executor is None else copy.deepcopy(sums)
            else:
                part += sums
            if rows.stop % size == 0 or rows.stop == source.n_rows:
                done = part if done is None else done.__iadd__(part)
                part, start = None, rows.stop
                if save is not None:
                    save()
            report(phase, rows.stop, source.n_rows)
    assert done is not None
    return done


def hash_rows(
    source: AnySource,
    project: Callable[[Matrix], NDArray[Any]],
    context: FitContext,
    groups: Groups | None = None,
) -> None:
    """Write the signs of the projections of rows to the codes of the context.

    Only the rows without labels are hashed if ``groups`` is given, otherwise all rows.
    """
    if context.codes_out is None or not context.codes_wanted:
        return
    plan = project, groups, block_rows(source.n_rows)
    for numbers, packed, stop in context.run(hash_range, plan, source.ranges(range_rows(source))):
        if len(packed):
            context.codes_out[numbers] = packed
        report("hash rows", stop, source.n_rows)


def hash_range(
    plan: tuple[Callable[[Matrix], NDArray[Any]], Groups | None, int], rows: RowRange
) -> tuple[IntArray, PackedCodes, int]:
    """Run one task: return the numbers of the rows that are hashed, their codes, and where the range ends."""
    project, groups, size = plan
    numbers: list[IntArray] = []
    packed: list[PackedCodes] = []
    for start in range(rows.start, rows.stop, size):
        stop = min(start + size, rows.stop)
        block, number = rows.read(start, stop), np.arange(start, stop)
        if groups is not None:
            places = np.flatnonzero(read_groups(groups, rows, start, stop) < 0)
            block, number = block[places], number[places]
        if len(number):
            numbers.append(number)
            packed.append(codes.pack(project(block) >= 0))
    if not numbers:
        return np.empty(0, dtype=np.intp), np.empty((0, 0), dtype=np.uint8), rows.stop
    return np.concatenate(numbers), np.concatenate(packed), rows.stop


@dataclass
class GroupSums(AdditiveSums):
    """Sums of values over the rows of each group: one line for each of the groups ``ids``, which are sorted.

    A task meets few of many label sets, and only the sums of those travel.
    """

    n_groups: int
    ids: IntArray
    values: FloatArray

    @classmethod
    def from_rows(cls, group: IntArray, values: FloatArray, n_groups: int) -> Self:
        """Sum ``values`` (n, k) over the rows of each group."""
        ids, place = np.unique(group, return_inverse=True)
        members = sparse.csr_matrix((np.ones(len(place)), (place, np.arange(len(place)))), (len(ids), len(place)))
        return cls(n_groups, ids, np.asarray(members @ values))

    def __iadd__(self, other: Self) -> Self:
        if len(self.ids) < self.n_groups:
            ids = np.union1d(self.ids, other.ids)
            # With half of the groups present, lines for all are allocated at once instead of again and again.
            self._widen(np.arange(self.n_groups) if 2 * len(ids) > self.n_groups else ids)
        self.values[np.searchsorted(self.ids, other.ids)] += other.values
        return self

    def all(self) -> FloatArray:
        """Return one line for every group."""
        self._widen(np.arange(self.n_groups))
        return self.values

    def _widen(self, ids: IntArray) -> None:
        if len(ids) > len(self.ids):
            values = np.zeros((len(ids), self.values.shape[1]))
            values[np.searchsorted(ids, self.ids)] = self.values
            self.ids, self.values = ids, values


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
    executor, n_jobs : who does the work; see ``FitContext``.
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
    claim_folder(folder, ABOUT, about, "codes")
    plan = EncodePlan(project, str(folder), n_bits, source.n_features, shard_rows, facts)
    missing = (
        rows
        for rows in source.ranges(shard_rows)
        if not _is_done(folder / shard_name(rows.start // shard_rows), rows.stop - rows.start, n_bits)
    )
    for stop in FitContext(executor, n_jobs).run(encode_shard, plan, missing):
        report("encode rows", stop, source.n_rows or stop)
    with written_whole(folder / ABOUT) as stream:
        stream.write(json.dumps({**about, "rows": source.n_rows}, indent=1).encode() + b"\n")
    return [folder / shard_name(k) for k in range(-(-source.n_rows // shard_rows))]


def encode_shard(plan: EncodePlan, rows: RowRange) -> int:
    """Run one task: write the code file of a range of rows."""
    path = Path(plan.folder) / shard_name(rows.start // plan.shard_rows)
    info = CodeInfo.for_rows(plan.n_bits, "packed", "big", rows.stop - rows.start, source="hashed", **plan.facts)
    with CodeWriter.to(path, info) as writer:
        for start in range(rows.start, rows.stop, BLOCK_ROWS):
            block = rows.read_checked(start, min(start + BLOCK_ROWS, rows.stop), plan.n_features)
            writer.append(codes.pack(plan.project(block) >= 0))
    return rows.stop


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


def _fingerprint(project: Callable[[Any], NDArray[Any]], width: int) -> str:
    """Hash the projections of a few fixed rows: equal for the same model, different for any other."""
    probe = np.random.default_rng(0).standard_normal((8, width))
    return hashlib.sha256(np.asarray(project(probe), dtype=np.float32).tobytes()).hexdigest()
