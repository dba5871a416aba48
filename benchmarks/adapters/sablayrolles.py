"""The evaluation of Sablayrolles et al., How should we evaluate supervised hashing? (ICASSP 2017).

    python benchmarks/adapters/sablayrolles.py --data cifar10-gist --data-dir FOLDER --bits 32 --labels 1000 5000 59000

1. Few labels: 1,000 queries, all other rows are the database, and some of them (1,000, 5,000 or all) have labels.
   Labeled rows keep their class: where training gives codes of its own to the labeled rows, the database has those
   codes. A classifier whose codes are its classes (class-code) is the baseline that a method must beat.
2. Classes never trained on: a quarter of the classes is left out of training; queries and database are rows of these.

MAP is over the whole ranking, with equal distances at their expected value. Prints Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence

import numpy as np

from hashlearn import FitAdvice, metrics
from hashlearn.data import Pool, load
from hashlearn.methods import BaseHasher, find_method, make_hasher

METHODS = ("gsdhp", "ksdh", "auto", "itq", "class-code")
QUERIES = 1000
UNSEEN_SHARE = 0.25


def few_labels(pool: Pool, method: str, bits: int, n_labels: int, seed: int, n_queries: int = QUERIES) -> float:
    """MAP if ``n_labels`` rows of the database have labels, which are the training rows."""
    order = np.random.default_rng(seed).permutation(len(pool))
    queries, database = order[:n_queries], order[n_queries:]
    n_labels = min(n_labels, len(database))
    X = pool.features(database)
    hasher = make_hasher(method, {"n_bits": bits, "random_state": seed})
    hasher.fit(X[:n_labels], pool.y[database[:n_labels]])
    codes = hasher.encode(X)
    if find_method(method).info.database == "learned":
        codes[:n_labels] = hasher.codes_
    return _map(hasher, pool, queries, codes, database)


def unseen_classes(pool: Pool, method: str, bits: int, seed: int, n_queries: int = QUERIES) -> float:
    """MAP among the rows of a quarter of the classes, after training on the other classes."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(pool.y))
    left_out = np.isin(pool.y, classes[: max(2, round(UNSEEN_SHARE * len(classes)))])
    train, rest = np.flatnonzero(~left_out), rng.permutation(np.flatnonzero(left_out))
    queries, database = rest[: min(n_queries, len(rest) // 4)], rest[min(n_queries, len(rest) // 4) :]
    hasher = make_hasher(method, {"n_bits": bits, "random_state": seed})
    hasher.fit(pool.features(train), pool.y[train])
    return _map(hasher, pool, queries, hasher.encode(pool.features(database)), database)


def _map(hasher: BaseHasher, pool: Pool, queries: np.ndarray, codes: np.ndarray, database: np.ndarray) -> float:
    asked = hasher.encode_queries(pool.features(queries))
    return metrics.evaluate(asked, codes, pool.y[queries], pool.y[database], at=None).map


def table(pool: Pool, methods: Sequence[str], bits: int, labels: Sequence[int], seeds: int) -> str:
    """The scores as a Markdown table, means over seeds."""
    heads = [*(f"{count:,} labels" for count in labels), "classes never trained on"]
    lines = ["| method | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for method in methods:
        scores = [np.mean([few_labels(pool, method, bits, count, seed) for seed in range(seeds)]) for count in labels]
        scores.append(np.mean([unseen_classes(pool, method, bits, seed) for seed in range(seeds)]))
        lines.append(f"| {method} | " + " | ".join(f"{score:.4f}" for score in scores) + " |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="cifar10-gist")
    parser.add_argument("--data-dir")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--labels", type=int, nargs="+", default=(1000, 5000, 59_000))
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args(words)
    # Codes that collapse to one per class are a subject of the paper; advice about them would hide the table.
    warnings.simplefilter("ignore", FitAdvice)
    pool = load(options.data, options.data_dir)
    print(f"{pool.name}, {options.bits} bits, MAP of the whole ranking, {options.seeds} seeds\n")
    print(table(pool, options.methods, options.bits, options.labels, options.seeds))


if __name__ == "__main__":
    main()
