"""What an index returns besides hits, and the errors that it raises."""

from __future__ import annotations

from typing import NamedTuple

from hashlearn.deprecation import warn_deprecated


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
