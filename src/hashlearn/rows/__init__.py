"""The engine of fits: sources of rows that need not fit in memory, passes over them, and who carries them out.

``fit_chunks`` and ``encode_chunks`` of the hashers take anything that ``as_source`` takes.
"""

from hashlearn.rows.readers import as_source
from hashlearn.rows.reduce import WORKER_ENVIRONMENT, WorkersLost
from hashlearn.rows.source import Source, Stream

__all__ = ["WORKER_ENVIRONMENT", "Source", "Stream", "WorkersLost", "as_source"]
