"""``hashlearn data list|info|prepare``."""

import json
from pkgutil import resolve_name

import pytest

from hashlearn.data import DATA_SETS, PROTOCOLS


def test_list(call, tmp_path):
    code, out, _ = call("data", "list", "--data-dir", tmp_path, "--json")
    listed = json.loads(out)
    assert code == 0
    assert listed["folder"] == str(tmp_path)
    assert [entry["name"] for entry in listed["data_sets"]] == list(DATA_SETS)
    assert [entry["name"] for entry in listed["protocols"]] == list(PROTOCOLS)
    here = {entry["name"]: entry["here"] for entry in listed["data_sets"]}
    assert here["digits"]
    assert not here["cifar10"]
    (tmp_path / "cifar-10-python.tar.gz").touch()
    here = {
        row["name"]: row["here"]
        for row in json.loads(call("data", "list", "--data-dir", ".", "--json")[1])["data_sets"]
    }
    assert here["cifar10"]
    assert here["cifar10-gist"]
    code, out, _ = call("data", "list")
    assert code == 0
    assert "cifar10-deep" in out
    assert "269,648" in out


def test_bare_is_help(call):
    code, out, err = call("data")
    assert (code, err) == (0, "")
    assert "prepare" in out


def test_info_says_what_is_known_and_what_is_not(call):
    code, out, _ = call("data", "info", "cifar10")
    assert code == 0
    assert "170,498,071 bytes, not here\n          md5:c58f30108f718f92721af3b95e74349a\n" in out
    assert "https://www.cs.toronto.edu" in out
    assert "checksum not known" in call("data", "info", "nuswide")[1]
    facts = json.loads(call("data", "info", "mnist", "--json")[1])
    assert facts["files"][0]["size"] == 9912422


def test_prepare(call, tmp_path):
    code, out, _ = call("data", "prepare", "digits", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 1797
    code, out, err = call("data", "prepare", "nuswide", "--data-dir", tmp_path)
    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert str(tmp_path / "nuswide") in err


@pytest.mark.parametrize("command", ["info", "prepare"])
def test_an_unknown_name_is_bad_use(call, command):
    code, _, err = call("data", command, "nope")
    assert code == 2
    assert "There is no data set 'nope'; there are digits" in err


def test_a_folder_of_pictures_that_does_not_exist_is_said_first(call, monkeypatch):
    """The missing folder is the mistake, whether or not PyTorch is installed."""
    monkeypatch.setattr("hashlearn.deep.extra.require_torch", lambda: pytest.fail("asked for PyTorch first"))
    code, _, err = call("data", "features", "photos", "-o", "X.npy")
    assert code == 1
    assert err == "hashlearn: There is no folder or zip photos.\n"


def test_every_data_set_of_the_catalog_has_a_reader():
    assert all(callable(resolve_name(spec.reader)) for spec in DATA_SETS.values())
