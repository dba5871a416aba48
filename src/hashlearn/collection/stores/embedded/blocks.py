"""Blocks: what one or several transactions did to the codes, as the bytes that the embedded store keeps.

A block gives the state of some ids after it: their codes and indexed fields, or that they are gone. Blocks are applied
in the order of their sequence numbers. Several neighboring blocks are merged into one, which gets the last of their
numbers. A reader that has already applied some of them may apply the merged one too: it contains the final state of
every id that it names, so the result is the same.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hashlearn.collection.stores.embedded.columns import Columns, DamagedColumnsError, from_bytes, joined, to_bytes
from hashlearn.typing import Ids, PackedCodes

MAX_BYTES = 2**28  # of a row of the table; SQLite refuses rows of a billion bytes


class DamagedBlockError(ValueError):
    """The bytes of a block are not those that were written."""


class Block(NamedTuple):
    """Ids that are there with their codes, and ids that are gone; both increasing, no id in both.

    ``columns`` holds the indexed fields of the ids that are there; None when no fields are indexed.
    """

    ids: Ids
    codes: PackedCodes
    gone: Ids
    columns: Columns | None = None

    def __len__(self) -> int:
        return len(self.ids) + len(self.gone)


class BlockRow(NamedTuple):
    """A row of the table ``block``."""

    seq: int
    size: int
    checksum: int
    ids: bytes
    codes: bytes
    gone: bytes
    columns: bytes


def to_row(seq: int, block: Block) -> BlockRow:
    parts = zip((block.ids, block.codes, block.gone), _TYPES, strict=True)
    ids, codes, gone = (np.ascontiguousarray(array, dtype=dtype).tobytes() for array, dtype in parts)
    columns = b"" if block.columns is None else to_bytes(block.columns)
    stored = BlockRow(seq, len(block), 0, ids, codes, gone, columns)
    return stored._replace(checksum=checksum(stored))


def to_rows(seq: int, block: Block) -> list[BlockRow]:
    """Return a block as one row of the table, or as several with following numbers where one would be too large."""
    stored = to_row(seq, block)
    if sum(map(len, stored[3:])) <= MAX_BYTES or len(block) == 1:
        return [stored]
    del stored  # at most one version of the bytes is in memory
    first = to_rows(seq, _part(block, 0))
    return first + to_rows(first[-1].seq + 1, _part(block, 1))


def from_row(stored: BlockRow, width: int, n_fields: int) -> Block:
    """Return the block of a row, after checking that the row is as it was written."""
    whole = all(isinstance(part, bytes) for part in stored[3:]) and isinstance(stored.size, int)
    if not whole or checksum(stored) != stored.checksum or len(stored.ids) * width != len(stored.codes) * 8:
        raise DamagedBlockError(f"block {stored.seq} does not match its checksum")
    parts = zip(stored[3:6], _TYPES, strict=True)
    ids, codes, gone = (np.frombuffer(part, dtype=dtype) for part, dtype in parts)
    try:
        columns = from_bytes(stored.columns, len(ids), n_fields) if n_fields else None
    except DamagedColumnsError as error:
        raise DamagedBlockError(f"the indexed fields of block {stored.seq} cannot be read") from error
    codes = codes.reshape(len(ids), width)
    return Block(ids.astype(np.int64, copy=False), codes, gone.astype(np.int64, copy=False), columns)


def checksum(stored: BlockRow) -> int:
    """Return the checksum of a row of the table: of its numbers and of all its bytes."""
    return _crc32(stored[3:], zlib.crc32(struct.pack("<qq", stored.seq, stored.size)))


def merged(blocks: Sequence[Block], width: int, keep_gone: bool = True) -> Block:
    """Return one block with the same effect as all of these; later blocks overrule earlier ones."""
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
    columns = joined([block.columns for block in blocks if block.columns is not None])
    if len(places) == len(codes) and there.all() and (places[1:] > places[:-1]).all():
        return Block(ids, codes, np.empty(0, dtype=np.int64), columns)
    gone = ids[~there] if keep_gone else np.empty(0, dtype=np.int64)
    kept = places[there]
    return Block(ids[there], codes[kept], gone, None if columns is None else columns.take(kept))


def to_merge(sizes: Sequence[int], fan: int, full: int) -> int:
    """Return how many of the last blocks to merge into one, 0 for none.

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


def _part(block: Block, half: int) -> Block:
    """Return the first (0) or the second (1) half of the ids that are there and of those that are gone."""
    there, gone = (np.array_split(np.arange(len(ids)), 2)[half] for ids in (block.ids, block.gone))
    columns = None if block.columns is None else block.columns.take(there)
    return Block(block.ids[there], block.codes[there], block.gone[gone], columns)


def _crc32(parts: Sequence[bytes], start: int) -> int:
    for part in parts:
        start = zlib.crc32(part, start)
    return start


_TYPES = ("<i8", "u1", "<i8")
