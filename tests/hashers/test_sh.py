"""SH: waves on boxes whose answer is known."""

import numpy as np
import pytest

from hashlearn import SH, load, save
from hashlearn.hashers.sh import slowest_waves


def test_bit_k_of_a_line_switches_k_times():
    line = np.linspace(-3, 5, 4001)[:, None]
    bits = SH(n_bits=12).fit(line).transform(line)
    assert (np.diff(bits.astype(int), axis=0) != 0).sum(axis=0).tolist() == list(range(1, 13))


@pytest.mark.parametrize("seed", range(5))
def test_slowest_waves_equal_a_search_over_all(seed):
    rng = np.random.RandomState(seed)
    length = rng.uniform(0.2, 3, size=4)
    axis, waves = slowest_waves(length, 20)
    every = sorted(k / length[j] for j in range(4) for k in range(1, 41))
    np.testing.assert_allclose(waves / length[axis], every[:20])
    assert len(set(zip(axis.tolist(), waves.tolist(), strict=True))) == 20


def test_a_box_twice_as_long_gets_its_second_wave_together_with_the_short_axis():
    axis, waves = slowest_waves(np.array([1.0, 2.0]), 3)
    assert list(zip(axis.tolist(), waves.tolist(), strict=True)) == [(1, 1.0), (0, 1.0), (1, 2.0)]


def test_bits_are_the_formula_on_a_rotated_box():
    rng = np.random.RandomState(0)
    box = rng.uniform(0, 1, size=(3000, 3)) * [8, 4, 1]
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    hasher = SH(n_bits=6).fit(box @ turn + 100)
    found = hasher.decision_function(box @ turn + 100)
    components = hasher.function_.components_.astype(float)
    v = (box @ turn - (box @ turn).mean(axis=0)) @ components
    low, high = v.min(axis=0), v.max(axis=0)
    for b, (j, k) in enumerate(zip(hasher.function_.axis_, hasher.function_.waves_, strict=True)):
        wanted = np.sin(np.pi / 2 + k * np.pi * (v[:, j] - low[j]) / (high[j] - low[j]))
        np.testing.assert_allclose(found[:, b], wanted, atol=1e-3)
    assert hasher.function_.axis_.tolist()[0] == 0
    assert set(hasher.function_.axis_.tolist()) == {0, 1}


def test_codes_are_the_hashed_rows_and_a_file_keeps_them(tmp_path):
    rows = np.random.RandomState(0).standard_normal((200, 5))
    hasher = SH(n_bits=40).fit(rows)
    np.testing.assert_array_equal(hasher.codes_, hasher.encode(rows))
    save(hasher, tmp_path / "sh.hl")
    np.testing.assert_array_equal(load(tmp_path / "sh.hl").encode(rows), hasher.codes_)


def test_same_codes_every_time_whatever_the_threads():
    rows = np.random.RandomState(0).standard_normal((5000, 5))
    first, second = (SH(n_bits=16, n_jobs=jobs, random_state=seed).fit(rows) for jobs, seed in ((1, 0), (2, 7)))
    np.testing.assert_array_equal(first.codes_, second.codes_)


def test_constant_features_and_few_rows():
    assert SH(n_bits=5).fit(np.ones((6, 3))).codes_.shape == (6, 1)
    rows = np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    codes = SH(n_bits=5).fit(rows).transform(rows)
    assert (codes[0] != codes[1]).any()
