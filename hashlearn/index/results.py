"""What searches return, and the two ways in which an index says no."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.deprecation import warn_deprecated
from hashlearn.typing import Ids


class Hits(NamedTuple):
    """The k nearest rows of every query, nearest first; ``ids, distances = index.search(...)`` works too.

    ids : int64 (queries, k). -1 where there are fewer than k rows.
    distances : (queries, k). Hamming distances are int32 with -1 in empty places; asymmetric ones are float32
        with infinity there, because -1 is a distance like any other.
    """

    ids: Ids
    distances: NDArray[Any]


class Ball(NamedTuple):
    """All rows within a radius, sorted by (distance, id). Query i has the places ``lims[i]:lims[i + 1]``."""

    lims: Ids
    ids: Ids
    distances: NDArray[np.int32]


class Info(NamedTuple):
    """What ``Index.info`` tells: ``bytes`` is memory for codes, ids and (for approximate kinds) the structure."""

    kind: str
    n_bits: int
    bit_order: str
    rows: int
    bytes: int
    settings: dict[str, int | None]

    @property
    def bitorder(self) -> str:
        """Old name of ``bit_order``."""
        warn_deprecated("Info.bitorder", "bit_order", since="0.3")
        return self.bit_order


class UnsupportedByKindError(NotImplementedError):
    """This kind of index cannot do what was asked; another kind can, and the message says which."""


class IndexFileError(ValueError):
    """A file is no index that this hashlearn can read, or is damaged."""
