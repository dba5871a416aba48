"""Hashers in folders and on the hub, whose network is replaced by a folder."""

import inspect
import shutil
import sys

import huggingface_hub
import numpy as np
import pytest
from sklearn.datasets import load_digits

import hashlearn as hl


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


@pytest.mark.parametrize("make", [lambda: hl.OpenHasher(64, random_state=0), lambda: hl.AutoHasher(32, random_state=0)])
def test_a_folder_gives_the_hasher_back_with_a_card_of_what_was_measured(digits, tmp_path, make):
    hasher = make().fit(*digits)
    hasher.save_pretrained(tmp_path / "new" / "digits", scores={"MAP on new rows": 0.91234})
    again = type(hasher).from_pretrained(tmp_path / "new" / "digits")
    np.testing.assert_array_equal(again.encode(digits[0]), hasher.encode(digits[0]))
    card = (tmp_path / "new" / "digits" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: hashlearn\n")
    assert "| MAP on new rows | 0.9123 |" in card
    assert str(hasher.report_) in card


def test_a_hasher_of_another_class_is_refused(digits, tmp_path):
    hl.ITQ(8, random_state=0).fit(digits[0]).save_pretrained(tmp_path)
    with pytest.raises(TypeError, match=r"another class: write ITQ\.from_pretrained"):
        hl.OpenHasher.from_pretrained(tmp_path)


def test_the_hub_gets_the_folder_and_gives_it_back(digits, tmp_path, monkeypatch):
    real = {name: inspect.signature(getattr(huggingface_hub.HfApi, name)) for name in ("create_repo", "upload_folder")}
    download = inspect.signature(huggingface_hub.hf_hub_download)

    class Api:
        def __init__(self, token):
            assert token == "secret"

        def create_repo(self, *given, **named):
            asked = real["create_repo"].bind(self, *given, **named).arguments
            assert (asked["private"], asked["exist_ok"]) == (True, True)
            return huggingface_hub.RepoUrl(f"https://huggingface.co/{asked['repo_id']}")

        def upload_folder(self, **named):
            asked = real["upload_folder"].bind(self, **named).arguments
            shutil.copytree(asked["folder_path"], tmp_path / asked["repo_id"])

    def downloaded(*given, **named):
        asked = download.bind(*given, **named).arguments
        assert (asked["revision"], asked["token"]) == ("v1", "secret")
        return str(tmp_path / asked["repo_id"] / asked["filename"])

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", downloaded)
    hasher = hl.ITQ(8, random_state=0).fit(digits[0])
    assert hasher.push_to_hub("me/digits", private=True, token="secret") == "https://huggingface.co/me/digits"
    assert sorted(path.name for path in (tmp_path / "me" / "digits").iterdir()) == ["README.md", "hasher.hl"]
    again = hl.ITQ.from_pretrained("me/digits", revision="v1", token="secret")
    np.testing.assert_array_equal(again.encode(digits[0]), hasher.encode(digits[0]))


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[hub\]'"):
        hl.ITQ.from_pretrained("me/digits")
