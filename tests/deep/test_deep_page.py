"""The code of docs/deep.md runs, block after block."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

torch.set_num_threads(1)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "deep.md"


@pytest.mark.slow
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(block, space)
    assert (tmp_path / "model.hl").exists()
    assert space["hasher"].n_bits_ == 16
    assert space["u"].grad.shape == (8, 16)
    assert np.load(tmp_path / "X.npy").shape == (20, 1280)
    assert space["made"].n_features == 8
