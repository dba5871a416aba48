"""Adding, replacing and removing against a dict, and what an index refuses."""

import naive_index as brute
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hashlearn.index import Index, ScoreTables

BITS = 12


class Changes(RuleBasedStateMachine):
    """Any sequence of changes."""

    @initialize(kind=st.sampled_from(["flat", "ivf"]), seed=st.integers(0, 2**32))
    def start(self, kind, seed):
        # All lists are probed, so that ivf is exact as well.
        settings = {"n_lists": 4, "n_probes": 4} if kind == "ivf" else {"word_bits": 8}
        self.index = Index(BITS, kind, **settings)
        self.rng = np.random.default_rng(seed)
        self.table = {}
        self.largest = -1

    @rule(ids=st.lists(st.integers(0, 40), unique=True, max_size=12))
    def upsert(self, ids):
        codes = brute.random_codes(self.rng, len(ids), BITS)
        self.index.add(codes, ids)
        self.table.update(zip(ids, codes, strict=True))
        self.largest = max([self.largest, *ids])

    @rule(n=st.integers(0, 5))
    def append(self, n):
        codes = brute.random_codes(self.rng, n, BITS)
        self.index.add(codes)
        self.table.update(zip(range(self.largest + 1, self.largest + 1 + n), codes, strict=True))
        self.largest += n

    @rule(ids=st.lists(st.integers(0, 60), max_size=12))
    def remove(self, ids):
        gone = set(ids) & set(self.table)
        assert self.index.remove(ids) == len(gone)
        for id_ in gone:
            del self.table[id_]

    @rule(k=st.integers(1, 70))
    def search(self, k):
        queries = brute.random_codes(self.rng, 2, BITS)
        want_ids, want_distances = brute.top(queries, self.table, k)
        got = self.index.search(queries, k)
        np.testing.assert_array_equal(got.distances, want_distances)
        if self.index.kind == "flat":
            np.testing.assert_array_equal(got.ids, want_ids)

    @rule(radius=st.integers(0, 12))
    def within(self, radius):
        queries = brute.random_codes(self.rng, 2, BITS)
        assert brute.pairs(self.index.within(queries, radius)) == brute.inside(queries, self.table, radius)

    @rule()
    def search_by_expected_bits(self):
        if self.table:
            projections = self.rng.standard_normal((1, BITS))
            ids = sorted(self.table)
            codes = np.array([self.table[id_] for id_ in ids])
            want = brute.by_signs(projections.astype(np.float32), codes, ids, BITS, 3)[0]
            assert self.index.search(projections, 3).ids[0, : want.shape[1]].tolist() == want[0].tolist()

    @rule(k=st.integers(1, 70))
    def search_by_words(self, k):
        tables = ScoreTables(np.rint(self.rng.normal(size=(2, 4, 16))), np.rint(self.rng.normal(size=(2, 256))))
        want_ids, want_scores = brute.by_tables(tables, self.table, min(k, len(self.table)))
        got = self.index.search(tables, k)
        np.testing.assert_array_equal(got.ids, want_ids)
        np.testing.assert_array_equal(got.scores, want_scores)

    @invariant()
    def length(self):
        if hasattr(self, "table"):
            assert len(self.index) == len(self.table) == self.index.info().rows


TestChanges = Changes.TestCase
TestChanges.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_many_small_batches_in_any_order_end_up_sorted():
    rng = np.random.default_rng(0)
    codes = brute.random_codes(rng, 5000, 64)
    ids = rng.permutation(5000)
    index = Index(64)
    for part in np.array_split(np.arange(5000), 300):
        index.add(codes[part], ids[part])
    row_ids, row_codes = index._rows.all_rows()
    np.testing.assert_array_equal(row_ids, np.arange(5000))
    np.testing.assert_array_equal(row_codes[ids], codes)


def test_the_caller_keeps_its_arrays():
    codes = np.zeros((2, 8), dtype=np.uint8)
    index = Index(64)
    index.add(codes)
    codes[:] = 255
    assert index.search(np.zeros((1, 8), dtype=np.uint8), 2).distances.tolist() == [[0, 0]]


def test_an_id_twice_in_a_batch_is_refused_and_changes_nothing():
    index = Index(8)
    with pytest.raises(ValueError, match="Got 4 twice"):
        index.add(np.zeros((3, 1), dtype=np.uint8), [4, 1, 4])
    assert len(index) == 0


