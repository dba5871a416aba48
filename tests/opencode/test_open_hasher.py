"""OpenHasher: the contract of a hasher, labels in every form, chunks, and what a search by its tables finds."""

import pickle
import runpy
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from parameter_checks import check_parameters_are_checked, small_data
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import (
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

import hashlearn as hl
from hashlearn.index import ScoreTables
from hashlearn.opencode import open_hasher
from hashlearn.opencode.coder import weights


def make(n_bits=32, **changes):
    return hl.OpenHasher(n_bits, **({"n_landmarks": 60, "random_state": 0, "n_jobs": 1} | changes))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order].astype(np.float32), y[order]


@pytest.fixture(scope="module")
def known(digits):
    """Digits 7 to 9 have no label."""
    return np.where(digits[1] < 7, digits[1], -1)


@pytest.fixture(scope="module")
def hasher(digits, known):
    return make(64, n_landmarks=600, unlabeled=-1).fit(digits[0][:700], known[:700])


def mean_precision(scores, queries, database):
    order = np.argsort(-scores, axis=1, kind="stable")
    relevant = database[order] == queries[:, None]
    places = relevant.cumsum(axis=1) / np.arange(1, relevant.shape[1] + 1)
    return ((places * relevant).sum(axis=1) / relevant.sum(axis=1)).mean()


def assert_equal_tables(one, two):
    np.testing.assert_array_equal(one.nibbles, two.nibbles)
    np.testing.assert_array_equal(one.words, two.words)


