"""Time ``import hashlearn``, ``hashlearn --version`` and ``hashlearn --help`` in a new process.

The first two must not import heavy modules.

python benchmarks/imports.py
"""

from __future__ import annotations

import subprocess
import sys
import time

# pandas, pyarrow and rich are not listed: scikit-learn imports pandas if it is installed, and pandas the others.
HEAVY = ("torch", "matplotlib", "dask", "fastapi", "typer", "lightgbm", "faiss")
SCRIPT = f"import sys, hashlearn; print([m for m in {HEAVY!r} if m in sys.modules])"
VERSION_SECONDS = 0.4


def command(argument: str) -> str:
    """A Python script that does the same as ``hashlearn ARGUMENT``."""
    return f"from hashlearn.cli import main; main([{argument!r}])"


def fastest(script: str, repeats: int = 5) -> tuple[float, str]:
    """The shortest time in seconds that a new interpreter takes for the script, and its output."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        times.append(time.perf_counter() - start)
    return min(times), printed.strip()


def main() -> None:
    best, loaded = fastest(SCRIPT)
    used, _ = fastest("import hashlearn; hashlearn.GSDHP")
    base, _ = fastest("import numpy, scipy, sklearn.base")
    version, _ = fastest(command("--version"))
    help_page, _ = fastest(command("--help"))
    print(f"import hashlearn {best:.2f} s with the interpreter's start (target 1)")
    print(f"with the first hasher, which imports scikit-learn, {used:.2f} s; scikit-learn alone {base:.2f} s")
    print(f"heavy modules that were imported: {loaded}")
    print(f"hashlearn --version {version:.2f} s (target {VERSION_SECONDS}), hashlearn --help {help_page:.2f} s")
    raise SystemExit(0 if best < 1 and version < VERSION_SECONDS and loaded == "[]" else 1)


if __name__ == "__main__":
    main()
