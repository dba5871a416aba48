"""One pass over the training rows: features, codes and the sums for the hash function, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes
from hashlearn.functions.linear import RidgeSums
from hashlearn.kernel import FeatureMap, Rows
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.progress import report
from hashlearn.solvers.rows import RowCoder

Features = NDArray[np.float32]


@dataclass
class Start:
    """Where rows start: the signs of features (minus a provisional centre) times directions.

    ``known`` holds codes that are learned already (the anchors'), ``place`` a row's place among them or -1.
    """

    center: Features
    directions: Features
    known: NDArray[np.float64]
    place: NDArray[np.intp]


@dataclass
class RowPass:
    """What a pass leaves. Targets in ``sums`` are the gains, then the codes: their mix is chosen afterwards."""

    packed: NDArray[np.uint8]
    mean: NDArray[np.float64]
    sums: RidgeSums
    gain_times_code: NDArray[np.float64]
    code_gram: NDArray[np.float64]

    def projection_sums(self, own_weight: float, shift: NDArray[np.float64]) -> RidgeSums:
        """Sums for the targets gain + own_weight * code, with features centred by ``shift``."""
        m = len(self.gain_times_code)
        s = self.sums
        mixed = RidgeSums(
            s.count,
            s.x,
            s.xx,
            s.xt[:, :m] + own_weight * s.xt[:, m:],
            s.t[:m] + own_weight * s.t[m:],
            s.tt[:m] + 2 * own_weight * self.gain_times_code + own_weight**2 * s.tt[m:],
        )
        return mixed.recentred(shift)


def task_rows(n_rows: int) -> int:
    """Rows a task, by the data's size alone: at most 4096, in an even number of tasks to keep two threads busy.

    Fewer tasks would leave threads idle at the end, more would spend their time adding up large sums.
    """
    tasks = max(8, 2 * -(-n_rows // 8192))
    return max(512, -(-n_rows // tasks))


def run(
    X: Rows, group: NDArray[np.intp], features: FeatureMap, start: Start, coder: RowCoder, n_jobs: int | None
) -> RowPass:
    """The pass. Rows of group -1 count for the features' mean only and get no code here."""
    n_bits = start.directions.shape[1]
    packed = np.zeros((X.shape[0], codes.n_bytes(n_bits)), dtype=np.uint8)

    def task(rows: slice) -> tuple[NDArray[np.float64], RidgeSums, NDArray[np.float64], NDArray[np.float64]]:
        x = features.map_block(X[rows])
        x -= start.center
        total = x.sum(axis=0, dtype=np.float64)
        supervised = np.flatnonzero(group[rows] >= 0)
        if len(supervised) < len(x):
            x = x[supervised]
        own = group[rows][supervised]
        place = start.place[rows][supervised]
        code = np.empty((len(x), n_bits), dtype=np.float32)
        learned = place >= 0
        code[learned] = start.known[place[learned]]
        first = np.where(x[~learned] @ start.directions >= 0, np.float32(1), np.float32(-1))
        code[~learned] = coder.code(own[~learned], first)
        gain = coder.gain(own, code)
        packed[rows.start + supervised] = codes.pack(code > 0)
        sums = RidgeSums.of(x, np.concatenate([gain, code], axis=1))
        return total, sums, np.einsum("ij,ij->j", gain, code, dtype=np.float64), (code.T @ code).astype(np.float64)

    tasks = row_blocks(X.shape[0], task_rows(X.shape[0]))
    result: RowPass | None = None
    for done, (total, sums, mixed, gram) in enumerate(ordered_map(task, tasks, n_jobs), 1):
        if result is None:
            result = RowPass(packed, total, sums, mixed, gram)
        else:
            result.mean += total
            result.sums += sums
            result.gain_times_code += mixed
            result.code_gram += gram
        report("code rows", done, len(tasks))
    assert result is not None
    result.mean /= X.shape[0]
    return result
