"""All pairs of rows within a Hamming radius, without comparing every row with every other.

The bits are cut into m disjoint pieces. Two codes that differ in r bits differ in at most r pieces, so they are equal
in at least t = m - r of them. For each choice of t pieces, rows are sorted by a hash of these pieces, and only rows
with equal hashes are compared. A pair is reported for the first t pieces in which it is equal, so that it comes once.
Rows with equal codes are found in the same way before, and only the first of them is compared with others.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations, product
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import as_words, check_packed
from hashlearn.index import scan
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.progress import Listener, listening, report
from hashlearn.typing import Int64Array, PackedCodes
from hashlearn.wholefile import whole_file

Pairs = NDArray[np.int64]
"""Rows (pairs, 3): the first row, the second one, and their distance."""

_PART_ROWS = 2**24  # that are sorted together: 8 bytes each, and as much again for a moment
_BLOCK_ROWS = 2**20
_MOST_ROWS = 2**32 - 1
_MAX_PIECES = 24
_LINE_COST, _PAIR_COST, _SCAN_COST = 60.0, 30.0, 0.4  # nanoseconds to sort a row, verify a pair, scan a row
_SCANNED = 256  # queries of a task, where scanning takes less time than sorting
_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


@dataclass(frozen=True)
class NearDuplicates:
    """What ``near_duplicates`` returns.

    Attributes
    ----------
    pairs : int64 array (pairs, 3)
        Two rows, the smaller one first, and their distance. A row whose code is equal to that of an earlier row has a
        pair with the first such row only; all other pairs within the radius are there.
    n_rows : int
    clusters : int64 array (n_rows,)
        The smallest row of the cluster of each row. Rows that are joined by a chain of pairs form a cluster.
    keep : bool array (n_rows,)
        True for the first row of each cluster: ``codes[found.keep]`` has no near-duplicates of earlier rows.
    """

    pairs: Pairs
    n_rows: int

    @cached_property
    def clusters(self) -> Int64Array:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        clusters = np.arange(self.n_rows)
        rows, places = np.unique(self.pairs[:, :2], return_inverse=True)
        ends = places.reshape(-1, 2).T
        if len(rows):
            graph = coo_array((np.ones(ends.shape[1], dtype=bool), (ends[0], ends[1])), shape=(len(rows), len(rows)))
            labels = connected_components(graph, directed=False)[1]
            _, first = np.unique(labels, return_index=True)  # rows are sorted
            clusters[rows] = rows[first[labels]]
        return clusters

    @property
    def keep(self) -> NDArray[np.bool_]:
        return self.clusters == np.arange(self.n_rows)

    def __repr__(self) -> str:
        return f"NearDuplicates(pairs={len(self.pairs)}, rows={self.n_rows}, kept={int(self.keep.sum())})"


def near_duplicates(
    codes: ArrayLike,
    radius: int,
    n_jobs: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
) -> NearDuplicates:
    """Find all pairs of rows whose codes differ in at most ``radius`` bits, exactly.

    Parameters
    ----------
    codes : uint8 array (rows, bytes)
        Packed codes, which may be mapped from a file. Besides them and the pairs, memory is one byte per row and some
        hundred megabytes per thread.
    radius : int
        Largest distance of a pair. Small radii take a few sorts of the rows; a large one compares all rows.
    n_jobs : int, default=None
        Number of threads; None for every core. It does not change the result.
    folder : path, default=None
        Keep what is found in this folder while the work goes on, so that the same call continues after an interrupt.
        Remove it afterwards.
    progress : callable, default=None
        Called with (phase, steps done, all steps).

    Returns
    -------
    NearDuplicates

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[0b0000], [0b1111], [0b0001], [0b0000]], dtype=np.uint8)
    >>> near_duplicates(codes, 1).pairs.tolist()
    [[0, 2, 1], [0, 3, 0]]
    """
    packed = check_packed(codes)
    n_rows, width = packed.shape
    if isinstance(radius, bool) or not isinstance(radius, (int, np.integer)) or radius < 0:
        raise ValueError(f"radius must be a whole number from 0. Got {radius!r} instead.")
    if n_rows > _MOST_ROWS:
        raise ValueError(f"near_duplicates takes up to {_MOST_ROWS} rows. Got {n_rows}: split them.")
    kept = None if folder is None else _Kept(Path(folder), packed, int(radius))
    plan = _plan(n_rows, 8 * width, int(radius))
    first = np.ones(n_rows, dtype=bool)  # the first row of its code
    found = []
    with listening(progress):
        work: Any = partial(_equal_rows, packed, plan.n_parts)
        for pairs in _results("equal codes", range(plan.n_parts), work, n_jobs, kept):
            first[pairs[:, 1]] = False
            found.append(pairs)
        if radius:
            tasks: Sequence[Any] = range(0, n_rows, _SCANNED)
            work = partial(_scanned, packed, first, int(radius))
            if plan.pieces is not None:
                tasks = list(product(plan.choices, range(plan.n_parts)))
                work = partial(_near_rows, packed, first, plan, int(radius))
            found += _results("near codes", tasks, work, n_jobs, kept)
    pairs = np.concatenate([*found, np.empty((0, 3), dtype=np.int64)])
    return NearDuplicates(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], n_rows)


class _Plan(NamedTuple):
    """Masks of the pieces as words (pieces, words), or None to scan, and the choices of pieces to sort by."""

    pieces: NDArray[np.uint64] | None
    choices: list[tuple[int, ...]]
    n_parts: int


def _plan(n_rows: int, n_bits: int, radius: int) -> _Plan:
    """Choose the number of pieces that takes the least time if bits are random."""
    n_parts = -(-n_rows // _PART_ROWS) or 1
    costs = {}
    for m in range(radius + 1, min(n_bits, _MAX_PIECES) + 1):
        bits = min(32, (m - radius) * (n_bits // m))
        costs[m] = comb(m, radius) * (_LINE_COST + _PAIR_COST * n_rows / 2.0 ** (bits + 1))
    m = min(costs, key=lambda pieces: costs[pieces]) if costs else 0
    if not m or costs[m] > _SCAN_COST * n_rows * -(-n_bits // 64) + _LINE_COST:
        return _Plan(None, [], n_parts)
    piece_of_bit = np.arange(n_bits) * m // n_bits
    pieces = np.concatenate([as_words(np.packbits(piece_of_bit == piece)[None]) for piece in range(m)])
    return _Plan(pieces, list(combinations(range(m), m - radius)), n_parts)


def _results(phase: str, tasks: Sequence[Any], work: Any, n_jobs: int | None, kept: _Kept | None) -> Iterator[Pairs]:
    def one(number: int) -> Pairs:
        if kept is None:
            return work(tasks[number])
        return kept.result(f"{phase.replace(' ', '-')}-{number}", partial(work, tasks[number]))

    for number, pairs in enumerate(ordered_map(one, range(len(tasks)), n_jobs), 1):
        report(phase, number, len(tasks))
        yield pairs


class _Kept:
    """A folder with the results of tasks, for the same codes and radius."""

    def __init__(self, folder: Path, codes: PackedCodes, radius: int) -> None:
        self._folder = folder
        sample = codes[:: max(1, len(codes) // 65536)]
        digest = hashlib.sha256(np.ascontiguousarray(sample).tobytes()).hexdigest()
        asked = {"rows": codes.shape[0], "bytes": codes.shape[1], "radius": radius, "sample": digest}
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "asked.json"
        if path.exists():
            if json.loads(path.read_text()) != asked:
                raise ValueError(f"{folder} has results for other codes or another radius: give another folder.")
        elif any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty and was not made by near_duplicates: give another folder.")
        else:
            with whole_file(path) as file:
                file.write(json.dumps(asked).encode())

    def result(self, name: str, work: Any) -> Pairs:
        path = self._folder / f"{name}.npy"
        if path.exists():
            known: Pairs = np.load(path)
            return known
        pairs: Pairs = work()
        with whole_file(path) as file:
            np.save(file, pairs)
        return pairs


def _sorted_keys(
    codes: PackedCodes, mask: NDArray[np.uint64] | None, n_parts: int, part: int, wanted: NDArray[np.bool_] | None
) -> NDArray[np.uint64]:
    """Return hash << 32 | row of the wanted rows whose hash is in the part, sorted. The hash is of the masked bits."""
    keys = []
    for block in row_blocks(len(codes), _BLOCK_ROWS):
        words = as_words(codes[block])
        hashes = np.zeros(len(words), dtype=np.uint64)
        for number in range(words.shape[1]):
            word = words[:, number] if mask is None else words[:, number] & mask[number]
            hashes ^= word
            hashes *= _ODD
            hashes ^= hashes >> _HALF
        hashes *= _ODD
        rows = np.arange(block.start, block.stop, dtype=np.uint64)
        good = np.ones(len(rows), dtype=bool) if wanted is None else wanted[block].copy()
        if n_parts > 1:
            good &= (hashes & _LOW) % np.uint64(n_parts) == part
        keys.append((hashes[good] & ~_LOW) | rows[good])
    joined = np.concatenate(keys) if keys else np.empty(0, dtype=np.uint64)
    joined.sort()
    return joined


def _as_pairs(first: NDArray[Any], second: NDArray[Any], distances: NDArray[Any]) -> Pairs:
    return np.column_stack([first.astype(np.int64), second.astype(np.int64), distances.astype(np.int64)])


def _equal_rows(codes: PackedCodes, n_parts: int, part: int) -> Pairs:
    """Return the pairs of rows with equal codes and the first of them."""
    keys = _sorted_keys(codes, None, n_parts, part, None)
    hashes, rows = keys >> _HALF, keys & _LOW
    begins = np.ones(len(keys), dtype=bool)
    begins[1:] = hashes[1:] != hashes[:-1]
    runs = np.cumsum(begins) - 1
    left = np.flatnonzero((np.bincount(runs, minlength=1) > 1)[runs]) if len(keys) else np.empty(0, dtype=np.intp)
    found = [np.empty((0, 3), dtype=np.int64)]
    while len(left):  # once, or more often where different codes have equal hashes
        _, first, run = np.unique(runs[left], return_index=True, return_inverse=True)
        heads = left[first][run]
        equal = (codes[rows[heads]] == codes[rows[left]]).all(axis=1)
        copies = equal & (heads != left)
        found.append(_as_pairs(rows[heads[copies]], rows[left[copies]], np.zeros(int(copies.sum()))))
        left = left[~equal]
    return np.concatenate(found)


def _near_rows(
    codes: PackedCodes, first: NDArray[np.bool_], plan: _Plan, radius: int, task: tuple[tuple[int, ...], int]
) -> Pairs:
    """Return the pairs within the radius that are equal in the chosen pieces, and in no smaller choice."""
    assert plan.pieces is not None
    numbers, part = task
    chosen = np.isin(np.arange(len(plan.pieces)), numbers)
    keys = _sorted_keys(codes, np.bitwise_or.reduce(plan.pieces[chosen], axis=0), plan.n_parts, part, first)
    found = [np.empty((0, 3), dtype=np.int64)]
    for block in row_blocks(len(keys), _BLOCK_ROWS):
        at, step = np.arange(block.start, block.stop), 1
        while True:
            at = at[: np.searchsorted(at, len(keys) - step)]
            at = at[keys[at] >> _HALF == keys[at + step] >> _HALF]
            if not len(at):
                break
            one, other = keys[at] & _LOW, keys[at + step] & _LOW
            differ = as_words(codes[one] ^ codes[other])
            distances = np.bitwise_count(differ).sum(axis=1, dtype=np.int64)
            near = np.flatnonzero(distances <= radius)
            equal = ~(differ[near, None] & plan.pieces).any(axis=2)
            leading = equal & (np.cumsum(equal, axis=1) <= len(numbers))
            near = near[(leading == chosen).all(axis=1)]
            found.append(_as_pairs(one[near], other[near], distances[near]))
            step += 1
    return np.concatenate(found)


def _scanned(codes: PackedCodes, first: NDArray[np.bool_], radius: int, begin: int) -> Pairs:
    """Compare some rows with all later ones."""
    rows = np.flatnonzero(first[begin : begin + _SCANNED]) + begin
    later = np.ascontiguousarray(codes[begin:])
    inside = scan.within(later, np.ascontiguousarray(codes[rows]), radius)
    one = np.repeat(rows, np.diff(inside.offsets))
    other = inside.rows + begin
    good = (other > one) & first[other]
    return _as_pairs(one[good], other[good], inside.distances[good])
