"""Compare encoding with the two matrix products that it needs: rows by landmarks, and features by weights.

    python benchmarks/encode.py [--rows 50000]

Prints the speed of encode relative to the products; the exit code is 1 below 0.7.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import best_of, rows_and_classes

import hashlearn as hl


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--bits", type=int, default=64)
    options = parser.parse_args()
    X, y = rows_and_classes(options.rows, options.features, None)
    hasher = hl.GSDHP(options.bits, random_state=0).fit(X[:10_000], y[:10_000])
    landmarks = np.ascontiguousarray(hasher.features_.landmarks_.T)
    weights = hasher.function_.weights_
    products, _ = best_of(3, lambda: (X @ landmarks) @ weights)
    encode, _ = best_of(3, lambda: hasher.encode(X))
    print(f"encode {options.rows / encode:,.0f} codes/s; its products {options.rows / products:,.0f} rows/s; "
          f"share {products / encode:.2f} (target 0.7)")  # fmt: skip
    raise SystemExit(0 if products / encode >= 0.7 else 1)


if __name__ == "__main__":
    main()
