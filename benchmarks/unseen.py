"""Measure how codes retrieve classes without labels: train on 7 of 10 classes, search among the other 3.

    python benchmarks/unseen.py --data FOLDER [--set cifar10-gist] [--bits 64] [--seeds 2]

Prints a Markdown table of MAP@500 with hashed databases, for unseen classes (per fold) and for seen classes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import hashlearn as hl
from hashlearn.data import load, protocols
from hashlearn.data.embedded import Dataset


def hashers(bits: int, seed: int) -> dict[str, Callable[[], hl.BaseHasher]]:
    def union(labeled: int) -> hl.JoinedHasher:
        ours = hl.GSDHP(labeled, random_state=seed)
        return hl.JoinedHasher([ours, hl.ITQ(bits - labeled, random_state=seed)])

    most, half = bits * 3 // 4, bits // 2
    return {
        f"ITQ {bits}": lambda: hl.ITQ(bits, random_state=seed),
        f"GSDH_P {bits}": lambda: hl.GSDHP(bits, random_state=seed),
        f"GSDH_P {most} + ITQ {bits - most}": lambda: union(most),
        f"GSDH_P {half} + ITQ {half}": lambda: union(half),
    }


def score(hasher: hl.BaseHasher, data: Dataset) -> float:
    codes = hasher.encode_queries(data.query_X), hasher.encode(data.database_X)
    return hl.metrics.mean_average_precision(*codes, data.query_y, data.database_y, at=500)


def cosine(data: Dataset) -> float:
    floats = data.query_X, data.database_X, data.query_y, data.database_y
    return hl.metrics.evaluate_floats(*floats, metric="cosine", at=500).map


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--set", default="cifar10-gist")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    pool = load(options.set, options.data)
    scores: dict[str, list[tuple[float, float]]] = {}
    for seed in range(options.seeds):
        splits = protocols.protocol("unseen").splits(pool, seed)
        for unseen, seen in zip(splits[::2], splits[1::2], strict=True):
            apart, own = unseen.dataset(pool), seen.dataset(pool)
            scores.setdefault("cosine on floats", []).append((cosine(apart), cosine(own)))
            for name, make in hashers(options.bits, seed).items():
                hasher = make().fit(apart.train_X, apart.train_y)
                scores.setdefault(name, []).append((score(hasher, apart), score(hasher, own)))
    print("| | unseen, fold by fold | mean | seen, mean |\n|---|---|---|---|")
    for name, pairs in scores.items():
        folds = " ".join(f"{value:.3f}".lstrip("0") for value, _ in pairs)
        means = np.mean(pairs, axis=0)
        print(f"| {name} | {folds} | {means[0]:.3f} | {means[1]:.3f} |")


if __name__ == "__main__":
    main()
