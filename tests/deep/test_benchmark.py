"""The benchmark of a small CNN prints its table, and resumes from its checkpoints."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

from hashlearn.data.pool import Pool
from hashlearn.progress import listening

torch.set_num_threads(1)
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.slow
def test_the_table_of_the_small_cnn(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    deep_cnn = importlib.import_module("deep_cnn")
    y = np.repeat([0, 1], 605)
    images = np.random.default_rng(0).integers(0, 150, (1210, 8, 8, 3), dtype=np.uint8)
    images[y == 1, ..., 0] += 80
    pool = Pool("two", images.reshape(1210, -1), y, ("blue", "red"), image_shape=(8, 8, 3))
    monkeypatch.setattr(deep_cnn, "load", lambda name, folder: pool)
    options = ["--data", "any", "--methods", "dch", "--bits", "8", "--epochs", "1", "--database", "300", "--keep"]
    monkeypatch.setattr("sys.argv", ["deep_cnn.py", *options, str(tmp_path / "kept")])
    assert deep_cnn.main() == 0
    row = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert row[:2] == ["| dch", "8"]
    assert all(0.4 < float(figure) <= 1 for figure in row[2:5])
    heard = []
    with listening(lambda phase, done, total: heard.append(phase)):
        deep_cnn.main()
    assert "training" not in heard
    assert capsys.readouterr().out.splitlines()[-1].split(" | ")[2:5] == row[2:5]
