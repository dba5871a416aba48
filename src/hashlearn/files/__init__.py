"""Files people have: features, labels, pairs and codes. Every error is one sentence that names the file.

A name may pick a part of a file after a colon: ``data.npz:train``, ``data.h5:group/images``,
``table.parquet:embedding``, ``table.csv:label``; ``table.csv:-label`` is every numeric column but that one.
"""

from hashlearn.files.arrays import FileError, open_part
from hashlearn.files.codes import CodeFile, CodeInfo, CodeWriter, read_codes
from hashlearn.files.output import check_output, sidecar, written_whole
from hashlearn.files.payloads import count_payload_rows, payload_rows, read_ids, read_text_ids
from hashlearn.files.read import checked_chunks, open_features, read_features, read_labels, read_pairs

__all__ = [
    "CodeFile",
    "CodeInfo",
    "CodeWriter",
    "FileError",
    "check_output",
    "checked_chunks",
    "count_payload_rows",
    "open_features",
    "open_part",
    "payload_rows",
    "read_codes",
    "read_features",
    "read_ids",
    "read_labels",
    "read_pairs",
    "read_text_ids",
    "sidecar",
    "written_whole",
]
