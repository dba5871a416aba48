"""Search in memory: ``Index`` holds packed codes; ``ScoreTables`` are queries by scores."""

from hashlearn.index.file import IndexFileError, build_file
from hashlearn.index.hits import Hit, HitList, Hits, RangeHits
from hashlearn.index.index import Index, IndexInfo
from hashlearn.index.scan import ScanInfo, ScoreTables, scan_info

__all__ = [
    "Hit",
    "HitList",
    "Hits",
    "Index",
    "IndexFileError",
    "IndexInfo",
    "RangeHits",
    "ScanInfo",
    "ScoreTables",
    "build_file",
    "scan_info",
]
