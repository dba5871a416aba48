"""Measure the memory of every method that the paper runs on 50,000 rows, each in its own process.

    python benchmarks/memory.py [--rows 50000] [--methods ksh sdh] [--limit 4e9]

Before the fit, the address space is limited to its present size plus the limit; a method that needs more fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

METHODS = ("sdhp", "gsdhp", "cca-itq", "sdh", "cosdish", "ksdh", "adgh", "ksh", "fsdh", "itq")
SCRIPT = """
import resource, sys, time
import hashlearn as hl
sys.path.insert(0, sys.argv[4])
from common import rows_and_classes
X, y = rows_and_classes(int(sys.argv[2]), 512, None)
hl.METHODS[sys.argv[1]](n_bits=8, random_state=0).fit(X[:500], y[:500])
page = resource.getpagesize()
used = int(open("/proc/self/statm").read().split()[0]) * page
held = int(open("/proc/self/statm").read().split()[1]) * page
resource.setrlimit(resource.RLIMIT_AS, (used + int(float(sys.argv[3])),) * 2)
began = time.perf_counter()
hl.METHODS[sys.argv[1]](n_bits=64, random_state=0).fit(X, y)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - held
print(f"{peak / 1e9:.2f} GB beyond the rows, {time.perf_counter() - began:.0f} s")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--limit", default="4e9", help="bytes beyond the rows")
    options = parser.parse_args()
    failed = False
    for method in options.methods:
        command = [sys.executable, "-c", SCRIPT, method, str(options.rows), options.limit, sys.path[0]]
        done = subprocess.run(command, capture_output=True, text=True)
        failed |= done.returncode != 0
        print(f"{method}: {done.stdout.strip() or done.stderr.strip().splitlines()[-1]}", flush=True)
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
