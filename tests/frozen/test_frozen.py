"""No change of the code changes the codes of a method by accident."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMMON_INSTRUCTIONS = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the table was made with OpenBLAS on Linux x86-64"
)
def test_every_method_computes_what_the_table_says():
    run = subprocess.run(
        [sys.executable, str(HERE / "make_table.py")],
        env=os.environ | COMMON_INSTRUCTIONS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    now, before = json.loads(run.stdout), json.loads((HERE / "table.json").read_text())
    assert sorted(now) == sorted(before)
    assert [name for name in now if now[name] != before[name]] == []
