"""Base of discrete methods that learn in rounds: a pass updates the code of every row alone and adds up the codes.

Codes travel packed with their rows. So this process holds n_bits / 8 bytes per row, and nothing else that grows with n.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import iadd
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.functions.linear import RidgeFactor
from hashlearn.hashers.in_memory import KernelParameters, Learned, linear
from hashlearn.hashers.sums import GramSums, SumsHasher, Training
from hashlearn.parameters import COUNT, POSITIVE, fitted, parameter
from hashlearn.progress import steps
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
from hashlearn.typing import FloatArray, IntArray, PackedCodes, Rng
from hashlearn.zoo.bases.primitives import column_sweep, keep_sign


class RoundsHasher(KernelParameters, SumsHasher):
    """Base of such methods. A subclass implements ``_learn_rounds``."""

    intercept: ClassVar[bool] = False
    """Whether the features get one more that is always 1."""

    ridge: float = parameter(POSITIVE, "Ridge of the hash function.", default=0.001)
    max_iter: int = parameter(COUNT, "Rounds at most; the fit ends when no bit changes.", default=20)

    n_iter_: int = fitted("Rounds made.")

    @abstractmethod
    def _learn_rounds(self, rounds: Rounds, rng: Rng) -> Learned:
        """Make all rounds, and return what ``rounds.learned`` returns."""

    def _learn_sums(self, training: Training, sums: GramSums, context: FitContext, rng: Rng) -> Learned:
        return self._learn_rounds(Rounds(self, training, sums, context), rng)


@dataclass
class SignStep:
    """b <- sgn(pull of its label set + nu x weights + inertia b); a bit whose update is a tie keeps its value.

    Projections x weights are computed in the precision of the weights.
    """

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
    """The codes of all rows between rounds, their sums, and ridge regressions of them.

    All bits are +1 at first. A checkpoint keeps the sums of every finished pass and the codes after the last one. What
    a method does between passes depends on sums alone. So a resumed fit repeats that, and reads no rows in passes that
    are finished.

    Attributes
    ----------
    sums : over the features and label sets.
    codes : sums of the codes after the last pass.
    packed : the codes of all rows.
    reversible : set it before the first pass to allow ``undo``.
    name : tells the passes of a method's several codes apart.
    """

    codes: CodeSums

    def __init__(
        self, hasher: RoundsHasher, training: Training, sums: GramSums, context: FitContext, name: str = "rounds"
    ) -> None:
        self.hasher, self.training, self.sums, self.context, self.name = hasher, training, sums, context, name
        self.count, self.gram, self.ridge, self.reversible = sums.count, sums.xx, hasher.ridge, False
        if hasher.intercept:
            self.gram = np.block([[sums.xx, sums.x[:, None]], [sums.x[None, :], np.array([[float(sums.count)]])]])
        self._factor = RidgeFactor(self.gram, self.ridge)
        n_bits, view = hasher.n_bits_, training.centered_at(hasher.features_.center_)
        self._plan = RoundPlan(view, training.n_groups, training.seed, n_bits, hasher.intercept)
        # Other codes than those of the fit pass through this context.
        self._passes = FitContext(context.executor, context.n_jobs, context.checkpoint)
        self._n_rounds = self._n_passes = self._n_saved = 0
        self._before: PackedCodes | None = None
        self.packed = np.tile(codes.pack(np.ones((1, n_bits), dtype=bool)), (training.n_rows, 1))
        checkpoint, saved = context.checkpoint, context.load(f"{name}-codes") or {}
        # All passes or none: whoever deletes the file of a damaged pass has all of them made again.
        n_passes = int(saved.get("passes", 0))
        if checkpoint is not None and n_passes and all(checkpoint.has(f"{name}-{k + 1}") for k in range(n_passes)):
            self.packed, self._before, self._n_saved = saved["packed"], saved.get("before"), n_passes

    def repeat(self) -> Iterator[str]:
        """Yield the names of the rounds, at most ``max_iter``."""
        for k in steps(self.hasher.max_iter, "rounds"):
            self._n_rounds = k + 1
            yield f"round {k + 1}"

    def run(self, step: SignStep | SweepStep | None, phase: str) -> CodeSums:
        """Make a pass: codes after ``step``, or random ones to start with."""
        self._n_passes += 1
        name = f"{self.name}-{self._n_passes}"
        saved = self._passes.load(name) if self._n_passes <= self._n_saved else None
        if saved is not None:
            self.codes = from_arrays(CodeSums, saved)
            return self.codes
        if self.reversible:
            self._before = self.packed.copy()
        self._passes.codes_out = self.packed
        plan, tasks = replace(self._plan, step=step), with_codes(self.packed)
        self.codes = reduce_rows(self.training.source, code_round, plan, self._passes, phase, tasks=tasks)
        self._passes.save(name, to_arrays(self.codes))
        state = {"packed": self.packed, "passes": np.array(self._n_passes)}
        if self._before is not None:
            state["before"] = self._before
        # After the sums, because this file says that the pass is finished.
        self._passes.save(f"{self.name}-codes", state)
        return self.codes

    @property
    def stable(self) -> bool:
        """Whether the last pass, of another round than the first, has changed no code."""
        return self._n_rounds > 1 and self.codes.changed == 0

    def undo(self) -> None:
        """Restore the codes before the last pass."""
        if self._n_passes >= self._n_saved:
            assert self._before is not None
            self.packed[:] = self._before

    def regression(self) -> FloatArray:
        """Compute weights (features and intercept, bits) of codes on features."""
        return self.solve(self.codes.xb)

    def solve(self, xt: FloatArray) -> FloatArray:
        """Compute weights from features times targets."""
        return self._factor.solve(xt)

    def hash_loss(self, P: FloatArray) -> float:
        """Compute |B - X P|^2 + ridge |P|^2."""
        squares = self.count * P.shape[1] - 2 * np.sum(P * self.codes.xb) + np.sum((self.gram @ P) * P)
        return float(squares + self.ridge * np.sum(P**2))

    def by_group(self) -> FloatArray:
        """Sum codes over the rows of each group (n_groups, bits)."""
        return self.codes.groups.all()

    def by_label(self) -> FloatArray:
        """Sum codes over the rows that have a label (n_labels, bits)."""
        return np.asarray(self.training.labels.T @ self.by_group())

    def learned(self, weights: FloatArray, keep: bool = True, **attributes: Any) -> Learned:
        """Return the linear function, and with ``keep`` make the codes of the last round those of the fit."""
        function = linear(weights[:-1], weights[-1]) if self.hasher.intercept else linear(weights)
        learned = Learned(function, n_iter_=self._n_rounds, **attributes)
        learned.in_context = keep
        if keep:
            self.context.put_all_codes(self.packed)
        return learned


def with_codes(packed: PackedCodes) -> Callable[[Iterator[RowRange]], Iterator[tuple[RowRange, PackedCodes]]]:
    """Return what makes tasks of ranges of rows: the ranges with the codes of their rows."""
    return lambda ranges: ((rows, packed[rows.start : rows.stop]) for rows in ranges)


@dataclass
class RoundPlan:
    """What every task of a round needs."""

    view: FeatureReader
    n_groups: int
    seed: int
    n_bits: int
    intercept: bool
    step: SignStep | SweepStep | None = None


def code_round(plan: RoundPlan, task: tuple[RowRange, PackedCodes]) -> tuple[CodeSums, slice, PackedCodes]:
    """Run one task of a round: sums over its rows, and their new codes."""
    rows, before = task
    after = np.zeros_like(before)

    def code(block: RowBlock) -> CodeSums:
        x, group, labeled, step = block.x, block.group, block.labeled, plan.step
        places = labeled + block.rows.start - rows.start
        if len(labeled) < len(x):
            x, group = x[labeled], group[labeled]
        if plan.intercept:
            x = np.column_stack([x, np.ones(len(x), dtype=np.float32)])
        wide, own = x.astype(np.float64), before[places]
        if step is None:
            B = random_codes(plan.seed, block.rows, plan.n_bits)[labeled]
        else:
            projected = (x if step.weights.dtype == np.float32 else wide) @ step.weights
            B = step.update(codes.unpack_signs(own, plan.n_bits).astype(np.float64), projected, group)
        after[places] = codes.pack(B > 0)
        changed = int(np.count_nonzero((own != after[places]).any(axis=1)))
        return CodeSums(B.T @ B, wide.T @ B, GroupSums.from_rows(group, B, plan.n_groups), changed)

    return reduce(iadd, map(code, plan.view.blocks(rows))), slice(rows.start, rows.stop), after


def random_codes(seed: int, rows: slice, n_bits: int) -> FloatArray:
    """Draw random codes that depend on the seed and the rows' numbers alone; every key gives 64 bits."""
    words = [rowkeys.row_keys(seed, rowkeys.CODES + k, rows.start, rows.stop) for k in range(-(-n_bits // 64))]
    bits = np.unpackbits(np.column_stack(words).astype(">u8").view(np.uint8), axis=1)[:, :n_bits]
    return np.where(bits > 0, 1.0, -1.0)
