"""The parts of AutoHasher's choice: the sample, the division of rows, the scores, the rule and the report."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from scipy import sparse

import hashlearn as hl
from hashlearn.hashers.auto import trial
from hashlearn.hashers.auto.report import SelectionReport
from hashlearn.hashers.auto.trial import Candidate, Result, Round, Side, choose, run_trials
from hashlearn.rows.reduce import FitContext
from hashlearn.rows.source import Source
from hashlearn.rows.survey import LabeledRows, Sample, draw_sample

pytestmark = pytest.mark.filterwarnings("ignore::hashlearn.FitAdvice")


def labeled_rows(group):
    """Facts about rows whose classes are their groups."""
    n_groups = int(group.max()) + 1
    counts = np.bincount(group[group >= 0], minlength=n_groups)
    table = sparse.identity(n_groups, format="csr")
    return LabeledRows(n_rows=len(group), table=table, counts=counts, groups=group)


def sample_of(group, rows=None):
    rows = np.arange(len(group), dtype=np.float32)[:, None] if rows is None else rows
    return Sample(rows, group, labeled_rows(group))


def drawn(group, n_rows, seed=0):
    X = np.arange(len(group), dtype=np.float32)[:, None]
    return draw_sample(Source(X), labeled_rows(group), n_rows, seed, FitContext(n_jobs=1))


def round_of(sample, n_bits=16, seed=0):
    return Round(sample, n_bits, np.random.default_rng(seed), 0, 1)


def classes_around_centers(n_rows, n_classes, width=0.3, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_classes, 10))
    group = rng.integers(n_classes, size=n_rows)
    return (centers[group] + width * rng.normal(size=(n_rows, 10))).astype(np.float32), group


def test_few_rows_are_all_in_the_sample():
    group = np.array([0, 1, -1, 0, 1, -1, 0])
    found = drawn(group, 100)
    assert found.rows.ravel().tolist() == list(range(7))
    assert found.group.tolist() == group.tolist()
    assert found.label_sets.toarray().tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize(("every", "labeled", "unlabeled"), [(50, 100, 200), (2, 240, 60), (1, 300, 0)])
def test_a_sample_has_rows_of_both_kinds(every, labeled, unlabeled):
    group = np.where(np.arange(5000) % every == 0, np.arange(5000) // every % 2, -1)
    found = drawn(group, 300)
    assert (np.count_nonzero(found.group >= 0), np.count_nonzero(found.group < 0)) == (labeled, unlabeled)


def test_classes_of_few_rows_are_sampled_whole():
    group = np.random.default_rng(0).permutation(np.repeat(np.arange(200), 5))
    found = drawn(group, 300)
    assert set(np.bincount(found.group)) == {0, 5}
    assert len(found.group) == 300
    assert set(drawn(group, 300, seed=1).group) != set(found.group)


def test_hidden_classes_stay_in_the_database_and_among_unlabeled_rows():
    group = np.random.default_rng(1).integers(-1, 24, 3000)
    one = round_of(sample_of(group))
    hidden = np.unique(one.hidden.indices)
    assert len(hidden) == 6
    assert one.usable
    parts = [one.fitted, one.known_queries, one.hidden_queries, one.database]
    assert sorted(np.concatenate(parts)) == list(range(3000))
    assert set(np.unique(group[one.database])) == set(range(24))
    assert set(group[one.hidden_queries]) == set(hidden)
    assert not set(group[one.known_queries]) & set(hidden)
    assert not set(group[one.labeled]) & {-1, *hidden}
    assert set(hidden) <= set(group[one.fitted])
    assert set(np.flatnonzero(group < 0)) <= set(one.fitted)
    assert 0.68 < np.isin(one.fitted, np.flatnonzero(group >= 0)).sum() / np.count_nonzero(group >= 0) < 0.71


def test_every_class_searches_equally_often_where_queries_are_too_many(monkeypatch):
    monkeypatch.setattr(trial, "MOST_QUERIES", 30)
    group = np.repeat(np.arange(4), [2000, 1000, 300, 200])
    one = round_of(sample_of(group))
    assert np.bincount(group[one.known_queries])[np.unique(group[one.known_queries])].tolist() == [10, 10, 10]


def test_label_sets_hide_labels_not_sets():
    rng = np.random.default_rng(2)
    sets = sparse.csr_matrix((rng.random((600, 8)) < 0.25).astype(float))
    known = LabeledRows.from_labels(600, sets)
    sample = Sample(rng.normal(size=(600, 4)).astype(np.float32), known.groups, known)
    one = round_of(sample)
    hidden = np.unique(one.hidden.indices)
    assert len(hidden) == 2
    assert (one.known + one.hidden != sample.label_sets).nnz == 0
    assert sets[one.hidden_queries][:, hidden].sum(axis=1).min() > 0


@pytest.mark.parametrize(
    "group", [np.zeros(100, dtype=int), np.array([0, 1] * 20), np.arange(50)], ids=["one", "few", "singles"]
)
def test_rows_that_do_not_suffice(group):
    assert not round_of(sample_of(group)).usable
    results = run_trials(sample_of(group), 8, 0.03, 0, 1)
    assert not any(one.tried for one in results)
    assert choose(results, 0.03) is None


def test_scores_are_those_of_a_search_in_the_mixed_database():
    X, group = classes_around_centers(1000, 8)
    one = round_of(sample_of(group, X))
    result = Result(Candidate(12, 4))
    one.score(result)
    bits = np.hstack([one._labels("linear")[:, :12] >= 0, one._structure(4)])
    packed = hl.codes.pack(bits)
    for rows, side in ((one.known_queries, result.known), (one.hidden_queries, result.unknown)):
        expected = hl.metrics.mean_average_precision(
            packed[rows], packed[one.database], group[rows], group[one.database], at=None
        )
        assert side.mean == pytest.approx(expected)
        np.testing.assert_array_equal(side.groups, group[rows])


def test_spread_thresholds_are_for_the_database_only():
    X, group = classes_around_centers(1000, 8)
    one = round_of(sample_of(group, X))
    result = Result(Candidate(16, 0, "posterior"))
    one.score(result)
    expected = one._labels("posterior")
    shift = hl.functions.calibration.spread_thresholds(16, trial.SPREAD, 0)
    found = hl.metrics.mean_average_precision(
        hl.codes.pack(expected[one.known_queries] >= 0),
        hl.codes.pack(expected[one.database] >= shift),
        group[one.known_queries],
        group[one.database],
        at=None,
    )
    assert result.known.mean == pytest.approx(found)


def test_nothing_more_is_tried_when_nothing_can_be_gained():
    X, group = classes_around_centers(3000, 6, width=0.01)
    results = run_trials(sample_of(group, X), 16, 0.03, 0, 1)
    assert [one.out for one in results[3:]] == ["cannot gain"] * 3
    assert not any(one.tried for one in results[3:])
    assert all(one.tried for one in run_trials(sample_of(group, X), 16, 0.0, 0, 1)[:3])


@pytest.mark.parametrize(("n_bits", "names"), [(1, ["1 GSDH_P"]), (2, ["1 GSDH_P + 1 MetricITQ", "2 GSDH_P"])])
def test_short_codes_have_fewer_divisions(n_bits, names):
    X, group = classes_around_centers(300, 6)
    results = run_trials(sample_of(group, X), n_bits, 1.0, 0, 1)
    assert [one.candidate.name for one in results if one.candidate.function == "linear"] == names
    assert choose(results, 1.0) is not None


def scored(known, unknown, n=400, noise=0.0, out=""):
    """A result whose queries have these mean scores."""
    groups = np.arange(n) % 40
    known = Side(known + noise * (-1.0) ** groups, groups)
    return Result(Candidate(8, 8), known, Side() if unknown is None else Side(np.full(n, float(unknown)), groups), out)


def test_the_rule_takes_the_best_on_unknown_labels_among_those_that_lose_little():
    results = [scored(0.90, 0.3), scored(0.88, 0.5), scored(0.85, 0.7), scored(0.89, 0.9, out="behind")]
    assert choose(results, 0.03) is results[1]
    assert choose(results, 0.0) is results[0]
    assert choose(results, 1.0) is results[2]
    assert choose([scored(0.8, None), scored(0.9, None)], 0.5).known.mean == pytest.approx(0.9)


def test_clear_losers_are_dropped_and_unclear_ones_stay():
    results = [scored(0.90, 0.3), scored(0.70, 0.9), scored(0.89, 0.5), scored(0.89, 0.4), scored(0.88, 0.5, noise=2)]
    trial._drop_clear_losers(results, 0.03)
    assert [one.out for one in results] == ["", "costs too much", "", "behind", ""]


def test_the_interval_is_over_classes_not_over_queries():
    values = np.repeat([0.2, 0.8, 0.5, 0.5], 100)
    alone = Side(values, np.arange(400))
    together = Side(values, np.repeat(np.arange(4), 100))
    assert together.margin > 5 * alone.margin
    assert alone.margin == pytest.approx(1.96 * values.std(ddof=1) / 20, rel=1e-6)
    assert Side(values, np.zeros(400, dtype=int)).margin == np.inf


def test_the_report_says_what_was_tried():
    results = [scored(0.90, 0.3), scored(0.88, 0.5), scored(0.5, 0.6, out="costs too much")]
    report = SelectionReport.from_results(results, results[1], "", 0.03, "MAP")
    text = str(report)
    assert "> 8 GSDH_P + 8 MetricITQ" in text
    assert "costs too much" in text
    assert "lose at most 0.03 on known ones (the best has 0.900)" in " ".join(text.split())
    assert SelectionReport(**json.loads(json.dumps(asdict(report)))) == report
    none = SelectionReport.from_results([], None, "6 GSDH_P + 2 MetricITQ", 0.03, "MAP")
    assert none.chosen == "6 GSDH_P + 2 MetricITQ"
    assert "too few labeled rows" in str(none)
