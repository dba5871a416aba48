"""Places of codes on a map, against plain loops and on the digits."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from hashlearn import ITQ
from hashlearn.codes import pack, unpack
from hashlearn.service.routes_overview import NEAREST, Landmarks, fitted_landmarks, trust_of


def codes_of(n_rows, n_bits, seed=0):
    return pack(np.random.default_rng(seed).integers(0, 2, (n_rows, n_bits), dtype=np.uint8))


def share_of_own_label(places, labels):
    """Of the 10 nearest rows of every row, those with its label."""
    near = NearestNeighbors(n_neighbors=11).fit(places).kneighbors(return_distance=False)[:, :10]
    return (labels[near] == labels[:, None]).mean()


def test_a_code_lies_between_the_landmarks_nearest_to_it():
    landmarks = Landmarks(codes_of(50, 12), np.random.default_rng(1).random((50, 2), dtype=np.float32), 12)
    codes = codes_of(30, 12, seed=2)
    bits = unpack(landmarks.codes, 12)
    for code, place in zip(codes, landmarks.places_of(codes), strict=True):
        apart = (bits != unpack(code[None], 12)).sum(axis=1)
        nearest = np.argsort(apart, kind="stable")[:NEAREST]
        expected = np.average(landmarks.places[nearest], axis=0, weights=np.exp(-apart[nearest]))
        np.testing.assert_allclose(place, expected, atol=1e-6)


@pytest.mark.slow
def test_the_map_of_the_digits_keeps_labels_together():
    """`benchmarks/explorer_map.py` measures larger sets."""
    X, labels = (part[:600] for part in load_digits(return_X_y=True))
    codes = ITQ(n_bits=32, random_state=0).fit(X).encode(X)
    landmarks = fitted_landmarks(codes, 32)
    places = landmarks.places_of(codes)
    bits = unpack(codes, 32).astype(np.float32)
    lines = PCA(2, random_state=0).fit_transform(bits)
    assert share_of_own_label(places, labels) > share_of_own_label(lines, labels) + 0.2
    trust = trust_of(places, codes, 32)
    assert trust > trust_of(lines.astype(np.float32), codes, 32) + 0.1
    np.testing.assert_array_equal(places, fitted_landmarks(codes, 32).places_of(codes))  # the same each time


@pytest.mark.slow
@pytest.mark.parametrize("n_bits", [1, 2, 9, 64])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 7])
def test_few_codes(n_rows, n_bits):
    codes = codes_of(n_rows, n_bits)
    landmarks = fitted_landmarks(codes, n_bits)
    places = landmarks.places_of(codes)
    assert places.min() >= 0
    assert places.max() <= 1
    # Different codes of so few lie apart.
    assert len(np.unique(places.round(3), axis=0)) == len(np.unique(codes, axis=0))
    assert trust_of(places, codes, n_bits) is None


@pytest.mark.slow
def test_a_hundred_thousand_rows_are_placed_in_seconds():
    codes = codes_of(100_000, 64)
    start = time.process_time()
    places = fitted_landmarks(codes, 64).places_of(codes)
    assert places.shape == (100_000, 2)
    assert time.process_time() - start < 10  # about 2 s of one core; machines for tests are slow and busy
