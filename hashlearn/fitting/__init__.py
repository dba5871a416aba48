"""Rows in chunks: sources that are never in memory as a whole, and who works on them.

``fit_chunks`` and ``encode_chunks`` of the hashers take anything that ``as_source`` takes.
"""

from hashlearn.fitting.executors import WORKER_ENVIRONMENT, WorkersLost
from hashlearn.fitting.naming import as_source
from hashlearn.fitting.sources import Source, Stream

__all__ = ["WORKER_ENVIRONMENT", "Source", "Stream", "WorkersLost", "as_source"]
