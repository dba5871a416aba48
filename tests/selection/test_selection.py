"""The parts of a choice between hashers: sample, splits, candidates, trials, the rule and the report."""

import time

import numpy as np
import pytest
from scipy import sparse

from hashlearn.fitting.grouping import GivenGroups
from hashlearn.fitting.job import Job
from hashlearn.fitting.sources import memory_source
from hashlearn.selection import sample as sampling
from hashlearn.selection.candidates import Candidate, Part, labeled_candidates, unlabeled_candidates
from hashlearn.selection.choice import choose
from hashlearn.selection.report import SelectionReport
from hashlearn.selection.sample import LabeledRows, Sample, draw_sample
from hashlearn.selection.splits import make_splits
from hashlearn.selection.trial import Result, Trial, label_score


def labeled_rows(group):
    """Facts about rows whose classes are their groups."""
    n_groups = int(group.max()) + 1
    counts = np.bincount(group[group >= 0], minlength=n_groups)
    return LabeledRows(len(group), sparse.identity(n_groups, format="csr"), counts, GivenGroups())


def sample_of(group):
    return Sample(np.arange(len(group), dtype=np.float32)[:, None], group, labeled_rows(group))


def drawn(group, seed=0):
    X = np.arange(len(group), dtype=np.float32)[:, None]
    return draw_sample(memory_source(X, group), labeled_rows(group), seed, Job(n_jobs=1))


def test_few_rows_are_all_in_the_sample():
    group = np.array([0, 1, -1, 0, 1, -1, 0])
    found = drawn(group)
    assert found.rows.ravel().tolist() == list(range(7))
    assert found.group.tolist() == group.tolist()
    assert found.label_sets.toarray().tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1], [0, 0], [1, 0]]


