"""Compare the bits of exported hashers with ``encode`` on real rows, in every runtime.

    python benchmarks/export.py DATA [--rows 10000] [--runtimes numpy,onnx,js,sql]

DATA is a folder with the .npz files of docs/data.md. For each set a JoinedHasher of GSDH_P and ITQ is fitted and
exported, and its rows are encoded there. A line says how many bits differ from ``encode`` of the same rows in double
precision, how many bits are ties (a projection of at most TIE of the bit's root mean square), and how near to the
threshold the farthest bit that differs is. For comparison the first line is ``encode`` of the rows in single precision.
The exit code is 1 if a bit differs that is no tie. PostgreSQL is the server of the tests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import hashlearn as hl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from collection.servers import Postgres, short_folder
from exporting.runtimes import run_node, run_numpy, run_onnx, run_postgres

TIE = 1e-4
ENDINGS = {"numpy": "py", "onnx": "onnx", "js": "mjs", "sql": "sql"}


def read_sets(folder: Path):
    """Yield (name, rows in single precision, labels) of every set in the folder."""
    gist = np.load(folder / "cifar10_gist512.npz")
    yield "CIFAR-10 GIST", gist["X_train"].astype(np.float32), gist["y_train"]
    coco = np.load(folder / "coco18_efflite0.npz")
    yield "COCO-18", ((coco["feat_q"] / 255.0) ** 2 * coco["feat_scale"]).astype(np.float32), coco["Y"]
    corel = np.load(folder / "corel16k001.npz")
    yield "Corel16k", corel["X"].astype(np.float32), corel["Y"]
    for name, file in (("BANKING77", "banking77_minilm.npz"), ("CLINC150", "clinc150_minilm.npz")):
        text = np.load(folder / file, allow_pickle=True)
        yield name, text["X"].astype(np.float32), text["y"].astype(str)


def compare(found, exact, projections):
    """Bits that differ, ties among all bits, and how far from its threshold the farthest differing bit is."""
    n_bits = projections.shape[1]
    different = hl.codes.unpack(found, n_bits) != hl.codes.unpack(exact, n_bits)
    distance = np.abs(projections) / np.sqrt((projections**2).mean(axis=0))
    return int(different.sum()), int((distance <= TIE).sum()), float(distance[different].max(initial=0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--runtimes", default="numpy,onnx,js,sql")
    options = parser.parse_args()
    runtimes, failed = options.runtimes.split(","), False
    runners = {"numpy": run_numpy, "onnx": run_onnx, "js": partial(run_node, codes_only=True)}
    with short_folder("export") as folder:
        server = Postgres(folder) if "sql" in runtimes else None
        try:
            if server is not None:
                runners["sql"] = lambda path, X: run_postgres(path, X, server.connect())
            for name, X, y in read_sets(options.data):
                chosen = {key: runners[key] for key in runtimes}
                failed |= not compare_set(name, X, y, options.rows, options.bits, chosen)
        finally:
            if server is not None:
                server.stop()
    raise SystemExit(failed)


def compare_set(name, X, y, n_rows, n_bits, runners) -> bool:
    """Print the lines of one set; whether all bits that differ are ties."""
    order = np.random.default_rng(0).permutation(len(X))
    learned, rows = order[:5000], X[order[-n_rows:]]
    quarter = n_bits // 4
    hasher = hl.JoinedHasher([hl.GSDHP(n_bits - quarter, random_state=0), hl.ITQ(quarter, random_state=0)])
    hasher.fit(X[learned], y[learned])
    exact, projections = hasher.encode(rows.astype(np.float64)), hasher.decision_function(rows.astype(np.float64))
    print(f"{name}: {len(rows)} rows, {len(rows) * n_bits} bits", flush=True)
    all_ties = report("encode, float32", hasher.encode(rows), exact, projections, None)
    with tempfile.TemporaryDirectory() as folder:
        for to, run in runners.items():
            path = Path(folder) / f"hasher.{ENDINGS[to]}"
            hl.export(hasher, path, to=to)
            started = time.perf_counter()
            found = run(path, rows)[0]
            all_ties &= report(to, found, exact, projections, time.perf_counter() - started)
    return all_ties


def report(runtime, found, exact, projections, seconds) -> bool:
    different, ties, farthest = compare(found, exact, projections)
    took = "" if seconds is None else f"; {seconds:.1f} s"
    print(f"  {runtime:<16} {different:>4} bits differ, {ties} ties, farthest {farthest:.1e}{took}", flush=True)
    return farthest <= TIE


if __name__ == "__main__":
    main()
