"""The paths of three calls, which readers follow, stay as short as they are: limits 10 % above what was reached."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("httpx")

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "fit_path.py"
LIMITS = {  # files, functions, depth of the stack
    "GSDHP.fit": (23, 190, 12),
    "Collection.search": (24, 103, 14),
    "HTTP search": (33, 166, 17),
}


@pytest.mark.slow
def test_the_paths_of_calls_stay_short(tmp_path):
    spec = importlib.util.spec_from_file_location("fit_path", BENCHMARK)
    fit_path = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fit_path)
    works = fit_path.works(tmp_path)
    found = {}
    for name in LIMITS:
        path = fit_path.counted(works[name])
        found[name] = (len(path.functions), sum(map(len, path.functions.values())), path.depth)
    too_long = {
        name: (found[name], limit) for name, limit in LIMITS.items() if any(map(int.__gt__, found[name], limit))
    }
    assert not too_long
