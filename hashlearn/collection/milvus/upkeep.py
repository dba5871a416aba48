"""Checking a collection on Milvus, and the commands of Milvus that back it up."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from hashlearn.collection.milvus.link import META_SUFFIX, MilvusAddress, MilvusLink
from hashlearn.collection.remote import report_sentence, verify_rows
from hashlearn.collection.store import (
    CollectionError,
    CollectionSpec,
    StoredRows,
    UnsupportedByStoreError,
    VerifyReport,
)

_NOTE = "Milvus checks its own files as it reads them; whether replicas agree is for its own tools (birdwatcher)."


def verify(spec: CollectionSpec, batches: Iterator[StoredRows], counted: int) -> VerifyReport:
    """Read every row, and look whether it can be one of this collection's."""
    problems: list[str] = []
    padding = np.uint8((1 << (-spec.n_bits % 8)) - 1)

    def look(batch: StoredRows) -> None:
        for number in batch.ids[(batch.codes[:, -1] & padding) != 0]:
            problems.append(f"The code of row {number} has bits beyond the {spec.n_bits} of this collection.")

    found = verify_rows(batches, counted, look)
    if found.rows != counted:
        problems.append(f"Milvus counts {counted} rows and shows {found.rows}; if nobody writes, some are lost.")
    return found._replace(problems=tuple(problems), notes=(_NOTE,))


def compact(link: MilvusLink, name: str) -> None:
    """Have the server merge segments and drop removed rows, and wait until it has."""
    job = link.call("compact", name)
    end = time.monotonic() + link.address.timeout
    while (told := str(link.call("get_compaction_state", job))) != "Completed":
        if time.monotonic() > end:
            raise CollectionError(
                f"Milvus is still compacting {link.address.shown} after {link.address.timeout:g} s (state {told}); it "
                "goes on by itself."
            )
        time.sleep(0.2)


def name_the_tool(address: MilvusAddress, path: str, found: VerifyReport) -> NoReturn:
    """Say how Milvus backs this collection up."""
    names = f"{address.collection},{address.collection}{META_SUFFIX}"
    raise UnsupportedByStoreError(
        f"Milvus makes backups by a tool of its own: run milvus-backup create --name NAME --colls {shlex.quote(names)} "
        f"instead of writing {path}, and milvus-backup restore to restore. {report_sentence(found, address.shown)}"
    )


def name_the_restorer(address: MilvusAddress) -> NoReturn:
    raise UnsupportedByStoreError(
        "Milvus restores its own backups: run milvus-backup restore --name NAME, then 'hashlearn index verify' on "
        f"{address.shown}. A backup of a folder can be restored to a folder."
    )
