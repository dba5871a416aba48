"""Fits of rows in chunks: peak memory, time per row, speed against the fit in memory, and 100,000 label sets.

    python benchmarks/scale.py [--rows 2000000] [--parts memory chunks rate cluster groups] [--folder FOLDER]

Each fit runs in a process of its own, which reports its peak memory. Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import report_rates
from numpy.typing import NDArray

CHUNK, WIDTH = 50_000, 256


class Made:
    """Ten overlapping classes. The rows are made while they are iterated, the same ones in every pass."""

    def __init__(self, n_rows: int, n_sets: int = 0) -> None:
        self.n_rows, self.n_sets = n_rows, n_sets
        self.centers = np.random.default_rng(0).normal(size=(10, WIDTH)).astype(np.float32)

    def __iter__(self) -> Any:
        for start in range(0, self.n_rows, CHUNK):
            rng = np.random.default_rng([1, start])
            count = min(CHUNK, self.n_rows - start)
            y = rng.integers(0, 10, count)
            X = rng.standard_normal((count, WIDTH), dtype=np.float32)
            X *= 3
            X += self.centers[y]
            yield X, self._labels(y, rng) if self.n_sets else y

    def _labels(self, y: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int8]:
        """Label sets: the bits of a random number below ``n_sets``, and the class."""
        number = rng.integers(0, self.n_sets, len(y))
        bits = (number[:, None] >> np.arange(int(self.n_sets).bit_length())) & 1
        return np.concatenate([bits, np.eye(10, dtype=np.int64)[y]], axis=1).astype(np.int8)


def write(folder: Path, n_rows: int) -> tuple[str, str]:
    """Write the same rows to .npy shards of rows and labels."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, (X, y) in enumerate(Made(n_rows)):
        if not (folder / f"y{k:05d}.npy").exists():
            np.save(folder / f"x{k:05d}.npy", X)
            np.save(folder / f"y{k:05d}.npy", y)
    return str(folder / "x*.npy"), str(folder / "y*.npy")


def one(kind: str, n_rows: int, folder: Path, landmarks: int) -> None:
    """Make a single measurement in this process, and print seconds and peak megabytes."""
    import hashlearn as hl
    from hashlearn.bench.store import peak_memory

    hasher = hl.GSDHP(64, n_landmarks=landmarks, random_state=0)
    # A first fit outside the clock: imports, thread pools and memory that a process requests only once.
    warm = next(iter(Made(3000)))
    hl.GSDHP(64, n_landmarks=landmarks, random_state=0).fit_chunks([warm])
    if kind == "array":
        names = write(folder, n_rows)
        files = [sorted(Path(name).parent.glob(Path(name).name)) for name in names]
        X, y = (np.concatenate([np.load(file) for file in part]) for part in files)
        began = time.perf_counter()
        hasher.fit(X, y)
    elif kind == "generator":
        began = time.perf_counter()
        hasher.fit_chunks(Made(n_rows), codes=False)
    elif kind.startswith("cluster"):
        import dask
        from distributed import Client, LocalCluster

        if kind == "cluster":
            dask.config.set({"distributed.nanny.pre-spawn-environ": hl.rows.WORKER_ENVIRONMENT})
        names = write(folder, n_rows)
        with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            hl.GSDHP(64, n_landmarks=100, n_anchors=100, random_state=0).fit_chunks([warm] * 20, executor=client)
            began = time.perf_counter()
            hasher.fit_chunks(*names, executor=client, codes=False)
            seconds = time.perf_counter() - began
        began = time.perf_counter() - seconds
    elif kind == "encode":
        names = write(folder, n_rows)
        hasher.fit_chunks(Made(50_000), codes=False)
        with tempfile.TemporaryDirectory() as out:
            began = time.perf_counter()
            hasher.encode_chunks(names[0], out)
    else:
        names = write(folder, n_rows)
        began = time.perf_counter()
        hasher.fit_chunks(*names, codes=False)
    seconds = time.perf_counter() - began
    # Not ru_maxrss: a process starts with that of its parent.
    print(f"{seconds:.3f} {(peak_memory() or 0) / 2**20:.0f}")


