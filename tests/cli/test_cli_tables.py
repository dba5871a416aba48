"""Tables at 80 columns and in a pipe: no line is wider than 80 characters, and no word is cut."""

import re
import shlex

import numpy as np
import pytest

from hashlearn import methods as hashers
from hashlearn.bench import run_plan
from hashlearn.bench.plan import make_plan
from hashlearn.cli.methods import ADVICE
from hashlearn.data.catalog import DATA_SETS
from hashlearn.data.protocols import PROTOCOLS


@pytest.fixture
def made(folder, call, model):
    """A collection with everything that ``index info`` tells, and codes to evaluate."""
    create = "index create shop --model model.hl --vectors --index color --index year --ids text --kind ivf"
    assert call(*shlex.split(f"{create} --set n_probes=3"))[0] == 0
    for name in ("X", "Xq"):
        assert call("encode", "model.hl", f"{name}.npy", "-o", f"{name}-codes.npy")[0] == 0


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "results"
    run_plan(make_plan("new", ["class-code", "lsh"], [16], 2, "gaussian"), folder)
    return folder


def words(text):
    return set(re.findall(r"[^\s─]+", text))


def check(call, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "1000")
    code, wide, err = call(*shlex.split(command))
    assert code == 0, err
    for columns in ("80", None):
        monkeypatch.setenv("COLUMNS", columns) if columns else monkeypatch.delenv("COLUMNS")
        out = call(*shlex.split(command))[1]
        assert max(map(len, out.splitlines())) <= 80, out
        assert words(out) == words(wide)
        assert not re.search(r" $", out, re.MULTILINE)
    return wide


def test_data_list(call, monkeypatch):
    told = check(call, monkeypatch, "data list")
    assert {*DATA_SETS, *PROTOCOLS} <= words(told)
    assert told.startswith("Here already: digits")


@pytest.mark.parametrize("name", ["cifar10", "coco18", "clinc150"])
def test_data_info(call, monkeypatch, name):
    check(call, monkeypatch, f"data info {name} --data-dir data")


def test_methods(call, monkeypatch):
    told = check(call, monkeypatch, "methods")
    assert set(hashers.method_names()) <= words(told)
    assert told.splitlines()[1].split()[0] == next(iter(ADVICE.values()))  # recommendations come first


@pytest.mark.parametrize("name", ["auto", "gsdhp", "gsdhp-star"])
def test_one_method(call, monkeypatch, name):
    check(call, monkeypatch, f"methods {name}")


@pytest.mark.parametrize("command", ["index info shop", "evaluate --queries Xq-codes.npy --database X-codes.npy"])
def test_facts(call, monkeypatch, made, command):
    labels = " --query-labels yq.npy --database-labels y.npy" if command.startswith("evaluate") else ""
    told = check(call, monkeypatch, command + labels)
    assert "[" not in told
    assert "{" not in told


@pytest.mark.slow
@pytest.mark.parametrize("command", ["score", "table", "compare"])
def test_bench(call, monkeypatch, results, command):
    told = check(call, monkeypatch, f"bench {command} {results}" + (f" {results}" if command == "compare" else ""))
    assert {"class-code", "lsh"} <= words(told)


def test_long_ids_and_payloads_are_whole(call, monkeypatch, folder):
    np.save(folder / "codes.npy", np.arange(2, dtype=np.uint8)[:, None])
    (folder / "t.csv").write_text("sku,about\nsku-0000000000000000000000000001,a red shoe\nsku-2,a blue hat\n")
    assert call("index", "create", "shop", "--bits", 8, "--ids", "text")[0] == 0
    assert call("index", "add", "shop", "--codes", "codes.npy", "--ids", "t.csv:sku", "--payload", "t.csv")[0] == 0
    monkeypatch.setenv("COLUMNS", "80")
    out = call("search", "shop", "codes.npy", "--codes", "--payload")[1]
    assert max(map(len, out.splitlines())) <= 80
    assert "sku-0000000000000000000000000001" in out
