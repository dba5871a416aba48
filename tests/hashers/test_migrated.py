"""A new embedding model for stored codes: what is learned, what the report promises, and what is refused."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import hashlearn as hl


@pytest.fixture(scope="module")
def moved():
    """Digits, a hasher on them, and a second embedding: random features of the same images."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))  # neighboring rows are by one writer
    X, y = X[order], y[order]
    new = np.tanh(X / 16 @ rng.normal(size=(64, 40))) + 0.05 * rng.normal(size=(len(X), 40))
    hasher = hl.GSDHP(24, n_landmarks=200, n_anchors=200, random_state=0).fit(X[:1200], y[:1200])
    return X, new, y, hasher, hasher.encode(X)


def test_queries_of_the_new_model_find_stored_codes(moved):
    X, new, y, hasher, codes = moved
    migrated = hl.migrate(hasher, new[:800], codes[:800], y[:800])
    queries = slice(1200, None)

    def found(asked):
        return hl.metrics.mean_average_precision(asked, codes[:1200], y[queries], y[:1200], at=None)

    before, after = found(hasher.encode_queries(X[queries])), found(migrated.encode_queries(new[queries]))
    assert after > 0.93 * before
    # What the report says of rows left out holds for rows that nobody has seen.
    wrong = np.mean(hl.codes.unpack(codes[queries], 24) != migrated.transform(new[queries]))
    assert abs(wrong - migrated.report_.wrong_bits) < 0.03
    assert migrated.report_.relevant == "labels"
    assert (migrated.report_.rows, migrated.report_.left_out) == (800, 160)
    np.testing.assert_allclose(migrated.report_.loss, before - after, atol=0.05)


def test_the_expected_loss_grows_when_the_new_model_knows_less(moved):
    _, new, _, hasher, codes = moved
    rng = np.random.default_rng(1)
    blurred = new + 2 * rng.normal(size=new.shape)
    reports = [hl.migrate(hasher, rows[:600], codes[:600]).report_ for rows in (new, blurred)]
    assert [report.relevant for report in reports] == ["neighbors"] * 2
    assert reports[1].loss > reports[0].loss + 0.1
    assert reports[1].wrong_bits > reports[0].wrong_bits + 0.05


def test_a_migrated_hasher_is_a_hasher_like_others(moved, tmp_path):
    _, new, _, hasher, codes = moved
    migrated = hl.migrate(hasher, new[:300], codes[:300])
    hl.save(migrated, tmp_path / "new.hl")
    loaded = hl.load(tmp_path / "new.hl")
    np.testing.assert_array_equal(loaded.encode(new), migrated.encode(new))
    assert loaded.report_ == migrated.report_
    np.testing.assert_array_equal(loaded.expected_bits(new) >= 0, migrated.transform(new))
    hl.export(migrated, tmp_path / "new.py", to="numpy")


def test_what_cannot_be_migrated_says_so(moved):
    _, new, _, hasher, codes = moved
    with pytest.raises(ValueError, match="at least 20 rows"):
        hl.migrate(hasher, new[:19], codes[:19])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        hl.migrate(hasher, new[:40], codes[:41])
    with pytest.raises(ValueError, match="codes of 24 bits must have 3 bytes"):
        hl.migrate(hasher, new[:40], codes[:40, :2])
