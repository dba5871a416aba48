"""Search one database of known and unknown labels: codes of equal size, three emphases, and what they stand beside.

    python benchmarks/open_world.py --data FOLDER
    python benchmarks/open_world.py --data FOLDER --sets banking77 digits --bytes 8 16 --seeds 0 1 2 3 4 -o open.json

A third of the classes has no labels; their rows are there, unlabeled. 40 % of the rows train, 45 % (at most 8,000) are
the database, which no fit has seen, and the rest are queries of both kinds, at most 700 each. Scores are MAP of the
whole ranking for known and unknown queries, and the share of the ten most alike float rows among the first ten; label
sets have no unknown labels and NDCG@50. Every result is written as soon as it is there, so the same command goes on
after a stop. At the end come means over seeds, and paired differences with their standard errors.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

import hashlearn as hl
from hashlearn.labels import label_matrix
from hashlearn.opencode.metric import LabelMetric

TEXTS = ("banking77", "clinc150", "hwu64")
SETS = (*TEXTS, "digits", "cifar10-gist", "coco18")
MOST_ROWS = 16_000
UNLABELED = -1
warnings.simplefilter("ignore", hl.FitAdvice)


class Split(NamedTuple):
    """Rows and labels of training, database and queries; ``known`` says which queries have labels in the training."""

    train_X: np.ndarray
    train_y: np.ndarray
    database_X: np.ndarray
    database_y: np.ndarray
    query_X: np.ndarray
    query_y: np.ndarray
    known: np.ndarray


def rows_of(name: str, folder: str) -> tuple[np.ndarray, np.ndarray]:
    if name not in TEXTS:
        pool = hl.data.load(name, folder)
        return pool.X, pool.y
    with np.load(Path(folder) / f"{name}_minilm.npz") as file:
        inside = ~np.char.startswith(file["part"], "oos")
        return file["X"][inside], np.unique(file["y"][inside], return_inverse=True)[1]


def split(name: str, folder: str, seed: int) -> Split:
    X, y = rows_of(name, folder)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))[:MOST_ROWS]
    n, X, y = len(order), np.asarray(X[order], dtype=np.float32), y[order]
    train, database, queries = np.split(np.arange(n), [int(0.4 * n), int(0.85 * n)])
    database = database[:8000]
    if y.ndim == 2:
        some = queries[:700]
        return Split(X[train], y[train], X[database], y[database], X[some], y[some], np.ones(len(some), bool))
    classes = np.unique(y)
    hidden = np.isin(y, rng.permutation(classes)[: len(classes) // 3])
    queries = np.concatenate([queries[~hidden[queries]][:700], queries[hidden[queries]][:700]])
    labels = np.where(hidden, UNLABELED, y)
    return Split(X[train], labels[train], X[database], y[database], X[queries], y[queries], ~hidden[queries])


# Each method yields titles with the scores (queries, database) of one fit.
Table = Iterator[tuple[str, np.ndarray]]


def floats(data: Split, size: int, seed: int) -> Table:
    yield "float cosine", normalize(data.query_X) @ normalize(data.database_X).T


def open_hasher(data: Split, size: int, seed: int) -> Table:
    hasher = hl.OpenHasher(8 * size, unlabeled=UNLABELED, random_state=seed).fit(data.train_X, data.train_y)
    packed = hasher.encode(data.database_X)
    for emphasis in ("alike", "auto", "label"):
        yield f"OpenHasher, {emphasis}", hasher.query(data.query_X, emphasis).scores(packed)
    # What the parts of the code are made of, as floats:
    coder = hasher.coder_
    z, w = (coder.metric.map_block(X) for X in (data.query_X, data.database_X))
    yield "floats in the metric", z @ w.T
    p, q = (coder.labels.scores.probabilities(coder.labels.scores.scores(X)) for X in (data.query_X, data.database_X))
    yield "label probabilities as floats", p @ q.T
    yield "class id alone", p[:, q.argmax(axis=1)]


def without_labels(data: Split, size: int, seed: int) -> Table:
    hasher = hl.OpenHasher(8 * size, random_state=seed).fit(data.train_X)
    yield "OpenHasher without labels", hasher.query(data.query_X).scores(hasher.encode(data.database_X))


def product_quantizer(data: Split, size: int, seed: int) -> Table:
    import faiss

    rows, queries, database = (normalize(X) for X in (data.train_X, data.query_X, data.database_X))
    width = -(-rows.shape[1] // size) * size
    rows, queries, database = (np.pad(X, ((0, 0), (0, width - X.shape[1]))) for X in (rows, queries, database))
    quantizer = faiss.ProductQuantizer(width, size, 8)
    quantizer.train(rows)
    decoded = quantizer.decode(quantizer.compute_codes(database))
    yield "PQ", queries @ decoded.T - (decoded**2).sum(axis=1) / 2


def of_bits(title: str, make: Callable[[int, int], Any]) -> Callable[[Split, int, int], Table]:
    def scores(data: Split, size: int, seed: int) -> Table:
        hasher = make(8 * size, seed).fit(data.train_X, data.train_y)
        signs = hl.codes.unpack(hasher.encode(data.database_X), 8 * size) * 2.0 - 1.0
        yield f"{title}, Hamming", (hasher.transform(data.query_X) * 2.0 - 1.0) @ signs.T
        yield f"{title}, e(q)", hasher.expected_bits(data.query_X) @ signs.T

    return scores


def itq_in_the_metric(data: Split, size: int, seed: int) -> Table:
    metric = LabelMetric.of_rows(data.train_X, label_matrix(data.train_y, UNLABELED))
    hasher = hl.ITQ(8 * size, random_state=seed).fit(metric.map_block(data.train_X))
    signs = hl.codes.unpack(hasher.encode(metric.map_block(data.database_X)), 8 * size) * 2.0 - 1.0
    yield "ITQ in the metric, Hamming", (hasher.transform(metric.map_block(data.query_X)) * 2.0 - 1.0) @ signs.T


METHODS: dict[str, Callable[[Split, int, int], Table]] = {
    "floats": floats,
    "open": open_hasher,
    "content": without_labels,
    "pq": product_quantizer,
    "itq": of_bits("ITQ", lambda bits, seed: hl.ITQ(bits, random_state=seed)),
    "itq-metric": itq_in_the_metric,
    "gsdhp": of_bits("GSDH_P", lambda bits, seed: hl.GSDHP(bits, unlabeled=UNLABELED, random_state=seed)),
    "auto": of_bits("AutoHasher", lambda bits, seed: hl.AutoHasher(bits, unlabeled=UNLABELED, random_state=seed)),
}


def measured(data: Split, scores: np.ndarray, near: np.ndarray) -> dict[str, float]:
    """Return known, unknown and alike, or NDCG for label sets."""
    if data.query_y.ndim == 2:
        return {"ndcg": hl.metrics.evaluate_scores(scores, data.query_y, data.database_y, ndcg_at=50, radius=None).ndcg}
    top = np.argpartition(-scores, 9, axis=1)[:, :10]
    found = {"alike": float(np.mean([np.isin(a, b).mean() for a, b in zip(near, top, strict=True)]))}
    for part, some in (("known", data.known), ("unknown", ~data.known)):
        rules = {"at": None, "radius": None}
        found[part] = hl.metrics.evaluate_scores(scores[some], data.query_y[some], data.database_y, **rules).map
    return found


def run(name: str, args: argparse.Namespace, size: int, seed: int, results: dict[str, Any]) -> None:
    data = None
    for method in args.methods:
        key = f"{name}/{size}/{seed}/{method}"
        if key in results:
            continue
        if data is None:
            data = split(name, args.data, seed)
            alike = normalize(data.query_X) @ normalize(data.database_X).T
            near = np.argpartition(-alike, 9, axis=1)[:, :10]
        began = time.process_time()
        scores = {title: measured(data, table, near) for title, table in METHODS[method](data, size, seed)}
        results[key] = {"seconds": time.process_time() - began, "scores": scores}
        print(f"{key}: {results[key]['seconds']:.0f} s of CPU", flush=True)
        if args.output:
            args.output.write_text(json.dumps(results, indent=1))


def gathered(results: dict[str, Any], name: str, size: int, seeds: list[int]) -> dict[str, dict[str, list[float]]]:
    """Return the figures of all seeds by method and score."""
    found: dict[str, dict[str, list[float]]] = {}
    for seed in seeds:
        for key, entry in results.items():
            if key.rpartition("/")[0] == f"{name}/{size}/{seed}":
                for title, scores in entry["scores"].items():
                    for score, value in scores.items():
                        found.setdefault(title, {}).setdefault(score, []).append(value)
    return found


GOALS = (
    ("OpenHasher, alike", "float cosine", "known"),
    ("OpenHasher, alike", "float cosine", "unknown"),
    ("OpenHasher, label", "GSDH_P, e(q)", "known"),
    ("OpenHasher, auto", "GSDH_P, e(q)", "known"),
    ("OpenHasher, auto", "float cosine", "unknown"),
    ("OpenHasher, auto", "AutoHasher, e(q)", "known"),
    ("OpenHasher, auto", "AutoHasher, e(q)", "unknown"),
    ("OpenHasher, label", "AutoHasher, e(q)", "ndcg"),
)


def show(results: dict[str, Any], name: str, size: int, seeds: list[int]) -> None:
    found = gathered(results, name, size, seeds)
    columns = ("ndcg",) if any("ndcg" in scores for scores in found.values()) else ("known", "unknown", "alike")
    print(f"\n{name}, {size} bytes, {len(seeds)} seeds\n| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for title, scores in found.items():
        print(f"| {title} | " + " | ".join(f"{np.mean(scores[column]):.3f}" for column in columns) + " |")
    for ours, theirs, score in GOALS:
        if score in found.get(ours, {}) and score in found.get(theirs, {}):
            difference = np.subtract(found[ours][score], found[theirs][score])
            error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
            print(f"{ours} - {theirs}, {score}: {difference.mean():+.3f} ± {error:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--bytes", nargs="+", type=int, default=[16])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("-o", "--output", type=Path, help="JSON file of the results; known ones are not measured again")
    args = parser.parse_args()
    results: dict[str, Any] = {}
    if args.output and args.output.exists():
        results = json.loads(args.output.read_text())
    for name in args.sets:
        for size in args.bytes:
            for seed in args.seeds:
                run(name, args, size, seed, results)
            show(results, name, size, args.seeds)


if __name__ == "__main__":
    main()
