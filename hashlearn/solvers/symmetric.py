"""SDH_P: update all bits of a batch of rows at once.

With H_A fixed, H (gamma I - M) majorizes the quadratic term for gamma >= lambda_max(M), so each inner step
H <- sgn(scale f(S) H_A + H (gamma I - M)) never lowers tr(H' scale f(S) H_A) + tr(H (gamma I - M) H') / 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.parallel import one_blas_thread
from hashlearn.progress import report
from hashlearn.solvers.problem import AnchorProblem, Batches, Trace, sums_by_kind
from hashlearn.typing import FloatArray


def learn(
    problem: AnchorProblem,
    start: FloatArray,
    batches: Batches,
    *,
    beta: float,
    max_iter: int = 20,
    inner_iter: int = 3,
) -> Trace:
    """Learn the codes of the problem's rows from ``start`` in {-1, +1}, batch by batch, until no bit changes."""
    codes = np.array(start, dtype=np.float64)
    pull = problem.table @ problem.column_sums(codes)
    gram = codes[problem.is_anchor].T @ codes[problem.is_anchor]
    trace = Trace(codes)
    for iteration in range(max_iter):
        report("learn anchors", iteration + 1, max_iter)
        before = codes.copy()
        for batch in batches(iteration):
            old = codes[batch]
            new = iterate(problem.scale * pull[problem.row_kind[batch]], old, gram, gamma(gram, beta), inner_iter)
            codes[batch] = new
            _refresh(problem, batch, old, new, pull, gram)
        trace.objective.append(problem.objective(problem.table, problem.scale, codes, pull, gram))
        trace.changes.append(int(np.count_nonzero(codes != before)))
        if trace.changes[-1] == 0:
            trace.converged = True
            break
    return trace


def gamma(gram: FloatArray, beta: float) -> float:
    """Return lambda_max(M) + beta."""
    with one_blas_thread():
        return float(np.linalg.eigvalsh(gram)[-1]) + beta


def iterate(pull: FloatArray, codes: FloatArray, gram: FloatArray, weight: float, steps: int) -> FloatArray:
    """Take up to ``steps`` inner steps on rows, while the anchors stay fixed."""
    for _ in range(steps):
        moved = np.where(pull + weight * codes - codes @ gram >= 0, 1.0, -1.0)
        if np.array_equal(moved, codes):
            break
        codes = moved
    return codes


def code_rows(
    pull: FloatArray,
    gram: FloatArray,
    group: NDArray[np.intp],
    start: NDArray[np.float32],
    *,
    scale: float,
    beta: float,
    max_iter: int = 20,
    inner_iter: int = 3,
) -> NDArray[np.float32]:
    """Code rows that are not anchors, from the ``pull`` (per group) and ``gram`` of the learned anchors."""
    codes = np.array(start, dtype=np.float32)
    weight = gamma(gram, beta)
    active = np.arange(len(codes))
    for _ in range(max_iter):
        old = codes[active].astype(np.float64)
        new = iterate(scale * pull[group[active]], old, gram, weight, inner_iter)
        codes[active] = new
        active = active[(new != old).any(axis=1)]
        if not len(active):
            break
    return codes


def _refresh(
    problem: AnchorProblem,
    batch: NDArray[np.intp],
    old: FloatArray,
    new: FloatArray,
    pull: FloatArray,
    gram: FloatArray,
) -> None:
    """Update both sums over anchors in place after the anchors of a batch changed."""
    moved = problem.is_anchor[batch] & (new != old).any(axis=1)
    if not moved.any():
        return
    gram += new[moved].T @ new[moved] - old[moved].T @ old[moved]
    steps = sums_by_kind(problem.column_kind[batch[moved]], new[moved] - old[moved], problem.table.shape[1])
    pull += problem.table @ steps
