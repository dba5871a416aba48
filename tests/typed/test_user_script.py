"""The script that mypy checks with the flags of --strict also runs."""

import runpy
from pathlib import Path


def test_the_typed_script_runs(tmp_path):
    main = runpy.run_path(str(Path(__file__).with_name("user_script.py")))["main"]
    found = main(tmp_path)
    assert len(found) == 3
    assert found[0] == "row 7"
