"""The evidence behind GSDHP's defaults: one setting changed at a time, several seeds, both databases.

    python benchmarks/choices.py --data FOLDER [--splits cifar-10k coco-10k] [--bits 16 64] [--seeds 3]

Prints a Markdown table for docs/choices.md.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import protocols

import hashlearn as hl

VARIANTS: dict[str, dict[str, Any]] = {
    "full residual, projection from anchors": {"residual": "full", "projection": "anchors"},
    "full residual, projection from rows": {"residual": "full", "projection": "rows"},
    "stagewise residual, projection from anchors": {"residual": "stagewise", "projection": "anchors"},
    "stagewise residual, projection from rows": {"residual": "stagewise", "projection": "rows"},
    "defaults": {},
    "10 anchors a batch": {"batch_size": 10},
    "300 anchors a batch": {"batch_size": 300},
    "principal fill": {"fill": "principal"},
    "interleaved order": {"order": "interleaved"},
    "ridge auto": {"ridge": "auto"},
    "dissimilar -0.1": {"dissimilar": -0.1},
}


def measure(split: protocols.Split, bits: int, seed: int, changes: dict[str, Any]) -> list[float]:
    """Learned score, hashed score, anchors' objective per pair and bit^2, rounds, seconds."""
    began = time.perf_counter()
    hasher = hl.GSDHP(bits, random_state=seed, **changes).fit(split.X, split.y)
    seconds = time.perf_counter() - began
    queries = hasher.encode(split.queries)
    pairs = len(hasher.anchor_indices_) * (len(split.X) if changes.get("order") else len(hasher.anchor_indices_))
    return [
        split.score(queries, hasher.codes_),
        split.score(queries, hasher.encode(split.X)),
        hasher.objective_[-1] / pairs / bits**2,
        hasher.n_iter_,
        seconds,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", nargs="+", default=["cifar-10k", "coco-10k"], choices=protocols.NAMES)
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 64])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for name in options.splits:
        splits = [protocols.load(name, options.data, seed) for seed in range(options.seeds)]
        for bits in options.bits:
            print(f"\n**{name}, {bits} bits, {splits[0].measure}, {options.seeds} seeds (mean ± deviation)**\n")
            print("| setting | learned | hashed | objective | rounds | seconds |\n|---|---|---|---|---|---|")
            for label, changes in VARIANTS.items():
                runs = np.array([measure(split, bits, seed, changes) for seed, split in enumerate(splits)])
                mean, spread = runs.mean(axis=0), runs.std(axis=0)
                print(f"| {label} | {mean[0]:.3f} ± {spread[0]:.3f} | {mean[1]:.3f} ± {spread[1]:.3f} "
                      f"| {mean[2]:.4f} | {mean[3]:.1f} | {mean[4]:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
