"""``hashlearn serve`` and ``hashlearn demo --serve`` as commands."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from dataclasses import replace

import httpx
import numpy as np
import pytest
from PIL import Image
from service_box import ROWS, TOKEN, command, make_shop

from hashlearn import cli
from hashlearn.data import Dataset, digits
from hashlearn.service.demo_collections import PICTURES, make_demo


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
def test_the_demo_is_made_and_shown(tmp_path):
    dataset = few_digits(600)
    made = make_demo(tmp_path, dataset, 16, 0)
    assert [path.name for path in made] == ["auto", "lsh"]
    pictures = [option for path in made for option in ("--images", f"{path.name}={tmp_path / PICTURES}")]
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


def test_options_that_do_not_go_together(capsys):
    assert cli.main(["demo", "--open"]) == 2
    assert "--serve" in said(capsys)
    assert cli.main(["demo", "--serve", "--json"]) == 2
    assert "--serve" in said(capsys)
