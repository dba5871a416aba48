"""Measure OpenHasher in one database of known and unknown classes, beside what a skeptic would store.

    python benchmarks/open_world.py --data-dir FOLDER -o FOLDER [--sets hwu64_minilm.npz digits] [--bytes 8 16 32]

This is ``hashlearn bench frontier`` on several sets with the methods that concern OpenHasher: its codes with three
emphases and without labels, the floats in its metric, label probabilities, a class number with and without a quantizer,
quantizers, and the other hashers. A set is a name of the catalog, a file in the folder of the data (its labels are the
array y), or one of two that are made here: ``unbalanced`` (of the classes of digits, each has three quarters of
the rows of the class before) and ``1000-classes`` (Gaussian classes of ten rows each). COCO-18 keeps the label
``person``, which three of four rows have; ``--sets coco18-without-person`` leaves it out. Label sets have NDCG@50.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hashlearn import data
from hashlearn.bench.frontier import BUDGETS, FrontierPlan, run_frontier
from hashlearn.bench.frontier_page import write_frontier
from hashlearn.data.own import DataSource

SETS = ("banking77-minilm", "clinc150-minilm", "hwu64_minilm.npz", "digits", "cifar10-gist", "coco18")
MADE = ("unbalanced", "1000-classes")
METHODS = (
    "float cosine", "floats in the metric of open", "posterior floats", "class number", "class number + PQ", "LDA + PQ",
    "PQ", "PQ, 4 bits", "OPQ", "itq", "gsdhp", "auto", "open", "open without labels",
)  # fmt: skip


def made_set(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of one of the sets that are made here."""
    rng = np.random.default_rng(0)
    if name == "1000-classes":
        y = np.repeat(np.arange(1000), 10)
        return rng.standard_normal((1000, 64))[y] + 1.5 * rng.standard_normal((len(y), 64)), y
    pool = data.load("digits")
    kept = [rng.permutation(np.flatnonzero(pool.y == c))[: int(170 * 0.75**c)] for c in pool.classes]
    rows = np.concatenate(kept)
    return pool.X[rows], pool.y[rows]


def source_of(name: str, data_dir: Path, folder: Path) -> DataSource:
    if name in MADE:
        X, y = made_set(name)
        np.savez(folder / f"{name}.npz", X=X.astype(np.float32), y=y)
        return DataSource(str(folder / f"{name}.npz"), "y")
    return DataSource(str(data_dir / name), "y") if name.endswith(".npz") else DataSource(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", default=[*SETS, *MADE])
    parser.add_argument("--bytes", nargs="+", type=int, default=[8, 16, 32])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="folder of reports; finished fits are kept there"
    )
    args = parser.parse_args()
    for name in args.sets:
        folder = args.output / name
        folder.mkdir(parents=True, exist_ok=True)
        source = source_of(name, args.data_dir, folder)
        plan = FrontierPlan(source, tuple(args.bytes), args.seeds, methods=tuple(args.methods), budgets=BUDGETS)
        measured = run_frontier(plan, folder, str(args.data_dir), threads=1)
        failed = (f"{run.definition} failed: {run.error}" for run in measured.failed)
        print(write_frontier(folder, name, plan, measured)[0], *failed, sep="\n", flush=True)


if __name__ == "__main__":
    main()
