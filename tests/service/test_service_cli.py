"""``hashlearn serve`` and ``hashlearn demo --serve`` as commands."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from service_box import ROWS, TOKEN, command, make_shop

from hashlearn import Collection, cli
from hashlearn.data import Dataset, digits
from hashlearn.service.demo_collections import PICTURES, DemoData, make_demo, pixel_demo
from hashlearn.service.served_collection import open_collection


@pytest.fixture(autouse=True)
def _no_token(monkeypatch):
    monkeypatch.delenv("HASHLEARN_TOKEN", raising=False)


def said(capsys) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--host", "0.0.0.0"], "needs a token"),
        (["--images", "other=x"], "no collection here"),
        (["--bench", "nowhere"], "no report.html"),
        (["--image-features", "gist"], "gist:32"),
        (["--token-file", "nowhere"], "nowhere"),
        (["--create-in", "made", "--read-only"], "has no use beside it"),
    ],
)
def test_what_cannot_be_served(tmp_path, capsys, more, says):
    path = make_shop(tmp_path)
    assert cli.main(["serve", str(path), "--port", "0", *more]) in (1, 2)
    assert says in said(capsys)


def test_missing_and_twice(tmp_path, capsys):
    path = str(make_shop(tmp_path))
    assert cli.main(["serve", str(tmp_path / "none"), "--port", "0"]) == 1
    assert "There is no collection" in said(capsys)
    assert cli.main(["serve", path, path, "--port", "0"]) in (1, 2)
    assert "Two collections are called 'shop'" in said(capsys)


def test_the_token_is_no_option(capsys):
    assert cli.main(["serve", "x", "--token", "secret-secret-secret"]) == 2
    assert "--token" in said(capsys)


def test_without_the_extra_a_sentence_says_which(tmp_path, capsys, monkeypatch):
    path = make_shop(tmp_path)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for arguments in (["serve", str(path)], ["demo", "--serve"]):
        assert cli.main(arguments) == 2
        assert ".[serve]" in said(capsys)


@pytest.mark.slow
def test_the_command_line_alone_does_not_load_the_service():
    code = "import sys, hashlearn.cli; print([name for name in ('fastapi', 'uvicorn', 'PIL') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.slow
def test_serving_two_under_names_until_ctrl_c(tmp_path):
    a, b = make_shop(tmp_path), make_shop(tmp_path, name="other", vectors=False)
    (tmp_path / "token").write_text(TOKEN)
    more = ["--token-file", str(tmp_path / "token"), "--label-field", "colour"]
    with command("serve", f"one={a}", f"two={b}", *more) as (server, url):
        facts = httpx.get(f"{url}/api/v1/collections", timeout=60).json()["collections"]
        told = [(one["name"], one["rows"], one["has_vectors"]) for one in facts]
        assert told == [("one", ROWS, True), ("two", ROWS, False)]
        assert {one["label_field"] for one in facts} == {"colour"}
        assert all(one["can"]["write"] for one in facts)
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


def few_digits(n_train: int) -> Dataset:
    whole = digits()
    return replace(whole, train_X=whole.train_X[:n_train], train_y=whole.train_y[:n_train])


@pytest.mark.slow
def test_the_demo_is_made_once_and_shown(tmp_path):
    dataset = few_digits(600)
    calls = []

    def compute(folder: Path) -> DemoData:
        calls.append(folder)
        return pixel_demo(dataset, 16, 0, folder)

    folder = tmp_path / "demo"
    made = make_demo(folder, {"bits": 16}, compute)
    assert [path.name for path in made] == ["auto", "lsh"]
    assert make_demo(folder, {"bits": 16}, compute) == made
    assert len(calls) == 1
    with pytest.raises(ValueError, match="other settings"):
        make_demo(folder, {"bits": 32}, compute)
    pictures = [option for path in made for option in ("--images", f"{path.name}={folder / PICTURES}")]
    with command("serve", *map(str, made), *pictures) as (_, url):
        api = f"{url}/api/v1/collections/auto"
        item = httpx.get(f"{api}/items/700", timeout=60).json()
        assert item["payload"] == {"label": str(dataset.query_y[100]), "part": "test"}
        picture = httpx.get(f"{url}{item['image']}", timeout=60).content
        pixels = np.asarray(Image.open(io.BytesIO(picture)))
        np.testing.assert_array_equal(pixels, (dataset.query_X[100].reshape(8, 8) * 255).round())
        # An upload of the same picture gets the same code.
        headers = {"Content-Type": "image/png"}
        found = httpx.post(f"{api}/search/image?k=1", content=picture, headers=headers, timeout=60).json()
        assert found["results"][0]["query"]["code"] == item["code"]
        shares = []
        for name in ("auto", "lsh"):
            body = {"ids": list(range(600, 800)), "k": 10}
            answer = httpx.post(f"{url}/api/v1/collections/{name}/search", json=body, timeout=60).json()
            agree = [
                hit["payload"]["label"] == result["query"]["payload"]["label"]
                for result in answer["results"]
                for hit in result["hits"]
            ]
            shares.append(sum(agree) / len(agree))
        assert shares[0] > shares[1] + 0.1  # what learning is for


def test_a_demo_that_was_stopped_begins_anew(tmp_path):
    def stopped(folder: Path) -> DemoData:
        with Collection.create(folder / "auto", n_bits=8) as half:
            half.add(codes=np.zeros((100, 1), dtype=np.uint8))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_demo(tmp_path, {}, stopped)
    few = few_digits(200)
    made = make_demo(tmp_path, {}, lambda folder: pixel_demo(few, 8, 0, folder))
    with open_collection(str(made[0])).collection as whole:
        assert len(whole) == 200 + len(few.query_X)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").touch()
    with pytest.raises(ValueError, match="other files"):
        make_demo(tmp_path / "else", {}, stopped)


@pytest.mark.slow
def test_the_demo_with_pictures_of_ones_own(tmp_path, monkeypatch):
    """Stripes against dots, as a zip of train/<class> and test/<class>, through the whole command."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as archive:
        for part, count in (("train", 40), ("test", 8)):
            for number in range(count):
                for kind in ("dots", "stripes"):
                    pixels = rng.integers(0, 60, (32, 32, 3), dtype=np.uint8)
                    shift = int(rng.integers(4))
                    pixels[shift :: 8 if kind == "dots" else 4, :: 8 if kind == "dots" else 1] += 150
                    stream = io.BytesIO()
                    Image.fromarray(pixels).save(stream, "PNG")
                    archive.writestr(f"{part}/{kind}/{number}.png", stream.getvalue())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "demo"
    more = ["--images", str(tmp_path / "pictures.zip"), "--bits", "16", "--folder", str(folder)]
    with command("demo", "--serve", *more) as (server, url):
        facts = httpx.get(f"{url}/api/v1/collections", timeout=60).json()["collections"]
        assert [(one["name"], one["rows"], one["can"]["image"]) for one in facts] == [
            ("auto", 96, True),
            ("lsh", 96, True),
        ]
        api = f"{url}/api/v1/collections/auto"
        item = httpx.get(f"{api}/items/95", timeout=60).json()
        assert item["payload"] == {"label": "stripes", "part": "test", "image": "test/stripes/7.png"}
        picture = httpx.get(url + item["image"], timeout=60)
        headers = {"Content-Type": "image/png"}
        answer = httpx.post(f"{api}/search/image?k=10", content=picture.content, headers=headers, timeout=60).json()
        result = answer["results"][0]
        assert result["query"]["code"] == item["code"]
        assert {hit["payload"]["label"] for hit in result["hits"]} == {"stripes"}
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert (folder / "demo.json").exists()


def test_options_that_do_not_go_together(capsys):
    assert cli.main(["demo", "--open"]) == 2
    assert "--serve" in said(capsys)
    assert cli.main(["demo", "--serve", "--json"]) == 2
    assert "--serve" in said(capsys)
    assert cli.main(["demo", "--serve", "--images", "nowhere.zip"]) == 2
    assert "nowhere.zip" in said(capsys)
