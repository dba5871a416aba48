"""All methods on real data: every method, bit length and database, with seconds, next to the paper's numbers.

    python benchmarks/results.py run --data FOLDER [--splits cifar-10k] [--methods gsdhp ksh] [--bits 8 16 32 64]
    python benchmarks/results.py write

``run`` adds one line a finished run to docs/results.jsonl and skips what is there already, so it can be stopped
and started again; ``write`` makes docs/results.md from those lines.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import protocols
from paper import NUMBERS, REMARKS

import hashlearn as hl

DOCS = Path(__file__).resolve().parent.parent / "docs"
LINES = DOCS / "results.jsonl"
BITS = (8, 16, 32, 64)
FLOATS = ("float cosine", "float kernel")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ksh-large": ("ksh", {"n_samples": None, "n_landmarks": 1000, "max_steps": 40}),
    "cca-itq-rbf": ("cca-itq", {"kernel": "rbf"}),
    "gsdhp-bre": ("gsdhp", {"loss": "bre-released"}),
    "gsdhp-hinge": ("gsdhp", {"loss": "hinge"}),
    "gsdhp+trees": ("gsdhp", {"function": "trees"}),
    "fasth-ksh": ("fasth", {"loss": "ksh"}),
}


def finished() -> dict[tuple[str, str, int], dict[str, Any]]:
    """Runs by (split, method, bits); the last line of a run counts."""
    if not LINES.exists():
        return {}
    rows = (json.loads(line) for line in LINES.read_text().splitlines())
    return {(row["split"], row["method"], row["bits"]): row for row in rows}


def run_one(split: protocols.Split, method: str, bits: int) -> dict[str, Any]:
    name, settings = VARIANTS.get(method, (method, {}))
    hasher = hl.METHODS[name](n_bits=bits, random_state=0, **settings)
    began = time.perf_counter()
    hasher.fit(split.X, split.y)
    seconds = time.perf_counter() - began
    queries, hashed = hasher.encode(split.queries), hasher.encode(split.X)
    return {
        "learned": round(split.score(queries, hasher.codes_), 4),
        "hashed": round(split.score(queries, hashed), 4),
        "hashed_expected": round(split.score(queries, hashed, ties="expected"), 4),
        "seconds": round(seconds, 2),
    }


def run_floats(split: protocols.Split, method: str) -> dict[str, Any]:
    """Yardsticks without codes: cosine on the rows, inner product of kernel features."""
    if method == "float cosine":
        return {"hashed": round(split.score_floats(split.queries, split.X), 4), "seconds": 0.0}
    kernel = hl.AnchorKernel(1000, random_state=0).fit(split.X)
    found = split.score_floats(kernel.transform(split.queries), kernel.transform(split.X))
    return {"hashed": round(found, 4), "seconds": 0.0}


def run(options: argparse.Namespace) -> None:
    done = finished()
    failed = 0
    for split_name in options.splits:
        split = protocols.load(split_name, options.data)
        for method in options.methods:
            for bits in (0,) if method in FLOATS else options.bits:
                key = (split_name, method, bits)
                if key in done and "error" not in done[key]:
                    continue
                row: dict[str, Any] = {"split": split_name, "method": method, "bits": bits}
                try:
                    row |= run_floats(split, method) if method in FLOATS else run_one(split, method, bits)
                except Exception as error:  # one method that fails must not stop the others
                    failed += 1
                    row["error"] = f"{type(error).__name__}: {error}"
                    traceback.print_exc()
                with LINES.open("a") as lines:
                    lines.write(json.dumps(row) + "\n")
                print(row, file=sys.stderr, flush=True)
    raise SystemExit(1 if failed else 0)


def cell(rows: dict[int, dict[str, Any]], field: str) -> str:
    values = [rows[bits].get(field) if bits in rows else None for bits in BITS]
    return " ".join("–" if value is None else f"{value:.3f}".lstrip("0") for value in values)


def write() -> None:
    done = finished()
    parts = [(DOCS / "results-head.md").read_text()]
    for split in protocols.NAMES:
        runs: dict[str, dict[int, dict[str, Any]]] = {}
        for (where, method, bits), row in done.items():
            if where == split:
                runs.setdefault(method, {})[bits] = row
        if not runs:
            continue
        measure = "NDCG@50" if split.startswith("coco") else "MAP@500"
        parts.append(f"\n## {split}: {measure}, stable ties over shuffled rows, 8/16/32/64 bits\n")
        parts.append("| method | learned database | hashed database | seconds (64) | the paper | remark |")
        parts.append("|---|---|---|---|---|---|")
        for method in sorted(runs, key=lambda name: -best(runs[name])):
            rows = runs[method]
            if method in FLOATS:
                parts.append(f"| {method} | | {rows[0]['hashed']:.3f} | | | not a code |")
                continue
            seconds = rows.get(64, {}).get("seconds")
            errors = {row["error"] for row in rows.values() if "error" in row}
            remark = " ".join(sorted(errors)) or REMARKS.get((split, method), REMARKS.get(method, ""))
            parts.append(
                f"| {method} | {cell(rows, 'learned')} | {cell(rows, 'hashed')} "
                f"| {'–' if seconds is None else f'{seconds:.1f}'} | {NUMBERS.get((split, method), '')} | {remark} |"
            )
    (DOCS / "results.md").write_text("\n".join(parts) + "\n")


def best(rows: dict[int, dict[str, Any]]) -> float:
    longest = rows[max(rows)]
    return float(longest.get("hashed") or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--data", type=Path, required=True)
    running.add_argument("--splits", nargs="+", default=list(protocols.NAMES), choices=protocols.NAMES)
    running.add_argument("--methods", nargs="+", default=[*FLOATS, *hl.METHODS, *VARIANTS])
    running.add_argument("--bits", nargs="+", type=int, default=list(BITS))
    running.set_defaults(call=run)
    commands.add_parser("write").set_defaults(call=lambda options: write())
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
