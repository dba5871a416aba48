"""Compare codes of 8 bytes on databases that training never saw, with seen and unseen classes.

    python benchmarks/open_world.py --data FOLDER -o results.json
    python benchmarks/open_world.py --data FOLDER --sets corel16k digits --seeds 10 11 12 -o confirm.json

Every result is written as soon as it is there, so the same command goes on after a stop. ``--table`` prints the table
of docs/results.md from the results alone. Scores are MAP of the whole ranking (of the first 500 on CIFAR-10), and
NDCG@50 for label sets. Hashers have two scores, by Hamming distance and with real-valued queries e(q). Product
quantizers (faiss) have one, with float queries.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from open_world_data import DATA, DEVELOPMENT, OpenWorld, Search
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import hashlearn as hl

BITS, BYTES = 64, 8
Scores = dict[str, list[float]]

HASHERS: dict[str, Callable[[int], Any]] = {
    "AutoHasher": lambda seed: hl.AutoHasher(BITS, random_state=seed),
    "GSDH_P": lambda seed: hl.GSDHP(BITS, random_state=seed),
    "KSDH": lambda seed: hl.KSDH(BITS, random_state=seed),
    "CCA-ITQ": lambda seed: hl.CCAITQ(BITS, random_state=seed),
    "CCA-ITQ, RBF": lambda seed: hl.CCAITQ(BITS, kernel="rbf", random_state=seed),
    "ITQ": lambda seed: hl.ITQ(BITS, random_state=seed),
    "48 GSDH_P + 16 ITQ": lambda seed: hl.JoinedHasher(
        [hl.GSDHP(48, random_state=seed), hl.ITQ(16, random_state=seed)]
    ),
}
QUANTIZERS = ("PQ", "OPQ", "LDA + PQ")
METHODS = (*HASHERS, *QUANTIZERS, "float cosine")


def score(data: OpenWorld, search: Search, queries: np.ndarray, database: np.ndarray, floats: str = "") -> float:
    """MAP or NDCG of codes, or of float rows by a metric."""
    labels = search.query_y, search.database_y
    settings: dict[str, Any] = {"at": data.at, "ndcg_at": 50, "empty_queries": "drop"}
    if floats:
        found = hl.metrics.evaluate_floats(queries, database, *labels, metric=floats, **settings)
    else:
        found = hl.metrics.evaluate(queries, database, *labels, radius=None, **settings)
    return found.ndcg if search.query_y.ndim == 2 else found.map


def hasher_scores(name: str, data: OpenWorld, seed: int) -> tuple[Scores, str]:
    hasher = HASHERS[name](seed).fit(data.train_X, data.train_y)
    scores = {}
    for part, search in data.searches.items():
        database = hasher.encode(search.database_X)
        both = hasher.encode_queries(search.query_X), hasher.expected_bits(search.query_X)
        scores[part] = [score(data, search, queries, database) for queries in both]
    return scores, hasher.report_.chosen if name == "AutoHasher" else ""


def quantizer_scores(name: str, data: OpenWorld, seed: int) -> tuple[Scores, str]:
    """Rows of unit length, quantized to 8 bytes; distances of float queries to what the bytes stand for."""
    reduce: Callable[[np.ndarray], np.ndarray] = unit_rows
    if name == "LDA + PQ":
        if data.train_y.ndim == 2:
            return {}, "label sets have no LDA"
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(unit_rows(data.train_X), data.train_y)
        reduce = lambda X: whole_bytes(lda.transform(unit_rows(X))[:, :BITS])  # noqa: E731
    train = reduce(data.train_X)
    code = faiss.IndexPQ(train.shape[1], BYTES, 8)
    index: Any = code
    if name == "OPQ":
        rotation = faiss.OPQMatrix(train.shape[1], BYTES)
        rotation.pq = own = faiss.ProductQuantizer(train.shape[1], BYTES, 8)
        own.cp.min_points_per_centroid = 1
        index = faiss.IndexPreTransform(rotation, code)
    code.pq.cp.seed = seed
    code.pq.cp.min_points_per_centroid = 1  # otherwise it warns for every part of every round
    index.train(train)
    scores = {}
    for part, search in data.searches.items():
        index.reset()
        index.add(reduce(search.database_X))
        decoded = index.reconstruct_n(0, index.ntotal)
        scores[part] = [score(data, search, reduce(search.query_X), decoded, "euclidean")]
    return scores, ""


def unit_rows(X: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.ascontiguousarray(X / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def whole_bytes(X: np.ndarray) -> np.ndarray:
    """Add columns of zeros, because PQ divides columns into eight equal parts."""
    return np.ascontiguousarray(np.pad(X, ((0, 0), (0, -X.shape[1] % BYTES))), dtype=np.float32)


def all_scores(name: str, data: OpenWorld, seed: int) -> tuple[Scores, str]:
    if name in HASHERS:
        return hasher_scores(name, data, seed)
    if name in QUANTIZERS:
        return quantizer_scores(name, data, seed)
    cosine = {part: [score(data, s, s.query_X, s.database_X, "cosine")] for part, s in data.searches.items()}
    return cosine, ""


def measure(options: argparse.Namespace, results: dict[str, Any]) -> None:
    for seed in options.seeds:
        for data_name in options.sets:
            missing = [name for name in options.methods if f"{data_name} {seed} {name}" not in results]
            if not missing:
                continue
            data = DATA[data_name](options.data, seed)
            for name in missing:
                began, cpu = time.perf_counter(), time.process_time()
                scores, chosen = all_scores(name, data, seed)
                spent = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
                results[f"{data_name} {seed} {name}"] = {"scores": scores, "chosen": chosen, **spent}
                shown = {part: [round(value, 3) for value in values] for part, values in scores.items()}
                print(f"{data_name} {seed} {name}: {shown} {chosen} {spent['seconds']:.1f} s", flush=True)
                options.output.write_text(json.dumps(results, indent=1))


def print_table(options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Print means over the seeds, Hamming / e(q), a line per method and a column per search."""
    columns = []
    for data_name in options.sets:
        runs = [run for key, run in results.items() if key.split()[0] == data_name]
        columns += [(data_name, part) for part in dict.fromkeys(part for run in runs for part in run["scores"])]
    print("| 8 bytes |" + "".join(f" {data} {'' if part == 'new' else part} |" for data, part in columns))
    print("|---|" + "---|" * len(columns))
    for name in options.methods:
        cells = []
        for data_name, part in columns:
            runs = [results.get(f"{data_name} {seed} {name}") for seed in options.seeds]
            found = [run["scores"][part] for run in runs if run is not None and part in run["scores"]]
            means = np.mean(found, axis=0) if len(found) == len(runs) else []
            cells.append(" / ".join(f"{value:.3f}".lstrip("0") for value in means) or "–")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", metavar="FOLDER")
    parser.add_argument("--sets", nargs="+", choices=DATA, default=list(DEVELOPMENT))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("-o", "--output", type=Path, default=Path("open-world.json"))
    parser.add_argument("--table", action="store_true", help="print the table of what is there, and measure nothing")
    options = parser.parse_args()
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    if not options.table:
        measure(options, results)
    print_table(options, results)


if __name__ == "__main__":
    main()
