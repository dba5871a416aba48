"""A small CNN trained from scratch, end to end, on CIFAR-10 images: 500 images a class, database of 59,000.

    python benchmarks/deep_cnn.py --data FOLDER [--methods gsdhp-star hashnet dch] [--epochs 20] [--database 59000]

An epoch takes about 40 seconds of one core, and hashing the whole database three minutes.

Prints MAP@5000 and MAP within radius 2 (strict) of the hashed database, and the seconds of training.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from hashlearn import metrics
from hashlearn.data import load, protocols
from hashlearn.hashers import find_method


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--methods", nargs="+", default=["gsdhp-star", "hashnet", "dch"])
    parser.add_argument("--bits", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--database", type=int, default=59_000, help="the first so many of the shuffled database rows")
    options = parser.parse_args()
    pool = load("cifar10", options.data)
    split = protocols.protocol("cifar10-deep").split(pool)
    images, database = pool.images, split.database[: options.database]
    print("| method | bits | MAP@5000 | MAP within 2 | seconds |\n|---|---|---|---|---|")
    for name in options.methods:
        hasher = find_method(name)(options.bits, backbone="small_cnn", n_epochs=options.epochs, random_state=0)
        began = time.perf_counter()
        hasher.fit(np.ascontiguousarray(images[split.train]), pool.y[split.train])
        seconds = time.perf_counter() - began
        codes = [hasher.encode(np.ascontiguousarray(images[rows])) for rows in (split.query, database)]
        labels = pool.y[split.query], pool.y[database]
        ranked = metrics.mean_average_precision(*codes, *labels, at=5000)
        near = metrics.map_within_radius(*codes, *labels).map
        print(f"| {name} | {options.bits} | {ranked:.3f} | {near:.3f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
