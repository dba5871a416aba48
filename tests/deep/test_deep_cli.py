"""Deep methods on the command line: on feature files, and on a folder of images in one command."""

import json
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from hashlearn import files
from hashlearn.cli import main
from hashlearn.models import load

torch.set_num_threads(1)


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call_main(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call_main


def write_images(folder, per_class=8):
    """Two classes, a folder each: dark and bright noise."""
    rng = np.random.default_rng(0)
    for name, level in (("dark", 40), ("bright", 200)):
        (folder / name).mkdir(parents=True)
        for k in range(per_class):
            pixels = np.clip(rng.normal(level, 20, (20, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{k}.png")


def test_features(call, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    X = (rng.normal(size=(3, 6))[y] + 0.1 * rng.normal(size=(120, 6))).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    settings = ["--set", "n_epochs=3", "--set", "gamma=10", "--set", "checkpoint=t.hl"]
    code, out, err = call(
        "fit", "X.npy", "-y", "y.npy", "--method", "dch", "--bits", 12, "-o", "m.hl", "--json", "--jobs", 1, *settings
    )
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert (facts["method"], facts["iterations"], facts["params"]["gamma"]) == ("dch", 3, 10)
    assert (tmp_path / "t.hl").exists()
    assert call("encode", "m.hl", "X.npy", "-o", "c.npy")[0] == 0
    np.testing.assert_array_equal(files.read_codes("c.npy").codes, load("m.hl").encode(X))
    code, _, err = call("encode", "m.hl", "X.npy", "-o", "codes", "--jobs", 1)
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(files.read_codes("codes/codes-000000.npy").codes, load("m.hl").encode(X))


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_images_in_one_command(kind, call, tmp_path):
    write_images(tmp_path / "images")
    source = "images"
    if kind == "zip":
        source = "images.zip"
        with zipfile.ZipFile(tmp_path / source, "w") as archive:
            for path in sorted((tmp_path / "images").rglob("*.png")):
                archive.write(path, path.relative_to(tmp_path / "images"))
    backbone = json.dumps({"name": "small_cnn", "image_size": 16, "n_features": 16})
    code, out, err = call(
        "fit", source, "--method", "gsdhp-star", "--bits", 8, "-o", "m.hl", "--jobs", 1, "--json",
        "--set", f"backbone={backbone}", "--set", "n_epochs=8", "--set", "batch_size=4",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert (json.loads(out)["images"], json.loads(out)["labels"]) == (16, "folders")
    code, _, err = call("encode", "m.hl", source, "-o", "codes")
    assert (code, err) == (
        2,
        "hashlearn: Codes of images and texts go to one file: give -o a name that ends in .npy or .npz.\n",
    )
    code, _, err = call("encode", "m.hl", source, "-o", "c.npz", "--format", "projections")
    assert (code, err) == (0, "")
    projections = files.read_codes("c.npz").codes
    np.testing.assert_array_equal(projections, load("m.hl").decision_function(source))
    # Sorted by path: eight bright images, then eight dark ones, told apart by every bit that differs.
    bits = projections >= 0
    assert (bits[:8].mean(axis=0) > 0.5).tolist() != (bits[8:].mean(axis=0) > 0.5).tolist()


@pytest.mark.slow
def test_alexnet_in_one_command(call, tmp_path):
    """The paper's network on a tiny folder; with weights= a local file it is the exact setting."""
    write_images(tmp_path / "images", per_class=2)
    backbone = json.dumps({"name": "alexnet", "weights": None})
    code, _, err = call(
        "fit", "images", "--method", "gsdhp-star", "--bits", 8, "-o", "m.hl", "--jobs", 1,
        "--set", f"backbone={backbone}", "--set", "n_epochs=1",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert load("m.hl").codes_.shape == (4, 1)


def test_encode_stops_at_a_damaged_image_and_names_it(call, tmp_path):
    """Codes have no names: a row left out would give all codes behind it to the wrong image."""
    write_images(tmp_path / "images", per_class=2)
    backbone = json.dumps({"name": "small_cnn", "image_size": 16, "n_features": 16})
    code, _, err = call(
        "fit", "images", "--method", "dch", "--bits", 8, "-o", "m.hl", "--jobs", 1,
        "--set", f"backbone={backbone}", "--set", "n_epochs=1",
    )  # fmt: skip
    assert (code, err) == (0, "")
    damaged = sorted((tmp_path / "images").rglob("*.png"))[1]
    damaged.write_bytes(damaged.read_bytes()[:50])
    code, out, err = call("encode", "m.hl", "images", "-o", "c.npy")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert damaged.name in err
    assert not (tmp_path / "c.npy").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "backbone=small_cnn", "--labels", "y.npy"], "y.npy has 3 labels, images has 4 rows."),
        (["--set", "backbone=small_cnn", "--stream"], "Images are learned by one process"),
        (["--set", "backbone=small_cn"], "The backbone must be one of"),
    ],
)
def test_mistakes_are_one_sentence(arguments, sentence, call, tmp_path):
    write_images(tmp_path / "images", per_class=2)
    np.save(tmp_path / "y.npy", np.arange(3))
    code, out, err = call("fit", "images", "--method", "dch", "--bits", 8, "-o", "m.hl", *arguments)
    assert code in (1, 2)
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "m.hl").exists()
