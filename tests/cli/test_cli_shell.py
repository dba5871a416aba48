"""What holds for all commands: help, version, streams, pipes and terminals."""

import io
import json
import os
import pty
import subprocess
import sys

import pytest
from real_command import COMMAND, ENVIRONMENT

import hashlearn
from hashlearn.cli import GROUPS, load_command, main
from hashlearn.cli.methods import ADVICE
from hashlearn.methods import find_method, method_names


def test_version_and_bare_call(run, call):
    assert run("--version").stdout == f"hashlearn {hashlearn.__version__}\n"
    code, out, _ = call()
    assert code == 0
    for name in GROUPS:
        assert f" {name} " in out


@pytest.mark.parametrize("argument", ["--version", "--help", "fitt"])
def test_what_no_command_is_needed_for_imports_no_numpy(argument):
    script = (
        f"import sys\nfrom hashlearn.cli import main\nmain([{argument!r}])\n"
        "print(sorted({'numpy', 'scipy', 'sklearn', 'faiss', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_takes_less_than_four_tenths_of_a_second(run):
    """Processor time, because other processes take their share of the clock."""
    used = []
    for _ in range(3):
        before = os.times()
        assert run("--version").returncode == 0
        after = os.times()
        used.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(used) < 0.4


@pytest.mark.parametrize("group", GROUPS)
def test_every_command_has_an_example_of_itself(group):
    command = load_command(group)
    commands = {group: command} | {f"{group} {name}": one for name, one in getattr(command, "commands", {}).items()}
    assert [name for name, one in commands.items() if f"hashlearn {name}" not in (one.epilog or "")] == []


@pytest.mark.parametrize("name", GROUPS)
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    assert load_command(name).help.split("\n\n")[0] == GROUPS[name]


def test_a_mistyped_command_names_the_right_one(call):
    assert "Did you mean 'evaluate'?" in call("evalute")[2]


@pytest.mark.parametrize("name", GROUPS)
def test_help_has_an_example(name, call):
    code, out, err = call(name, "--help")
    assert (code, err) == (0, "")
    assert "Example" in out
    assert f" hashlearn {name}" in out.split("Example")[1]


def test_unknown_command(call):
    code, out, err = call("fitt")
    assert (code, out) == (2, "")
    assert err.startswith("hashlearn: No such command 'fitt'.")


def test_methods(call):
    code, out, err = call("methods", "--json")
    assert (code, err) == (0, "")
    listed = json.loads(out)["methods"]
    assert [method["name"] for method in listed] == method_names()
    for method in listed:
        cls = find_method(method["name"])
        assert (method["title"], method["paper"]) == (cls.info.title, cls.info.reference)
        assert (method["supervision"], method["verified"]) == (cls.info.supervision_text, cls.info.verified)


@pytest.mark.parametrize("width", [80, 200])
def test_methods_fit_the_terminal(width, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = call("methods")
    lines = out.splitlines()
    assert max(map(len, lines)) <= width
    # One line per method, after the advice; every method that the advice names exists.
    heading = next(number for number, line in enumerate(lines) if line.startswith("name "))
    assert " passes " in lines[heading]
    names = [line.split()[0] for line in lines[heading + 2 :] if line and not line.startswith("hashlearn")]
    assert names == method_names()
    assert set(ADVICE.values()) <= set(names)
    # The column that a refusal of fit --stream points to.
    assert " in memory " in next(line for line in lines if line.startswith("ksh "))


def test_one_method_is_told_about(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = call("methods", "lsh")
    assert "Similarity Estimation Techniques" in out
    assert "hashlearn fit X.npy --method lsh" in out
    assert max(map(len, out.splitlines())) <= 80
    _, out, _ = call("methods", "gsdhp", "--json")
    told = json.loads(out)
    assert told["title"] == "GSDH_P"
    assert {"name": "n_bits", "default": 64, "meaning": "Length of a code."} in told["parameters"]
    status, _, err = call("methods", "gdshp")
    assert status == 2
    assert err == "hashlearn: There is no method 'gdshp': did you mean 'gsdhp'?\n"


def test_a_pipe_that_closes_at_the_last_flush_is_quiet(monkeypatch, capfd):
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Gone())
    assert main(["methods", "--json"]) == 1
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_closed_pipe_is_quiet():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, "methods"], stdout=writer, stderr=subprocess.PIPE, env=ENVIRONMENT)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 1


@pytest.mark.slow
def test_progress_goes_to_a_terminal_on_standard_error(model, folder):
    terminal, other_end = pty.openpty()
    command = [*COMMAND, "encode", "model.hl", "X.npy", "-o", "c.npy", "--json"]
    environment = {**ENVIRONMENT, "TERM": "xterm"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=other_end)
    os.close(other_end)
    shown = os.read(terminal, 100_000).decode()
    os.close(terminal)
    assert "encoding X.npy" in shown
    assert json.loads(done.stdout)["rows"] == 240


def test_an_unexpected_error_is_one_line_too(call, folder, monkeypatch):
    def broken(name):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("hashlearn.files.read_features", broken)
    code, out, err = call("fit", "X.npy", "-y", "y.npy", "-o", "m.hl")
    assert (code, out) == (1, "")
    assert err == "hashlearn: ZeroDivisionError: division by zero. Add --debug for the traceback.\n"
