"""The code of docs/collections.md runs."""

import re
from pathlib import Path

import hashlearn

PAGE = Path(hashlearn.__file__).parents[2] / "docs" / "collections.md"


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(block, space)
    assert space["hits"].ids.shape == (5, 10)
    assert space["item"].payload == {"color": "blue", "year": 1507}
    assert (tmp_path / "codes.npy").exists()
    with hashlearn.Collection.restore("trial.backup", "shop2") as kept:
        assert len(kept) == 1000
