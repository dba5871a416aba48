"""Passes over all rows: every task codes or sums a range of rows, block by block, and the sums are added up in order.

The sizes of blocks and tasks depend on the number of rows alone, blocks are added up in order inside a task, and tasks
in order. So sums are the same, bit for bit, on any number of threads, processes or machines of one kind.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.fitting.base import HashFunction, project_block
from hashlearn.fitting.grouping import Groups
from hashlearn.fitting.job import Job
from hashlearn.fitting.sources import AnySource, RowRange, Stream
from hashlearn.fitting.state import from_arrays, to_arrays, under
from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import FeatureMap
from hashlearn.progress import report
from hashlearn.typing import Arrays, Float32Array, FloatArray, IntArray, Matrix, PackedCodes

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
    assert source.n_rows is not None
    return block_rows(source.n_rows) if isinstance(source, Stream) else task_rows(source.n_rows)


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
class RowView:
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
            group = np.zeros(len(x), dtype=np.intp)
            if self.groups is not None:
                group = self.groups.of(rows.read_labels(start, stop))
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


@dataclass
class FeatureSums(AdditiveSums):
    """Sums over rows: ``total`` of the features of all rows, ``sums`` with the targets of those that have any."""

    n_rows: int
    total: FloatArray
    sums: RidgeSums

    @property
    def mean(self) -> FloatArray:
        return self.total / self.n_rows


def add_up(
    source: AnySource,
    function: Callable[[Any, Any], tuple[AnySums, slice, PackedCodes | None]],
    plan: Any,
    job: Job,
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
        Codes go to ``job.put_codes``.
    phase : str
        What progress reports call the pass.
    kind : class of the sums or None
        If given, the job's checkpoint holds the state of the pass, under the name of the phase.
    tasks : callable
        Makes tasks of row ranges; by default a task is a range.
    """
    assert source.n_rows is not None
    size, start = task_rows(source.n_rows), 0
    done: AnySums | None = None
    part: AnySums | None = None
    name = phase.replace(" ", "-")
    saved = job.checkpoint.load(name) if kind is not None else None
    if saved and kind is not None:
        done, start = from_arrays(kind, under(saved, "sums.")), int(saved["stop"])

    def state() -> Arrays:
        job.flush_codes()
        return {"stop": np.array(start), **{f"sums.{name}": array for name, array in to_arrays(done).items()}}

    # A stream that is finished is not iterated again.
    ranges = source.ranges(range_rows(source), start) if start < source.n_rows else iter(())
    with job.checkpoint.saving(name, state) as save:
        for sums, rows, packed in job.run(function, plan, tasks(ranges)):
            if packed is not None:
                job.put_codes(rows, packed)
            if part is None:
                # A cluster may give out results that it shares, and that must not be changed.
                part = sums if job.executor is None else copy.deepcopy(sums)
            else:
                part += sums
            if rows.stop % size == 0 or rows.stop == source.n_rows:
                done = part if done is None else done.__iadd__(part)
                part, start = None, rows.stop
                if kind is not None:
                    save()
            report(phase, rows.stop, source.n_rows)
    assert done is not None
    return done


@dataclass
class HashPlan:
    """What hashing rows needs: the function, and ``groups`` if only rows without labels are hashed."""

    features: FeatureMap
    function: HashFunction
    groups: Groups | None
    block_rows: int


def hash_rows(source: AnySource, features: FeatureMap, function: HashFunction, groups: Groups | None, job: Job) -> None:
    """Write codes of rows by the learned function to ``job.codes_out``.

    All rows are hashed if ``groups`` is None, otherwise those without labels.
    """
    if job.codes_out is None:
        return
    assert source.n_rows is not None
    plan = HashPlan(features, function, groups, block_rows(source.n_rows))
    for rows, packed in job.run(hash_range, plan, source.ranges(range_rows(source))):
        if len(rows):
            job.codes_out[rows] = packed


def hash_range(plan: HashPlan, rows: RowRange) -> tuple[IntArray, PackedCodes]:
    """One task: the numbers of the rows that are hashed, and their codes."""
    numbers: list[IntArray] = []
    packed: list[PackedCodes] = []
    for start in range(rows.start, rows.stop, plan.block_rows):
        stop = min(start + plan.block_rows, rows.stop)
        places = np.arange(stop - start)
        if plan.groups is not None:
            places = np.flatnonzero(plan.groups.of(rows.read_labels(start, stop)) < 0)
        if len(places):
            numbers.append(places + start)
            block = rows.read(start, stop)[places]
            packed.append(codes.pack(project_block(plan.features, plan.function, block) >= 0))
    if not numbers:
        return np.empty(0, dtype=np.intp), np.empty((0, 0), dtype=np.uint8)
    return np.concatenate(numbers), np.concatenate(packed)


def hash_blocks(source: AnySource, project: Callable[[Matrix], NDArray[Any]], n_bits: int, job: Job) -> None:
    """Write the signs of projections of all rows to the codes of the job."""
    assert source.n_rows is not None
    job.open_codes(source.n_rows, n_bits)
    if job.codes_out is None:
        return
    plan = project, block_rows(source.n_rows)
    for rows, packed in job.run(hash_range_blocks, plan, source.ranges(range_rows(source))):
        job.put_codes(rows, packed)
        report("code rows", rows.stop, source.n_rows)


def hash_range_blocks(plan: tuple[Callable[[Matrix], NDArray[Any]], int], rows: RowRange) -> tuple[slice, PackedCodes]:
    """One task: the codes of its rows."""
    project, size = plan
    starts = range(rows.start, rows.stop, size)
    packed = [codes.pack(project(rows.read(start, min(start + size, rows.stop))) >= 0) for start in starts]
    return slice(rows.start, rows.stop), np.concatenate(packed)
