"""Blocks: what several say is what their merging says, from wherever a reader begins; damage is noticed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashlearn.collection.embedded.blocks import Block, DamagedBlockError, from_stored, merged, to_merge, to_stored

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
    stored = to_stored(block)
    again = from_stored(stored, WIDTH)
    for ours, theirs in zip(block, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for damaged in (
        stored._replace(codes=stored.codes[:-1] + b"\x55"),
        stored._replace(ids=stored.ids[:-8]),
        stored._replace(gone=b""),
        stored._replace(checksum=stored.checksum ^ 1),
        stored._replace(codes=None),
        stored._replace(ids=stored.ids + bytes(8)),
    ):
        with pytest.raises(DamagedBlockError):
            from_stored(damaged, WIDTH)


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