def test_labeled_rows_come_before_unlabeled_ones(monkeypatch):
    monkeypatch.setattr(sampling, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(sampling, "LABELED_ROWS", 200)
    group = np.where(np.arange(5000) % 50 == 0, 0, -1)
    group[::100] = 1
    found = drawn(group)
    assert np.count_nonzero(found.group >= 0) == 100  # all there are
    assert np.count_nonzero(found.group < 0) == 200
    many = drawn(np.where(np.arange(5000) % 2 == 0, np.arange(5000) % 3, -1))
    assert (np.count_nonzero(many.group >= 0), np.count_nonzero(many.group < 0)) == (200, 100)


def test_classes_of_few_rows_are_sampled_whole(monkeypatch):
    monkeypatch.setattr(sampling, "SAMPLE_ROWS", 300)
    group = np.random.default_rng(0).permutation(np.repeat(np.arange(200), 5))
    found = drawn(group)
    assert set(np.bincount(found.group)) == {0, 5}
    assert len(found.group) == 300
    assert set(drawn(group, seed=1).group) != set(found.group)


def test_splits_leave_out_rows_and_classes():
    group = np.random.default_rng(1).integers(0, 24, 3000)
    (split,) = make_splits(sample_of(group), 0)
    known, unknown = split.searches["known"], split.searches["unknown"]
    parts = [split.fit, known.queries, known.database, unknown.queries, unknown.database]
    assert sorted(np.concatenate(parts)) == list(range(3000))
    assert not set(group[split.fit]) & {*group[unknown.queries], *group[unknown.database]}
    assert len({*group[unknown.queries], *group[unknown.database]}) == 3
    assert set(group[known.queries]) <= set(group[split.fit])
    assert 0.68 < len(split.fit) / (len(split.fit) + len(known.queries) + len(known.database)) < 0.71


def test_rare_classes_ask_as_often_as_frequent_ones():
    group = np.repeat([0, 1, 2], [900, 60, 40])
    split, _ = make_splits(sample_of(group), 0)
    asked = np.bincount(group[split.searches["known"].queries])
    assert asked.tolist() == [asked[0], 9, 6]  # half of the rows of a rare class that were left out
    assert asked[0] <= 100


def test_two_rows_of_a_class_are_one_to_fit_and_one_to_find():
    group = np.repeat(np.arange(5), 2)
    for split in make_splits(sample_of(group), 0):
        assert sorted(group[split.fit]) == [0, 1, 2, 3, 4]


def test_unlabeled_rows_are_for_fitting_only():
    group = np.where(np.arange(100) < 40, np.arange(100) % 4, -1)
    for split in make_splits(sample_of(group), 0):
        assert set(range(40, 100)) <= set(split.fit)


def test_nothing_to_find_gives_no_split():
    assert make_splits(sample_of(np.arange(30)), 0) == []


def test_candidates_divide_all_bits():
    found = labeled_candidates(16, {"A": (0.0, 0.75), "B": (0.0,)}, "S")
    assert all(sum(part.n_bits for part in one.parts) == 16 for one in found)
    assert [one.name for one in found[:4]] == ["12 A + 4 S", "16 A", "8 A + 8 S", "12 A + 4 S, spread"]
    assert found[-1].name == "16 S"
    assert len(found) == 10
    assert all(Candidate.from_json(one.to_json()) == one for one in found)
    assert [one.name for one in labeled_candidates(1, {"A": (0.0,)}, "S")] == ["1 A", "1 S"]
    assert [one.name for one in unlabeled_candidates(8, ["S", "T"])] == ["8 S", "8 T"]


def result(name, known, unknown=None):
    scores = {"known": np.full(2, known)} | ({} if unknown is None else {"unknown": np.full(2, unknown)})
    return Result(Candidate(Part(name, 8), None), scores)


@pytest.mark.parametrize(("cost", "wanted"), [(0.0, "a"), (0.01, "b"), (0.1, "c"), (1.0, "d")])
def test_unknown_classes_cost_no_more_than_allowed(cost, wanted):
    results = [result("a", 0.9, 0.5), result("b", 0.895, 0.6), result("c", 0.85, 0.7), result("d", 0.2, 0.9)]
    choice = choose(results, cost, "MAP")
    assert choice.candidate.labels.method == wanted
    assert "0.900" in choice.reason


def test_without_unknown_classes_the_best_wins_and_the_first_of_equal_ones():
    assert choose([result("a", 0.5), result("b", 0.7), result("c", 0.7)], 0.01, "MAP").candidate.labels.method == "b"


def test_what_was_not_tried_is_not_chosen():
    late = Result(Candidate(Part("z", 8), None), not_tried="no time")
    assert choose([late, result("a", 0.5)], 0.01, "MAP").candidate.labels.method == "a"
    assert "no time" in choose([late], 0.01, "MAP").reason
    assert "too few rows" in choose([Result(late.candidate, not_tried="few rows")], 0.01, "MAP").reason


class Stub:
    """Bits of the class that flip with probability ``noise``."""

    fits = 0

    def __init__(self, part, noise):
        self.part, self.noise = part, noise

    def fit(self, X, y):
        Stub.fits += 1
        return self

    def expected_bits(self, X):
        rng = np.random.default_rng(0)
        y = X.ravel().astype(int) % 4
        bits = rng.choice([-1.0, 1.0], (4, self.part.n_bits))[y]
        return np.where(rng.random(bits.shape) < self.noise, -bits, bits).astype(np.float32)


def test_a_method_that_is_behind_is_tried_at_one_length_only():
    sample = sample_of(np.arange(800) % 4)
    noise = {"good": 0.05, "bad": 0.4, "S": 0.3}
    trial = Trial(
        sample, make_splits(sample, 0)[:1], lambda part: Stub(part, noise[part.method]), label_score(sample, 1)
    )
    candidates = labeled_candidates(16, {"good": (0.0, 0.5), "bad": (0.0,)}, "S")
    Stub.fits = 0
    results = trial.run(candidates, None)
    assert [one.candidate for one in results] == candidates
    assert [one.not_tried for one in results] == [""] * 7 + ["behind"] * 2 + [""]
    assert Stub.fits == 3 + 1 + 3  # good at three lengths, bad at one, structure at three
    assert choose(results, 0.01, "MAP").candidate.labels.method == "good"


def test_after_the_deadline_nothing_is_fitted():
    sample = sample_of(np.arange(800) % 4)
    trial = Trial(sample, make_splits(sample, 0), lambda part: Stub(part, 0.1), label_score(sample, 1))
    Stub.fits = 0
    results = trial.run(labeled_candidates(16, {"good": (0.0,)}, "S"), time.monotonic() - 1)
    assert Stub.fits == 0
    assert {one.not_tried for one in results} == {"no time"}


def test_the_report_is_a_table_of_80_columns():
    widest = Candidate(Part("posterior", 512), Part("ITQ", 512), 0.75)
    results = [
        Result(widest, {"known": np.array([0.5, 0.6]), "unknown": np.array([0.4, 0.3])}, 1.25),
        Result(Candidate(None, Part("ITQ", 8)), not_tried="no time"),
    ]
    report = SelectionReport.of(results, choose(results, 0.01, "MAP"), "Scores: MAP")
    text = str(report)
    assert max(map(len, text.splitlines())) <= 80
    assert "> 512 posterior + 512 ITQ, spread    0.500    0.600    0.400    0.300      1.2" in text
    assert "no time" in text
    assert report.rows[1]["known_hamming"] is None
    assert SelectionReport.from_json(report.to_json()) == report
    assert report._repr_html_().count("<tr") == 3
