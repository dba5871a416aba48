"""``hashlearn index add``, ``update`` and ``delete``: commands that change the rows of a collection."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from platformdirs import user_state_path

from hashlearn import codes, files
from hashlearn.cli.columns import file_or_column, payload_without_features
from hashlearn.cli.encode import open_for
from hashlearn.cli.options import AsJson, BitOrder, Jobs, Restart, Uri, Where, read_object, read_where
from hashlearn.cli.shell import BadUse, epilog, progress, say, tell
from hashlearn.cli.texts import TextRows, open_texts
from hashlearn.collection import Collection
from hashlearn.collection.ids import ids_of_kind
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.uri import is_folder
from hashlearn.files import written_whole
from hashlearn.files.arrays import SUFFIXES, split_part
from hashlearn.files.codes import FLOAT_FORMATS
from hashlearn.files.read import check_rows, row_chunks, shard_names
from hashlearn.parallel import BLOCK_ROWS, row_blocks

_MOST_ROWS = 64 * BLOCK_ROWS


def open_features(collection: Collection, name: str) -> Any:
    """Open feature rows, and check that the collection's model can encode them."""
    if (hasher := collection.hasher) is None:
        raise files.FileError(f"{collection.uri} has no model to encode {name}: give --codes.")
    return open_for(hasher, f"the model of {collection.uri}", name)


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
        return ids_of_kind(collection.id_kind).array(files.read_text_ids(name))
    except ValueError as error:
        raise files.FileError(f"{name}: {error}") from error


def listed_ids(collection: Collection, text: str) -> Any:
    """Return the ids of a file, or those that are listed. A text is the name of a file where there is such a file."""
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
        """Return whether the collection has the rows that a journal counts as done.

        It may have been replaced by another.
        """
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
        """Return batches that fit into memory and are small enough that little work is repeated after a kill."""
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


class ChangedSourceError(ValueError):
    """A file has changed since an earlier run began to add it."""


class Journal:
    """How many rows of some files are in a collection. For rows without ids, ``first_id`` is the first id.

    ``part`` tells apart commands that read other parts of the same files, such as another column of texts.
    """

    def __init__(self, uri: str, sources: Iterable[str], part: str = "") -> None:
        names = list(sources)
        place = str(Path(uri).resolve()) if is_folder(uri) else uri
        files = {name: [split_part(one)[0] for one in shard_names(name, SUFFIXES)] for name in names}
        sources = (str(files[name][0].resolve()) + name for name in names)
        key = hashlib.sha256("\n".join([place, *sources, *([part] if part else [])]).encode())
        folder = Path(uri) if is_folder(uri) else user_state_path("hashlearn", appauthor=False)
        self.path = folder / f"adding-{key.hexdigest()[:16]}.json"
        self.done = 0
        self.first_id: int | None = None
        self._stamps = {name: [fact for path in paths for fact in _stamp(path)] for name, paths in files.items()}

    def read(self) -> bool:
        """Read the journal of an earlier run; return whether there is one. ChangedSourceError if a file has changed."""
        try:
            found: dict[str, Any] = json.loads(self.path.read_text())
            done, first_id, stamps = int(found["done"]), found["first_id"], found["stamps"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False  # a damaged journal counts as none: rows keep their ids, so nothing is lost
        for name, stamp in self._stamps.items():
            if stamps.get(name) != stamp:
                raise ChangedSourceError(
                    f"{name} has changed since a run was interrupted after {done} of its rows: --restart begins again."
                )
        self.done, self.first_id = done, first_id
        return True

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        facts = {"done": self.done, "first_id": self.first_id, "stamps": self._stamps}
        with written_whole(self.path) as stream:
            stream.write(json.dumps(facts).encode())

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _stamp(path: Path) -> list[int]:
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns]


rows = typer.Typer()

File = "FILE"


