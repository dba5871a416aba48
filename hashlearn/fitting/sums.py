"""Passes that add up: a task's blocks in order, the tasks in order, so the sums are the same whoever makes them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.fitting.job import Job
from hashlearn.fitting.sources import AnySource, Cut, Stream
from hashlearn.functions.linear import RidgeSums
from hashlearn.progress import report
from hashlearn.typing import Arrays, FloatArray, IntArray

MOST_BLOCKS, MOST_TASKS, FEW_TASKS = 8, 1024, 32


class Additive(Protocol):
    """Sums of some rows, to which those of more rows can be added."""

    def __iadd__(self, other: Any, /) -> Self: ...

    def state(self) -> Arrays: ...

    @classmethod
    def of_state(cls, state: Arrays) -> Self: ...


Sums = TypeVar("Sums", bound=Additive)


@dataclass
class FeatureSums:
    """Sums over rows: ``total`` of the features of all rows, ``sums`` with the targets of those that have any."""

    n_rows: int
    total: FloatArray
    sums: RidgeSums

    def __iadd__(self, other: Self) -> Self:
        self.n_rows += other.n_rows
        self.total += other.total
        self.sums += other.sums
        return self

    @property
    def mean(self) -> FloatArray:
        return self.total / self.n_rows

    def state(self) -> Arrays:
        arrays = {name: np.asarray(value) for name, value in vars(self).items() if name != "sums"}
        return arrays | {f"sums.{name}": np.asarray(value) for name, value in vars(self.sums).items()}

    @classmethod
    def of_state(cls, state: Arrays) -> Self:
        sums = RidgeSums(int(state["sums.count"]), *(state[f"sums.{name}"] for name in ("x", "xx", "xt", "t", "tt")))
        names = [name for name in cls.__dataclass_fields__ if name not in ("n_rows", "sums")]
        return cls(n_rows=int(state["n_rows"]), sums=sums, **{name: state[name] for name in names})


@dataclass
class GroupSums:
    """Sums of values over the rows of each group, a line for each of the groups ``ids``, which are sorted.

    A task meets few of many label sets: only those travel.
    """

    n_groups: int
    ids: IntArray
    values: FloatArray

    @classmethod
    def of(cls, group: IntArray, values: FloatArray, n_groups: int) -> Self:
        ids, place = np.unique(group, return_inverse=True)
        members = sparse.csr_matrix((np.ones(len(place)), (place, np.arange(len(place)))), (len(ids), len(place)))
        return cls(n_groups, ids, np.asarray(members @ values))

    def __iadd__(self, other: Self) -> Self:
        if len(self.ids) < self.n_groups:
            ids = np.union1d(self.ids, other.ids)
            # Room for all groups at once, before new ones are made room for again and again.
            self._widen(np.arange(self.n_groups) if 2 * len(ids) > self.n_groups else ids)
        self.values[np.searchsorted(self.ids, other.ids)] += other.values
        return self

    def all(self) -> FloatArray:
        """A line for every group."""
        self._widen(np.arange(self.n_groups))
        return self.values

    def _widen(self, ids: IntArray) -> None:
        if len(ids) > len(self.ids):
            values = np.zeros((len(ids), self.values.shape[1]))
            values[np.searchsorted(ids, self.ids)] = self.values
            self.ids, self.values = ids, values

    def state(self) -> Arrays:
        return {"n_groups": np.array(self.n_groups), "ids": self.ids, "values": self.values}

    @classmethod
    def of_state(cls, state: Arrays) -> Self:
        return cls(int(state["n_groups"]), state["ids"], state["values"])


@dataclass
class GroupedSums(FeatureSums):
    """The same, and the sums of the features by group."""

    groups: GroupSums

    def __iadd__(self, other: Self) -> Self:
        super().__iadd__(other)
        self.groups += other.groups
        return self

    def state(self) -> Arrays:
        plain = FeatureSums(self.n_rows, self.total, self.sums).state()
        return plain | {f"groups.{name}": value for name, value in self.groups.state().items()}

    @classmethod
    def of_state(cls, state: Arrays) -> Self:
        plain = FeatureSums.of_state(state)
        return cls(plain.n_rows, plain.total, plain.sums, GroupSums.of_state(under(state, "groups.")))


def under(state: Arrays, prefix: str) -> Arrays:
    """The arrays of a state whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def block_rows(n_rows: int) -> int:
    """Rows a block, by the data's size alone: at most 4096, in an even number of blocks to keep two threads busy.

    Fewer blocks would leave threads idle at the end, more would spend their time adding up large sums.
    """
    blocks = max(8, 2 * -(-n_rows // 8192))
    return max(512, -(-n_rows // blocks))


def task_rows(n_rows: int) -> int:
    """Rows a task, by the data's size alone: several blocks where there are many, since a task's sums have to travel.

    A task's sums are d^2 numbers, so a thousand of them are what one process can still add up beside a cluster.
    """
    size = block_rows(n_rows)
    blocks = -(-n_rows // size)
    return size * max(1, min(MOST_BLOCKS, blocks // FEW_TASKS), -(-blocks // MOST_TASKS))


def unit_rows(source: AnySource) -> int:
    """Rows that are handed out together: what streams through this process goes block by block, to hold less of it."""
    assert source.n_rows is not None
    return block_rows(source.n_rows) if isinstance(source, Stream) else task_rows(source.n_rows)


def blocks(cut: Cut, size: int) -> Iterator[slice]:
    for start in range(cut.start, cut.stop, size):
        yield slice(start, min(start + size, cut.stop))


def _own(sums: Sums) -> Sums:
    """Sums that may be changed: some executors hand out results that they share, read only."""
    return sums if all(array.flags.writeable for array in sums.state().values()) else copy.deepcopy(sums)


def add_up(
    source: AnySource,
    function: Callable[[Any, Any], tuple[Sums, slice, NDArray[np.uint8] | None]],
    plan: Any,
    job: Job,
    phase: str,
    kind: type[Sums] | None = None,
    tasks: Callable[[Iterator[Cut]], Iterator[Any]] = iter,
) -> Sums:
    """The sums of ``function`` over all rows; it also returns which rows it saw and their codes, or None.

    With ``kind``, the class of the sums, the pass is noted in the job's checkpoint under its phase.
    """
    assert source.n_rows is not None
    size = task_rows(source.n_rows)
    done: Sums | None = None
    part: Sums | None = None
    start = 0
    name = phase.replace(" ", "-")
    saved = job.checkpoint.load(name) if kind is not None else None
    if saved and kind is not None:
        done, start = kind.of_state(saved), int(saved["stop"])

    def state() -> Arrays:
        assert done is not None
        if isinstance(job.room, np.memmap):
            job.room.flush()
        return {**done.state(), "stop": np.array(start)}

    # A stream would be iterated in vain to find that nothing is left.
    cuts = source.cuts(unit_rows(source), start) if start < source.n_rows else iter(())
    with job.checkpoint.saving(name, state) as save:
        for sums, rows, coded in job.run(function, plan, tasks(cuts)):
            if job.room is not None and coded is not None:
                job.room[rows] = coded
            part = _own(sums) if part is None else part.__iadd__(sums)
            if rows.stop % size == 0 or rows.stop == source.n_rows:
                done = part if done is None else done.__iadd__(part)
                part, start = None, rows.stop
                if kind is not None:
                    save()
            report(phase, rows.stop, source.n_rows)
    assert done is not None
    return done
