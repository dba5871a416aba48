"""Multi-index hashing against its definition: the rows that agree with a query in a substring, but for a few bits."""

import naive_index as brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.codes import hamming_distances
from hashlearn.index import Index, substrings


def expected(queries, table, k, n_substrings, substring_bits, n_flips):
    """Distances of the k nearest among the rows of {id: code} that the tables should find, -1 in empty places."""
    ids = sorted(table)
    codes = np.array([table[number] for number in ids]).reshape(len(ids), -1)
    distances = hamming_distances(queries, codes).astype(int)
    found = np.zeros(distances.shape, dtype=bool)
    rows, asked = (np.unpackbits(array, axis=1, bitorder="little") for array in (codes, queries))
    for number in range(n_substrings):
        bits = slice(number * substring_bits, (number + 1) * substring_bits)
        found |= (asked[:, None, bits] != rows[None, :, bits]).sum(axis=2) <= n_flips
    wanted = np.full((len(queries), k), -1)
    for query, row in enumerate(distances):
        near = np.sort(row[found[query]])[:k]
        wanted[query, : len(near)] = near
    return wanted


@pytest.mark.parametrize("n_bits", [40, 64, 100, 256])
@pytest.mark.parametrize("n_hashes", [1, 3, 4])
@pytest.mark.parametrize("n_flips", [0, 1, 2])
def test_finds_what_agrees_in_a_substring_and_nothing_twice(n_bits, n_hashes, n_flips):
    rng = np.random.default_rng(n_bits + n_hashes)
    codes = brute.clustered(rng, 4000) if n_bits == 64 else brute.random_codes(rng, 4000, n_bits)
    if n_bits > 64:
        codes[:, : n_bits // 16] = codes[rng.integers(0, 300, 4000), : n_bits // 16]  # substrings that rows share
    index = Index(n_bits, "multihash", n_hashes=n_hashes, n_flips=n_flips)
    index.add(codes)
    queries = codes[::40] ^ np.uint8(0b1000000)
    got = index.search(queries, 30)
    substring_bits = min(n_bits // n_hashes, substrings.MAX_SUBSTRING_BITS)
    wanted = expected(queries, dict(enumerate(codes)), 30, n_hashes, substring_bits, n_flips)
    if not index._structure._tables._worthwhile(n_flips):  # then all rows are compared
        wanted = np.sort(hamming_distances(queries, codes).astype(int), axis=1)[:, :30]
    np.testing.assert_array_equal(got.distances, wanted)
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in got.ids)
    right = np.bitwise_count(queries[:, None] ^ codes[got.ids]).sum(axis=2, dtype=int)
    np.testing.assert_array_equal(np.where(got.ids < 0, -1, right), got.distances)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.tuples(st.booleans(), st.integers(1, 60)), min_size=1, max_size=6))
def test_rows_that_come_and_go_are_found_as_in_a_new_index(seed, changes):
    rng = np.random.default_rng(seed)
    codes = brute.clustered(rng, 1500)
    index = Index(64, "multihash")
    index.add(codes)
    index.search(codes[:1], 1)  # the tables are made here
    table = dict(enumerate(codes))
    for adds, count in changes:
        ids = rng.choice(1600, count, replace=False)
        if adds:
            new = codes[rng.integers(0, 1500, count)]
            index.add(new, ids)
            table.update(zip(ids.tolist(), new, strict=True))
        else:
            index.remove(ids)
            for number in ids.tolist():
                table.pop(number, None)
    queries = codes[:20]
    got = index.search(queries, 10)
    assert set(got.ids[got.ids >= 0].tolist()) <= set(table)
    # Rows beside the tables are all compared, so more may be found, never less.
    wanted = expected(queries, table, 10, 4, 16, 1)
    assert ((got.distances <= wanted) & (got.distances >= 0) | (wanted < 0)).all()
    assert brute.pairs(index.within(queries, 7)) == brute.inside(queries, table, 7)


def test_tables_are_made_anew_when_many_rows_came(monkeypatch):
    monkeypatch.setattr("hashlearn.index.kinds._MAX_UNHASHED_ROWS", 100)
    codes = brute.clustered(np.random.default_rng(0), 1000)
    index = Index(64, "multihash")
    index.add(codes[:500])
    index.search(codes[:1], 1)
    index.add(codes[500:550])
    assert len(index._structure._tables) == 500
    index.add(codes[550:])
    assert index.search(codes[-1:], 1).ids.tolist() == [[999]]
    assert len(index._structure._tables) == 1000


def test_rows_that_share_one_code_are_scanned_and_not_gathered():
    codes = np.zeros((20_000, 8), dtype=np.uint8)
    codes[7] = 255
    index = Index(64, "multihash")
    index.add(codes)
    index.search(codes[:1], 1)
    index.remove([0, 3])
    got = index.search(codes[10:50], 5)
    assert got.ids.tolist() == [[1, 2, 4, 5, 6]] * 40
    assert (got.distances == 0).all()
    lims, ids, distances = index.within(codes[:3], 2)
    assert lims.tolist() == [0, 19_997, 2 * 19_997, 3 * 19_997]
    assert distances.max() == 0
    assert 7 not in ids
