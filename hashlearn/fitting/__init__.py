"""The engine of fits: sources of rows that need not fit in memory, passes over them, and who carries them out.

``fit_chunks`` and ``encode_chunks`` of the hashers take anything that ``as_source`` takes.
"""

from hashlearn.fitting.executors import WORKER_ENVIRONMENT, WorkersLost
from hashlearn.fitting.inputs import as_source
from hashlearn.fitting.sources import Source, Stream

__all__ = ["WORKER_ENVIRONMENT", "Source", "Stream", "WorkersLost", "as_source"]