def measured(kind: str, n_rows: int, options: argparse.Namespace) -> tuple[float, float]:
    """Run a fit ``--repeats`` times, each in its own process; return the least seconds and the most megabytes."""
    command = [sys.executable, __file__, "--one", kind, "--rows", str(n_rows)]
    command += ["--folder", str(options.folder / str(n_rows)), "--landmarks", str(options.landmarks)]
    runs = []
    for _ in range(options.repeats):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        runs.append([float(value) for value in done.stdout.split()[-2:]])
    return min(run[0] for run in runs), max(run[1] for run in runs)


def memory(options: argparse.Namespace) -> bool:
    passed = True
    for kind in ("generator", "files", "encode"):
        seconds, peak = measured(kind, options.rows, options)
        print(f"{kind}: {options.rows} x {WIDTH} in {seconds:.1f} s, peak {peak:.0f} MB (target 1500)", flush=True)
        passed &= peak < 1500
    return passed


def chunks_against_memory(options: argparse.Namespace) -> bool:
    n_rows = min(options.rows, 200_000)
    base, _ = measured("array", n_rows, options)
    ours, _ = measured("files", n_rows, options)
    print(f"{n_rows} rows: in memory {base:.2f} s, in chunks {ours:.2f} s, {base / ours:.2f} of its rate (target 0.9)")
    return base / ours >= 0.9


def cluster(options: argparse.Namespace) -> bool:
    n_rows = min(options.rows, 500_000)
    base, _ = measured("files", n_rows, options)
    ours, _ = measured("cluster", n_rows, options)
    print(f"{n_rows} rows: threads {base:.2f} s, 2 Dask workers {ours:.2f} s, {base / ours:.2f} (target 0.8)")
    plain, _ = measured("cluster-plain", n_rows, options)
    print(f"with Dask's own WORKER_ENVIRONMENT {plain:.2f} s, {base / plain:.2f}", flush=True)
    return base / ours >= 0.8


def rows_and_rate(options: argparse.Namespace) -> bool:
    """The time per row from 50,000 rows on. Short fits are repeated, because other work disturbs them most."""
    counts = {50_000: 5, 250_000: 3, options.rows: 1}
    runs: dict[int, list[tuple[float, float]]] = {n_rows: [] for n_rows in counts}
    for turn in range(max(counts.values())):
        for n_rows, count in counts.items():
            if turn < count:
                runs[n_rows].append(measured("files", n_rows, options))
    for n_rows, made in runs.items():
        print(f"n={n_rows}: peak {max(peak for _, peak in made):.0f} MB", flush=True)
    return report_rates({n_rows: statistics.median(seconds for seconds, _ in made) for n_rows, made in runs.items()})


def groups(options: argparse.Namespace) -> bool:
    """The cost of 100,000 distinct label sets in the first pass, compared with ten classes."""
    from hashlearn.kernel import PlainFeatures
    from hashlearn.rows import as_source
    from hashlearn.rows.groups import LabelReader
    from hashlearn.rows.reduce import FitContext
    from hashlearn.rows.survey import SurveyPlan, survey

    n_rows, spent = min(options.rows, 500_000), []
    for n_sets in (0, 10_000):
        chunks = list(Made(n_rows, n_sets))
        narrow = [(X[:, :8].copy(), y) for X, y in chunks]
        plan = SurveyPlan(PlainFeatures(), 8, LabelReader(), lambda *_: 1000, 0, 1000, 1, carry_rows=False)
        began = time.perf_counter()
        found = survey(as_source(narrow), plan, FitContext(n_jobs=2))
        spent.append(time.perf_counter() - began)
        assert found.counts is not None
        print(f"{n_rows} rows, {len(found.counts)} label sets: first pass {spent[-1]:.2f} s", flush=True)
    extra = (spent[1] - spent[0]) / n_rows * 1e6
    print(f"100,000 label sets cost {extra:.1f} µs per row more than ten classes (target 10)")
    return extra <= 10


PARTS = {"memory": memory, "chunks": chunks_against_memory, "rate": rows_and_rate, "cluster": cluster, "groups": groups}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--folder", type=Path, default=None, help="for the rows; by default a temporary one")
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.rows, options.folder, options.landmarks)
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = options.folder or Path(temporary)
        passed = [PARTS[name](options) for name in options.parts]
    raise SystemExit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