@parametrize_with_checks([make()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


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
    check("OpenHasher", make())


def test_every_parameter_is_checked():
    check_parameters_are_checked(make(), *small_data())


@pytest.mark.parametrize("bad", [20, 33])
def test_codes_are_whole_bytes(bad, digits):
    with pytest.raises(ValueError, match=rf"must be a multiple of 8. Got {bad} instead"):
        make(bad).fit(digits[0][:50], digits[1][:50])


def test_too_many_features_get_a_remedy():
    with pytest.raises(ValueError, match=r"at most 8,192 features. Got 9,000: .*TruncatedSVD"):
        make().fit(sparse.random(20, 9000, format="csr", random_state=0), np.arange(20) % 2)


def test_emphasis_decides_what_is_found(hasher, digits, known):
    X, y = digits
    database, queries = slice(700, 1500), slice(1500, 1797)
    packed = hasher.encode(X[database])
    assert packed.shape == (800, 8)
    new = known[queries] < 0
    found = {}
    for emphasis in ("alike", "auto", "label"):
        scores = hasher.query(X[queries], emphasis).scores(packed)
        found[emphasis] = [mean_precision(scores[side], y[queries][side], y[database]) for side in (~new, new)]
    floats = X / np.linalg.norm(X, axis=1, keepdims=True)
    scores = floats[queries] @ floats[database].T
    plain = [mean_precision(scores[side], y[queries][side], y[database]) for side in (~new, new)]
    assert found["alike"][0] > plain[0]
    assert found["alike"][1] > plain[1]
    assert found["label"][0] > found["alike"][0] + 0.1
    assert found["label"][0] >= found["auto"][0] - 0.02 > found["alike"][0]
    assert found["alike"][1] >= found["auto"][1] - 0.02 > found["label"][1] - 0.02


def test_a_row_finds_itself_first(hasher, digits):
    X = digits[0][700:1300]
    packed = hasher.encode(X)
    scores = hasher.query(X, "alike").scores(packed)
    best = scores.argmax(axis=1)
    # Rows with equal codes cannot be told apart.
    assert (packed[best] == packed).all(axis=1).all()


@pytest.mark.parametrize("settings", [{}, {"word_bits": 12}])
def test_of_rows_with_equal_content_the_one_with_the_own_code_comes_first(hasher, digits, settings):
    X = digits[0][700:760]
    own = hasher.encode(X)
    others = [hasher.encode(X, np.full(len(X), label)) for label in range(7)]  # other label words, equal content
    index = hl.Index(64, **settings)
    index.add(np.concatenate([*others, own]))
    for tables in (hasher.query(X, "alike"), hasher.query_codes(own, "alike")):
        found = index.search(tables, 1).ids[:, 0]
        np.testing.assert_array_equal(np.concatenate([*others, own])[found], own)


def test_tables_are_the_formula(hasher, digits):
    X = digits[0][700:720]
    coder = hasher.coder_
    tables = hasher.query(X, 0.7)
    assert tables.nibbles.shape == (20, 16, 16)
    assert tables.words.shape == (20, 4096)
    packed = hasher.encode(X)
    own = np.stack([packed[:, 0] >> 4, packed[:, 0] & 15, packed[:, 1] >> 4], axis=1)  # nibbles of the label word
    np.testing.assert_array_equal(tables.nibbles[:, :3], np.float32(1e-6) * (np.arange(16) == own[:, :, None]))
    scores = coder.labels.scores.scores(X)
    p = coder.labels.scores.probabilities(scores)
    strength, trust = weights(0.7)
    familiarity = coder.labels.familiarity.measure(scores, coder.metric.map_block(X), trust)
    wanted = strength * familiarity[:, None] * (p @ coder.labels.words.words_.T)
    np.testing.assert_allclose(tables.words[:, : wanted.shape[1]], wanted, atol=1e-5)
    content = ScoreTables(tables.nibbles, None).scores(packed)
    z = coder.metric.map_block(X)
    decoded = np.zeros_like(z)
    for place, (axes, book) in enumerate(zip(coder.quantizer.axes_, coder.quantizer.books_, strict=True)):
        byte = packed[:, (place + 3) // 2]
        decoded[:, axes] = book[byte & 15 if (place + 3) % 2 else byte >> 4]
    np.testing.assert_allclose(content, z @ decoded.T - (decoded**2).sum(axis=1) / 2, atol=1e-4)


@pytest.mark.parametrize("emphasis", ["alike", "auto", 0.8])
def test_an_index_finds_what_the_scores_say(hasher, digits, emphasis):
    X = digits[0]
    packed, tables = hasher.encode(X[700:]), hasher.query(X[:40], emphasis)
    index = hl.Index(64)
    index.add(packed)
    hits = index.search(tables, 10)
    scores = tables.scores(packed)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(hits.ids, order)
    np.testing.assert_allclose(-hits.distances, np.take_along_axis(scores, order, axis=1), rtol=1e-6)


@pytest.mark.parametrize(("name", "number"), [("alike", 0), ("auto", 0.5), ("label", 1.0)])
def test_names_of_emphasis_are_numbers(hasher, digits, name, number):
    X = digits[0][:5]
    assert_equal_tables(hasher.query(X, name), hasher.query(X, number))


@pytest.mark.parametrize("bad", ["same", -0.1, 1.5, True, None, float("nan")])
def test_wrong_emphasis_gets_a_sentence(hasher, digits, bad):
    with pytest.raises(ValueError, match=r"emphasis must be 'alike', 'auto', 'label' or a number from 0 to 1. Got"):
        hasher.query(digits[0][:2], bad)


def test_at_emphasis_0_labels_have_no_table(hasher, digits):
    X = digits[0][:40]
    assert hasher.query(X, "alike").words is None
    assert hasher.query_codes(hasher.encode(X), 0).words is None
    assert hasher.query(X, 0.01).words.any()


def test_the_strength_grows_and_the_gate_opens_with_the_emphasis():
    grid = [weights(e) for e in np.linspace(0, 1, 21)]
    strengths, trusts = zip(*grid, strict=True)
    assert strengths[0] == 0
    assert np.all(np.diff(strengths) >= 0)
    assert np.all(np.diff(trusts) >= 0)
    assert weights(0.5) == (8.0, 0.0)
    assert weights(1.0) == (8.0, 1.0)


def test_known_labels_take_the_place_of_predicted_ones(hasher, digits):
    X, y = digits[0][700:900], digits[1][700:900]
    plain, told = hasher.encode(X), hasher.encode(X, y)
    np.testing.assert_array_equal(plain[:, 2:], told[:, 2:])  # content is the same
    new = y >= 7  # these classes were not in the fit, so nothing is known about them
    np.testing.assert_array_equal(plain[new], told[new])
    np.testing.assert_array_equal(believed(hasher, told)[~new], y[~new])
    nothing = np.full(len(X), -1)
    np.testing.assert_array_equal(hasher.encode(X, nothing), plain)


def test_labels_may_have_any_form(digits):
    X, y = digits[0][:300], digits[1][:300]
    names = np.array([f"digit {label}" for label in y])
    tags = [[name] for name in names]
    matrix = np.eye(10)[y]
    one = make().fit(X, y)
    np.testing.assert_array_equal(one.codes_, make().fit(X, names).codes_)
    sets, columns = make().fit(X, tags), make().fit(X, sparse.csr_matrix(matrix))
    np.testing.assert_array_equal(sets.codes_, columns.codes_)
    np.testing.assert_array_equal(sets.encode(X, tags), columns.encode(X, matrix))
    assert make().fit(X, names).classes_.tolist() == sorted(set(names)) == sets.classes_.tolist()
    assert one.classes_.tolist() == columns.classes_.tolist() == list(range(10))


def test_label_sets_with_several_labels(digits):
    X, y = digits[0][:500], digits[1][:500]
    sets = np.stack([y % 2 == 0, y < 5, y % 3 == 0], axis=1).astype(int)
    sets[:50] = 0  # unlabeled
    fitted = make(64, n_landmarks=300).fit(X, sets)
    assert fitted.coder_.labels.scores.temperature_ is None
    rest = digits[0][500:900]
    p = fitted.coder_.labels.scores.probabilities(fitted.coder_.labels.scores.scores(rest))
    truth = np.stack([digits[1] % 2 == 0, digits[1] < 5, digits[1] % 3 == 0], axis=1)[500:900]
    assert ((p > 0.5) == truth).mean() > 0.85
    with pytest.raises(ValueError, match=r"The fit had label sets of 3 columns. Got 2 instead"):
        fitted.encode(X, sets[:, :2])


@pytest.mark.parametrize("y", [None, np.full(300, None, dtype=object)])
def test_without_labels_codes_are_content_only(digits, y):
    X = digits[0][:300]
    fitted = make(64).fit(X, y)
    assert fitted.coder_.labels is None
    tables = fitted.query(X[:4])
    assert tables.words is None
    assert tables.nibbles[:, :3].any()
    scores = tables.scores(fitted.encode(X))
    assert (scores.argmax(axis=1) == np.arange(4)).all()
    assert fitted.classes_.tolist() == []


def test_one_class_alone_is_refused(digits):
    with pytest.raises(ValueError, match="All labeled rows have the same label"):
        make(unlabeled=-1).fit(digits[0][:50], np.where(np.arange(50) < 20, 3, -1))


def test_random_state_decides_everything_and_threads_nothing(digits, known):
    X, y = digits[0], known
    first = make(unlabeled=-1).fit(X, y)
    again = clone(first).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(first.codes_, again.codes_)
    assert_equal_tables(first.query(X[:300]), again.query(X[:300]))
    copied = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(copied.encode(X), first.encode(X))


def test_codes_of_the_fit_have_the_known_labels(hasher, digits, known):
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(digits[0][:700], known[:700]))


def cut(*arrays, size):
    return [lambda at=at: tuple(a[at : at + size] for a in arrays) for at in range(0, arrays[0].shape[0], size)]


@pytest.mark.parametrize("size", [100, 333])
def test_chunks_give_the_same_bits(digits, known, size):
    X = digits[0]
    names = np.where(known < 0, "none", np.char.add("digit ", known.astype(str)))
    whole = make(unlabeled="none").fit(X, names)
    chunked = make(unlabeled="none").fit_chunks(cut(X, names, size=size))
    np.testing.assert_array_equal(whole.codes_, chunked.codes_)
    np.testing.assert_array_equal(whole.coder_.metric.scales_, chunked.coder_.metric.scales_)
    np.testing.assert_array_equal(whole.coder_.labels.scores.weights_, chunked.coder_.labels.scores.weights_)
    np.testing.assert_array_equal(whole.coder_.labels.words.words_, chunked.coder_.labels.words.words_)
    assert whole.classes_.tolist() == chunked.classes_.tolist()


def test_chunks_of_label_sets_and_without_labels(digits):
    X, sets = (
        digits[0][:600],
        np.eye(10, dtype=int)[digits[1][:600]] + np.eye(10, dtype=int)[(digits[1][:600] + 1) % 10],
    )
    one, two = make().fit(X, sets), make().fit_chunks(cut(X, sets, size=250))
    np.testing.assert_array_equal(one.codes_, two.codes_)
    one, two = make().fit(X), make().fit_chunks([X[:250], X[250:]], codes=False)
    np.testing.assert_array_equal(one.encode(X), two.encode(X))
    assert not hasattr(two, "codes_")


@pytest.mark.slow
def test_processes_give_the_same_bits(digits, known, tmp_path):
    X = digits[0]
    np.save(tmp_path / "X.npy", X)
    whole = make(unlabeled=-1).fit(X, known)
    with ProcessPoolExecutor(2) as pool:
        spread = make(unlabeled=-1).fit_chunks(tmp_path / "X.npy", known, executor=pool)
    np.testing.assert_array_equal(whole.codes_, spread.codes_)


def test_a_fit_goes_on_from_its_checkpoint(digits, known, tmp_path, monkeypatch):
    X, folder = digits[0], tmp_path / "state"
    fitted = make(unlabeled=-1)
    with monkeypatch.context() as patched:
        patched.setattr(open_hasher, "learn_coder", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fitted.fit_chunks(X, known, checkpoint=folder)
    assert not hasattr(fitted, "coder_")
    fitted.fit_chunks(X, known, checkpoint=folder)
    np.testing.assert_array_equal(fitted.codes_, make(unlabeled=-1).fit(X, known).codes_)
    assert not folder.exists()


def test_encode_chunks_writes_the_codes_of_encode(hasher, digits, tmp_path):
    X = digits[0]
    (path,) = hasher.encode_chunks([X[:500], X[500:]], tmp_path / "codes")
    np.testing.assert_array_equal(np.load(path), hasher.encode(X))


def test_a_model_file_keeps_everything(hasher, digits, tmp_path):
    X, y = digits
    hl.save(hasher, tmp_path / "model.hl")
    loaded = hl.load(tmp_path / "model.hl")
    np.testing.assert_array_equal(loaded.encode(X[:300], y[:300]), hasher.encode(X[:300], y[:300]))
    assert_equal_tables(loaded.query(X[:9], 0.3), hasher.query(X[:9], 0.3))
    assert loaded.get_params() == hasher.get_params()


@pytest.mark.parametrize("name", ["decision_function", "expected_bits", "encode_queries"])
def test_outputs_for_hamming_distance_are_missing(hasher, name):
    assert not hasattr(hasher, name)
    with pytest.raises(AttributeError, match=f"has no .*{name}.*: query.* AutoHasher"):
        getattr(hasher, name)


def test_score_is_the_mean_precision_of_tables(hasher, digits):
    X, y = digits[0][700:900], digits[1][700:900]
    packed = hasher.encode(X)
    halves = (np.arange(0, 200, 2), np.arange(1, 200, 2))
    wanted = np.mean(
        [mean_precision(hasher.query(X[a]).scores(packed[b]), y[a], y[b]) for a, b in (halves, halves[::-1])]
    )
    assert abs(hasher.score(X, y) - wanted) < 1e-3


@pytest.mark.parametrize(
    "shape", ["constant", "few rows", "wide", "narrow", "single rows", "many classes", "sparse", "large numbers"]
)
def test_unusual_rows(shape):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 20)) + 3 * np.eye(3, 20)[y]
    if shape == "constant":
        X[:, 5:] = 1.0
    elif shape == "few rows":
        X, y = X[:4], y[:4]
    elif shape == "wide":
        X = np.hstack([X, rng.normal(size=(90, 300))])
    elif shape == "narrow":
        X = X[:, :2]
    elif shape == "single rows":
        y = np.where(np.arange(90) < 10, np.arange(90) + 10, y)
    elif shape == "many classes":
        y = np.arange(90) // 2
    elif shape == "sparse":
        X = sparse.csr_matrix(np.where(X > 1, X, 0))
    else:
        X = X * 1e6 + 1e7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", hl.FitAdvice)
        fitted = make().fit(X, y)
        tables = fitted.query(X)
    assert fitted.codes_.shape == (X.shape[0], 4)
    assert np.isfinite(tables.nibbles).all()
    assert np.isfinite(tables.words).all()


def test_the_report_tells_what_was_learned(hasher, digits, known):
    report = hasher.report_
    assert (report.n_rows, report.n_labeled, report.n_labels) == (700, int((known[:700] >= 0).sum()), 7)
    assert (report.label_bits, report.content_bits) == (12, 52)
    assert 0.3 < report.explained < 0.9
    assert report.right > 0.9
    assert abs(report.right - report.sure) < 0.08
    assert report.separation > 0.8
    assert "12 bits say which labels a row has" in str(report)
    assert make().fit(digits[0][:200]).report_.right is None


@pytest.mark.parametrize("chunks", [False, True])
def test_few_labels_among_many_rows_are_all_used(chunks, digits, monkeypatch):
    """Here a sample of all rows has hardly any row with a label."""
    monkeypatch.setattr("hashlearn.opencode.learn.LEAST_LEFT_OUT", 8)
    monkeypatch.setattr("hashlearn.opencode.learn.LEFT_OUT_ROWS", 8)
    monkeypatch.setattr("hashlearn.opencode.learn.SAMPLE_ROWS", 16)
    X, y = digits[0], np.full(1797, -1)
    y[300:400] = digits[1][300:400]
    fitted = make(64, unlabeled=-1)
    fitted = fitted.fit_chunks(cut(X, y, size=500)) if chunks else fitted.fit(X, y)
    assert len(fitted.coder_.labels.familiarity.best_) == 100
    assert 0.7 < fitted.report_.right <= 1
    assert fitted.coder_.labels.scores.temperature_ > 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X, y: (X, np.arange(len(y)) // 2 + 1), "look like measurements or ids|predicted for them"),
        (lambda X, y: (X, np.random.default_rng(0).integers(2, 9, len(y))), "label that is predicted for them"),
        (lambda X, y: (X[:, 18:22], y), "vary along 4 axes only, for which n_bits=32 is enough"),
    ],
)
def test_advice(digits, change, sentence):
    with pytest.warns(hl.FitAdvice, match=sentence):
        fitted = make(64).fit(*change(digits[0][:300], digits[1][:300]))
    assert fitted.advice_ == fitted.report_.advice