@rows.command(
    epilog=epilog(
        "hashlearn index add shop/ X.npy --ids ids.txt --payload meta.parquet",
        "hashlearn index add shop/ --codes codes.npy --bit-order little --payload meta.jsonl",
        "hashlearn index add milvus://localhost:19530/shop X.npy --payload meta.csv",
        "hashlearn index add shop/ 'x*.npy' --payload 'meta*.parquet'",
        "hashlearn index add shop/ --codes codes/",
        "hashlearn index add faq/ texts.csv --text question --ids texts.csv:id",
    )
)
def add(
    uri: Uri,
    features: Annotated[
        str | None, typer.Argument(metavar="[X]", help="Features: .npy .csv .parquet .h5 …, or 'x*.npy'.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text", metavar="COLUMN", help="X holds texts: their column. The collection's text model embeds them."
        ),
    ] = None,
    code_file: Annotated[
        str | None, typer.Option("--codes", metavar=File, help="Codes instead of features: a file, pattern or folder.")
    ] = None,
    ids: Annotated[str | None, typer.Option(metavar=File, help="Ids: .txt .npy, or a column of X or t.csv:id.")] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            metavar=File,
            help="One object per row: .parquet .jsonl .csv, or t.csv:price,name. With --text, X is the default.",
        ),
    ] = None,
    vectors: Annotated[str | None, typer.Option(metavar=File, help="Floats to keep instead of the features.")] = None,
    bit_order: BitOrder = "big",
    restart: Restart = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Add rows, or replace those whose id exists. Files stream through, so they may be bigger than memory.

    After an interruption the same command resumes.
    """
    if (features is None) == (code_file is None):
        raise BadUse("Give features X or --codes, not both and not neither.")
    if text is not None and features is None:
        raise BadUse("--text needs X: the file of the texts.")
    if text is not None and payload is None:
        payload = features
    with Collection.open(uri) as collection:
        source = str(code_file if features is None else features)
        ids = file_or_column(source, ids)
        if jobs is not None and collection.hasher is not None:
            collection.hasher.n_jobs = jobs
        found: Any
        if text is not None:
            found = open_texts(collection.hasher, collection.uri, source, text)
        else:
            found = (
                open_features(collection, source) if code_file is None else open_codes(collection, source, bit_order)
            )
        if payload is not None and text is None and features is not None:
            payload = payload_without_features(collection.hasher, features, payload)
        batches = AddBatches(collection, source, found, code_file is not None, ids, payload, vectors)
        journal = Journal(uri, [name for name in (source, ids, payload, vectors) if name], text or "")
        going_on = not restart and journal.read() and batches.go_on(journal.done, journal.first_id)
        if going_on:
            say(f"going on after {journal.done} of {batches.n_rows} rows.")
        else:
            journal.done, journal.first_id = 0, None
            if ids is None:
                if collection.id_kind != "int":
                    raise BadUse(
                        f"The ids of {collection.uri} are of the kind {collection.id_kind}: give --ids, so that a "
                        "command that is repeated adds no row twice."
                    )
                journal.first_id = collection._store.take_ids(batches.n_rows)
            journal.write()
        started, begun = time.perf_counter(), journal.done
        with progress(f"adding {source}") as listener:
            for done in batches.added(journal.done, journal.first_id):
                journal.done = done
                journal.write()
                listener(f"adding {source}", done, batches.n_rows)
        journal.remove()
        facts = {
            "collection": collection.uri,
            "rows_added": batches.n_rows - begun,
            "rows": len(collection),
            "seconds": round(time.perf_counter() - started, 3),
        }
    tell(facts, as_json)


@rows.command(
    epilog=epilog(
        "hashlearn index update shop/ --ids prices.csv:id --payload prices.csv",
        """hashlearn index update shop/ --where '{"year": {"<": 2000}}' --fields '{"sold": true}'""",
        """hashlearn index update shop/ --ids 17,18 --fields '{"sold": true}'""",
    )
)
def update(
    uri: Uri,
    ids: Annotated[
        str | None,
        typer.Option(metavar="FILE|1,2,3", help="Ids: .txt .npy, a column t.csv:id, or ids with commas."),
    ] = None,
    payload: Annotated[
        str | None, typer.Option(metavar=File, help="One object per id: .parquet .jsonl .csv .tsv.")
    ] = None,
    where: Where = None,
    fields: Annotated[
        str | None, typer.Option(metavar="JSON", help="With --where or --ids: the fields that all these rows get.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace payloads whole, not only the fields that are given.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Give rows new payloads. Their codes and vectors stay; nothing is changed if a row does not exist."""
    by_filter = where is not None and fields is not None and ids is None and payload is None
    by_ids = ids is not None and where is None and (payload is None) != (fields is None)
    if not (by_ids or by_filter):
        raise BadUse("Give --ids with --payload or --fields, or --where with --fields.")
    condition, new = read_where(where), read_object(fields, "--fields")
    with Collection.open(uri) as collection, progress("updating"):
        if by_filter:
            changed = collection.update_payload(where=condition, payload=new, merge=not replace)
        else:
            wanted = listed_ids(collection, str(ids))
            given = [new] * len(wanted) if payload is None else list(files.payload_rows(payload))
            changed = collection.update_payload(wanted, given, merge=not replace)
        facts = {"collection": collection.uri, "rows_updated": changed}
    tell(facts, as_json)


@rows.command(
    epilog=epilog(
        "hashlearn index delete shop/ --ids old.txt",
        """hashlearn index delete shop/ --where '{"year": {"<": 2000}}'""",
    )
)
def delete(
    uri: Uri,
    ids: Annotated[str | None, typer.Option(metavar="FILE|1,2,3", help="Ids: a file, or ids with commas.")] = None,
    where: Where = None,
    as_json: AsJson = False,
) -> None:
    """Remove rows by their ids, or those whose payload matches."""
    condition = read_where(where)
    if (ids is None) == (condition is None):
        raise BadUse("Give --ids or --where, not both and not neither.")
    with Collection.open(uri) as collection, progress("deleting"):
        listed = None if ids is None else listed_ids(collection, ids)
        gone = collection.delete(listed, where=condition)
        facts = {"collection": collection.uri, "rows_deleted": gone, "rows": len(collection)}
    tell(facts, as_json)
