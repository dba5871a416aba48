"""Very many classes of few rows: time, peak memory and retrieval of GSDH_P beside ITQ and cosine similarity.

    python benchmarks/many_classes.py [--classes 10000] [--rows 5] [--function linear]

Exits 1 when a fit takes more than a minute of processor time or 2 GiB. A table between 10,000 classes would take 0.8 GB
by itself, and each flip of a bit a product with it.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from numpy.typing import NDArray

import hashlearn as hl

FEATURES, NOISE, QUERIES = 128, 0.98, 500
MOST_SECONDS, MOST_BYTES = 60, 2 * 2**30


def draw(means: NDArray[np.float32], y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw a row of each of the classes ``y`` from a Gaussian around its mean."""
    return means[y] + np.float32(NOISE) * rng.standard_normal((len(y), FEATURES), dtype=np.float32)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=5, help="rows per class, in training and in the database")
    parser.add_argument("--function", default="linear", help="'posterior' for bits from class posteriors")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    means = rng.standard_normal((options.classes, FEATURES), dtype=np.float32)
    y = np.repeat(np.arange(options.classes), options.rows)
    X, database = draw(means, y, rng), draw(means, y, rng)
    asked = rng.integers(0, options.classes, QUERIES)
    queries = draw(means, asked, rng)
    before = peak_bytes()
    hasher = hl.GSDHP(64, function=options.function, random_state=0)
    began, worked = time.perf_counter(), time.process_time()
    hasher.fit(X, y)
    seconds, worked, memory = time.perf_counter() - began, time.process_time() - worked, peak_bytes() - before
    phases = {name: round(value, 2) for name, value in hasher.seconds_.items()}
    print(f"{options.classes} classes x {options.rows} rows, 64 bits: {seconds:.1f} s ({worked:.1f} s of CPU time), "
          f"{memory / 2**20:.0f} MiB above the data; phases {phases}")  # fmt: skip
    itq = hl.ITQ(64, random_state=0).fit(X)
    for name, one in (("GSDH_P", hasher), ("ITQ", itq)):
        packed = one.encode(database)
        found = [
            hl.metrics.mean_average_precision(asking, packed, asked, y, at=None)
            for asking in (one.encode_queries(queries), one.expected_bits(queries))
        ]
        print(f"  {name}: MAP {found[0]:.3f} by Hamming distance, {found[1]:.3f} with real-valued queries")
    cosine = hl.metrics.evaluate_floats(queries, database, asked, y, metric="cosine", at=None).map
    print(f"  cosine similarity of the floats: {cosine:.3f}")
    raise SystemExit(0 if worked <= MOST_SECONDS and memory <= MOST_BYTES else 1)


if __name__ == "__main__":
    main()