def test_partial_fit_learns_new_labels_and_keeps_codes(digits):
    X, y = digits
    first, second, rest = slice(0, 500), slice(500, 1100), slice(1100, 1797)
    fitted = make(64, n_landmarks=400)
    old = y[first] < 6
    fitted.partial_fit(X[first][old], y[first][old])
    before = fitted.encode(X[rest])
    words = fitted.coder_.labels.words.words_
    fitted.partial_fit(X[second], y[second])
    assert fitted.classes_.tolist() == list(range(10))
    assert len(fitted.codes_) == old.sum() + 600
    np.testing.assert_array_equal(fitted.coder_.labels.words.words_[: len(words), : words.shape[1]], words)
    new = y[rest] >= 6
    scores = fitted.query(X[rest], "label").scores(fitted.encode(X[second], y[second]))
    nearest = y[second][scores.argmax(axis=1)]
    assert (nearest == y[rest])[new].mean() > 0.9
    assert (nearest == y[rest])[~new].mean() > 0.9
    # Codes from before are found as well as they were, by queries of now.
    scores = fitted.query(X[rest][~new], "label").scores(before[~new])
    np.fill_diagonal(scores, -np.inf)
    assert (y[rest][~new][scores.argmax(axis=1)] == y[rest][~new]).mean() > 0.9


