"""Near-duplicates against the comparison of every row with every other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hashlearn as hl
from hashlearn.index import near_duplicates as module
from hashlearn.index.near_duplicates import near_duplicates


def naive_pairs(codes, radius):
    """All pairs of the first rows of each code, and of later rows with the first row of their code."""
    first = {}
    pairs = []
    for row, code in enumerate(codes):
        head = first.setdefault(code.tobytes(), row)
        if head != row:
            pairs.append([head, row, 0])
    heads = sorted(first.values())
    for place, one in enumerate(heads):
        for other in heads[place + 1 :]:
            distance = int(np.bitwise_count(codes[one] ^ codes[other]).sum())
            if distance <= radius:
                pairs.append([one, other, distance])
    return sorted(pairs)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([1, 2, 5, 8, 9, 16, 33]),
    st.integers(0, 90),
    st.integers(0, 12),
    st.sampled_from(["random", "few", "flipped"]),
    st.sampled_from([7, 2**24]),
    st.integers(0, 2**32),
)
def test_finds_what_comparing_all_rows_finds(width, n, radius, values, part_rows, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (n, width), dtype=np.uint8)
    if values == "few":
        codes = rng.choice(np.array([0, 1, 128], dtype=np.uint8), (n, width))
    elif values == "flipped" and n:
        codes = codes[rng.integers(0, max(1, n // 6), n)]
        for _ in range(3):
            codes[np.arange(n), rng.integers(0, width, n)] ^= np.uint8(1) << rng.integers(0, 8, n, dtype=np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PART_ROWS", part_rows)
        patch.setattr(module, "_BLOCK_ROWS", 16)
        for scan_cost in (0.4, 1e9):  # few rows would be scanned
            patch.setattr(module, "_SCAN_COST", scan_cost)
            found = near_duplicates(codes, radius, n_jobs=1)
            assert found.pairs.tolist() == naive_pairs(codes, radius)


def test_clusters_are_chains_of_pairs():
    codes = np.array([[0b111], [0b11110000], [0b0], [0b1], [0b11], [0b11110001], [0b11110000]], dtype=np.uint8)
    found = hl.near_duplicates(codes, 1)
    assert found.clusters.tolist() == [0, 1, 0, 0, 0, 1, 1]
    assert found.keep.tolist() == [True, True, False, False, False, False, False]
    assert repr(found) == "NearDuplicates(pairs=5, rows=7, kept=2)"
    assert hl.near_duplicates(codes[:0], 1).clusters.tolist() == []
    assert hl.near_duplicates(codes[:2], 1).keep.all()


def test_threads_parts_and_many_equal_rows_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (3000, 8), dtype=np.uint8)
    codes[1000:2000] = codes[0]
    codes[2000:] = codes[:1000] ^ np.uint8(1)
    want = near_duplicates(codes, 9, n_jobs=1).pairs
    assert len(want) == 1000 + 1000
    assert (near_duplicates(codes, 8, n_jobs=3).pairs == want).all()
    monkeypatch.setattr(module, "_PART_ROWS", 500)
    assert (near_duplicates(codes, 8, n_jobs=3).pairs == want).all()


def test_codes_with_equal_hashes_are_not_taken_for_equal(monkeypatch):
    monkeypatch.setattr(module, "_ODD", np.uint64(0))  # all hashes are equal
    codes = np.random.default_rng(0).integers(0, 4, (60, 2), dtype=np.uint8)
    monkeypatch.setattr(module, "_SCAN_COST", 1e9)
    for radius in (0, 2):
        assert near_duplicates(codes, radius).pairs.tolist() == naive_pairs(codes, radius)


def test_an_interrupted_call_goes_on(tmp_path, monkeypatch):
    codes = np.random.default_rng(0).integers(0, 2, (500, 8), dtype=np.uint8)
    monkeypatch.setattr(module, "_SCAN_COST", 1e9)

    def stop(phase, done, total):
        if (phase, done) == ("near codes", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        near_duplicates(codes, 2, n_jobs=1, folder=tmp_path / "parts", progress=stop)
    with pytest.raises(ValueError, match="other codes or another radius"):
        near_duplicates(codes, 3, folder=tmp_path / "parts")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="not made by near_duplicates"):
        near_duplicates(codes, 2, folder=tmp_path)
    done, work = [], module._near_rows
    monkeypatch.setattr(module, "_near_rows", lambda *a: done.append(1) or work(*a))
    found = near_duplicates(codes, 2, n_jobs=1, folder=tmp_path / "parts")
    assert found.pairs.tolist() == naive_pairs(codes, 2)
    assert 0 < len(done) < len(module._plan(500, 64, 2).choices)


@pytest.mark.parametrize("radius", [-1, 1.5, True])
def test_a_radius_that_is_none_is_refused(radius):
    with pytest.raises(ValueError, match="radius must be a whole number from 0"):
        near_duplicates(np.zeros((2, 8), dtype=np.uint8), radius)
