"""What the benchmark commands share: data, the GEMM floor, timing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg


def best_of(repeats: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """The least of several times, in seconds, and the last result: noise only ever adds."""
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


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
    """Kernel map, X'X and Cholesky in plain NumPy with all BLAS threads: no fit can skip this work."""
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
