"""Time a fit of AutoHasher, and show what it chose.

python benchmarks/auto.py                 # 10,000 x 384 rows of 100 classes, at most 20 s on two cores
python benchmarks/auto.py --rows 50000 --classes 1000
"""

import argparse
import time

import numpy as np

import hashlearn as hl

LIMIT = 20.0


def rows_like_embeddings(n_rows: int, n_features: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes around centers, most of whose variance is in a few directions, as in embeddings of texts."""
    rng = np.random.default_rng(0)
    scale = 1 / np.sqrt(1 + np.arange(n_features))
    y = rng.integers(n_classes, size=n_rows)
    centers = rng.normal(size=(n_classes, n_features)) * scale
    X = (centers[y] + 1.5 * rng.normal(size=(n_rows, n_features)) * scale).astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--bits", type=int, default=64)
    arguments = parser.parse_args()
    X, y = rows_like_embeddings(arguments.rows, arguments.features, arguments.classes)
    hasher = hl.AutoHasher(arguments.bits, random_state=0)  # imports the methods, which must not be timed
    began, cpu = time.perf_counter(), time.process_time()
    hasher.fit(X, y)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(hasher.report_)
    print(f"\n{len(X):,} x {X.shape[1]} rows, {arguments.classes} classes, {arguments.bits} bits:")
    print(f"{seconds:.1f} s, of which the processors worked {cpu:.1f} s (limit for 10,000 x 384 rows: {LIMIT:.0f} s)")


if __name__ == "__main__":
    main()
