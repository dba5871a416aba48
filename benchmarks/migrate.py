"""Measure what codes keep of their quality when queries come from a new embedding model.

    python benchmarks/migrate.py OLD.npy NEW.npy LABELS.npy [--queries 1000] [--bits 64] [--sample 1000,10000]

Rows of the files are the same items, embedded by two models. GSDH_P learns from the old embeddings of all rows but the
queries, and codes them: that is the database. For each sample size, that many database rows are embedded again, and
``hl.migrate`` learns from them. Lines say the MAP of queries by the old model, by the migrated hasher, and by a GSDH_P
that is retrained on the new embeddings of all rows, with all rows encoded again; and what share of the last MAP the
migrated one keeps. Beside it stands the expected loss in precision that the migration reported.
"""

from __future__ import annotations

import argparse

import numpy as np

import hashlearn as hl


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("labels")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--sample", default="1000,10000")
    options = parser.parse_args()
    old, new = (np.load(name).astype(np.float32) for name in (options.old, options.new))
    y = np.load(options.labels)
    order = np.random.default_rng(0).permutation(len(y))
    queries, rows = order[: options.queries], order[options.queries :]

    def score(asked, codes) -> float:
        return hl.metrics.mean_average_precision(asked, codes, y[queries], y[rows], at=None)

    hasher = hl.GSDHP(options.bits, random_state=0).fit(old[rows], y[rows])
    codes = hasher.encode(old[rows])
    before = score(hasher.encode_queries(old[queries]), codes)
    retrained = hl.GSDHP(options.bits, random_state=0).fit(new[rows], y[rows])
    best = score(retrained.encode_queries(new[queries]), retrained.encode(new[rows]))
    print(
        f"{len(rows)} rows: old model MAP {before:.4f}; retrained on new embeddings of all rows {best:.4f}", flush=True
    )
    for size in map(int, options.sample.split(",")):
        chosen = np.random.default_rng(1).permutation(len(rows))[:size]
        migrated = hl.migrate(hasher, new[rows[chosen]], codes[chosen], y[rows[chosen]])
        found = score(migrated.encode_queries(new[queries]), codes)
        print(f"  {len(chosen)} rows re-embedded: MAP {found:.4f}, {found / best:.1%} of the retrained", flush=True)
        print(f"    {migrated.report_}", flush=True)


if __name__ == "__main__":
    main()
