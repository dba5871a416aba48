"""AutoHasher: what it chooses, and the contract of a hasher in memory and in chunks."""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from parameter_checks import check_parameters_are_checked, small_data
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
)

import hashlearn as hl
from hashlearn.fitting.job import Checkpoint
from hashlearn.hashers import auto

ORIGINAL = dict(auto.LABEL_METHODS)
LABELS = {"GSDHP": "GSDH_P", "CCAITQ": "CCA-ITQ", "ITQ": "ITQ"}


def make(n_bits=16, **changes):
    return hl.AutoHasher(n_bits, random_state=0, n_jobs=1, **changes)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300].astype(np.float32), y[:300]


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Only one method that learns from labels, with few landmarks; the others are tried in one test."""
    with pytest.MonkeyPatch.context() as patched:
        one = auto.LabelMethod(lambda bits, jobs, seed: hl.GSDHP(bits, n_landmarks=60, n_jobs=jobs, random_state=seed))
        patched.setattr(auto, "LABEL_METHODS", {"GSDH_P": one})
        patched.setattr(auto, "TRIAL_LANDMARKS", 60)
        yield


@pytest.fixture(scope="module")
def fitted(digits, quick):
    return make().fit(*digits)


def chunks(X, *y, size=110):
    return [lambda at=at: tuple(part[at : at + size] for part in (X, *y)) for at in range(0, X.shape[0], size)]


def scores(report):
    """What a report says, apart from seconds."""
    return [{**row, "seconds": 0} for row in report.rows]


@pytest.mark.slow
def test_it_beats_floats_on_known_classes_and_label_bits_on_unknown_ones():
    X, y = load_digits(return_X_y=True)
    X, known = X.astype(np.float32), y < 7
    train, rest = np.flatnonzero(known)[:400], np.flatnonzero(known)[400:]
    unknown = np.flatnonzero(~known)
    hasher = make(32).fit(X[train], y[train])
    labels_only = hl.GSDHP(32, random_state=0).fit(X[train], y[train])
    floats = hl.metrics.evaluate_floats(X[rest[:200]], X[rest[200:]], y[rest[:200]], y[rest[200:]], at=None).map
    assert hasher.score(X[rest], y[rest]) > floats + 0.1
    assert hasher.score(X[unknown], y[unknown]) > labels_only.score(X[unknown], y[unknown])


@pytest.mark.slow
def test_all_methods_are_tried_and_the_chosen_one_is_fitted(digits, monkeypatch):
    X, y = digits
    tried = {}
    for name, method in ORIGINAL.items():
        monkeypatch.setattr(auto, "LABEL_METHODS", {name: method})
        hasher = make(unknown_cost=0.0).fit(X, y)
        tried[name] = {row["candidate"] for row in hasher.report_.rows}
        bits = " + ".join(f"{part.n_bits} {LABELS[type(part).__name__]}" for part in hasher.hasher_.hashers_)
        assert bits == hasher.report_.chosen.replace("posterior", "GSDH_P").removesuffix(", spread")
        assert (hasher.hasher_.spread > 0) == hasher.report_.chosen.endswith(", spread")
        np.testing.assert_array_equal(make(unknown_cost=0.0).fit_chunks(X, y).codes_, hasher.codes_)
    assert {"12 posterior + 4 ITQ, spread", "16 posterior", "16 ITQ"} <= tried["posterior"]
    assert not any("spread" in name for name in tried["CCA-ITQ"])


@pytest.mark.slow
def test_spread_thresholds_are_for_the_database_only(digits, monkeypatch):
    X, y = digits
    method = auto.LABEL_METHODS["GSDH_P"]
    spread = auto.LabelMethod(method.make, spreads=(0.75,))
    monkeypatch.setattr(auto, "LABEL_METHODS", {"GSDH_P": spread})
    hasher = make(unknown_cost=0.0).fit(X, y)
    assert hasher.report_.chosen.endswith(", spread")
    assert (hasher.encode(X) != hasher.encode_queries(X)).any()
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(X))
    np.testing.assert_array_equal(hl.codes.pack(hasher.transform(X)), hasher.encode_queries(X))
    np.testing.assert_array_equal(make(unknown_cost=0.0).fit_chunks(X, y).codes_, hasher.codes_)


def test_codes_are_those_of_encode(fitted, digits):
    np.testing.assert_array_equal(fitted.codes_, fitted.encode(digits[0]))
    bits = fitted.transform(digits[0])
    np.testing.assert_array_equal(bits, fitted.decision_function(digits[0]) >= 0)
    np.testing.assert_array_equal(bits, fitted.expected_bits(digits[0]) >= 0)
    assert set(fitted.report_.seconds) == {"sample", "trials", "fit", "code"}


def test_chunks_give_the_same_as_memory(fitted, digits):
    X, y = digits
    again = make().fit_chunks(chunks(X, y))
    np.testing.assert_array_equal(again.codes_, fitted.codes_)
    np.testing.assert_array_equal(again.expected_bits(X), fitted.expected_bits(X))
    assert scores(again.report_) == scores(fitted.report_)


@pytest.mark.slow
def test_chunks_without_labels_and_with_label_sets(digits):
    X, y = digits
    np.testing.assert_array_equal(make().fit_chunks(X).codes_, make().fit(X).codes_)
    sets = sparse.csr_matrix(np.stack([y % 2 == 0, y < 5, y % 3 == 0], axis=1).astype(float))
    in_memory = make().fit(X, sets)
    assert "NDCG@50" in in_memory.report_.reason
    np.testing.assert_array_equal(make().fit_chunks(chunks(X, sets)).codes_, in_memory.codes_)


@pytest.mark.slow
def test_a_sample_is_the_same_in_memory_and_in_chunks(digits, monkeypatch):
    monkeypatch.setattr("hashlearn.selection.sample.SAMPLE_ROWS", 200)
    monkeypatch.setattr("hashlearn.selection.sample.LABELED_ROWS", 150)
    X, y = digits
    partly = np.where(np.arange(len(y)) % 4 == 0, -1, y)
    in_memory = make(unlabeled=-1).fit(X, partly)
    in_chunks = make(unlabeled=-1).fit_chunks(chunks(X, partly))
    np.testing.assert_array_equal(in_memory.codes_, in_chunks.codes_)
    assert scores(in_memory.report_) == scores(in_chunks.report_)


@pytest.mark.slow
def test_threads_and_processes_give_the_same(fitted, digits):
    X, y = digits
    np.testing.assert_array_equal(hl.AutoHasher(16, random_state=0, n_jobs=2).fit(X, y).codes_, fitted.codes_)
    with ProcessPoolExecutor(1) as pool:
        in_processes = make().fit_chunks(X, y, executor=pool)
    np.testing.assert_array_equal(in_processes.codes_, fitted.codes_)


@pytest.mark.slow
def test_a_fit_goes_on_from_its_checkpoint_without_new_trials(fitted, digits, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(hl.GSDHP, "_fit_source", stopped)
        with pytest.raises(KeyboardInterrupt):
            make().fit_chunks(*digits, checkpoint=tmp_path / "going")
    assert (tmp_path / "going" / "choice.npz").exists()
    monkeypatch.setattr(hl.AutoHasher, "_trials", stopped)
    again = make().fit_chunks(*digits, checkpoint=tmp_path / "going")
    np.testing.assert_array_equal(again.codes_, fitted.codes_)
    assert scores(again.report_) == scores(fitted.report_)
    assert not (tmp_path / "going").exists()


def test_a_part_of_a_checkpoint_has_its_own_folder(tmp_path):
    whole = Checkpoint(tmp_path / "going", {"method": "x"})
    whole.part("a").save("pass", {"n": np.array(1)})
    assert not whole.part("b").has("pass")
    assert whole.part("a").load("pass")["n"] == 1
    assert whole.part("a").seed == whole.seed
    assert Checkpoint().part("a").path is None


def test_a_model_file_holds_the_report(fitted, digits, tmp_path):
    hl.save(fitted, tmp_path / "m.hl")
    again = hl.load(tmp_path / "m.hl")
    np.testing.assert_array_equal(again.encode(digits[0]), fitted.encode(digits[0]))
    np.testing.assert_array_equal(again.expected_bits(digits[0]), fitted.expected_bits(digits[0]))
    assert str(again.report_) == str(fitted.report_)
    assert again.report_.rows == fitted.report_.rows
    assert hl.models.fingerprint(again) == hl.models.fingerprint(fitted)


def test_a_collection_takes_it(fitted, digits, tmp_path):
    X, _ = digits
    with hl.Collection.create(tmp_path / "c", fitted) as collection:
        collection.add(X, np.arange(len(X)))
        found = collection.search(X[:20], 5)
        assert np.mean([row in ids for row, ids in zip(range(20), found.ids, strict=True)]) > 0.5


def test_without_labels_the_code_that_keeps_neighbors_wins(digits):
    X, _ = digits
    report = make(32).fit(X).report_
    assert [row["candidate"] for row in report.rows] == ["32 ITQ", "32 PCA-RR", "32 SH", "32 LSH"]
    found = {row["candidate"]: row["known_hamming"] + row["known_real"] for row in report.rows}
    assert report.chosen == max(found, key=found.get)
    assert all(row["unknown_hamming"] is None for row in report.rows)
    for y in ([None] * len(X), np.ones(len(X))):
        assert make(32).fit(X, y).report_.chosen == report.chosen


def test_few_labels_teach_label_bits_and_all_rows_teach_structure_bits(digits):
    X, y = digits
    few = np.where(np.arange(len(y)) < 80, y, -1)
    hasher = make(unlabeled=-1, unknown_cost=0.05).fit(X, few)
    by_name = {type(part).__name__: part for part in hasher.hasher_.hashers_}
    structure = by_name["ITQ"]
    alone = hl.ITQ(structure.n_bits, random_state=structure.random_state).fit(X)
    np.testing.assert_array_equal(structure.encode(X), alone.encode(X))
    if "GSDHP" in by_name:
        labels = by_name["GSDHP"]
        alone = hl.GSDHP(labels.n_bits, n_landmarks=60, unlabeled=-1, random_state=labels.random_state).fit(X, few)
        np.testing.assert_array_equal(labels.encode(X), alone.encode(X))


def test_too_few_rows_to_compare_give_the_usual_division():
    X, y = np.random.default_rng(0).normal(size=(6, 4)), [0, 1, 0, 1, 2, 2]
    hasher = make(8).fit(X, y)
    assert hasher.report_.chosen == "6 GSDH_P + 2 ITQ"
    assert not hasher.report_.rows[0]["tried"]


def test_what_the_time_does_not_allow_is_reported(digits):
    hasher = make(time_budget=1e-6).fit(*digits)
    assert not any(row["tried"] for row in hasher.report_.rows)
    assert "no time" in hasher.report_.reason
    assert hasher.encode(digits[0]).shape == (300, 2)


def test_labels_of_another_length_are_refused(digits):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make().fit(digits[0], digits[1][:-1])


@pytest.mark.slow
def test_scikit_learn_checks():
    # Trials would make these hundred fits slow; they are tested above.
    check_estimator(make(4, time_budget=1e-6))


@pytest.mark.parametrize(
    "check",
    [
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
    ],
)
def test_checks_that_scikit_learn_leaves_out(check):
    check("AutoHasher", make(4, time_budget=1e-6))


def test_every_parameter_is_checked():
    check_parameters_are_checked(make(4, time_budget=1e-6), *small_data())
