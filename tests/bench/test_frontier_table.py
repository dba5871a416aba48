"""The chapter of docs/results.md that is made from folders of frontiers."""

import importlib
from pathlib import Path

import pytest

from hashlearn.bench.frontier import write_frontier
from hashlearn.bench.frontier.measure import FrontierPoint

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("frontier_table")


def point(label, n_bytes, seed, **scores):
    by_split = {split: {"map": value, "ndcg": value + 0.1, "recall": 0.5} for split, value in scores.items()}
    return FrontierPoint(label, label.partition(",")[0], n_bytes, seed, False, n_bytes, 0, 1.0, 1.0, 1.0, by_split)


def points(**scores):
    sized = ("auto, real-valued queries", "PQ")
    made = [point(label, size, seed, **scores) for label in sized for size in (8, 16) for seed in (0, 1)]
    return [*made, *(point("float cosine", 1536, seed, **scores) for seed in (0, 1))]


def test_tables_of_classes_and_of_label_sets(table, tmp_path, capsys):
    classes, sets = tmp_path / "clinc150-minilm", tmp_path / "coco18"
    notes = ["Data: all.", "Left out: OPQ (slow).", "3 fits were made by older code."]
    write_frontier(classes, "CLINC150 as embeddings", points(seen=0.9441, unseen=0.7), (8, 16), notes)
    write_frontier(sets, "COCO-18", points(new=0.4), (8, 16))
    table.main([str(classes), str(sets)])
    out = capsys.readouterr().out
    assert (
        "### CLINC150 as embeddings\n\nMAP of the whole ranking on seen / unseen classes, mean ± deviation over 2"
        in out
    )
    assert "| method | 8 B | 16 B |" in out
    assert "| **AutoHasher**, real-valued queries | .944 ± .000 / .700 ± .000 |" in out
    assert "| PQ | .500 ± .000 / .400 ± .000 |" in out  # NDCG@10 / MAP
    assert "At other sizes: float cosine (1,536 bytes) .944" in out
    assert "- At 8 bytes on unseen classes AutoHasher is 0.000 ahead" in out
    assert "| OPQ |" not in out  # it was not measured
    assert "Left out: OPQ (slow). 3 fits were made by older code.\n" in out
    assert "Data: all." not in out
    table.main([str(classes), "--sentences"])
    said = capsys.readouterr().out
    assert said.startswith("On CLINC150 (means over 2 seeds) 8 and 16 bytes of `AutoHasher` find rows of known classes")
    assert (
        "MAP .944 and .944, where 1,536 bytes of floats have .944 and PQ of the same sizes has .944 and .944." in said
    )


def test_writing_between_the_marks(table, tmp_path):
    folder, page = tmp_path / "clinc150-minilm", tmp_path / "results.md"
    write_frontier(folder, "CLINC150", points(seen=0.9, unseen=0.7), (8, 16))
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    for _ in range(2):  # the second time replaces what the first has written
        table.main([str(folder), "--into", str(page), "--pictures", str(tmp_path)])
        text = page.read_text()
        assert text.startswith("before\n")
        assert text.endswith("\nafter\n")
        assert "old" not in text
        assert text.count("### CLINC150") == 1
        assert "](frontier-clinc150.svg)" in text
    assert (tmp_path / "frontier-clinc150.svg").read_text().startswith("<svg")
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="has no lines <!-- frontier tables: begin"):
        table.main([str(folder), "--into", str(page)])
    with pytest.raises(SystemExit, match=r"has no report\.json: run 'hashlearn bench frontier"):
        table.main([str(tmp_path / "nothing")])


def test_the_chapter_has_the_marks(table):
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert text.count(table.BEGIN) == text.count(table.END) == 1
