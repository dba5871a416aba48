"""Rounds of discrete methods over rows in chunks: a pass updates every row's code alone and adds up what codes sum to.

Codes travel packed beside their rows, so this process holds n_bits / 8 bytes a row, and nothing else that grows with n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.fitting.frames.gram import Sums, Training
from hashlearn.fitting.job import Job
from hashlearn.fitting.sources import Cut
from hashlearn.fitting.sums import GroupSums, add_up, block_rows, blocks, under
from hashlearn.functions.linear import RidgeFactor
from hashlearn.primitives import column_sweep, keep_sign
from hashlearn.typing import Arrays, FloatArray, IntArray


class Step(Protocol):
    """How a round changes codes (n, m) in {-1, +1} of rows with projections ``hashed`` and label sets ``group``."""

    weights: NDArray[np.floating]
    """Of the features; projections have their precision."""

    def update(self, B: FloatArray, hashed: NDArray[np.floating], group: IntArray) -> FloatArray: ...


@dataclass
class SignStep:
    """b <- sgn(pull of its label set + nu x weights + inertia b); a tie keeps its bit."""

    weights: NDArray[np.floating]
    pull: FloatArray
    nu: float = 1.0
    inertia: float = 0.0

    def update(self, B: FloatArray, hashed: NDArray[np.floating], group: IntArray) -> FloatArray:
        return keep_sign(self.pull[group] + self.nu * hashed + self.inertia * B, B)


@dataclass
class SweepStep:
    """b <- argmin b C b' - 2 b (pull of its label set + nu x weights)', bit by bit, C being ``coupling``."""

    weights: NDArray[np.floating]
    pull: FloatArray
    coupling: FloatArray
    max_sweeps: int
    nu: float = 1.0

    def update(self, B: FloatArray, hashed: NDArray[np.floating], group: IntArray) -> FloatArray:
        column_sweep(B, self.nu * hashed + self.pull[group], self.coupling, self.max_sweeps)
        return B


@dataclass
class CodeSums:
    """Sums over labelled rows of codes b: with codes, with features x (and a last 1, if asked for), by group.

    ``changed`` is the number of rows whose code is another than before the pass.
    """

    bb: FloatArray
    xb: FloatArray
    groups: GroupSums
    changed: int

    def __iadd__(self, other: Self) -> Self:
        self.bb += other.bb
        self.xb += other.xb
        self.groups += other.groups
        self.changed += other.changed
        return self

    def state(self) -> Arrays:
        plain = {"bb": self.bb, "xb": self.xb, "changed": np.array(self.changed)}
        return plain | {f"groups.{name}": value for name, value in self.groups.state().items()}

    @classmethod
    def of_state(cls, state: Arrays) -> Self:
        return cls(state["bb"], state["xb"], GroupSums.of_state(under(state, "groups.")), int(state["changed"]))


class Rounds:
    """Codes of all rows between rounds, and ridge regressions of them from sums.

    All bits are +1 at first. ``intercept`` adds a feature that is always 1, ``reversible`` allows ``undo``.

    A checkpoint keeps the sums of every finished pass and the codes after the last one. What a method does between
    passes depends on sums alone, so it goes on by doing that again: passes that are kept read no rows. ``name`` tells
    the passes of one method's several codes apart.
    """

    def __init__(
        self,
        training: Training,
        sums: Sums,
        center: NDArray[np.float32],
        n_bits: int,
        ridge: float,
        job: Job,
        *,
        intercept: bool = False,
        reversible: bool = False,
        name: str = "rounds",
    ) -> None:
        self.training, self.ridge, self.count, self.gram = training, ridge, sums.count, sums.xx
        if intercept:
            self.gram = np.block([[sums.xx, sums.x[:, None]], [sums.x[None, :], np.array([[float(sums.count)]])]])
        self._factor = RidgeFactor(self.gram, ridge)
        self._plan = RoundPlan(training, center, n_bits, intercept)
        self._job, self._checkpoint, self._name = Job(job.executor, job.n_jobs), job.checkpoint, name
        self._reversible, self._made, self._kept = reversible, 0, 0
        self._before: NDArray[np.uint8] | None = None
        self.packed = np.tile(codes.pack(np.ones((1, n_bits), dtype=bool)), (training.n_rows, 1))
        saved = self._checkpoint.load(f"{name}-codes")
        # All or nothing: who deletes a damaged pass has them all made again.
        if saved is not None and all(self._checkpoint.has(f"{name}-{k + 1}") for k in range(int(saved["passes"]))):
            self.packed, self._before, self._kept = saved["packed"], saved.get("before"), int(saved["passes"])

    def run(self, step: Step | None, phase: str) -> CodeSums:
        """A pass: codes after ``step``, or random ones to start with."""
        self._made += 1
        name = f"{self._name}-{self._made}"
        kept = self._checkpoint.load(name) if self._made <= self._kept else None
        if kept is not None:
            return CodeSums.of_state(kept)
        if self._reversible:
            self._before = self.packed.copy()
        self._job.room = self.packed

        def with_codes(cuts: Iterator[Cut]) -> Iterator[tuple[Cut, NDArray[np.uint8]]]:
            return ((cut, self.packed[cut.start : cut.stop]) for cut in cuts)

        plan = replace(self._plan, step=step)
        sums = add_up(self.training.source, code_round, plan, self._job, phase, tasks=with_codes)
        self._checkpoint.save(name, sums.state())
        state = {"packed": self.packed, "passes": np.array(self._made)}
        if self._before is not None:
            state["before"] = self._before
        # Last of all: it is what says that the pass is finished.
        self._checkpoint.save(f"{self._name}-codes", state)
        return sums

    def undo(self) -> None:
        """Codes as they were before the last pass."""
        if self._made >= self._kept:
            assert self._before is not None
            self.packed[:] = self._before

    def regression(self, sums: CodeSums) -> FloatArray:
        """Weights (features and intercept, bits) of codes on features."""
        return self.solve(sums.xb)

    def solve(self, cross: FloatArray) -> FloatArray:
        """Weights from features times targets."""
        return self._factor.solve(cross)

    def hash_loss(self, sums: CodeSums, P: FloatArray) -> float:
        """|B - X P|^2 + ridge |P|^2."""
        squares = self.count * P.shape[1] - 2 * np.sum(P * sums.xb) + np.sum((self.gram @ P) * P)
        return float(squares + self.ridge * np.sum(P**2))

    def by_label(self, sums: CodeSums) -> FloatArray:
        """Sums of codes over the rows that have a label (n_labels, bits)."""
        return np.asarray(self.training.labels.T @ sums.groups.all())


@dataclass
class RoundPlan:
    """What every task of a round needs."""

    training: Training
    center: NDArray[np.float32]
    n_bits: int
    intercept: bool
    step: Step | None = None


def code_round(plan: RoundPlan, task: tuple[Cut, NDArray[np.uint8]]) -> tuple[CodeSums, slice, NDArray[np.uint8]]:
    """One task of a round: sums over its rows and their new codes."""
    cut, packed = task
    training, step = plan.training, plan.step
    result: CodeSums | None = None
    coded = np.zeros_like(packed)
    for rows in blocks(cut, block_rows(training.n_rows)):
        local = slice(rows.start - cut.start, rows.stop - cut.start)
        group = training.group(cut, rows)
        known = np.flatnonzero(group >= 0)
        X = training.view.map_block(cut.read(rows.start, rows.stop))
        X -= plan.center
        if len(known) < len(X):
            X, group = X[known], group[known]
        if plan.intercept:
            X = np.column_stack([X, np.ones(len(X), dtype=np.float32)])
        wide, before = X.astype(np.float64), packed[local][known]
        if step is None:
            B = random_codes(training.seed, rows, plan.n_bits)[known]
        else:
            hashed = (X if step.weights.dtype == np.float32 else wide) @ step.weights
            B = step.update(codes.unpack_signs(before, plan.n_bits).astype(np.float64), hashed, group)
        after = codes.pack(B > 0)
        coded[local][known] = after
        by_group = GroupSums.of(group, B, training.n_groups)
        part = CodeSums(B.T @ B, wide.T @ B, by_group, int(np.count_nonzero((before != after).any(axis=1))))
        result = part if result is None else result.__iadd__(part)
    assert result is not None
    return result, slice(cut.start, cut.stop), coded


def random_codes(seed: int, rows: slice, n_bits: int) -> FloatArray:
    """Random codes of rows by their numbers alone, 64 bits a key."""
    words = [rowkeys.row_keys(seed, rowkeys.CODES + k, rows.start, rows.stop) for k in range(-(-n_bits // 64))]
    bits = np.unpackbits(np.column_stack(words).astype(">u8").view(np.uint8), axis=1)[:, :n_bits]
    return np.where(bits > 0, 1.0, -1.0)


def keep_codes(rounds: Rounds, job: Job) -> None:
    """The codes of the last round as those of the fit."""
    if job.room is not None:
        job.room[:] = rounds.packed