def test_partial_fit_in_two_calls_scores_as_one_fit_with_its_landmarks(digits):
    X, y = digits[0][:600], digits[1][:600]
    once, twice = make(n_landmarks=300), make(n_landmarks=300)
    once.partial_fit(X, y)
    twice.partial_fit(X[:400], y[:400]).partial_fit(X[400:], y[400:])
    both = [one.coder_.labels.scores.scores(digits[0][600:800]).argmax(axis=1) for one in (once, twice)]
    assert (both[0] == both[1]).mean() > 0.9


def test_partial_fit_refuses_what_it_cannot_keep(digits):
    X, y = digits[0][:200], digits[1][:200]
    fitted = make().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"kind of the first call. Got 2-D labels now"):
        fitted.partial_fit(X, np.eye(10)[y])
    with pytest.raises(ValueError, match=r"y holds strings \('seven'\) and the fit numbers \(0\)"):
        fitted.partial_fit(X[:2], ["seven", "seven"])
    with pytest.raises(ValueError, match="3 labels for 2 rows"):
        fitted.partial_fit(X[:2], y[:3])
    with pytest.raises(ValueError, match="fitted without labels, so its codes have no label word"):
        make().partial_fit(X).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"rows of every known label again, .* none of 1 of the 10 labels, such as 9"):
        make().fit(X, y).partial_fit(X[y != 9], y[y != 9])
    tagged = make().fit(X, [{f"d{label}", "digit"} for label in y])
    with pytest.raises(ValueError, match=r"labels by name, such as 'd0'. Got a matrix of 0 and 1 instead"):
        tagged.partial_fit(X, np.eye(10)[y])


