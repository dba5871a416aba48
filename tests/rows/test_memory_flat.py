"""A fit and its codes from chunks take no more memory for four times the rows: neither rows nor codes are held."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hashlearn as hl

# The rows are made anew for every pass, so nobody has them; codes go to files. Reading VmHWM at the end gives the most
# that the process ever held.
SCRIPT = """
import json, sys
import numpy as np
import hashlearn as hl
from hashlearn.rows import survey

# Small tasks, so that those under way are few rows beside all.
survey.RANGE_BLOCKS = 1
n_rows, width, n_bits = map(int, sys.argv[1:4])

def chunks():
    for k in range(0, n_rows, 10_000):
        rng = np.random.default_rng(k)
        y = rng.integers(0, 10, 10_000)
        X = rng.standard_normal((10_000, width), dtype=np.float32)
        X[:, :10] += 3 * np.eye(10, dtype=np.float32)[y]
        yield X, y

hasher = hl.GSDHP(n_bits, n_landmarks=50, n_anchors=100, n_jobs=2, random_state=0)
hasher.fit_chunks(chunks, codes="codes.npy")
hasher.encode_chunks(chunks, "codes", shard_rows=8192)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"peak": int(peak.split()[1]) / 1024, "coded": len(hasher.codes_)}))
"""
FEW, MANY, WIDTH, BITS = 60_000, 240_000, 64, 64
ROWS_MB = (MANY - FEW) * WIDTH * 4 / 2**20
CODES_MB = (MANY - FEW) * BITS * 4 / 2**20


def peak(n_rows, folder):
    folder.mkdir()
    paths = [str(Path(hl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    # A fixed threshold: otherwise what malloc keeps for later depends on the sizes it has seen.
    settings = {"PYTHONPATH": os.pathsep.join(paths), "MALLOC_MMAP_THRESHOLD_": "1000000"}
    command = [sys.executable, "-c", SCRIPT, str(n_rows), str(WIDTH), str(BITS)]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    assert facts["coded"] == n_rows
    return facts["peak"]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_memory_does_not_grow_with_rows(tmp_path):
    few, many = (peak(n, tmp_path / str(n)) for n in (FEW, MANY))
    # Rows that are held would cost 44 MB more for every pass, codes as floats as much.
    assert many - few < min(ROWS_MB, CODES_MB) / 2
