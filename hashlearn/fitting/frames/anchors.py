"""Codes of the anchors, which the pairwise methods learn jointly before they code any other row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hashlearn.fitting.calibration_sample import CalibrationSample
from hashlearn.fitting.grouping import Groups
from hashlearn.fitting.row_pass import StartingCodes
from hashlearn.fitting.sources import AnySource, Source
from hashlearn.kernel import FeatureMap
from hashlearn.parallel import one_blas_thread
from hashlearn.similarity import Similarity
from hashlearn.solvers.losses import Loss
from hashlearn.solvers.problem import AnchorProblem, Trace
from hashlearn.solvers.rows import RowCoder
from hashlearn.solvers.solver import PairwiseSolver
from hashlearn.solvers.start import discriminant_directions, leading_directions
from hashlearn.timing import PhaseTimer
from hashlearn.typing import Float32Array, IntArray, Matrix


@dataclass
class Supervision:
    """Who is similar to whom, and which rows are anchors: what a fit knows before it learns.

    Attributes
    ----------
    similarity : between groups of rows; the anchors are its rows ``places``.
    anchors : row numbers of the anchors, and ``anchor_rows`` the rows themselves.
    groups : the group of any row, from its labels in the source.
    sample : rows for the calibration of the bits.
    """

    similarity: Similarity
    places: IntArray
    anchors: IntArray
    anchor_rows: Matrix
    groups: Groups
    n_unlabeled: int
    sample: CalibrationSample


@dataclass
class LearnedAnchors:
    """What the pass over the rows needs of the anchors.

    Attributes
    ----------
    center : the mean of the anchors' features, which is about that of all rows.
    start : where other rows start, and the codes that are learned.
    coder : how to code any other row.
    trace : how the codes were learned.
    """

    center: Float32Array
    start: StartingCodes
    coder: RowCoder
    trace: Trace


def learn_anchors(
    source: AnySource,
    features: FeatureMap,
    supervision: Supervision,
    solver: PairwiseSolver,
    loss: Loss,
    n_bits: int,
    rng: np.random.RandomState,
    timer: PhaseTimer,
) -> LearnedAnchors:
    """Learn the codes of the anchors jointly, from starting directions of their features."""
    similarity, places = supervision.similarity, supervision.places
    with one_blas_thread(), timer("start"):
        problem = AnchorProblem.of_anchors(similarity, places, n_bits)
        mapped = features.map_block(supervision.anchor_rows)
        center = mapped.mean(axis=0)
        mapped -= center
        sample: NDArray[np.floating] = mapped
        directions: NDArray[np.floating]
        if solver.start == "discriminant" and similarity.classes is not None:
            directions = discriminant_directions(mapped, similarity.group[places], n_bits, rng)
        else:
            sample = wide = mapped.astype(np.float64)
            directions = leading_directions(wide, problem, n_bits, solver.fill, rng)
    with one_blas_thread(), timer("learn"):
        rows = supervision.anchors
        if solver.order == "interleaved":
            # All labeled rows are learned jointly, the anchors among them.
            rows = np.flatnonzero(similarity.group >= 0)
            sample = features.map_block(rows_of_array(source, rows)) - center
            problem = AnchorProblem.of_rows(similarity, rows, places, n_bits)
        trace, directions = solver.learn(problem, sample, directions, loss, similarity.graded, rng)
        coder = solver.coder(similarity, places, trace.codes[problem.is_anchor], loss)
    return LearnedAnchors(center, StartingCodes.of(directions, rows, trace.codes), coder, trace)


def rows_of_array(source: AnySource, rows: IntArray) -> Matrix:
    """Return rows of an array by number. ``fit_chunks`` refuses chunks for options that need this."""
    assert isinstance(source, Source)
    return source.take(rows)
