"""Blocks: what several say is what their merging says, from wherever a reader begins; damage is noticed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.collection.stores.embedded import columns
from hashlearn.collection.stores.embedded.blocks import (
    Block,
    DamagedBlockError,
    from_row,
    merged,
    to_merge,
    to_row,
)

WIDTH = 2
CHANGES = st.lists(st.dictionaries(st.integers(0, 12), st.none() | st.integers(0, 65535), max_size=6), max_size=7)


def block_of(change):
    """A block from {id: code, or None for gone}."""
    there = sorted(number for number, code in change.items() if code is not None)
    codes = np.array([divmod(change[number], 256) for number in there], dtype=np.uint8).reshape(-1, WIDTH)
    gone = sorted(number for number, code in change.items() if code is None)
    return Block(np.array(there, dtype=np.int64), codes, np.array(gone, dtype=np.int64))


def applied(state, block):
    state = {number: code for number, code in state.items() if number not in set(block.gone.tolist())}
    return state | {n: bytes(code) for n, code in zip(block.ids.tolist(), block.codes, strict=True)}


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(CHANGES, st.data())
def test_merging_says_the_same_to_every_reader(changes, data):
    blocks = [block_of(change) for change in changes]
    states = [{}]
    for block in blocks:
        states.append(applied(states[-1], block))
    whole = merged(blocks, WIDTH)
    assert (np.diff(whole.ids) > 0).all()
    assert (np.diff(whole.gone) > 0).all()
    assert not set(whole.ids.tolist()) & set(whole.gone.tolist())
    seen = data.draw(st.integers(0, len(blocks)))  # a reader that has applied so many of them already
    assert applied(states[seen], whole) == states[-1]
    alone = merged(blocks, WIDTH, keep_gone=False)
    assert len(alone.gone) == 0
    assert applied({}, alone) == states[-1]


def test_bytes_and_back():
    block = block_of({5: 300, 2**62: 7, 9: None})
    stored = to_row(4, block)
    again = from_row(stored, WIDTH, 0)
    for ours, theirs in zip(block[:3], again[:3], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    damages = [
        stored._replace(codes=stored.codes[:-1] + b"\x55"),
        stored._replace(ids=stored.ids[:-8]),
        stored._replace(gone=b""),
        stored._replace(checksum=stored.checksum ^ 1),
        stored._replace(codes=None),
        stored._replace(ids=stored.ids + bytes(8)),
        stored._replace(size=None),
        stored._replace(seq=5),
        stored._replace(size=4),
        stored._replace(columns=b"[]"),
    ]
    for damaged in damages:
        with pytest.raises(DamagedBlockError):
            from_row(damaged, WIDTH, 0)


def test_columns_follow_their_rows_through_merging():
    paths = [("a",), ("b", "c")]
    rng = np.random.default_rng(0)
    values = [None, True, False, 3, -(2**63), 2.5, -0.0, "x", "ü", [1], {"d": 1}]
    blocks, model = [], {}
    for _ in range(6):
        ids = np.sort(rng.choice(30, 12, replace=False))
        there, gone = np.sort(ids[:9]), np.sort(ids[9:])
        payloads = [{"a": values[rng.integers(11)], "b": {"c": values[rng.integers(11)]}} for _ in there]
        fields = columns.of_payloads(payloads, 9, paths)
        blocks.append(Block(there, np.zeros((9, WIDTH), dtype=np.uint8), gone, fields))
        model = {n: p for n, p in model.items() if n not in gone} | dict(zip(there.tolist(), payloads, strict=True))
    whole = merged(blocks, WIDTH)
    again = from_row(to_row(1, whole), WIDTH, 2)
    expected = columns.of_payloads([model[n] for n in sorted(model)], len(model), paths)
    assert again.ids.tolist() == sorted(model)
    np.testing.assert_array_equal(again.columns.kinds, expected.kinds)
    named = expected.kinds == columns.TEXT
    np.testing.assert_array_equal(again.columns.values[~named], expected.values[~named])
    texts = [[part.texts[place] for place in part.values[named]] for part in (again.columns, expected)]
    assert texts[0] == texts[1]
    with pytest.raises(columns.DamagedColumnsError):
        columns.from_bytes(columns.to_bytes(expected)[:-3], len(model), 2)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_few_blocks_remain_and_rows_move_seldom(size):
    fan, full, sizes, moved, added = 4, 256, [], 0, 0
    for _ in range(3000):
        sizes.append(size)
        added += size
        count = to_merge(sizes, fan, full)
        if count:
            whole = sum(sizes[-count:])
            sizes[-count:] = [whole]
            moved += whole
    assert sum(sizes) == added
    assert len(sizes) <= added // full + fan * 5
    assert moved <= 5 * added
    assert to_merge([full] * 50, fan, full) == 0
