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
from hashlearn.rows.checkpoint import Checkpoint


def make(n_bits=16, **changes):
    return hl.AutoHasher(n_bits, random_state=0, n_jobs=1, **changes)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300].astype(np.float32), y[:300]


@pytest.fixture(scope="module")
def fitted(digits):
    return make().fit(*digits)


def chunks(X, *y, size=110):
    return [lambda at=at: tuple(part[at : at + size] for part in (X, *y)) for at in range(0, X.shape[0], size)]


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


def test_the_chosen_codes_are_fitted(fitted, digits):
    X, y = digits
    names = {"GSDHP": "GSDH_P", "MetricITQ": "MetricITQ"}
    bits = " + ".join(f"{part.n_bits} {names[type(part).__name__]}" for part in fitted.hasher_.hashers_)
    assert bits == fitted.report_.chosen
    seeds = [part.random_state for part in fitted.hasher_.hashers_]
    sizes = [part.n_bits for part in fitted.hasher_.hashers_]
    parts = [hl.GSDHP(sizes[0], random_state=seeds[0]), hl.MetricITQ(sizes[1], random_state=seeds[1])]
    np.testing.assert_array_equal(hl.JoinedHasher(parts).fit(X, y).encode(X), fitted.encode(X))


@pytest.mark.slow
def test_class_posteriors_win_where_classes_are_many_and_small():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(300, 64)).astype(np.float32)
    y = np.repeat(np.arange(300), 10)
    X = centers[y] + 1.2 * rng.normal(size=(3000, 64)).astype(np.float32)
    hasher = make(32).fit(X, y)
    assert "posterior" in hasher.report_.chosen
    assert hasher.hasher_.spread > 0
    unsure = X + rng.normal(size=X.shape).astype(np.float32)
    assert (hasher.encode(unsure) != hasher.encode_queries(unsure)).any()
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(X))
    np.testing.assert_array_equal(hl.codes.pack(hasher.transform(unsure)), hasher.encode_queries(unsure))
    assert getattr(hasher.hasher_.hashers_[-1], "thresholds_", None) is None
    np.testing.assert_array_equal(make(32).fit_chunks(chunks(X, y, size=1000)).codes_, hasher.codes_)


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
    assert again.report_.rows == fitted.report_.rows


@pytest.mark.slow
def test_chunks_without_labels_and_with_label_sets(digits):
    X, y = digits
    np.testing.assert_array_equal(make().fit_chunks(X).codes_, make().fit(X).codes_)
    sets = sparse.csr_matrix(np.stack([y % 2 == 0, y < 5, y % 3 == 0], axis=1).astype(float))
    in_memory = make().fit(X, sets)
    assert in_memory.report_.score.startswith("NDCG@50")
    np.testing.assert_array_equal(make().fit_chunks(chunks(X, sets)).codes_, in_memory.codes_)


@pytest.mark.slow
def test_a_sample_is_the_same_in_memory_and_in_chunks(digits, monkeypatch):
    monkeypatch.setattr("hashlearn.hashers.auto.auto_hasher.SAMPLE_ROWS", 200)
    monkeypatch.setattr("hashlearn.hashers.metric_itq.SAMPLE_ROWS", 150)
    X, y = digits
    partly = np.where(np.arange(len(y)) % 4 == 0, -1, y)
    in_memory = make(unlabeled=-1).fit(X, partly)
    in_chunks = make(unlabeled=-1).fit_chunks(chunks(X, partly))
    np.testing.assert_array_equal(in_memory.codes_, in_chunks.codes_)
    assert in_memory.report_.rows == in_chunks.report_.rows


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
    monkeypatch.setattr("hashlearn.hashers.auto.auto_hasher.run_trials", stopped)
    again = make().fit_chunks(*digits, checkpoint=tmp_path / "going")
    np.testing.assert_array_equal(again.codes_, fitted.codes_)
    assert again.report_.rows == fitted.report_.rows
    assert not (tmp_path / "going").exists()


def test_a_part_of_a_checkpoint_has_its_own_folder(tmp_path):
    whole = Checkpoint(tmp_path / "going", {"method": "x"})
    whole.part("a").save("pass", {"n": np.array(1)})
    assert not whole.part("b").has("pass")
    assert whole.part("a").load("pass")["n"] == 1
    assert whole.part("a").seed == whole.seed


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


@pytest.mark.parametrize("kind", ["none", "unlabeled", "one class"])
def test_without_labels_it_is_itq_and_says_so(digits, kind):
    X, _ = digits
    y = {"none": None, "unlabeled": [None] * len(X), "one class": np.ones(len(X))}[kind]
    with pytest.warns(hl.FitAdvice, match="so all bits are ITQ's"):
        hasher = make().fit(X, y)
    assert hasher.report_.chosen == "16 ITQ"
    alone = hl.ITQ(16, random_state=hasher.hasher_.hashers_[0].random_state).fit(X)
    np.testing.assert_array_equal(hasher.encode(X), alone.encode(X))
    assert any("ITQ" in sentence for sentence in hasher.advice_)
    assert "ITQ" in str(hasher.report_)


def test_few_labels_teach_label_bits_and_all_rows_teach_structure_bits(digits):
    X, y = digits
    few = np.where(np.arange(len(y)) < 80, y, -1)
    with pytest.warns(hl.FitAdvice, match=r"73 % of the rows \(220\) have no label"):
        hasher = make(unlabeled=-1, unknown_cost=1.0).fit(X, np.where(np.arange(len(y)) < 80, y, -1))
    labels, structure = hasher.hasher_.hashers_
    for part, alone in ((structure, hl.MetricITQ), (labels, hl.GSDHP)):
        again = alone(part.n_bits, unlabeled=-1, random_state=part.random_state).fit(X, few)
        np.testing.assert_array_equal(part.encode(X), again.encode(X))


def test_advice_does_not_send_its_users_to_itself(digits):
    X, _ = digits
    X = np.repeat(X[:20], 60, axis=0)
    y = np.where(np.arange(1200) % 5 < 2, -1, np.arange(1200) // 600)
    with pytest.warns(hl.FitAdvice):
        hasher = make(4, unlabeled=-1).fit(X, y)
    text = " ".join(hasher.advice_)
    assert "40 % of the rows" in text
    assert "AutoHasher" not in text


def test_too_few_rows_to_compare_give_the_usual_division():
    X, y = np.random.default_rng(0).normal(size=(6, 4)), [0, 1, 0, 1, 2, 2]
    hasher = make(8).fit(X, y)
    assert hasher.report_.chosen == "6 GSDH_P + 2 MetricITQ"
    assert hasher.report_.rows[0]["out"] == "not tried"


def test_it_says_what_it_is_doing(digits, capsys):
    make(verbose=1).fit(*digits)
    printed = capsys.readouterr().err
    assert "[hashlearn] try codes:" in printed
    assert "code rows" in printed


def test_labels_of_another_length_are_refused(digits):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make().fit(digits[0], digits[1][:-1])


@pytest.mark.slow
def test_scikit_learn_checks():
    check_estimator(make(4))


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
    check("AutoHasher", make(4))


def test_every_parameter_is_checked():
    check_parameters_are_checked(make(4), *small_data())
