"""Measure what AutoHasher gains on unknown classes, and loses on known ones, for several values of ``unknown_cost``.

    python benchmarks/unknown_cost.py --data FOLDER [--sets banking77-minilm,clinc150-minilm] [--bits 64,128,256]

FOLDER holds the data sets of docs/data.md. A third of the classes is left out of training and searched alone (protocol
new-unseen). Prints a Markdown table: MAP of the whole ranking by real-valued queries, seen / unseen classes, and the
division of the bits that AutoHasher chose. ITQ, whose bits know no labels, and GSDH_P, whose bits know nothing else,
are the ends between which it chooses.
"""

from __future__ import annotations

import argparse

import common  # noqa: F401  # without advice about codes

import hashlearn as hl
from hashlearn.data.embedded import Dataset
from hashlearn.data.protocols import protocol
from hashlearn.data.registry import load


def score(hasher: hl.BaseHasher, rows: Dataset) -> float:
    given = hasher.expected_bits(rows.query_X), hasher.encode(rows.database_X), rows.query_y, rows.database_y
    return hl.metrics.mean_average_precision(*given, at=None)


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--sets", default="banking77-minilm,clinc150-minilm")
    parser.add_argument("--bits", default="64,128,256")
    parser.add_argument("--costs", type=numbers, default=[0.0, 0.01, 0.03, 0.1])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| data, bits | method | seen / unseen | bits chosen |\n|---|---|---|---|")
    for name in options.sets.split(","):
        pool = load(name, options.data)
        seen, unseen = (split.dataset(pool) for split in protocol("new-unseen").splits(pool, options.seed))
        for bits in map(int, options.bits.split(",")):
            settings = {"n_bits": bits, "random_state": options.seed}
            hashers: dict[str, hl.BaseHasher] = {"GSDH_P": hl.GSDHP(**settings), "ITQ": hl.ITQ(**settings)}
            for cost in options.costs:
                hashers[f"AutoHasher, unknown_cost={cost:g}"] = hl.AutoHasher(unknown_cost=cost, **settings)
            for method, hasher in hashers.items():
                hasher.fit(seen.train_X, seen.train_y)
                tried = hasher.report_.rows if isinstance(hasher, hl.AutoHasher) else []
                chosen = ", ".join(row["candidate"] for row in tried if row["chosen"])
                scores = f"{score(hasher, seen):.3f} / {score(hasher, unseen):.3f}"
                print(f"| {name}, {bits} | {method} | {scores} | {chosen} |", flush=True)


if __name__ == "__main__":
    main()
