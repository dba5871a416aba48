"""Fit on Ray. fit_chunks needs only an executor, which takes a few lines.

pip install ray
python fit_on_ray.py 'shards/x*.npy' 'shards/y*.npy' model.hl
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import ray

import hashlearn as hl


class RayExecutor(Executor):
    """Runs calls as Ray tasks. Ray repeats a task if its worker dies."""

    def __init__(self) -> None:
        self._max_workers = int(ray.cluster_resources().get("CPU", 1))
        self._call = ray.remote(max_retries=5)(lambda function, args: function(*args))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._call.remote(function, args).future()


def main() -> None:
    rows, labels, output = sys.argv[1:]
    ray.init()
    hasher = hl.GSDHP(64, random_state=0, verbose=1)
    hl.save(hasher.fit_chunks(rows, labels, executor=RayExecutor(), codes=False), output)


if __name__ == "__main__":
    main()
