"""The code of docs/collections.md runs."""

import re
from pathlib import Path

import hashlearn

PAGE = Path(hashlearn.__file__).parents[1] / "docs" / "collections.md"


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    space = {}
    exec(block, space)
    assert space["hits"].ids.shape == (5, 10)
    assert space["item"].payload == {"color": "blue", "year": 1507}
    assert (tmp_path / "codes.npy").exists()