@pytest.mark.parametrize("chunks", [False, True])
def test_partial_fit_goes_on_after_fit_from_rows_given_again(digits, chunks):
    X, y = digits[0][:900], digits[1][:900]
    old = y < 6
    fitted = make(64, n_landmarks=300)
    fitted = fitted.fit_chunks(cut(X[old], y[old], size=200)) if chunks else fitted.fit(X[old], y[old])
    before, words = fitted.encode(X[old], y[old]), fitted.coder_.labels.words.words_
    again = make(64, n_landmarks=300).partial_fit(X[old], y[old]).partial_fit(X[~old], y[~old])
    fitted.partial_fit(X, y)
    np.testing.assert_array_equal(fitted.encode(X[old], y[old]), before)
    np.testing.assert_array_equal(fitted.coder_.labels.words.words_[: len(words), :6], words)
    assert len(fitted.codes_) == 900
    both = [one.coder_.labels.scores.scores(digits[0][900:]).argmax(axis=1) for one in (fitted, again)]
    assert (both[0] == both[1]).mean() > 0.99
    fitted.partial_fit(X[:100], y[:100])  # rows of some labels suffice now
    assert len(fitted.codes_) == 1000


def test_no_rows_are_no_codes_and_no_tables(hasher, digits):
    none = digits[0][:0]
    assert hasher.encode(none).shape == hasher.encode(none, []).shape == (0, 8)
    assert hasher.query(none).nibbles.shape == (0, 16, 16)
    assert hasher.query(none, "alike").words is None
    assert hasher.query_codes(hasher.encode(none)).words.shape == (0, 4096)
    shop = hl.Collection.create(":memory:", hasher)
    shop.add(digits[0][:20])
    assert shop.search([], k=3).ids.shape == (0, 3)
    assert shop.search(none, k=3).ids.shape == (0, 3)


