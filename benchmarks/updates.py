"""Measure ``partial_fit``: new classes, and more rows of the same classes, against a fit on all rows.

    python benchmarks/updates.py DATA [--set clinc150] [--method gsdhp] [--landmarks auto,1000] [--seeds 3] [--bits 64]
    python benchmarks/updates.py DATA --set hwu64 --classes 20 --queries 0.25 --landmarks auto

DATA is a folder with the .npz files of docs/data.md. Of each class ten random rows, or a share of its rows, are
queries. The method learns from two thirds of the classes (half of them with --classes), drawn at random, then the rows
of the others are added by ``partial_fit``; MAP of the whole ranking, with all rows as database, stands beside that of a
fit on all classes. OpenHasher searches with emphasis "label". "old" and "new" are the queries of both kinds of classes.
For the old ones there is also the MAP on the codes that were stored for their classes before the update. The last line
of a seed is for classes that are the same: half of the rows of all classes, then the other half, against a fit on all;
and how many bits change if the other half comes in seven parts. The exit code is 1 if an update loses more than LIMIT
of MAP against a fit on all.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import common  # noqa: F401  # without advice about codes
import numpy as np

import hashlearn as hl

LIMIT = 0.02


def timed(work):
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


class Split:
    """Rows and queries, with the classes that are learned first."""

    def __init__(self, X, y, seed: int, n_classes: int | None, queries: float) -> None:
        rng = np.random.default_rng(seed)
        if n_classes is not None:
            chosen = np.isin(y, rng.permutation(np.unique(y))[:n_classes])
            X, y = X[chosen], y[chosen]
        self.X, self.y = X, y
        own = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
        self.queries = np.concatenate([rows[: int(queries if queries >= 1 else queries * len(rows))] for rows in own])
        self.rows = rng.permutation(np.setdiff1d(np.arange(len(y)), self.queries))
        n_old = 2 * len(own) // 3 if n_classes is None else n_classes // 2
        self.is_old = np.isin(y, rng.permutation(np.unique(y))[:n_old])
        self.old, self.new = self.rows[self.is_old[self.rows]], self.rows[~self.is_old[self.rows]]
        self.old_queries = self.queries[self.is_old[self.queries]]
        self.new_queries = self.queries[~self.is_old[self.queries]]

    def score(self, hasher, queries, rows, codes=None) -> float:
        codes = hasher.encode(self.X[rows]) if codes is None else codes
        if hasher.searched_by_tables:
            parts = np.array_split(queries, -(-len(queries) // 500))
            scores = [hasher.query(self.X[part], "label").scores(codes) for part in parts]
            found = [
                hl.metrics.evaluate_scores(table, self.y[part], self.y[rows], at=None, radius=None).map
                for table, part in zip(scores, parts, strict=True)
            ]
            return float(np.average(found, weights=[len(part) for part in parts]))
        asked = hasher.encode_queries(self.X[queries])
        return hl.metrics.mean_average_precision(asked, codes, self.y[queries], self.y[rows], at=None)

    def scores(self, hasher) -> str:
        codes = hasher.encode(self.X[self.rows])
        parts = (("all", self.queries), ("old", self.old_queries), ("new", self.new_queries))
        return ", ".join(f"{name} {self.score(hasher, asked, self.rows, codes):.4f}" for name, asked in parts)


def add_classes(split: Split, make) -> float:
    """Print what adding classes does; how much MAP is lost against a fit on all."""
    X, y = split.X, split.y
    first, hasher = timed(lambda: make().partial_fit(X[split.old], y[split.old]))
    print(f"  the old classes      {split.scores(hasher)}; {first:.1f} s", flush=True)
    stored = hasher.codes_  # what a collection holds; nothing of it is encoded again
    before = split.score(hasher, split.old_queries, split.old, stored)
    update, _ = timed(lambda: hasher.partial_fit(X[split.new], y[split.new]))
    print(f"  after partial_fit    {split.scores(hasher)}; {update:.1f} s", flush=True)
    after = split.score(hasher, split.old_queries, split.old, stored)
    print(f"  old queries on the stored codes of old classes: {before:.4f} -> {after:.4f}")
    whole, fresh = timed(lambda: make().fit(X[split.rows], y[split.rows]))
    few, _ = timed(lambda: make().fit(X[split.new], y[split.new]))
    print(f"  a fit on all classes {split.scores(fresh)}; {whole:.1f} s; on the new rows alone {few:.1f} s", flush=True)
    return split.score(fresh, split.queries, split.rows) - split.score(hasher, split.queries, split.rows)


def add_rows(split: Split, make) -> float:
    """Print what more rows of the same classes do; how much MAP is lost against a fit on all."""
    X, y = split.X, split.y
    half, rest = np.array_split(split.rows, 2)
    hasher = make().partial_fit(X[half], y[half]).partial_fit(X[rest], y[rest])
    parts = make().partial_fit(X[half], y[half])
    for part in np.array_split(rest, 7):
        parts.partial_fit(X[part], y[part])
    differ = np.mean(hasher.transform(X[split.queries]) != parts.transform(X[split.queries]))
    fresh = make().fit(X[split.rows], y[split.rows])
    ours, theirs = (split.score(one, split.queries, split.rows) for one in (hasher, fresh))
    print(
        f"  same classes: half of the rows, then the rest {ours:.4f}; a fit on all {theirs:.4f}; the rest in 7 parts "
        f"changes {differ:.3%} of the bits of queries",
        flush=True,
    )
    return theirs - ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--set", choices=("clinc150", "hwu64", "banking77"), default="clinc150")
    parser.add_argument("--method", choices=("gsdhp", "open"), default="gsdhp")
    parser.add_argument("--classes", type=int, help="learn only this number of classes, half of them first")
    parser.add_argument("--queries", type=float, default=10, help="of each class: a number from 1 on, or a share")
    parser.add_argument("--landmarks", default="auto,1000")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bits", type=int, default=64)
    options = parser.parse_args()
    data = np.load(options.data / f"{options.set}_minilm.npz", allow_pickle=True)
    labeled = ~np.char.startswith(data["part"].astype(str), "oos")
    X, y = data["X"][labeled].astype(np.float32), data["y"][labeled].astype(str)
    lost = []
    for count in options.landmarks.split(","):
        landmarks = {} if count == "auto" else {"n_landmarks": int(count)}
        method = hl.GSDHP if options.method == "gsdhp" else hl.OpenHasher
        for seed in range(options.seeds):
            print(f"{count} landmarks, seed {seed}:", flush=True)
            split = Split(X, y, seed, options.classes, options.queries)

            def make(landmarks=landmarks, seed=seed, method=method):
                return method(options.bits, random_state=seed, **landmarks)

            lost += [add_classes(split, make), add_rows(split, make)]
    print(f"the largest loss of MAP against a fit on all is {max(lost):.4f} (limit {LIMIT})")
    raise SystemExit(max(lost) > LIMIT)


if __name__ == "__main__":
    main()
