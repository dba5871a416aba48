"""Advice about the data of a fit, one sentence each: where labels or codes make a search worse than it looks.

Hashers give it as warnings of the category ``FitAdvice`` and keep it in ``advice_``. To silence it::

    warnings.simplefilter("ignore", hashlearn.FitAdvice)
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hashlearn.codes import pack, unpack
from hashlearn.labels import LabelMatrix
from hashlearn.typing import Int64Array, IntArray, PackedCodes

LEAST_ROWS = 100  # on fewer rows shares are mostly chance
LARGEST_TO_SMALLEST = 20
MOST_DISTINCT_LABELS = 0.5  # share of the labeled rows
MOST_UNLABELED = 0.2
LEAST_CODES = 1000  # fewer rows may have equal codes by chance
SAMPLED_CODES = 10_000  # enough to show a collapse; counting them takes far less time than computing them
ROWS_PER_CODE = 10
LEAST_FEATURES, LARGE_SPREAD, SAMPLED_ROWS = 4, 20, 2000  # of 7 sets of embeddings, the largest spread is 2.3 medians
_COLLAPSE = "The codes collapse:"


class SampledCodes(NamedTuple):
    """Packed codes (n, n_bytes) of training rows with these ascending numbers."""

    numbers: IntArray
    packed: PackedCodes
    n_bits: int

    @classmethod
    def joined(cls, parts: Sequence[SampledCodes]) -> SampledCodes:
        """Return the codes of several hashers side by side, of the rows that all of them have sampled."""
        numbers = reduce(np.intersect1d, (part.numbers for part in parts))
        bits = [unpack(part.packed[np.searchsorted(part.numbers, numbers)], part.n_bits) for part in parts]
        return cls(numbers, pack(np.hstack(bits)), sum(part.n_bits for part in parts))


_muted: ContextVar[list[SampledCodes] | None] = ContextVar("muted", default=None)


class FitAdvice(UserWarning):
    """A fit gave codes, but its labels or codes have a property that often makes them worse than they could be."""


def scale_advice(X: Any) -> list[str]:
    """Return a sentence if a few features (n, n_features) vary far more than the others, constant ones left out."""
    if sparse.issparse(X):
        return []
    spread = np.asarray(X[:: max(1, X.shape[0] // SAMPLED_ROWS)], dtype=np.float64).std(axis=0)
    varying = spread[spread > 0]
    if len(varying) < LEAST_FEATURES:
        return []
    large = np.flatnonzero(spread > LARGE_SPREAD * np.median(varying))
    if not 0 < len(large) <= max(1, len(varying) // 10):
        return []
    return [
        f"{len(large)} of {X.shape[1]} features vary more than {LARGE_SPREAD} times as much as most others (the first "
        f"is feature {large[0]}, counted from 0), so they alone may decide which rows are near: scale the features, as "
        "a pipeline with StandardScaler does, or leave these out."
    ]


def label_advice(
    labels: LabelMatrix,
    n_bits: int,
    counts: NDArray[np.integer] | None = None,
    n_unlabeled: int = 0,
    structure: bool = False,
) -> list[str]:
    """Return sentences about labels.

    Parameters
    ----------
    labels : 0/1 (n, n_labels)
        The label set of every row. An empty set is a row without labels.
    n_bits : int
    counts : (n,), default=None
        Rows that have each label set, if ``labels`` lists distinct ones.
    n_unlabeled : int, default=0
        Rows without labels besides those with empty sets.
    structure : bool, default=False
        Whether the hasher has bits that learn from unlabeled rows too.
    """
    weights = np.ones(labels.shape[0], dtype=np.int64) if counts is None else np.asarray(counts)
    sizes = np.diff(labels.indptr)
    n_labeled = int(weights[sizes > 0].sum())
    n_unlabeled += int(weights[sizes == 0].sum())
    if n_labeled + n_unlabeled < LEAST_ROWS or n_labeled == 0:
        return []
    advice = []
    if n_unlabeled > MOST_UNLABELED * (n_labeled + n_unlabeled):
        share = 100 * n_unlabeled / (n_labeled + n_unlabeled)
        use = (
            "only bits that keep the structure of the features learn from them."
            if structure
            else "teach nothing: bits of MetricITQ, as AutoHasher or JoinedHasher has them, make use of these rows."
        )
        advice.append(f"{share:.0f} % of the rows ({n_unlabeled:,}) have no label{': ' if structure else ' and '}{use}")
    if n_labeled >= LEAST_ROWS and (sizes <= 1).all():
        rows_of = np.asarray(labels.T @ weights.astype(np.float64)).ravel().astype(np.int64)
        advice += _class_advice(rows_of[rows_of > 0], n_labeled, n_bits)
    return advice


def _class_advice(rows_of: Int64Array, n_labeled: int, n_bits: int) -> list[str]:
    """Return sentences about classes, of which ``rows_of`` gives the numbers of rows."""
    n_classes, largest, smallest = len(rows_of), int(rows_of.max()), int(rows_of.min())
    if n_classes > MOST_DISTINCT_LABELS * n_labeled:
        return [
            f"The labels have {n_classes:,} different values in {n_labeled:,} rows, so they look like measurements or "
            "ids, and most rows share theirs with no other row: put values into classes, or fit without labels (ITQ)."
        ]
    advice = []
    if largest > LARGEST_TO_SMALLEST * smallest:
        advice.append(
            f"The classes are unbalanced: the largest has {largest:,} rows, the smallest {smallest:,}. Codes of small "
            "classes are often poor: give more rows of them, or compare scores class by class."
        )
    if n_classes > separable_classes(n_bits):
        enough = next(bits for bits in range(n_bits, 8 * n_bits + 64) if separable_classes(bits) >= n_classes)
        advice.append(
            f"{n_classes:,} classes are more than {n_bits} bits can separate well (about "
            f"{separable_classes(n_bits):,}): use at least {8 * -(-enough // 8)} bits."
        )
    return advice


def separable_classes(n_bits: int) -> int:
    """Return how many codes exist for sure that differ from each other in a quarter of the bits (Gilbert's bound)."""
    radius = max(1, n_bits // 4)
    return 2**n_bits // sum(comb(n_bits, flips) for flips in range(radius))


def code_advice(packed: PackedCodes, n_bits: int, structure: bool = False) -> list[str]:
    """Return a sentence if many of these packed codes of rows are equal; ``structure`` as in ``label_advice``."""
    found = collapsed(packed, n_bits)
    if found is None:
        return []
    return [
        f"{_COLLAPSE} {found[0]:,} distinct codes for {found[1]:,} training rows, so a search cannot tell many rows "
        "apart: keep vectors and search with rescore=True, or "
        + ("take more bits." if structure else "add bits for structure (AutoHasher, or JoinedHasher with MetricITQ).")
    ]


def is_about_codes(sentence: str) -> bool:
    """Return whether a sentence is from ``code_advice``."""
    return sentence.startswith(_COLLAPSE)


def collapsed(packed: PackedCodes, n_bits: int) -> tuple[int, int] | None:
    """Return how many distinct codes how many rows have, if they are fewer than a tenth of the rows or of all codes.

    Of many rows a sample is looked at. It is spread evenly, because neighboring rows are often of one class.
    """
    if len(packed) < LEAST_CODES:
        return None
    sample = packed[np.linspace(0, len(packed) - 1, min(len(packed), SAMPLED_CODES)).astype(np.int64)]
    data, width = sample.tobytes(), sample.shape[1]
    distinct = len({data[start : start + width] for start in range(0, len(data), width)})
    return (distinct, len(sample)) if ROWS_PER_CODE * distinct < min(len(sample), 2.0**n_bits) else None


@contextmanager
def muted() -> Iterator[list[SampledCodes]]:
    """Let fits in this context keep their advice to themselves, for a hasher that fits others and advises itself.

    Gives a list to which every fit adds the codes that it looked at.
    """
    sampled: list[SampledCodes] = []
    token = _muted.set(sampled)
    try:
        yield sampled
    finally:
        _muted.reset(token)


def note(sampled: SampledCodes) -> None:
    """Tell a surrounding ``muted`` which codes a fit looked at."""
    if (noted := _muted.get()) is not None:
        noted.append(sampled)


def give(sentences: Iterable[str]) -> None:
    """Warn of each sentence, at the line outside of hashlearn that called the fit."""
    if _muted.get() is not None:
        return
    for sentence in sentences:
        warnings.warn(sentence, FitAdvice, stacklevel=_level_outside())


def _level_outside() -> int:
    """Return the ``stacklevel`` for a caller's warning that belongs to the first frame outside of hashlearn."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("hashlearn."):
        level, frame = level + 1, frame.f_back
    return level
