"""The scan against plain loops, with every kernel that this processor can run and without the compiled part."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.index import scan
from hashlearn.index.scan import ScoreTables

COMPILED = () if scan._scan is None else scan.scan_info().runnable
KERNELS = (*COMPILED, "faiss")
needs_compiler = pytest.mark.skipif(not COMPILED, reason="no compiler at installation")

WIDTHS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64, 127, 128]
ROW_COUNTS = [0, 1, 2, 63, 64, 65, 127, 128, 500, 2047, 2048, 2049, 5000]


def use(patch, name):
    if name == "faiss":
        patch.setattr(scan, "_scan", None)
    else:
        patch.setenv("HASHLEARN_SCAN", name)


@pytest.fixture(params=KERNELS)
def kernel(request, monkeypatch):
    use(monkeypatch, request.param)
    return request.param


cases = given(
    st.sampled_from(KERNELS),
    st.sampled_from(WIDTHS),
    st.sampled_from(ROW_COUNTS),
    st.integers(1, 5),
    st.sampled_from([1, 2, 10, 100, 6000]),
    st.sampled_from([1.0, 0.5, 0.02, 0.0, None]),
    st.integers(0, 2**32),
)


def drawn_codes(rng, n, width):
    """Half of the time only a few distinct bytes, so that many rows are equal or tie."""
    return rng.choice(rng.integers(0, 256, 2), (n, width)).astype(np.uint8) if rng.random() < 0.5 else (
        rng.integers(0, 256, (n, width), dtype=np.uint8))  # fmt: skip


def drawn_filter(rng, n, share):
    """A boolean per row and its bitmap."""
    mask = np.ones(n, dtype=bool) if share is None else rng.random(n) < share
    return mask, None if share is None else np.packbits(mask, bitorder="little")


def naive_distances(codes, queries):
    return np.stack([np.unpackbits(codes ^ query, axis=1).sum(axis=1, dtype=np.int64) for query in queries])


def naive_scores(codes, tables, words=None, word_bits=0):
    scores = np.zeros((len(tables), len(codes)))
    if words is not None:
        scores += words[:, leading_words(codes, word_bits)]
    for byte in range(codes.shape[1]):
        high = tables[:, 2 * byte][:, codes[:, byte] >> 4].astype(np.float64)
        scores += high + tables[:, 2 * byte + 1][:, codes[:, byte] & 15]
    return scores.astype(np.float32)


def leading_words(codes, word_bits):
    padded = np.pad(codes, ((0, 0), (0, 1)))
    return (padded[:, 0].astype(np.int64) << 8 | padded[:, 1]) >> (16 - word_bits)


def naive_best(costs, mask, k):
    """Rows (queries, k) of the least costs, by (cost, row), and -1 where there are fewer."""
    rows = np.full((len(costs), k), -1)
    for query, cost in enumerate(costs):
        order = np.argsort(cost, kind="stable")
        order = order[mask[order]][:k]
        rows[query, : len(order)] = order
    return rows


def check_best(found, costs, rows, empty):
    np.testing.assert_array_equal(found.rows, rows)
    want = np.take_along_axis(costs, np.maximum(rows, 0), axis=1) if costs.shape[1] else np.full(rows.shape, empty)
    np.testing.assert_array_equal(found.distances, np.where(rows < 0, empty, want))


def check_inside(found, costs, mask, limit):
    for query in range(len(costs)):
        order = np.argsort(costs[query], kind="stable")
        rows = order[mask[order] & (costs[query][order] <= limit)]
        part = slice(found.offsets[query], found.offsets[query + 1])
        np.testing.assert_array_equal(found.rows[part], rows)
        np.testing.assert_array_equal(found.distances[part], costs[query][rows])
    assert found.offsets[-1] == len(found.rows) == len(found.distances)


@settings(max_examples=150, deadline=None)
@cases
def test_hamming_top_k_and_within(name, width, n, n_queries, k, share, seed):
    rng = np.random.default_rng(seed)
    codes, queries = drawn_codes(rng, n, width), drawn_codes(rng, n_queries, width)
    mask, bitmap = drawn_filter(rng, n, share)
    distances = naive_distances(codes, queries)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, name)
        check_best(scan.nearest(codes, queries, k, bitmap), distances, naive_best(distances, mask, k), -1)
        radius = int(rng.integers(0, 8 * width + 1))
        check_inside(scan.within(codes, queries, radius, bitmap), distances, mask, radius)


@settings(max_examples=150, deadline=None)
@cases
def test_tables_top_k_and_from_a_score(name, width, n, n_queries, k, share, seed):
    rng = np.random.default_rng(seed)
    codes, nibbles = drawn_codes(rng, n, width), rng.standard_normal((n_queries, 2 * width, 16)).astype(np.float32)
    if rng.random() < 0.5:
        nibbles = np.rint(nibbles)  # so that scores tie
    nibbles *= np.float32(rng.choice([1, 1e-42, 1e-30, 1e34]))
    mask, bitmap = drawn_filter(rng, n, share)
    word_bits = int(rng.choice([0, 8, 12, 16] if width > 1 else [0, 8]))
    words = None
    if word_bits:
        words = (rng.standard_normal((n_queries, 2**word_bits)) * 3 * np.abs(nibbles).max()).astype(np.float32)
    groups = None
    if word_bits and rng.random() < 0.5:
        codes, groups = grouped(rng, codes, leading_words(codes, word_bits), 2**word_bits)
    costs = 0 - naive_scores(codes, nibbles, words, word_bits)
    tables = ScoreTables(nibbles, words)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, name)
        found = scan.nearest(codes, tables, k, bitmap, groups)
        known = known_costs(costs, mask, groups)
        check_best(found, known[0], naive_best(*known, k), np.float32(np.inf))
        if groups is None:
            least = -rng.choice(costs.ravel()) if n else np.float32(0)
            check_inside(scan.within(codes, tables, float(least), bitmap), *known, -least)
    assert ((found.skipped >= 0) & (found.skipped <= n)).all()
    assert groups is not None or not found.skipped.any()


@settings(max_examples=80, deadline=None)
@cases
def test_chosen_groups(name, width, n, n_queries, k, share, seed):
    rng = np.random.default_rng(seed)
    codes, queries = drawn_codes(rng, n, width), drawn_codes(rng, n_queries, width)
    mask = np.ones(n, dtype=bool)
    number = rng.integers(0, 7, n)
    codes, groups = grouped(rng, codes, number, 7)
    chosen = np.array([rng.permutation(7)[:3] for _ in range(n_queries)], dtype=np.int32)
    groups = groups._replace(chosen=chosen)
    distances, _ = known_costs(naive_distances(codes, queries), mask, groups)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, name)
        found = scan.nearest(codes, queries, k, None, groups)
    for query, some in enumerate(chosen):
        here = np.zeros(n, dtype=bool)
        here[groups.numbers[np.isin(np.sort(number), some)]] = True
        rows = naive_best(distances[query : query + 1], here, k)
        check_best(type(found)(*(array[query : query + 1] for array in found)), distances[query : query + 1], rows, -1)
        assert name == "faiss" or found.skipped[query] == n - here.sum()


def grouped(rng, codes, number, n_groups):
    """The codes sorted by group, and groups whose rows have random numbers."""
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(n_groups + 1)).astype(np.int64)
    return codes[order], scan.Groups(starts, rng.permutation(len(codes)).astype(np.uint32))


def known_costs(costs, mask, groups):
    """Costs and mask by the number of each row instead of its place."""
    if groups is None:
        return costs, mask
    places = np.argsort(groups.numbers)
    return costs[:, places], mask[places]


def test_words_that_cannot_be_among_the_best_are_skipped(kernel):
    if kernel == "faiss":
        pytest.skip("faiss and NumPy look at all rows")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (20_000, 8), dtype=np.uint8)
    codes, groups = grouped(rng, codes, leading_words(codes, 12), 4096)
    nibbles = 0.01 * rng.standard_normal((3, 16, 16)).astype(np.float32)
    words = rng.standard_normal((3, 4096)).astype(np.float32)
    found = scan.nearest(codes, ScoreTables(nibbles, words), 10, None, groups)
    costs, mask = known_costs(-naive_scores(codes, nibbles, words, 12), np.ones(len(codes), dtype=bool), groups)
    check_best(found, costs, naive_best(costs, mask, 10), 0)
    assert (found.skipped > 15_000).all()


def test_tables_of_bits_score_the_sum_of_the_bits(kernel):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (300, 21), dtype=np.uint8)
    queries = np.rint(8 * rng.standard_normal((4, 21)))  # whole numbers: no rounding
    costs = (-(queries @ (2.0 * bits.T - 1.0))).astype(np.float32)
    for order in ("big", "little"):
        codes = np.packbits(bits, axis=1, bitorder=order)
        found = scan.nearest(codes, ScoreTables.from_bits(queries, order), 300)
        check_best(found, costs, naive_best(costs, np.ones(300, dtype=bool), 300), 0)


@pytest.mark.parametrize("n_queries", [1, 7])
def test_blocks_and_threads_change_nothing(kernel, monkeypatch, n_queries):
    rng = np.random.default_rng(0)
    codes, queries = rng.integers(0, 4, (9001, 9), dtype=np.uint8), rng.integers(0, 4, (n_queries, 9), dtype=np.uint8)
    tables = ScoreTables(np.rint(rng.standard_normal((n_queries, 18, 16))))
    bitmap = np.packbits(rng.random(9001) < 0.7, bitorder="little")

    def answers(n_jobs):
        return [
            *scan.nearest(codes, queries, 50, bitmap, None, n_jobs),
            *scan.within(codes, queries, 9, bitmap, n_jobs),
            *scan.nearest(codes, tables, 50, bitmap, None, n_jobs),
            *scan.within(codes, tables, 20.0, bitmap, n_jobs),
        ]

    whole = answers(1)
    monkeypatch.setattr(scan, "_THREAD_WORK", 1)
    monkeypatch.setattr(scan, "_BLOCK_ROWS", 1024)
    for n_jobs in (1, 3):
        for got, want in zip(answers(n_jobs), whole, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.6, 1.0])
def test_bitmaps(share):
    mask = np.random.default_rng(0).random(1003) < share
    np.testing.assert_array_equal(scan.bitmap(np.flatnonzero(mask), 1003), np.packbits(mask, bitorder="little"))


def test_rows_may_begin_anywhere_in_memory(kernel):
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, 8 * 300 + 3, dtype=np.uint8)
    codes, queries = raw[3:].reshape(300, 8), rng.integers(0, 256, (2, 8), dtype=np.uint8)
    distances = naive_distances(codes, queries)
    check_best(scan.nearest(codes, queries, 9), distances, naive_best(distances, np.ones(300, dtype=bool), 9), -1)


@needs_compiler
def test_the_variable_forces_a_kernel_and_refuses_others(monkeypatch):
    monkeypatch.delenv("HASHLEARN_SCAN", raising=False)
    assert scan.scan_info().kernel == COMPILED[0]
    monkeypatch.setenv("HASHLEARN_SCAN", "portable")
    assert scan.scan_info()[:2] == ("portable", "HASHLEARN_SCAN is set")
    monkeypatch.setenv("HASHLEARN_SCAN", "mmx")
    with pytest.raises(ValueError, match=r"must be one of .*'portable'.* Got 'mmx' instead"):
        scan.nearest(np.zeros((1, 8), dtype=np.uint8), np.zeros((1, 8), dtype=np.uint8), 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_tables_without_usable_sums_are_refused(value):
    nibbles = np.zeros((1, 16, 16), dtype=np.float32)
    nibbles[0, :2, 3] = value
    with pytest.raises(ValueError, match="must be finite"):
        ScoreTables(nibbles)
    with pytest.raises(ValueError, match="must be finite"):
        ScoreTables(np.full((1, 16, 16), 1e37), np.full((1, 256), value))


@pytest.mark.parametrize(
    ("nibbles", "words", "message"),
    [
        ((2, 3, 16), None, r"shape \(queries, 2 \* bytes, 16\). Got \(2, 3, 16\)"),
        ((2, 16), None, r"Got \(2, 16\)"),
        ((2, 4, 16), (2, 512), r"words of 8, 12 or 16 bits .* Got \(2, 512\)"),
        ((2, 4, 16), (3, 256), r"Got \(3, 256\)"),
        ((2, 2, 16), (2, 4096), "no longer than a row"),
    ],
)
def test_tables_of_other_shapes_are_refused(nibbles, words, message):
    with pytest.raises(ValueError, match=message):
        ScoreTables(np.zeros(nibbles), None if words is None else np.zeros(words))


@needs_compiler
def test_buffers_that_do_not_fit_are_refused():
    codes, queries, limits = np.zeros((10, 8), dtype=np.uint8), np.zeros((2, 8), dtype=np.uint8), np.full(2, 9)
    entries, words = np.zeros((2, 16, 16), dtype=np.float32), np.zeros((2, 256), dtype=np.float32)
    numbers, starts = np.arange(10, dtype=np.uint32), np.full(257, 10)
    starts[0] = 0
    groups = np.zeros((2, 3), dtype=np.int32)
    by_distance = (codes, 8, bytes(2), numbers, queries, None, None, starts, groups, limits, 3)
    by_tables = (codes, 8, bytes(2), numbers, None, entries, words, starts, None, limits, 3)
    for given_ in (by_distance, by_tables):
        scan._scan.scan(*given_)
        for place, value in enumerate(given_):
            if value is None:
                continue
            wrongs = [-1 if isinstance(value, int) else value[:-1] if isinstance(value, bytes) else value.ravel()[:-1]]
            if value is starts:
                wrongs = [starts[:-1] - 1, starts[::-1].copy(), starts + 1, np.minimum(starts, 9)]
            if value is groups:
                wrongs += [groups - 1, groups + 256]
            for wrong in wrongs:
                with pytest.raises(ValueError, match="do not fit"):
                    scan._scan.scan(*given_[:place], wrong, *given_[place + 1 :])
    for given_ in ((codes, 8, None, None, None, None, None, None, None, limits, 3),
                   (codes, 8, None, None, queries, entries, None, None, None, limits, 3),
                   (codes, 8, None, None, queries, None, None, starts, None, limits, 3),
                   (codes, 8, None, None, queries, None, words, None, None, limits, 3)):  # fmt: skip
        with pytest.raises(ValueError, match="do not fit"):
            scan._scan.scan(*given_)
