"""Compare the time of AutoHasher, trials included, with that of GSDH_P alone on the same rows and bits.

    python benchmarks/auto.py [--rows 10000 --features 384 --classes 100] [--bits 64] [--repeats 3]

The digits of the demo come first, then rows like embeddings. Both fits take turns, and the least processor time of
each counts, which depends less on other work of the machine than seconds do. Exits 1 above three times GSDH_P's time.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import load_digits

import hashlearn as hl

LIMIT = 3.0
warnings.simplefilter("ignore", hl.FitAdvice)


def rows_like_embeddings(n_rows: int, n_features: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw classes around centers, most of whose variance is in a few directions, as in embeddings of texts."""
    rng = np.random.default_rng(0)
    scale = 1 / np.sqrt(1 + np.arange(n_features))
    y = rng.integers(n_classes, size=n_rows)
    centers = rng.normal(size=(n_classes, n_features)) * scale
    X = (centers[y] + 1.5 * rng.normal(size=(n_rows, n_features)) * scale).astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def spent(hasher: hl.BaseHasher, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the processor time and the seconds of a fit."""
    worked, began = time.process_time(), time.perf_counter()
    hasher.fit(X, y)
    return time.process_time() - worked, time.perf_counter() - began


def ratio(X: np.ndarray, y: np.ndarray, n_bits: int, repeats: int) -> float:
    """Print the times of both fits and return the ratio of their processor times."""
    auto, plain = hl.AutoHasher(n_bits, random_state=0), hl.GSDHP(n_bits, random_state=0)
    times = np.array([(*spent(auto, X, y), *spent(plain, X, y)) for _ in range(repeats)]).min(axis=0)
    print(auto.report_)
    print(
        f"{len(X):,} x {X.shape[1]} rows, {n_bits} bits: AutoHasher {times[0]:.1f} s of processor time "
        f"({times[1]:.1f} s), GSDH_P {times[2]:.1f} s ({times[3]:.1f} s), ratio {times[0] / times[2]:.2f}\n",
        flush=True,
    )
    return float(times[0] / times[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    rows = rows_like_embeddings(options.rows, options.features, options.classes)
    sets = ((X[:1500].astype(np.float32), y[:1500]), rows)
    ratios = [ratio(*one, options.bits, options.repeats) for one in sets]
    raise SystemExit(0 if max(ratios) <= LIMIT else 1)


if __name__ == "__main__":
    main()
