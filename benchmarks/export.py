"""Compare the bits of exported hashers with ``encode`` on real rows, in every runtime.

    python benchmarks/export.py DATA [--rows 10000] [--runtimes numpy,onnx,js,sql,duckdb,sqlite]
                                     [--hashers linear,rbf,...] [--sets "CLINC150,COCO-18"] [--landmarks 300]

DATA is a folder with the .npz files of docs/data.md. For each set hashers of every kind are fitted on 5,000 rows and
exported, and other rows are encoded in every runtime. A line says for each of them how many bits differ from ``encode``
of the same rows in double precision; "float32" is ``encode`` of the rows in single precision, for comparison. Ties are
projections of at most TIE of the root mean square of their bit; "farthest" is how near to its threshold the farthest
bit that differs is, in the same measure. What a hasher or a runtime cannot do is printed as it says so. The exit code
is 1 if a bit differs that is no tie. PostgreSQL is the server of the tests. SQLite takes minutes for
10,000 rows, so it runs only when it is named.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import common  # noqa: F401  # without advice about codes
import numpy as np

import hashlearn as hl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from collection.servers import Postgres, short_folder
from export.runtimes import run_node, run_numpy, run_onnx, run_postgres, run_views

TIE = 1e-4
ENDINGS = {"numpy": "py", "onnx": "onnx", "js": "mjs", "sql": "sql", "duckdb": "sql", "sqlite": "sql"}


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
    """Bits that differ, ties among all bits, and how far from its threshold the farthest differing bit is.

    Projections are counted from their thresholds.
    """
    n_bits = projections.shape[1]
    different = hl.codes.unpack(found, n_bits) != hl.codes.unpack(exact, n_bits)
    distance = np.abs(projections) / np.sqrt((projections**2).mean(axis=0))
    return int(different.sum()), int((distance <= TIE).sum()), float(distance[different].max(initial=0.0))


def make_hashers(n_bits: int, n_landmarks: int):
    """A function for each kind of hasher, by name."""

    def labels(bits=n_bits, **settings):
        return hl.GSDHP(bits, n_landmarks=n_landmarks, random_state=0, **settings)

    trees = hl.functions.BoostedTrees(n_trees=10, max_depth=3)
    return {
        "linear": lambda: labels(kernel=None),
        "rbf": labels,
        "posterior": lambda: labels(function="posterior"),
        "itq": lambda: hl.ITQ(n_bits, random_state=0),
        "joined": lambda: hl.JoinedHasher([labels(n_bits - n_bits // 4), hl.ITQ(n_bits // 4, random_state=0)]),
        "auto": lambda: hl.AutoHasher(n_bits, random_state=0),
        "trees": lambda: labels(function=trees),
        "network": lambda: hl.deep.HashNet(n_bits, head=[128], n_epochs=3, random_state=0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--landmarks", type=int, default=300)
    parser.add_argument("--runtimes", default="numpy,onnx,js,sql,duckdb")
    parser.add_argument("--hashers")
    parser.add_argument("--sets")
    options = parser.parse_args()
    runtimes, failed = options.runtimes.split(","), False
    makers = make_hashers(options.bits, options.landmarks)
    names = list(makers) if options.hashers is None else options.hashers.split(",")
    runners = {"numpy": run_numpy, "onnx": run_onnx, "js": partial(run_node, codes_only=True)}
    runners |= {to: partial(run_views, to=to, codes_only=True) for to in ("duckdb", "sqlite")}
    with short_folder("export") as folder:
        server = Postgres(folder) if "sql" in runtimes else None
        try:
            if server is not None:
                runners["sql"] = lambda path, X: run_postgres(path, X, server.connect(), codes_only=True)
            for name, X, y in read_sets(options.data):
                if options.sets is not None and name not in options.sets.split(","):
                    continue
                print(f"{name}: {min(options.rows, len(X))} rows, {min(options.rows, len(X)) * options.bits} bits")
                chosen = {key: runners[key] for key in runtimes}
                for kind in names:
                    failed |= not compare_hasher(kind, makers[kind], X, y, options.rows, chosen)
        finally:
            if server is not None:
                server.stop()
    raise SystemExit(failed)


def compare_hasher(kind, make, X, y, n_rows, runners) -> bool:
    """Print the line of one hasher on one set; whether all bits that differ are ties."""
    order = np.random.default_rng(0).permutation(len(X))
    learned, rows = order[:5000], X[order[-n_rows:]]
    try:
        hasher = make().fit(X[learned], y[learned])
    except ValueError as error:
        print(f"  {kind:<10} not on this set: {error}", flush=True)
        return True
    exact, projections = hasher.encode(rows.astype(np.float64)), hasher.decision_function(rows.astype(np.float64))
    if (shift := hasher._database_shift()) is not None:
        projections = projections - shift  # bits of database rows have spread thresholds
    found = {"float32": compare(hasher.encode(rows), exact, projections)}
    cannot, seconds = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for to, run in runners.items():
            path = Path(folder) / f"hasher.{ENDINGS[to]}"
            try:
                hl.export(hasher, path, to=to)
            except hl.ExportError as error:
                cannot.append(f"; {to}: {error}")
                continue
            started = time.perf_counter()
            found[to] = compare(run(path, rows)[0], exact, projections)
            seconds[to] = time.perf_counter() - started
    differing = ", ".join(f"{name} {one[0]}" for name, one in found.items())
    farthest = max(one[2] for one in found.values())
    took = ", ".join(f"{name} {one:.0f} s" for name, one in seconds.items())
    ties = found["float32"][1]
    print(
        f"  {kind:<10} {ties} ties; bits that differ: {differing}; farthest {farthest:.1e}{''.join(cannot)} ({took})",
        flush=True,
    )
    return farthest <= TIE


if __name__ == "__main__":
    main()