def test_masked_entries_are_refused(digits):
    X, y = np.ma.masked_array(digits[0][:60]), digits[1][:60]
    fitted = make().fit(X, y)  # nothing is masked
    X[3, 2] = np.ma.masked
    for call in (fitted.encode, fitted.query, lambda X: fitted.partial_fit(X, y), lambda X: make().partial_fit(X, y)):
        with pytest.raises(ValueError, match="X has 1 masked entries, which have no value"):
            call(X)


def many_classes(n_classes):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 4)
    return (rng.normal(size=(n_classes, 48))[y] + 0.3 * rng.normal(size=(len(y), 48))).astype(np.float32), y


def believed(hasher, packed):
    """The best label of the label word of each code."""
    word = packed[:, 0].astype(int) << 4 | packed[:, 1] >> 4
    return hasher.coder_.labels.words.words_[word].argmax(axis=1)


def test_codes_keep_given_labels_of_1500_classes():
    X, y = many_classes(1500)
    fitted = make(64, n_landmarks=500).fit(X, y)
    assert (fitted.report_.n_kept, fitted.report_.n_sets) == (1500, 1500)
    np.testing.assert_array_equal(believed(fitted, fitted.encode(X, y)), y)
    np.testing.assert_array_equal(believed(fitted, fitted.codes_), y)


