"""Rounds of discrete methods over rows in chunks: a pass updates the code of every row alone and adds up the codes.

Codes travel packed with their rows. So this process holds n_bits / 8 bytes per row, and nothing else that grows with n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import iadd
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.functions.linear import RidgeFactor
from hashlearn.hashers.sums import GramSums, Training
from hashlearn.rows.reduce import (
    AdditiveSums,
    FeatureReader,
    FitContext,
    GroupSums,
    RowBlock,
    from_arrays,
    reduce_rows,
    to_arrays,
)
from hashlearn.rows.source import RowRange
from hashlearn.typing import Float32Array, FloatArray, IntArray, PackedCodes
from hashlearn.zoo.bases.primitives import column_sweep, keep_sign


class RoundStep(Protocol):
    """How a round changes codes (n, m) in {-1, +1} of rows with projections ``projected`` and groups ``group``."""

    weights: NDArray[np.floating]
    """Of the features; projections are computed in their precision."""

    def update(self, B: FloatArray, projected: NDArray[np.floating], group: IntArray) -> FloatArray: ...


@dataclass
class SignStep:
    """b <- sgn(pull of its label set + nu x weights + inertia b); a bit whose update is a tie keeps its value."""

    weights: NDArray[np.floating]
    pull: FloatArray
    nu: float = 1.0
    inertia: float = 0.0

    def update(self, B: FloatArray, projected: NDArray[np.floating], group: IntArray) -> FloatArray:
        return keep_sign(self.pull[group] + self.nu * projected + self.inertia * B, B)


@dataclass
class SweepStep:
    """b <- argmin b C b' - 2 b (pull of its label set + nu x weights)', bit by bit; C is ``coupling``."""

    weights: NDArray[np.floating]
    pull: FloatArray
    coupling: FloatArray
    max_sweeps: int
    nu: float = 1.0

    def update(self, B: FloatArray, projected: NDArray[np.floating], group: IntArray) -> FloatArray:
        column_sweep(B, self.nu * projected + self.pull[group], self.coupling, self.max_sweeps)
        return B


@dataclass
class CodeSums(AdditiveSums):
    """Sums over labeled rows of codes b: b'b, x'b, and b by group. x may have a last feature that is always 1.

    ``changed`` is the number of rows whose code the pass has changed.
    """

    bb: FloatArray
    xb: FloatArray
    groups: GroupSums
    changed: int


class Rounds:
    """The codes of all rows between rounds, and ridge regressions of them from sums.

    All bits are +1 at first. A checkpoint keeps the sums of every finished pass and the codes after the last one. What
    a method does between passes depends on sums alone. So a resumed fit repeats that, and reads no rows in passes that
    are finished.

    Parameters
    ----------
    center : of the features.
    intercept : bool
        Add a feature that is always 1.
    reversible : bool
        Allow ``undo``.
    name : str
        Tells the passes of a method's several codes apart.
    """

    def __init__(
        self,
        training: Training,
        sums: GramSums,
        center: Float32Array,
        n_bits: int,
        ridge: float,
        context: FitContext,
        *,
        intercept: bool = False,
        reversible: bool = False,
        name: str = "rounds",
    ) -> None:
        self.training, self.ridge, self.count, self.gram = training, ridge, sums.count, sums.xx
        if intercept:
            self.gram = np.block([[sums.xx, sums.x[:, None]], [sums.x[None, :], np.array([[float(sums.count)]])]])
        self._factor = RidgeFactor(self.gram, ridge)
        self._plan = RoundPlan(training.centered_at(center), training.n_groups, training.seed, n_bits, intercept)
        # Other codes than those of the fit pass through this context.
        self._context, self._name = FitContext(context.executor, context.n_jobs, context.checkpoint), name
        self._reversible, self._n_passes, self._n_saved = reversible, 0, 0
        self._before: PackedCodes | None = None
        self.packed = np.tile(codes.pack(np.ones((1, n_bits), dtype=bool)), (training.n_rows, 1))
        checkpoint, saved = context.checkpoint, context.load(f"{name}-codes") or {}
        # All passes or none: whoever deletes the file of a damaged pass has all of them made again.
        n_passes = int(saved.get("passes", 0))
        if checkpoint is not None and n_passes and all(checkpoint.has(f"{name}-{k + 1}") for k in range(n_passes)):
            self.packed, self._before, self._n_saved = saved["packed"], saved.get("before"), n_passes

    def run(self, step: RoundStep | None, phase: str) -> CodeSums:
        """Make a pass: codes after ``step``, or random ones to start with."""
        self._n_passes += 1
        name = f"{self._name}-{self._n_passes}"
        saved = self._context.load(name) if self._n_passes <= self._n_saved else None
        if saved is not None:
            return from_arrays(CodeSums, saved)
        if self._reversible:
            self._before = self.packed.copy()
        self._context.codes_out = self.packed

        def with_codes(ranges: Iterator[RowRange]) -> Iterator[tuple[RowRange, PackedCodes]]:
            return ((rows, self.packed[rows.start : rows.stop]) for rows in ranges)

        plan = replace(self._plan, step=step)
        sums = reduce_rows(self.training.source, code_round, plan, self._context, phase, tasks=with_codes)
        self._context.save(name, to_arrays(sums))
        state = {"packed": self.packed, "passes": np.array(self._n_passes)}
        if self._before is not None:
            state["before"] = self._before
        # After the sums, because this file says that the pass is finished.
        self._context.save(f"{self._name}-codes", state)
        return sums

    def undo(self) -> None:
        """Restore the codes before the last pass."""
        if self._n_passes >= self._n_saved:
            assert self._before is not None
            self.packed[:] = self._before

    def regression(self, sums: CodeSums) -> FloatArray:
        """Compute weights (features and intercept, bits) of codes on features."""
        return self.solve(sums.xb)

    def solve(self, xt: FloatArray) -> FloatArray:
        """Compute weights from features times targets."""
        return self._factor.solve(xt)

    def hash_loss(self, sums: CodeSums, P: FloatArray) -> float:
        """Compute |B - X P|^2 + ridge |P|^2."""
        squares = self.count * P.shape[1] - 2 * np.sum(P * sums.xb) + np.sum((self.gram @ P) * P)
        return float(squares + self.ridge * np.sum(P**2))

    def by_label(self, sums: CodeSums) -> FloatArray:
        """Sum codes over the rows that have a label (n_labels, bits)."""
        return np.asarray(self.training.labels.T @ sums.groups.all())


@dataclass
class RoundPlan:
    """What every task of a round needs."""

    view: FeatureReader
    n_groups: int
    seed: int
    n_bits: int
    intercept: bool
    step: RoundStep | None = None


def code_round(plan: RoundPlan, task: tuple[RowRange, PackedCodes]) -> tuple[CodeSums, slice, PackedCodes]:
    """Run one task of a round: sums over its rows, and their new codes."""
    rows, before = task
    after = np.zeros_like(before)

    def code(block: RowBlock) -> CodeSums:
        own = slice(block.rows.start - rows.start, block.rows.stop - rows.start)
        return _code_block(plan, block, before[own], after[own])

    return reduce(iadd, map(code, plan.view.blocks(rows))), slice(rows.start, rows.stop), after


def _code_block(plan: RoundPlan, block: RowBlock, before: PackedCodes, after: PackedCodes) -> CodeSums:
    """Add up one block; the new codes of its labeled rows go to ``after``."""
    x, group, labeled, step = block.x, block.group, block.labeled, plan.step
    if len(labeled) < len(x):
        x, group = x[labeled], group[labeled]
    if plan.intercept:
        x = np.column_stack([x, np.ones(len(x), dtype=np.float32)])
    wide, own = x.astype(np.float64), before[labeled]
    if step is None:
        B = random_codes(plan.seed, block.rows, plan.n_bits)[labeled]
    else:
        projected = (x if step.weights.dtype == np.float32 else wide) @ step.weights
        B = step.update(codes.unpack_signs(own, plan.n_bits).astype(np.float64), projected, group)
    packed = codes.pack(B > 0)
    after[labeled] = packed
    changed = int(np.count_nonzero((own != packed).any(axis=1)))
    return CodeSums(B.T @ B, wide.T @ B, GroupSums.from_rows(group, B, plan.n_groups), changed)


def random_codes(seed: int, rows: slice, n_bits: int) -> FloatArray:
    """Draw random codes that depend on the seed and the rows' numbers alone; every key gives 64 bits."""
    words = [rowkeys.row_keys(seed, rowkeys.CODES + k, rows.start, rows.stop) for k in range(-(-n_bits // 64))]
    bits = np.unpackbits(np.column_stack(words).astype(">u8").view(np.uint8), axis=1)[:, :n_bits]
    return np.where(bits > 0, 1.0, -1.0)


def keep_codes(rounds: Rounds, context: FitContext) -> None:
    """Make the codes of the last round those of the fit."""
    context.put_codes(slice(0, len(rounds.packed)), rounds.packed)
