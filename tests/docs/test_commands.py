"""Commands on pages exist with their options, and those of the page about the command line print what it shows."""

import json
import re
import shlex

import numpy as np
import pytest
import typer
from test_pages import PAGES, ROOT

from hashlearn import data
from hashlearn.cli import GROUPS, load_command, main

PAGE = ROOT / "docs" / "command-line.md"
COMMON = {"--debug", "--version", "--help", "-h"}


def commands(page):
    """Every command of a page, in blocks and in lines of text, as words."""
    text = re.sub(r"\\\n\s*", " ", page.read_text())
    blocks = re.findall(r"```(?:sh|console|text)?\n(.*?)```", text, flags=re.DOTALL)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    shown = re.findall(r"^(?:\$ )?(hashlearn .*)$", "\n".join(blocks), flags=re.MULTILINE)
    shown += re.findall(r"^ {4}(hashlearn .*)$", prose, flags=re.MULTILINE)
    shown += re.findall(r"`(hashlearn [^`\\]+)`", prose.replace("\n", " "))
    for command in shown:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words = list(lexer)
        ends = [place for place, word in enumerate(words) if word in {"|", "&&", ";", ">"}]
        yield words[1 : min(ends, default=None)]


def options_of(command):
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_exist(page):
    for words in commands(page):
        name, *rest = words
        if name in COMMON | {"COMMAND"}:
            continue
        assert name in GROUPS, words
        command = load_command(name)
        if isinstance(command, typer.core.TyperGroup) and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands or not rest[0].isalpha(), words
            command = command.commands.get(rest[0], command)
        used = {re.split("=", word)[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert used - COMMON <= options_of(command), words


def test_the_pages_have_commands():
    assert sum(len(list(commands(page))) for page in PAGES) > 100


def sessions():
    """The commands of the page about the command line and what they print."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE):
            yield shlex.split(command), output


def without_numbers(text):
    return re.sub(r"[\d.,–]+", "#", re.sub(r"\s+", " ", text)).strip()


def scores(text):
    """Numbers of four digits after the point: seconds have fewer."""
    return [float(number) for number in re.findall(r"\b[01]\.\d{4}\b", text)]


@pytest.mark.slow
def test_the_page_shows_what_commands_print(tmp_path, monkeypatch, capsys):
    """All but the demo, which chooses by validation and may choose otherwise on another machine."""
    monkeypatch.chdir(tmp_path)
    digits = data.digits()
    for name, values in {"X": digits.train_X, "y": digits.train_y, "Xq": digits.query_X, "yq": digits.query_y}.items():
        np.save(f"{name}.npy", values)
    for words, output in sessions():
        if words[0] == "cat":
            assert set(json.loads(output)) == set(json.loads((tmp_path / words[1]).read_text()))
        elif words[1] != "demo":
            code = main(words[1:])
            printed = capsys.readouterr()
            found = printed.err if code else printed.out
            assert not output or without_numbers(found) == without_numbers(output)
            np.testing.assert_allclose(scores(found) if output else [], scores(output), atol=0.01)
