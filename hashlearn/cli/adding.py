"""Read the rows of several files (features or codes, ids, payloads, vectors) and add them to a collection."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn import codes, files
from hashlearn.cli.columns import text_hint, with_columns
from hashlearn.cli.shell import say
from hashlearn.cli.texts import TextRows
from hashlearn.collection import Collection
from hashlearn.collection.payloads import checked_payloads
from hashlearn.files.arrays import SUFFIXES, split_part
from hashlearn.files.codes import FLOAT_FORMATS
from hashlearn.files.read import check_rows, row_chunks
from hashlearn.parallel import BLOCK_ROWS, row_blocks

_MOST_ROWS = 64 * BLOCK_ROWS


def open_features(collection: Collection, name: str) -> Any:
    """Open feature rows, and check that the collection's model can encode them."""
    hasher = collection.hasher
    if hasher is None:
        raise files.FileError(f"{collection.uri} has no model to encode {name}: give --codes.")
    rows = files.open_features(with_columns(hasher, name))
    if rows.shape[1] != hasher.n_features_in_:
        raise files.FileError(
            f"{name} has {rows.shape[1]} features, the model of {collection.uri} was fitted on "
            f"{hasher.n_features_in_}{text_hint(hasher, name)}."
        )
    return rows


def open_codes(collection: Collection, name: str, bit_order: codes.BitOrder) -> NDArray[np.uint8]:
    """Read packed codes, and check that they have as many bits as the collection."""
    found = files.read_codes(name, collection.n_bits, bit_order)
    if found.info.format in FLOAT_FORMATS or found.info.bits != collection.n_bits:
        what = "floats" if found.info.format in FLOAT_FORMATS else f"codes of {found.info.bits} bits"
        raise files.FileError(f"{name} holds {what}, {collection.uri} holds codes of {collection.n_bits} bits.")
    return found.codes


def read_ids(collection: Collection, name: str) -> NDArray[Any]:
    """Read the ids in a file, which must be of the kind that the collection has."""
    if collection.id_kind == "int":
        return files.read_ids(name)
    try:
        return collection.ids_array(files.read_text_ids(name))
    except ValueError as error:
        raise files.FileError(f"{name}: {error}") from error


def listed_ids(collection: Collection, text: str) -> Any:
    """Ids of a file, or those that are listed. A text is the name of a file where there is such a file."""
    parts = [part.strip() for part in text.split(",")]
    if collection.id_kind == "int":
        return [int(part) for part in parts] if all(part.isdigit() for part in parts) else read_ids(collection, text)
    path = split_part(text)[0]
    if Path(path).is_file():
        return read_ids(collection, text)
    if path.suffix.lower() in SUFFIXES:
        say(f"there is no file {path}, so this is taken for the id of a row.")
    return parts


class AddBatches:
    """The rows of one ``add`` command. All files are opened and checked against each other before a row is added."""

    def __init__(
        self,
        collection: Collection,
        name: str,
        rows: Any,
        coded: bool,
        ids: str | None,
        payload: str | None,
        vectors: str | None,
    ) -> None:
        self._collection, self._name, self._rows, self._coded = collection, name, rows, coded
        self._payload, self._vector_name = payload, vectors
        self.n_rows = int(rows.shape[0])
        self._ids = self._vectors = None
        if ids is not None:
            self._ids = read_ids(collection, ids)
            self._check_count(ids, len(self._ids))
            if len(np.unique(self._ids)) != self.n_rows:
                raise files.FileError(f"{ids} holds an id more than once.")
        if vectors is not None:
            self._vectors = files.open_features(vectors)
            self._check_count(vectors, self._vectors.shape[0])
        if payload is not None:
            self._check_count(payload, files.count_payload_rows(payload))

    def _check_count(self, name: str, count: int) -> None:
        if count != self.n_rows:
            raise files.FileError(f"{name} has {count} rows, {self._name} has {self.n_rows}.")

    def go_on(self, done: int, first_id: int | None) -> bool:
        """Whether the collection has the rows that a journal counts as done. It may have been replaced by another."""
        if not 0 <= done <= self.n_rows or (self._ids is None) != (first_id is not None):
            return False
        if not done:  # rows of an unfinished batch may be there and must keep their ids
            return True
        return self._collection.get(self._numbers(slice(done - 1, done), first_id), vectors=False)[0] is not None

    def added(self, done: int, first_id: int | None) -> Iterator[int]:
        """Add the rows after the first ``done`` in batches. Yields the number of added rows after each batch."""
        payloads = None if self._payload is None else files.payload_rows(self._payload)
        if payloads is not None:
            next(islice(payloads, done, done), None)  # skip the payloads that were added before
        for chunk in self._chunks():
            if chunk.stop <= done:
                continue
            chunk = slice(max(chunk.start, done), chunk.stop)
            block = self._rows[chunk]
            kept = None if self._vectors is None else self._vectors[chunk]
            objects = None if payloads is None else list(islice(payloads, chunk.stop - chunk.start))
            if not self._coded:
                check_rows(block, self._name, chunk.start)
            if kept is not None:
                check_rows(kept, str(self._vector_name), chunk.start)
            numbers = self._numbers(chunk, first_id)
            given = {"codes": block} if self._coded else {"X": block}
            try:
                self._collection.add(ids=numbers, payload=objects, vectors=kept, **given)
            except ValueError:
                self._check_payloads(objects, chunk)
                raise
            yield chunk.stop

    def _chunks(self) -> list[slice]:
        """Batches that fit into memory and are small enough that little work is repeated after a kill."""
        chunks = row_chunks(self._rows)
        most_rows = self._rows.batch_rows if isinstance(self._rows, TextRows) else _MOST_ROWS
        return row_blocks(self.n_rows, min(chunks[0].stop, most_rows)) if chunks else []

    def _check_payloads(self, objects: list[Any] | None, chunk: slice) -> None:
        """If a payload was refused, raise an error with the name of its file and the number of its row."""
        try:
            checked_payloads(objects, chunk.stop - chunk.start, chunk.start)
        except ValueError as error:
            raise files.FileError(f"{self._payload}: {error}") from error

    def _numbers(self, chunk: slice, first_id: int | None) -> NDArray[Any]:
        if self._ids is not None:
            return self._ids[chunk]
        return np.arange(chunk.start, chunk.stop, dtype=np.int64) + np.int64(first_id or 0)
