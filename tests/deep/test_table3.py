"""The paper's Table 3 in one command, on a tiny folder of images."""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import encoded

from hashlearn import codes, metrics
from hashlearn.bench import RunStore
from hashlearn.deep import GSDHPStar
from hashlearn.progress import listening

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from deep_table3 import folder_parts, main

torch.set_num_threads(1)
PER_CLASS = 605
SMALL = {"name": "small_cnn", "image_size": 8, "n_features": 8}
OPTIONS = ["--backbone", json.dumps(SMALL), "--bits", "8", "--jobs", "1", "--epochs", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classes, told apart by their colour."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("images")
    for number, name in enumerate(["blue", "red"]):
        (folder / name).mkdir()
        for image in range(PER_CLASS):
            pixels = rng.integers(0, 150, (8, 8, 3), dtype=np.uint8)
            pixels[..., 2 - 2 * number] += 80
            (folder / name / f"{image}.png").write_bytes(encoded(pixels))
    return folder


def test_the_split_is_the_papers(folder):
    train, query, database = folder_parts(str(folder), seed=3)
    assert [np.bincount(y).tolist() for _, y in (train, query)] == [[500, 500], [100, 100]]
    assert set(train[0]) <= set(database[0])
    assert not set(query[0]) & set(database[0])
    assert len(set(query[0]) | set(database[0])) == 2 * PER_CLASS
    for paths, y in (train, query, database):
        assert [("blue", "red")[label] for label in y] == [path.split("/")[-2] for path in paths]


@pytest.mark.slow
def test_a_row_is_fit_encode_and_score(folder, tmp_path, capsys):
    kept = tmp_path / "table"
    assert main([str(folder), *OPTIONS, "--keep", str(kept)]) == 0
    shown = capsys.readouterr().out
    row = RunStore(kept).runs()[0].measured
    train, query, database = folder_parts(str(folder), seed=0)
    settings = {**GSDHPStar.authors, "n_epochs": 2}
    hasher = GSDHPStar(8, backbone=SMALL, random_state=0, n_jobs=1, **settings).fit(*train)
    outputs = [np.tanh(hasher.decision_function(paths)) for paths, _ in (query, database)]
    problem = [codes.pack(values >= 0) for values in outputs] + [query[1], database[1]]
    assert row["ranked"] == pytest.approx(metrics.mean_average_precision(*problem, at=5000))
    assert row["near"] == pytest.approx(metrics.map_within_radius(*problem).map)
    released = metrics.map_within_radius(*problem, form="official", projections=tuple(outputs)).map
    assert row["released"] == pytest.approx(released)
    assert f"| gsdhp-star | 8 | {row['ranked']:.3f} | {row['near']:.3f} | {row['released']:.3f} |" in shown
    assert not list(kept.glob("*.checkpoint"))


@pytest.mark.slow
def test_stopped_it_goes_on_and_a_finished_row_is_read(folder, tmp_path, capsys):
    kept = tmp_path / "table"
    command = [str(folder), *OPTIONS, "--keep", str(kept)]

    def stop(phase, done, total):
        if phase == "training" and done == total // 2 + 1:
            os.kill(os.getpid(), signal.SIGINT)

    with listening(stop):
        assert main(command) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert not list(kept.glob("*.json"))
    first_steps = []
    with listening(lambda phase, done, total: first_steps.append(done) if phase == "training" else None):
        assert main(command) == 0
    assert first_steps[0] == 9  # the eight batches of the first epoch are not made again
    (resumed,) = RunStore(kept).runs()
    assert "| – |" in capsys.readouterr().out
    heard = []
    with listening(lambda phase, done, total: heard.append(phase)):
        assert main(command) == 0
    assert heard == []
    assert main([str(folder), *OPTIONS, "--keep", str(tmp_path / "whole")]) == 0
    (whole,) = RunStore(tmp_path / "whole").runs()
    assert resumed.measured == whole.measured
    assert (resumed.seconds, list(whole.seconds)) == ({}, ["fit"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--weights", "no.pth"], "no.pth"),
        (["--backbone", '"small_cn"'], "The backbone must be one of"),
    ],
)
def test_mistakes_are_one_sentence(arguments, sentence, folder, capsys):
    assert main([str(folder), *arguments]) == 1
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def test_a_class_with_too_few_images_is_refused(tmp_path, capsys):
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "a.png").write_bytes(encoded(np.zeros((8, 8, 3), np.uint8)))
    assert main([str(tmp_path), *OPTIONS]) == 1
    assert "needs 100 rows per class" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give either --weights"),
        (["--weights", "a.pth", "--backbone", '"small_cnn"'], "give either --weights"),
        (["--weights", "a.pth", "--methods", "gsdh"], "invalid choice: 'gsdh'"),
    ],
)
def test_bad_use(arguments, sentence, folder, capsys):
    with pytest.raises(SystemExit):
        main([str(folder), *arguments])
    assert sentence in capsys.readouterr().err
