"""The example of docs/scale.md runs."""

import re
from pathlib import Path

import numpy as np

from hashlearn.files import read_codes


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    space: dict = {}
    exec(block, space)
    found = np.concatenate([read_codes(path).codes for path in space["paths"]])
    rows = np.concatenate([np.load(f"x{k}.npy") for k in range(3)])
    np.testing.assert_array_equal(found, space["hasher"].encode(rows))
    assert len(space["hasher"].codes_) == 6000
