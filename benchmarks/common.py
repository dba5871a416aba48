"""Parts that the benchmark commands share: data, the matrix products that no fit can avoid, timing."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from hashlearn import FitAdvice

# Data of benchmarks are made for speed: advice about their codes would hide the figures.
warnings.simplefilter("ignore", FitAdvice)


def best_of(repeats: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest of several times, in seconds, and the last result. Noise only makes a time longer."""
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def fixed_and_rates(seconds: dict[int, float]) -> tuple[float, list[float]]:
    """Split the times of fits with different numbers of rows into a fixed cost and a cost per row.

    Returns
    -------
    fixed : seconds that a fit takes besides its cost per row, at the least number of rows.
    rates : seconds per further row, between each number of rows and the next.
    """
    sizes = sorted(seconds)
    rates = [(seconds[b] - seconds[a]) / (b - a) for a, b in pairwise(sizes)]
    return seconds[sizes[0]] - sizes[0] * rates[0], rates


def report_rates(seconds: dict[int, float], limit: float = 1.3) -> bool:
    """Print the fixed cost and the rates; whether the rate grows at most ``limit`` times with the rows."""
    fixed, rates = fixed_and_rates(seconds)
    sizes = sorted(seconds)
    growth = max(rates) / min(rates) if min(rates) > 0 else np.inf  # noise can make fewer rows slower than more
    print("seconds: " + ", ".join(f"n={n} {seconds[n]:.2f}" for n in sizes))
    print(f"a fit takes {fixed:.2f} s and, per row, "
          + ", ".join(f"{rate * 1e6:.1f} µs from {a} to {b} rows" for (a, b), rate in
                      zip(pairwise(sizes), rates, strict=True))
          + f"; the rates differ by {growth:.2f} (target {limit})", flush=True)  # fmt: skip
    return growth <= limit


def rows_and_classes(
    n_rows: int, n_features: int, data: Path | None, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """CIFAR-10 GIST features from a folder, or ten overlapping Gaussian classes of the same shape."""
    if data is not None:
        archive = np.load(data / "cifar10_gist512.npz")
        order = np.random.default_rng(seed).permutation(len(archive["y_train"]))[:n_rows]
        if n_rows > len(order):
            raise SystemExit(f"The folder holds {len(order)} training rows; {n_rows} were asked for.")
        return archive["X_train"][order].astype(np.float32), archive["y_train"][order]
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n_rows)
    centers = rng.normal(size=(10, n_features)).astype(np.float32)
    X = centers[y] + 3 * rng.standard_normal((n_rows, n_features), dtype=np.float32)
    return X, y


def floor(X: NDArray[np.float32], n_landmarks: int = 1000) -> None:
    """Compute kernel map, X'X and Cholesky in plain NumPy with all BLAS threads. No fit can avoid this work."""
    rng = np.random.default_rng(0)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    X = X - X.mean(axis=0)
    landmarks = X[rng.choice(len(X), n_landmarks, replace=False)]
    K = X @ landmarks.T
    K *= -2
    K += (X * X).sum(axis=1)[:, None]
    K += (landmarks * landmarks).sum(axis=1)
    K *= -1 / (2 * K.mean())
    np.exp(K, out=K)
    K -= K.mean(axis=0)
    gram = K.T @ K
    gram[np.diag_indices(n_landmarks)] += 1e-3
    linalg.cho_factor(gram.astype(np.float64))
