"""Large fits stay small: no n x n and, for labels, no n x p array is ever made."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np
import hashlearn as hl
rng = np.random.default_rng(0)
n, labels = 200_000, sys.argv[1]
y = rng.integers(0, 50, n)
X = (rng.normal(size=(50, 32))[y] + rng.normal(size=(n, 32))).astype(np.float32)
Y = y if labels == "classes" else np.c_[np.eye(50, dtype=np.uint8)[y], rng.random((n, 6)) < 0.3]
hl.GSDHP(8, n_landmarks=10, n_anchors=10, n_jobs=2).fit(X[:100], y[:100])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(1.5e9),) * 2)
hasher = hl.GSDHP(64, n_landmarks=1000, n_jobs=2, random_state=0, solver=hl.Greedy(max_iter=3)).fit(X, Y)
print(hasher.codes_.shape)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address-space limits are measured on Linux")
@pytest.mark.parametrize("labels", ["classes", "sets"])
def test_200_000_rows_in_one_and_a_half_gigabytes(labels):
    done = subprocess.run([sys.executable, "-c", SCRIPT, labels], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "(200000, 8)"
