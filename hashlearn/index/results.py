"""What an index returns and the errors that it raises."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.deprecation import warn_deprecated
from hashlearn.typing import Ids


class Hits(NamedTuple):
    """The k nearest rows of every query, nearest first; ``ids, distances = index.search(...)`` works too.

    Attributes
    ----------
    ids : int64 array (queries, k)
        -1 where there are fewer than k rows.
    distances : array (queries, k)
        Hamming distances are int32 with -1 in empty places. Asymmetric distances are float32 with infinity in empty
        places, because -1 is a valid asymmetric distance.
    """

    ids: Ids
    distances: NDArray[Any]


class Ball(NamedTuple):
    """All rows within a radius, sorted by (distance, id). The rows of query i are at ``lims[i]:lims[i + 1]``."""

    lims: Ids
    ids: Ids
    distances: NDArray[np.int32]


class IndexInfo(NamedTuple):
    """What ``Index.info`` returns. ``bytes`` is the memory for codes, ids and (for approximate kinds) the structure."""

    kind: str
    n_bits: int
    bit_order: str
    rows: int
    bytes: int
    settings: dict[str, int | None]

    @property
    def bitorder(self) -> str:
        """Old name of ``bit_order``."""
        warn_deprecated("IndexInfo.bitorder", "bit_order", since="0.3")
        return self.bit_order


class UnsupportedByKindError(NotImplementedError):
    """This kind of index does not support the operation; the message names the kinds that do."""


class IndexFileError(ValueError):
    """A file is damaged, or is not an index that this version of hashlearn can read."""
