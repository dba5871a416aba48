"""Reports: every number is in every form, and the page needs nothing but itself."""

import csv
import json
import re
import sys
import tomllib
from dataclasses import replace
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path

import pytest

import hashlearn
from hashlearn import data, metrics
from hashlearn.bench import BenchPlan, RunStore, Variant, run_plan
from hashlearn.bench.paper import tables as paper
from hashlearn.bench.paper.report import make_paper_report
from hashlearn.bench.plots import LinePlot, svg
from hashlearn.bench.report import TEMPLATE, Section, folder_sections, page, write_report

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

EMPTY = {"meta", "br", "img", "link", "hr", "input"}
SMALL = {"n_landmarks": 60, "n_anchors": 100, "solver__max_iter": 3, "solver__n_starts": 1}


class Page(HTMLParser):
    """The text of a page, its tags, and whether they close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def check_page(path):
    text = path.read_text()
    page = Page(text)
    assert not page.open
    assert "script" not in page.tags
    for tag, name, value in page.attributes:
        if name in ("src", "href", "xlink:href"):
            assert value.startswith(("#", "data:")), (tag, name, value)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    return page, " ".join(page.text)


@pytest.mark.slow
def test_a_report_of_a_folder(call, results):
    code, out, _ = call("bench", "report", results, "-o", "report", "--title", "Digits <here>")
    assert code == 0
    md, csv_path, json_path, html = (results.parent / line for line in out.split())
    rows = json.loads(json_path.read_text())["sections"][0]["rows"]
    assert len(rows) == 6
    page, text = check_page(html)
    assert "Digits <here>" in text
    assert page.tags.count("svg") == 3
    for row in rows:
        for database in ("learned", "hashed"):
            shown = f"{row[database]:.4f} ± {row[database + '_deviation']:.4f}"
            assert shown in text
            assert shown in md.read_text()
    with csv_path.open() as stream:
        assert [float(row["hashed"]) for row in csv.DictReader(stream)] == [row["hashed"] for row in rows]


@pytest.mark.slow
def test_a_report_in_the_folder_of_the_runs_leaves_them_readable(call, results):
    (results / "notes.json").write_text("{}")
    before = call("bench", "table", results, "--json")[1]
    assert call("bench", "report", results, "-o", results)[0] == 0
    assert (results / "report.json").is_file()
    for command in ("table", "score"):
        assert call("bench", command, results, "--json")[0] == 0
    assert call("bench", "table", results, "--json")[1] == before
    assert call("bench", "compare", results, results)[0] == 0
    assert call("bench", "report", results, "-o", results)[0] == 0


def test_a_report_says_what_failed(call, tmp_path, broken):
    plan = BenchPlan("digits", "holdout", (Variant("broken", "broken"),), bits=(8,))
    run_plan(plan, tmp_path / "results")
    store = RunStore(tmp_path / "results")
    paths = write_report(tmp_path / "report", "Failed", folder_sections(store, metrics.Rules()), store.runs())
    assert "the moon is in the wrong house" in check_page(paths[3])[1]


@pytest.mark.parametrize(("package", "what"), [("matplotlib", "Plots"), ("jinja2", "Report pages")])
def test_without_the_extra_it_is_one_sentence(call, results, monkeypatch, package, what):
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = call("bench", "report", results)
    assert code == 1
    assert err == f"hashlearn: {what} need {package}: pip install '.[bench]'.\n"


def test_everything_on_the_page_is_escaped(tmp_path):
    """Names of methods, errors and titles come from users; none of them becomes a tag, or Jinja code."""
    sly = "<script>alert('x')</script> & \"{{ 7 * 7 }}\""
    plot = LinePlot(sly, sly, sly, {sly: ([1, 2], [3, 4])})
    section = Section(sly, notes=[sly], columns=["method", sly], rows=[["lsh", sly]], plots=[plot])
    (tmp_path / "report.html").write_text(page(sly, [section, Section("second")], [sly]))
    found, text = check_page(tmp_path / "report.html")
    assert "script" not in found.tags
    # Title of the page and of its tab, heading and link of the section, note, column, cell, machine; plots break lines.
    assert text.count(sly) >= 8
    assert "49" not in text


def test_the_template_is_part_of_the_package():
    settings = tomllib.loads((Path(hashlearn.__file__).parents[2] / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["hashlearn"]
    assert any(fnmatch(f"bench/{TEMPLATE}", pattern) for pattern in patterns)


def small_item(drawn, variants, bits=(8, 64), numbers=None):
    part = paper.PaperPart("holdout", "digits", tuple(variants), bits, "map", numbers or {})
    return paper.PaperItem("figure 1", "small", metrics.Rules.paper(), (part,), drawn)


def test_the_papers_numbers_stand_beside_ours(tmp_path):
    numbers = {"itq": ((0.1234, 0.2345, 0.3456, 0.4567), 77)}
    variants = [Variant("itq", "itq", {"max_iter": 5}), Variant("itq, defaults", "itq"), Variant("lsh", "lsh")]
    item = replace(small_item((), variants, (8, 16), numbers), name="table 1")
    made = make_paper_report([item], tmp_path)
    _, text = check_page(made.paths[3])
    records = json.loads(made.paths[2].read_text())["sections"][0]["rows"]
    row = next(one for one in records if (one["method"], one["bits"], one["database"]) == ("itq", 8, "learned"))
    assert row["paper"] == 0.1234
    assert row["ours"] != row["defaults"]
    assert f"{row['ours']:.4f} / {row['defaults']:.4f} / 0.1234" in text
    assert "0.3456" not in text
    plain = next(one for one in records if (one["method"], one["bits"], one["database"]) == ("lsh", 8, "hashed"))
    assert plain["defaults"] is None
    assert f"| {plain['ours']:.4f} |" in made.paths[0].read_text()


@pytest.mark.slow
def test_every_kind_of_figure_is_drawn(tmp_path):
    settings = [
        SMALL | {"solver__batch_size": batch, "solver__beta": beta, "solver__max_iter": rounds}
        for batch in (10, 50)
        for beta, rounds in ((0.0, 2), (1.0, 3))
    ]
    variants = [Variant(f"gsdhp {n}", "gsdhp", values) for n, values in enumerate(settings)]
    drawn = ("heat", "rounds", "positions", "curve", "acg", "radius_precision", "radius_recall")
    made = make_paper_report([small_item(drawn, variants)], tmp_path)
    page, text = check_page(made.paths[3])
    assert page.tags.count("svg") == len(drawn)
    assert "batch size" in text
    made = make_paper_report([small_item(("convergence",), variants)], tmp_path)
    assert check_page(made.paths[3])[0].tags.count("svg") == 2
    assert not made.failed


def test_what_the_data_does_not_allow_is_said(call, tmp_path):
    code, _, err = call("bench", "paper", "--data-dir", tmp_path / "none", "-o", "report")
    assert code == 0
    _, text = check_page(tmp_path / "report" / "report.html")
    assert "Table 1, cifar10-1k is left out: the data of CIFAR-10 GIST is not here" in " ".join(text.split())
    assert "Table 3" in text
    assert "0.8480" in text
    assert err.count(" is left out: ") == 20


@pytest.mark.parametrize(("limit", "seeds"), [(0.0, {0}), (1e9, {0, 1, 2})])
def test_slow_methods_have_one_seed(tmp_path, limit, seeds):
    item = small_item((), (Variant("lsh", "lsh"),))
    make_paper_report([item], tmp_path, seeds=3, further_below=limit)
    assert {run.definition.seed for run in RunStore(tmp_path / "runs").runs()} == seeds


@pytest.mark.parametrize("arguments", [["--table", "7"], ["--figure", "1", "6"]])
def test_what_the_paper_does_not_have(call, arguments):
    code, _, err = call("bench", "paper", *arguments, "-o", "report")
    assert code == 2
    assert err.count("\n") == 1


def test_a_stand_in_is_named(tmp_path):
    part = paper.items()["table 6"].parts[0]
    (tmp_path / "coco18_efflite0.npz").touch()
    assert paper.data_for(part, str(tmp_path)) == ("coco18", "COCO-18 (stand-in for COCO)")


def test_definitions_of_the_paper_can_be_run():
    known = paper.items()
    assert list(known) == [*(f"table {n}" for n in range(1, 7)), *(f"figure {n}" for n in range(1, 6))]
    for item in known.values():
        assert item.parts or item.left_out
        for part in item.parts:
            plan = paper.part_plan(part, part.data, 2)
            assert plan.size == len(part.variants + part.others) * len(part.bits) * 2
            assert set(part.paper) <= {variant.label for variant in part.variants}
            assert all(len(values) == 4 for values, _ in part.paper.values())
    part = known["table 1"].parts[0]
    assert paper.part_plan(part, part.data, 1, ["gsdhp"], [8, 9]).size == 2  # and at our defaults
    assert paper.part_plan(part, part.data, 1, ["nothing"]) is None


def test_others_are_methods_without_a_row_in_the_paper():
    classes, many, new = paper.items()["table 1"].parts
    assert (new.protocol, new.paper) == ("new", {})
    names = {variant.label for variant in classes.others}
    assert {"itq", "fasth", "ksh-large"} <= names
    assert not names & set(classes.paper)
    assert paper.part_plan(classes, classes.data, 1, ["itq"], [8]).size == 1
    assert "fasth" not in {variant.label for variant in many.others}  # minutes on 10,000 rows
    sets = {variant.label for variant in paper.items()["table 6"].parts[0].others}
    assert "itq" in sets
    assert not sets & {"adgh", "fsdh", "class-code"}  # one class per row


@pytest.mark.slow
def test_a_table_has_remarks_and_the_floats_beside_it(tmp_path):
    item = small_item((), [Variant("lsh", "lsh")], (8,))
    made = make_paper_report([replace(item, name="table 1")], tmp_path)
    text = made.paths[0].read_text()
    assert "| unsupervised, untrained |" in text
    pool = data.load("digits")
    rows = data.protocols.protocol("holdout").split(pool).dataset(pool)
    floats = rows.query_X, rows.database_X, rows.query_y, rows.database_y
    cosine = metrics.evaluate_floats(*floats, at=500, ties="stable").map
    assert f"Cosine on the features themselves, as floats: {cosine:.4f}." in text
    again = make_paper_report([replace(item, name="table 1")], tmp_path)  # from the kept score
    assert again.paths[0].read_text() == text


@pytest.mark.slow
def test_a_report_on_what_is_kept_runs_nothing(tmp_path):
    item = small_item((), [Variant("lsh", "lsh")], (8,))
    made = make_paper_report([item], tmp_path)
    more = small_item((), [Variant("lsh", "lsh"), Variant("itq", "itq")], (8, 16))
    again = make_paper_report([more], tmp_path, kept=True)
    assert again.paths[0].read_text() == made.paths[0].read_text()
    empty = make_paper_report([more], tmp_path / "empty", kept=True)
    assert empty.left_out == ["Figure 1, holdout is left out: no run of it is kept."]


@pytest.mark.slow
def test_figures_of_many_settings_are_grids_in_markdown(tmp_path):
    settings = [
        SMALL | {"solver__batch_size": batch, "solver__beta": beta} for batch in (10, 50) for beta in (0.0, 1.0)
    ]
    variants = [Variant(f"gsdhp {n}", "gsdhp", values) for n, values in enumerate(settings)]
    made = make_paper_report([replace(small_item(("heat",), variants), tabled=False)], tmp_path)
    lines = made.paths[0].read_text().splitlines()
    start = lines.index("| batch size \\ β | 0 | 1 |")
    assert [line.split(" | ")[0] for line in lines[start + 2 : start + 4]] == ["| 10", "| 50"]
    assert not any(line.startswith("| method") for line in lines)


def test_deep_tables_have_both_forms_and_the_papers_row(tmp_path, monkeypatch):
    holdout = data.protocols.PROTOCOLS["holdout"]
    monkeypatch.setitem(data.protocols.PROTOCOLS, "small-deep", replace(holdout, name="small-deep"))
    part = paper.PaperPart("small-deep", "digits", (Variant("dch", "lsh"),), (12, 16), "map")
    measures = metrics.Rules.paper(at=5000)
    theirs = {"dch": (None, (0.1234, 0.2, 0.3, 0.4))}
    made = make_paper_report([paper.PaperItem("table 3", "small", measures, (part,), deep=theirs)], tmp_path)
    store = RunStore(tmp_path / "runs")
    run = next(run for run in store.runs() if run.definition.n_bits == 16)
    codes, labels = store.codes(run), store.labels(run)
    strict = metrics.map_within_radius(codes.query, codes.hashed, *labels).map
    assert run.measured["radius_map"] == pytest.approx(strict)
    assert run.measured["official_radius_map"] >= 0
    lines = [line for line in made.paths[0].read_text().splitlines() if line.startswith("| dch |")]
    assert [line.split(" | ")[1] for line in lines] == ["ours, strict", "ours, official", "the paper"]
    assert f" {strict:.4f} |" in lines[0]
    assert "0.1234" in lines[2]
    records = json.loads(made.paths[2].read_text())["sections"][0]["rows"]
    assert {record["bits"] for record in records} == {12, 16}


def test_names_of_lines_are_no_formulas():
    plot = LinePlot(r"$\frac$", r"$\x$", "$", {r"$\frac$": ([1, 2], [3, 4])})
    assert svg(plot).startswith("<svg")
