"""Generated data with known right answers. It is for testing a method, not for comparing methods."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hashlearn.data.pool import Pool


@dataclass(frozen=True)
class GaussianClasses:
    """Equally likely classes of unit variance around ``centers``. No classifier is more accurate than ``accuracy``."""

    pool: Pool
    centers: NDArray[np.float64]
    accuracy: float


def gaussian_classes(
    n_rows: int = 2000, n_classes: int = 10, n_features: int = 32, distance: float = 4.0, seed: int = 0
) -> GaussianClasses:
    """Generate Gaussian classes whose centers are all ``distance`` apart.

    The best classifier chooses the nearest center. It is right with probability ∫ φ(t − d/√2) Φ(t)^(c−1) dt.

    >>> round(gaussian_classes(10, 2, 4, 2.0).accuracy, 4)   # two classes: Φ(d/2)
    0.8413
    """
    if n_features < n_classes:
        raise ValueError(f"{n_classes} centers equally far apart need as many features. Got {n_features} instead.")
    from scipy.special import ndtr

    rng = _rng(seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(n_features, n_features)))
    centers = distance / np.sqrt(2) * rotation[:n_classes]
    y = rng.integers(0, n_classes, n_rows)
    X = (centers[y] + rng.normal(size=(n_rows, n_features))).astype(np.float32)
    grid = np.linspace(-12, 12 + distance, 40_001)
    density = np.exp(-((grid - distance / np.sqrt(2)) ** 2) / 2) / np.sqrt(2 * np.pi)
    accuracy = float(np.trapezoid(density * ndtr(grid) ** (n_classes - 1), grid))
    return GaussianClasses(Pool("gaussian", X, y.astype(np.int64), _numbered(n_classes)), centers, accuracy)


@dataclass(frozen=True)
class FactorLabels:
    """Without noise, a row x has label j exactly if x · directions[:, j] > thresholds[j]."""

    pool: Pool
    directions: NDArray[np.float64]
    thresholds: NDArray[np.float64]


def factor_labels(
    n_rows: int = 2000,
    n_labels: int = 12,
    n_factors: int = 6,
    n_features: int = 32,
    density: float = 0.2,
    noise: float = 0.0,
    seed: int = 0,
) -> FactorLabels:
    """Generate label sets from a few hidden factors, so that labels correlate and a linear rule recovers them.

    A row has each label with probability ``density``; ``noise`` is the deviation of the noise on the features.
    """
    if n_features < n_factors:
        raise ValueError(f"{n_factors} factors need as many features. Got {n_features} instead.")
    from scipy.special import ndtri

    rng = _rng(seed)
    factors = rng.normal(size=(n_rows, n_factors))
    weights = rng.normal(size=(n_factors, n_labels))
    weights /= np.linalg.norm(weights, axis=0)
    basis, _ = np.linalg.qr(rng.normal(size=(n_features, n_factors)))
    thresholds = np.full(n_labels, ndtri(1 - density))
    Y = (factors @ weights > thresholds).astype(np.uint8)
    X = factors @ basis.T + noise * rng.normal(size=(n_rows, n_features))
    pool = Pool("factors", X.astype(np.float32), Y, _numbered(n_labels))
    return FactorLabels(pool, basis @ weights, thresholds)


@dataclass(frozen=True)
class CircleClasses:
    """Arcs of a circle as classes, and their ideal codes.

    ``codes`` (n, n_bits) are the ideal codes of the rows, as 0 and 1; ``class_codes`` (2 n_bits, n_bits) those of the
    classes.
    """

    pool: Pool
    codes: NDArray[np.uint8]
    class_codes: NDArray[np.uint8]


def circle_classes(n_rows: int = 2000, n_bits: int = 4, margin: float = 0.1, seed: int = 0) -> CircleClasses:
    """Generate points on the unit circle in 2·``n_bits`` arcs, one per class; ``margin`` is the empty share of an arc.

    n_bits lines through the center cut the circle into exactly these arcs. The side of each line is the ideal code:
    a class has one code, no two classes share one, and their Hamming distance is the number of arcs from one to the
    other. A linear hash function can produce it.
    """
    if n_bits < 1 or not 0 <= margin < 1:
        raise ValueError(f"n_bits must be at least 1 and margin in [0, 1). Got {n_bits} and {margin} instead.")
    rng = _rng(seed)
    n_classes = 2 * n_bits
    y = rng.integers(0, n_classes, n_rows)
    angles = (y + margin / 2 + (1 - margin) * rng.random(n_rows)) * np.pi / n_bits
    X = np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    # Bit k is on in the half circle of n_bits arcs that begins with arc k.
    class_codes = ((np.arange(n_classes)[:, None] - np.arange(n_bits)) % n_classes < n_bits).astype(np.uint8)
    pool = Pool("circle", X, y.astype(np.int64), _numbered(n_classes))
    return CircleClasses(pool, class_codes[y], class_codes)


def gaussian(folder: Path) -> Pool:
    """Return the data set "gaussian" of the catalog; nothing is read from ``folder``."""
    return gaussian_classes().pool


def factors(folder: Path) -> Pool:
    """Return the data set "factors" of the catalog; nothing is read from ``folder``."""
    return factor_labels().pool


def circle(folder: Path) -> Pool:
    """Return the data set "circle" of the catalog; nothing is read from ``folder``."""
    return circle_classes().pool


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _rng(seed: int) -> np.random.Generator:
    # PCG64 is named here so that the rows stay the same if NumPy changes its default generator.
    return np.random.Generator(np.random.PCG64(seed))
