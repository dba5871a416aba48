"""Parts of a data source that are Dask arrays, lazy or held by a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hashlearn.files.arrays import FileError, one_line
from hashlearn.fitting.parts import SourcePart


class DaskPart:
    """A Dask array. A slice carries only the graph of its own rows, and computes them where it is read."""

    cheap = False

    def __init__(self, array: Any, name: str = "the Dask array") -> None:
        self.array, self.name = array, name
        self.n_rows = int(array.shape[0])
        self._rows: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}

    def slice(self, start: int, stop: int) -> SourcePart:
        import dask

        rows = self.array[start:stop]
        if held := _futures(self.array):
            # The cluster holds these rows: it computes the slice and gives it to the task that reads it.
            return ClusterPart(held[0].client.compute(rows), self.name, 0, stop - start)
        return DaskPart(dask.optimize(rows)[0], self.name)

    def read(self, start: int, stop: int) -> Any:
        if self._rows is None:
            try:
                held = bool(_futures(self.array))
                self._rows = self.array.compute() if held else self.array.compute(scheduler="synchronous")
            except Exception as error:
                raise FileError(f"{self.name}: {self.n_rows} rows cannot be computed: {one_line(error)}") from error
        return self._rows[start:stop]


def _futures(array: Any) -> list[Any]:
    try:
        from distributed.client import futures_of
    except ImportError:
        return []
    return futures_of(array)


@dataclass
class ClusterPart:
    """Rows that a Dask cluster computes or holds already. The cluster passes them to the task as an argument."""

    future: Any
    name: str
    first: int
    n_rows: int
    rows: Any = field(default=None)
    """Set in the task, by whoever runs it."""
    cheap = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "future": None, "rows": None}

    def slice(self, start: int, stop: int) -> ClusterPart:
        return ClusterPart(self.future, self.name, self.first + start, stop - start)

    def read(self, start: int, stop: int) -> Any:
        if self.rows is None and self.future is None:
            raise FileError(f"{self.name} is held by a Dask cluster, so give its client as the executor.")
        rows = self.future.result() if self.rows is None else self.rows
        return rows[self.first + start : self.first + stop]
