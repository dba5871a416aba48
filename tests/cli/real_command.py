"""How tests start the real command, and options that make a fit small."""

import os
import sys
from pathlib import Path

import hashlearn

ROOT = Path(hashlearn.__file__).parents[1]
# Width of tables and absence of colour must not depend on who runs the tests.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
COMMAND = [sys.executable, "-m", "hashlearn"]
SMALL = ["--method", "gsdhp", "--set", "n_landmarks=40", "--set", "n_anchors=60", "--set", "solver__max_iter=3"]
