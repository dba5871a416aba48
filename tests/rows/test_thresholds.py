"""Spread thresholds: database rows get bits of their own, queries keep the signs."""

import numpy as np
import pytest
from chunk_data import rows_and_classes
from small_methods import spread_bits

import hashlearn as hl
from hashlearn.models.format import ModelFileError


def spread_hasher(X, y):
    return spread_bits(hl.GSDHP(24, n_landmarks=60, n_anchors=120, random_state=0).fit(X, y))


def test_bits_of_database_rows_are_the_signs_of_expected_bits_minus_thresholds():
    X, y = rows_and_classes(3000)
    hasher = spread_hasher(X, y)
    np.testing.assert_array_equal(np.sort(hasher.thresholds_), np.linspace(-0.75, 0.75, 24))
    distance = hasher.expected_bits(X) - hasher.thresholds_
    bits = hl.codes.unpack(hasher.encode(X), 24)
    sure = np.abs(distance) > 1e-5
    np.testing.assert_array_equal(bits[sure], distance[sure] > 0)
    assert np.mean(bits != hasher.transform(X)) > 0.02
    np.testing.assert_array_equal(hl.codes.unpack(hasher.encode_queries(X), 24), hasher.transform(X))


def test_codes_of_chunks_and_of_a_loaded_model_are_those_of_encode(tmp_path):
    X, y = rows_and_classes(3000)
    hasher = spread_hasher(X, y)
    expected = hasher.encode(X)
    paths = hasher.encode_chunks(X, tmp_path / "codes")
    np.testing.assert_array_equal(np.concatenate([np.load(path) for path in paths]), expected)
    hl.save(hasher, tmp_path / "model.hl")
    np.testing.assert_array_equal(hl.load(tmp_path / "model.hl").encode(X), expected)


def test_fitting_again_removes_thresholds():
    X, y = rows_and_classes(1000)
    hasher = spread_hasher(X, y)
    assert not hasattr(hasher.fit(X, y), "thresholds_")


def test_a_joined_hasher_has_the_thresholds_of_its_parts():
    X, y = rows_and_classes(1000)
    spread = hl.JoinedHasher([hl.GSDHP(8, n_landmarks=50, random_state=0)], spread=0.5)
    joined = hl.JoinedHasher([spread, hl.LSH(4, random_state=0)]).fit(X, y)
    np.testing.assert_array_equal(joined.thresholds_[8:], 0)
    parts = [hl.codes.unpack(part.encode(X), part.n_bits_) for part in joined.hashers_]
    np.testing.assert_array_equal(hl.codes.unpack(joined.encode(X), 12), np.hstack(parts))
    assert not np.array_equal(joined.encode(X), joined.encode_queries(X))


@pytest.mark.parametrize("name", ["slopes", "thresholds"])
def test_a_model_whose_numbers_per_bit_are_wrong_is_damaged(name, tmp_path):
    X, y = rows_and_classes(1000)
    hasher = spread_hasher(X, y)
    if name == "slopes":
        hasher.calibration_.slopes_ = hasher.calibration_.slopes_[:1]
    else:
        hasher.thresholds_ = np.full(24, 2.0)
    hl.save(hasher, tmp_path / "model.hl")
    with pytest.raises(ModelFileError, match="do not fit together"):
        hl.load(tmp_path / "model.hl")