def test_labels_without_a_word_are_told(monkeypatch):
    X, y = many_classes(100)
    monkeypatch.setattr("hashlearn.opencode.learn.LEAST_LEARNED", 4096 - 60)
    with pytest.warns(hl.FitAdvice, match="100 different label sets, of which a code keeps the 60 most frequent"):
        fitted = make(64, n_landmarks=100).fit(np.concatenate([X, X[-20:]]), np.append(y, y[-20:]))
    kept = believed(fitted, fitted.encode(X, y)) == y
    assert kept[-20:].all()  # the frequent ones
    assert 0.6 <= kept.mean() < 1


def test_partial_fit_survives_a_model_file_and_takes_tags(digits, tmp_path):
    X, y = digits[0][:400], digits[1][:400]
    tags = [[f"d{label}", "even"] if label % 2 == 0 else [f"d{label}"] for label in y]
    fitted = make(n_landmarks=200).partial_fit(X[:300], tags[:300])
    hl.save(fitted, tmp_path / "model.hl")
    loaded = hl.load(tmp_path / "model.hl")
    more = [["new"]] * 20 + tags[320:]
    np.testing.assert_array_equal(fitted.partial_fit(X[300:], more).codes_, loaded.partial_fit(X[300:], more).codes_)
    assert fitted.classes_.tolist()[-1] == "new"
    assert fitted.coder_.labels.words.words_.shape[1] == len(fitted.classes_)


@pytest.mark.parametrize("kind", ["classes", "label sets", "no labels"])
def test_migrate_keeps_codes_and_takes_rows_of_a_new_model(kind, digits, tmp_path):
    X, y = digits
    labels = {"classes": y, "label sets": np.stack([y % 2, y > 4, y % 3 > 0], axis=1), "no labels": None}[kind]
    new = np.tanh(X / 16 @ np.random.default_rng(0).normal(size=(64, 90))).astype(np.float32)
    fitted = make(64, n_landmarks=400).fit(X[:600], None if labels is None else labels[:600])
    stored = fitted.encode(X[600:1400])
    migrated = hl.migrate(fitted, new[600:1000], stored[:400], (y if labels is None else labels)[600:1000])
    assert migrated.report_.loss < 0.12
    assert migrated.report_.wrong_bits < 0.3
    hl.save(migrated, tmp_path / "model.hl")
    loaded = hl.load(tmp_path / "model.hl")
    for emphasis in ("alike", "auto", "label"):
        found = [
            mean_precision(tables.scores(stored), y[1400:], y[600:1400])
            for tables in (fitted.query(X[1400:], emphasis), migrated.query(new[1400:], emphasis))
        ]
        assert found[1] > found[0] - 0.1
        assert_equal_tables(loaded.query(new[1400:1420], emphasis), migrated.query(new[1400:1420], emphasis))
    hl.export(migrated, tmp_path / "hasher.py")
    made = runpy.run_path(str(tmp_path / "hasher.py"))
    np.testing.assert_array_equal(made["encode"](new[1400:1440]), migrated.encode(new[1400:1440].astype(np.float64)))
