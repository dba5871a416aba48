"""Blocks: what one or several transactions did to the codes, as the bytes that the embedded store keeps.

A block says for some ids what is true after it: their codes, or that they are gone. Blocks are applied in the order
of their sequence numbers. Several neighbours merge into one with the last number: a reader that has seen some of
them already applies the merged one and comes out the same, because it says the final word on every id it names.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hashlearn.typing import Ids, PackedCodes


class DamagedBlockError(ValueError):
    """The bytes of a block are not those that were written."""


class Block(NamedTuple):
    """Ids that are there with their codes, and ids that are gone; both increasing, no id in both."""

    ids: Ids
    codes: PackedCodes
    gone: Ids

    def __len__(self) -> int:
        return len(self.ids) + len(self.gone)


class Stored(NamedTuple):
    """The columns of a block in the database."""

    ids: bytes
    codes: bytes
    gone: bytes
    checksum: int


def to_stored(block: Block) -> Stored:
    parts = [np.ascontiguousarray(array, dtype=dtype).tobytes() for array, dtype in zip(block, _TYPES, strict=True)]
    return Stored(parts[0], parts[1], parts[2], _checksum(parts))


def from_stored(stored: Stored, width: int) -> Block:
    parts = stored[:3]
    whole = all(isinstance(part, bytes) for part in parts)
    if not whole or _checksum(parts) != stored.checksum or len(stored.ids) * width != len(stored.codes) * 8:
        raise DamagedBlockError("a block of codes does not match its checksum")
    ids, codes, gone = (np.frombuffer(part, dtype=dtype) for part, dtype in zip(parts, _TYPES, strict=True))
    return Block(ids.astype(np.int64, copy=False), codes.reshape(len(ids), width), gone.astype(np.int64, copy=False))


def merged(blocks: Sequence[Block], width: int, keep_gone: bool = True) -> Block:
    """One block that says what all of these say, the later ones winning."""
    if len(blocks) == 1 and keep_gone:
        return blocks[0]
    named = [part for block in blocks for part in (block.ids, block.gone)]
    ids = np.concatenate([np.empty(0, dtype=np.int64), *named])
    codes = np.concatenate([np.empty((0, width), dtype=np.uint8), *(block.codes for block in blocks)])
    # Row numbers in ``codes``, and -1 for ids that are gone.
    places = np.full(len(ids), -1, dtype=np.int64)
    start, row = 0, 0
    for block in blocks:
        places[start : start + len(block.ids)] = np.arange(row, row + len(block.ids))
        start, row = start + len(block), row + len(block.ids)
    if (ids[1:] <= ids[:-1]).any():
        order = np.argsort(ids, kind="stable")
        ids, places = ids[order], places[order]
        last = np.append(ids[1:] != ids[:-1], True) if len(ids) else np.empty(0, dtype=bool)
        ids, places = ids[last], places[last]
    there = places >= 0
    if len(places) == len(codes) and there.all() and (places[1:] > places[:-1]).all():
        return Block(ids, codes, np.empty(0, dtype=np.int64))
    return Block(ids[there], codes[places[there]], ids[~there] if keep_gone else np.empty(0, dtype=np.int64))


def to_merge(sizes: Sequence[int], fan: int, full: int) -> int:
    """How many of the last blocks to merge into one, 0 for none.

    Blocks of ``full`` rows or more stay as they are. Among the smaller ones at the end, ``fan`` of similar size (below
    fan, fan^2 … rows, and no less than a fan-th of that) are merged with what lies between them, so every row is
    written O(log full) times and few blocks remain.
    """
    limit = fan
    while limit < full * fan:
        similar = 0
        for count, size in enumerate(reversed(sizes)):
            if size >= min(limit, full):
                break
            similar += size >= limit // fan
            if similar == fan:
                return count + 1
        limit *= fan
    return 0


def _checksum(parts: Sequence[bytes]) -> int:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


_TYPES = ("<i8", "u1", "<i8")
