"""Search in memory: ``Index`` holds packed codes by id. faiss is imported by the first search, not before."""

from hashlearn.index.index import Index
from hashlearn.index.results import Ball, Hits, IndexFileError, Info, UnsupportedByKindError

__all__ = ["Ball", "Hits", "Index", "IndexFileError", "Info", "UnsupportedByKindError"]