def test_lists_are_learned_again_when_an_index_has_grown():
    rng = np.random.default_rng(0)
    codes = brute.clustered(rng, 6000)
    index = Index(64, "ivf")
    index.add(codes[:500])
    index.search(codes[:1], 1)
    few = len(index._lists.centers)
    index.add(codes[500:])
    assert index.search(codes[-1:], 1).distances.tolist() == [[0]]
    assert len(index._lists.centers) > few


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Index(0), "'n_bits' parameter of Index must be between 1 and 1024. Got 0"),
        (lambda: Index(1025), "Got 1025"),
        (lambda: Index(8, "tree"), "'kind' parameter of Index must be one of 'flat', 'ivf'. Got 'tree'"),
        (lambda: Index(8, bit_order="middle"), "'bit_order' parameter"),
        (lambda: Index(8, n_probes=3), "kind 'flat' has the settings 'word_bits'. Got 'n_probes'"),
        (lambda: Index(8, "ivf", links=3), "kind 'ivf' has the settings 'n_lists', 'n_probes'. Got 'links'"),
        (lambda: Index(8, "ivf", n_probes=0), "'n_probes' setting of an index must be a whole number from 1. Got 0"),
        (lambda: Index(64, word_bits=10), "'word_bits' setting must be 8, 12 or 16"),
        (lambda: Index(8, word_bits=12), "no longer than a row. Got 12"),
        (lambda: Index(64, bit_order="little", word_bits=8), "needs bit_order='big'"),
        (lambda: Index(8, "ivf", n_probes=None), "'n_probes' setting"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda i: i.add(np.zeros((1, 3), dtype=np.uint8)), "codes of 12 bits must have 2 bytes per row. Got 3"),
        (lambda i: i.add(np.zeros((1, 2))), "codes must be packed codes: a 2-D uint8 array. Got 2-D float64"),
        (lambda i: i.add(np.array([[0, 1]], dtype=np.uint8)), "must end in 4 zero bits per row"),
        (lambda i: i.add(np.zeros((1, 2), dtype=np.uint8), [1, 2]), "one id per code. Got 2 ids and 1 codes"),
        (lambda i: i.add(np.zeros((1, 2), dtype=np.uint8), [-1]), "between 0 and 2..63 - 1. Got -1"),
        (lambda i: i.add(np.zeros((1, 2), dtype=np.uint8), [2**63]), "Got 9223372036854775808"),
        (lambda i: i.add(np.zeros((1, 2), dtype=np.uint8), [1.5]), "whole numbers. Got 1-D float64"),
        (lambda i: i.remove("7"), "ids must be a 1-D array"),
        (lambda i: i.search(np.zeros((1, 2), dtype=np.uint8), 0), "k must be a whole number from 1. Got 0"),
        (lambda i: i.search(np.zeros((1, 2), dtype=np.uint8), 1, n_jobs=0), "n_jobs must be"),
        (lambda i: i.within(np.zeros((1, 2), dtype=np.uint8), -1), "radius must be a whole number from 0. Got -1"),
        (lambda i: i.within(np.zeros((1, 12)), 1), "radius is for packed codes"),
        (lambda i: i.within(np.zeros((1, 12))), "least_score must be a finite number. Got None"),
        (lambda i: i.within(np.zeros((1, 12)), least_score=np.nan), "Got nan"),
        (lambda i: i.within(np.zeros((1, 2), dtype=np.uint8), least_score=1), "least_score is for real-valued"),
        (lambda i: i.search(ScoreTables(np.zeros((1, 6, 16)))), "12 bits must have 4 nibbles. Got 6"),
        (lambda i: i.search(np.zeros((1, 16)), 1), r"shape \(queries, 12\). Got \(1, 16\)"),
        (lambda i: i.search(np.full((1, 12), np.nan), 1), "finite"),
    ],
)
def test_bad_input(use, message):
    index = Index(BITS)
    index.add(np.zeros((1, 2), dtype=np.uint8))
    with pytest.raises(ValueError, match=message):
        use(index)
    assert len(index) == 1


def test_ids_end_at_the_largest_int64():
    index = Index(8)
    code = np.zeros((1, 1), dtype=np.uint8)
    index.add(code, [2**63 - 1])
    assert index.search(code, 1).ids.tolist() == [[2**63 - 1]]
    with pytest.raises(ValueError, match="give ids"):
        index.add(code)


def test_little_bit_order_has_its_padding_on_the_other_side():
    index = Index(BITS, bit_order="little")
    index.add(np.array([[0, 0x0F]], dtype=np.uint8))
    with pytest.raises(ValueError, match="4 zero bits"):
        index.add(np.array([[0, 0xF0]], dtype=np.uint8))
