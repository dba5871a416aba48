"""Rounds of discrete methods over rows in chunks: a pass updates every row's code alone and adds up what codes sum to.

Codes travel packed beside their rows, so this process holds n_bits / 8 bytes a row, and nothing else that grows with n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

import hashlearn.rowkeys as rowkeys
from hashlearn import codes
from hashlearn.chunks.checkpoint import State
from hashlearn.chunks.job import Job
from hashlearn.chunks.sources import Cut
from hashlearn.hashers.summed import Sums, Training
from hashlearn.hashers.sums import add_up, block_rows, blocks

FloatArray = NDArray[np.float64]


class Step(Protocol):
    """How a round changes codes (n, m) in {-1, +1} of rows with projections ``hashed`` and label sets ``labels``."""

    weights: FloatArray

    def update(self, B: FloatArray, hashed: NDArray[np.floating], labels: sparse.csr_matrix) -> FloatArray: ...


@dataclass
class CodeSums:
    """Sums over labelled rows of codes b with codes, label sets y and features x (and a last 1)."""

    bb: FloatArray
    yb: FloatArray
    xb: FloatArray

    def __iadd__(self, other: Self) -> Self:
        self.bb += other.bb
        self.yb += other.yb
        self.xb += other.xb
        return self

    def state(self) -> State:
        return dict(vars(self))

    @classmethod
    def of_state(cls, state: State) -> Self:
        return cls(state["bb"], state["yb"], state["xb"])


class Rounds:
    """Codes of all rows between rounds, and ridge regressions of them from sums."""

    def __init__(
        self, training: Training, sums: Sums, center: NDArray[np.float32], n_bits: int, ridge: float, job: Job
    ) -> None:
        self.training, self.center, self.n_bits, self.ridge = training, center, n_bits, ridge
        self.count = sums.count
        self.gram = np.block([[sums.xx, sums.x[:, None]], [sums.x[None, :], np.array([[float(sums.count)]])]])
        self._factor = linalg.cho_factor(self.gram + ridge * np.eye(len(self.gram)), lower=True)
        self._job = Job(job.executor, job.n_jobs)
        self._job.room = self.packed = np.zeros((training.n_rows, codes.n_bytes(n_bits)), dtype=np.uint8)

    def run(self, step: Step | None, phase: str) -> CodeSums:
        """A pass: codes after ``step``, or random ones to start with."""
        plan = RoundPlan(self.training, self.center, self.n_bits, step)

        def with_codes(cuts: Iterator[Cut]) -> Iterator[tuple[Cut, NDArray[np.uint8]]]:
            return ((cut, self.packed[cut.start : cut.stop]) for cut in cuts)

        return add_up(self.training.source, code_round, plan, self._job, phase, tasks=with_codes)

    def regression(self, sums: CodeSums) -> FloatArray:
        """Weights (features and intercept, bits) of codes on features."""
        return linalg.cho_solve(self._factor, sums.xb)

    def hash_loss(self, sums: CodeSums, P: FloatArray) -> float:
        """|B - X P|^2 + ridge |P|^2."""
        squares = self.count * self.n_bits - 2 * np.sum(P * sums.xb) + np.sum((self.gram @ P) * P)
        return float(squares + self.ridge * np.sum(P**2))


@dataclass
class RoundPlan:
    """What every task of a round needs."""

    training: Training
    center: NDArray[np.float32]
    n_bits: int
    step: Step | None


def code_round(plan: RoundPlan, task: tuple[Cut, NDArray[np.uint8]]) -> tuple[CodeSums, slice, NDArray[np.uint8]]:
    """One task of a round: sums over its rows and their new codes."""
    cut, packed = task
    result: CodeSums | None = None
    changed = np.zeros_like(packed)
    for rows in blocks(cut, block_rows(plan.training.n_rows)):
        local = slice(rows.start - cut.start, rows.stop - cut.start)
        group = plan.training.group(cut, rows)
        known = np.flatnonzero(group >= 0)
        x = plan.training.view.map_block(cut.read(rows.start, rows.stop))
        x -= plan.center
        X = np.column_stack([x[known], np.ones(len(known), dtype=np.float32)])
        Y = plan.training.labels[group[known]]
        if plan.step is None:
            B = random_codes(plan.training.seed, rows, plan.n_bits)[known]
        else:
            B = codes.unpack_signs(packed[local][known], plan.n_bits).astype(np.float64)
            B = plan.step.update(B, X @ plan.step.weights.astype(np.float32), Y)
        changed[local][known] = codes.pack(B > 0)
        part = CodeSums(B.T @ B, np.asarray(Y.T @ B), X.astype(np.float64).T @ B)
        result = part if result is None else result.__iadd__(part)
    assert result is not None
    return result, slice(cut.start, cut.stop), changed


def random_codes(seed: int, rows: slice, n_bits: int) -> FloatArray:
    """Random codes of rows by their numbers alone, 64 bits a key."""
    words = [rowkeys.row_keys(seed, rowkeys.CODES + k, rows.start, rows.stop) for k in range(-(-n_bits // 64))]
    bits = np.unpackbits(np.column_stack(words).astype(">u8").view(np.uint8), axis=1)[:, :n_bits]
    return np.where(bits > 0, 1.0, -1.0)


def keep_codes(rounds: Rounds, job: Job) -> None:
    """The codes of the last round as those of the fit."""
    if job.room is not None:
        job.room[:] = rounds.packed
