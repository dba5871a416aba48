"""An exception at any line (Ctrl-C, a lack of memory) leaves an index in memory with the rows before or after."""

import numpy as np
import pytest
from interruptions import interrupted, places

from hashlearn.codes import hamming_distances
from hashlearn.index import Index, ScoreTables


@pytest.mark.slow
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "chosen", [{}, {"word_bits": 8}, {"kind": "ivf", "n_lists": 4, "n_probes": 4}], ids=["flat", "words", "ivf"]
)
def test_an_exception_at_any_line_leaves_the_rows_before_or_after(tmp_path, chosen, error):
    codes = np.random.default_rng(3).integers(0, 256, size=(60, 2), dtype=np.uint8)
    words = np.zeros((3, 256), dtype=np.float32) if "word_bits" in chosen else None
    nibbles = ScoreTables.from_bits(np.random.default_rng(4).normal(size=(3, 16))).nibbles
    tables = ScoreTables(nibbles, words)

    def make():
        index = Index(16, **chosen)
        for start in (0, 20, 36, 40):
            index.add(codes[start : start + 4], ids=np.arange(start, start + 4) % 40)
        index.search(tables, k=3)
        index.search(codes[:3], k=3)
        return index

    def rows(index):
        ids, packed = index.rows()
        orders = np.argsort(hamming_distances(codes[:9], packed), axis=1, kind="stable")
        np.testing.assert_array_equal(index.search(codes[:9], k=50).ids, ids[orders])
        assert index.search(tables, k=50).ids.shape == (3, len(ids))
        return ids.tolist(), packed.tolist()

    calls = {
        "add": lambda index: index.add(codes[:30], ids=np.arange(2, 32)),
        "remove": lambda index: index.remove(np.arange(10, 38)),
        "search": lambda index: (index.search(codes[:5], k=7), index.search(tables, k=7), index.info()),
        "save": lambda index: index.save(tmp_path / "codes.index"),
    }
    for call in calls.values():
        index = make()
        before = rows(index)
        found = places(lambda call=call, index=index: call(index), ["index", "wholefile.py"])
        after = rows(index)
        for place in found:
            index = make()
            kept = interrupted(lambda call=call, index=index: call(index), place, error)
            seen = rows(index)
            assert seen in (before, after), place
            assert seen == after or kept is not None, place
            index.add(codes[:1])
            assert len(index) == len(seen[0]) + 1, place  # its id is a new one
            del kept
            assert not list(tmp_path.glob(".*")), place
