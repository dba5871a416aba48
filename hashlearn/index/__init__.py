"""Search in memory: ``Index`` holds packed codes by id. The first search imports faiss, to keep the import fast."""

from typing import Any

from hashlearn.deprecation import renamed_attribute
from hashlearn.index.hits import Ball, Hit, HitList, Hits
from hashlearn.index.index import Index
from hashlearn.index.results import IndexFileError, IndexInfo, UnsupportedByKindError

__all__ = ["Ball", "Hit", "HitList", "Hits", "Index", "IndexFileError", "IndexInfo", "UnsupportedByKindError"]


def __getattr__(name: str) -> Any:
    return renamed_attribute(__name__, name, {"Info": "hashlearn.index.IndexInfo"}, since="0.3")
