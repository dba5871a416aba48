"""``hashlearn index add``, ``update`` and ``delete``: commands that change the rows of a collection."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from platformdirs import user_state_path

from hashlearn import files
from hashlearn.cli.inputs import Rows, file_or_column, listed_ids, open_rows, payload_without_features, read_ids
from hashlearn.cli.options import AsJson, BitOrder, Jobs, Restart, Uri, Where, read_object
from hashlearn.cli.shell import BadUse, epilog, progress, say, tell
from hashlearn.collection import Collection
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.uri import is_folder
from hashlearn.files import FileError
from hashlearn.files.arrays import SUFFIXES, split_part
from hashlearn.files.read import shard_names

rows = typer.Typer()


class Journal:
    """How many rows of some files are in a collection. For rows without ids, ``first_id`` is the first id.

    ``part`` tells apart commands that read other parts of the same files, such as another column of texts.
    """

    def __init__(self, uri: str, sources: Iterable[str], part: str = "") -> None:
        files = {name: [split_part(one)[0] for one in shard_names(name, SUFFIXES)] for name in sources}
        places = [str(paths[0].resolve()) + name for name, paths in files.items()]
        key = hashlib.sha256("\n".join([str(Path(uri).resolve()) if is_folder(uri) else uri, *places, part]).encode())
        folder = Path(uri) if is_folder(uri) else user_state_path("hashlearn", appauthor=False)
        self.path = folder / f"adding-{key.hexdigest()[:16]}.json"
        self.done = 0
        self.first_id: int | None = None
        facts = {name: [path.stat() for path in paths] for name, paths in files.items()}
        self._stamps = {name: [[one.st_size, one.st_mtime_ns] for one in found] for name, found in facts.items()}

    def read(self) -> bool:
        """Read the journal of an earlier run; return whether there is one. FileError if a file has changed since."""
        try:
            found: dict[str, Any] = json.loads(self.path.read_text())
            done, first_id, stamps = int(found["done"]), found["first_id"], found["stamps"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False  # a damaged journal counts as none: rows keep their ids, so nothing is lost
        for name, stamp in self._stamps.items():
            if stamps.get(name) != stamp:
                raise FileError(
                    f"{name} has changed since a run was interrupted after {done} of its rows: --restart begins again."
                )
        self.done, self.first_id = done, first_id
        return True

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        facts = {"done": self.done, "first_id": self.first_id, "stamps": self._stamps}
        with files.written_whole(self.path) as stream:
            stream.write(json.dumps(facts).encode())


@rows.command(
    epilog=epilog(
        "hashlearn index add shop/ X.npy --ids ids.txt --payload meta.parquet",
        "hashlearn index add shop/ --codes codes.npy --bit-order little --payload meta.jsonl",
        "hashlearn index add shop/ 'x*.npy' --payload 'meta*.parquet'",
        "hashlearn index add faq/ texts.csv --text question --ids texts.csv:id",
    )
)
def add(
    uri: Uri,
    features: Annotated[
        str | None, typer.Argument(metavar="[X]", help="Features: .npy .csv .parquet .h5 …, or 'x*.npy'.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="X holds texts: their column. The text model embeds them.")
    ] = None,
    code_file: Annotated[
        str | None, typer.Option("--codes", metavar="FILE", help="Codes instead of features: file, pattern or folder.")
    ] = None,
    ids: Annotated[
        str | None, typer.Option(metavar="FILE", help="Ids: .txt .npy, or a column of X or t.csv:id.")
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="One object per row: .parquet .jsonl .csv, or t.csv:price,name. With --text, X is the default.",
        ),
    ] = None,
    vectors: Annotated[str | None, typer.Option(metavar="FILE", help="Floats to keep instead of the features.")] = None,
    bit_order: BitOrder = "big",
    restart: Restart = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Add rows, or replace those whose id exists. Files stream through, so they may be bigger than memory.

    After an interruption the same command resumes.
    """
    source = features if code_file is None else code_file
    if source is None or (features is not None and code_file is not None):
        raise BadUse("Give features X or --codes, not both and not neither.")
    if text is not None and features is None:
        raise BadUse("--text needs X: the file of the texts.")
    with Collection.open(uri) as collection:
        ids = file_or_column(source, ids)
        if jobs is not None and collection.hasher is not None:
            collection.hasher.n_jobs = jobs
        found = open_rows(collection, source, text, features is None, bit_order)
        if text is not None:
            payload = payload or source
        elif payload is not None and features is not None:
            payload = payload_without_features(collection.hasher, features, payload)
        given_ids, kept = _checked(collection, found, ids, payload, vectors)
        journal = Journal(uri, [name for name in (source, ids, payload, vectors) if name], text or "")
        if not restart and journal.read() and _goes_on(collection, journal, given_ids, found.n_rows):
            say(f"going on after {journal.done} of {found.n_rows} rows.")
        else:
            journal.done, journal.first_id = 0, None
            if given_ids is None:
                if collection.id_kind != "int":
                    raise BadUse(
                        f"{collection.uri} has ids of the kind {collection.id_kind}: give --ids, so that a command "
                        "that is repeated adds no row twice."
                    )
                journal.first_id = collection._store.take_ids(found.n_rows)
            journal.write()
        row_ids = _row_ids(journal, given_ids, found.n_rows)
        started, begun = time.perf_counter(), journal.done
        with progress(f"adding {source}") as listener:
            for done in _added(collection, found, begun, row_ids, payload, kept):
                journal.done = done
                journal.write()
                listener(f"adding {source}", done, found.n_rows)
        journal.path.unlink(missing_ok=True)
        facts = {
            "collection": collection.uri,
            "rows_added": found.n_rows - begun,
            "rows": len(collection),
            "seconds": round(time.perf_counter() - started, 3),
        }
    tell(facts, as_json)


def _checked(
    collection: Collection, found: Rows, ids: str | None, payload: str | None, vectors: str | None
) -> tuple[Any, Rows | None]:
    """Return the ids and the open vectors. All files must go together, which is checked before a row is added."""
    row_ids = None if ids is None else read_ids(collection, ids)
    kept = None if vectors is None else Rows("vectors", vectors, files.open_features(vectors))
    counts = [(ids, None if row_ids is None else len(row_ids)), (vectors, None if kept is None else kept.n_rows)]
    counts.append((payload, None if payload is None else files.count_payload_rows(payload)))
    for name, count in counts:
        if count not in (None, found.n_rows):
            raise FileError(f"{name} has {count} rows, {found.name} has {found.n_rows}.")
    if row_ids is not None and len(np.unique(row_ids)) != found.n_rows:
        raise FileError(f"{ids} holds an id more than once.")
    return row_ids, kept


def _row_ids(journal: Journal, given: Any, n_rows: int) -> Sequence[Any]:
    """Return the ids of all rows: those that were given, or numbers from the first that the store gave."""
    first = journal.first_id or 0
    return range(first, first + n_rows) if given is None else given


def _goes_on(collection: Collection, journal: Journal, given_ids: Any, n_rows: int) -> bool:
    """Return whether the collection has the rows that a journal counts as done: it may be another by now."""
    if not 0 <= journal.done <= n_rows or (given_ids is None) != (journal.first_id is not None):
        return False
    # Without a whole batch, rows of it may be there and must keep their ids.
    last = _row_ids(journal, given_ids, n_rows)[max(journal.done - 1, 0) : journal.done]
    return all(item is not None for item in collection.get(np.asarray(last), vectors=False))


def _added(
    collection: Collection, found: Rows, done: int, row_ids: Sequence[Any], payload: str | None, kept: Rows | None
) -> Iterator[int]:
    """Add the rows after the first ``done`` in batches. Yields the number of added rows after each batch."""
    payloads = None if payload is None else islice(files.payload_rows(payload), done, None)
    for batch in found.batches():
        if batch.stop <= done:
            continue
        batch = slice(max(batch.start, done), batch.stop)
        given = found.read(batch)
        objects = None if payloads is None else list(islice(payloads, batch.stop - batch.start))
        if kept is not None:
            given |= kept.read(batch)
        try:
            collection.add(ids=np.asarray(row_ids[batch]), payload=objects, **given)
        except ValueError:
            try:
                checked_payloads(objects, batch.stop - batch.start, batch.start)
            except ValueError as error:  # the payload was refused: its file and row are named
                raise FileError(f"{payload}: {error}") from error
            raise
        yield batch.stop


@rows.command(
    epilog=epilog(
        "hashlearn index update shop/ --ids prices.csv:id --payload prices.csv",
        """hashlearn index update shop/ --where '{"year": {"<": 2000}}' --fields '{"sold": true}'""",
    )
)
def update(
    uri: Uri,
    ids: Annotated[
        str | None,
        typer.Option(metavar="FILE|1,2,3", help="Ids: .txt .npy, a column t.csv:id, or ids with commas."),
    ] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="FILE", help="One object per id: .parquet .jsonl .csv .tsv.")
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
    condition, new = read_object(where), read_object(fields, "--fields")
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
    condition = read_object(where)
    if (ids is None) == (condition is None):
        raise BadUse("Give --ids or --where, not both and not neither.")
    with Collection.open(uri) as collection, progress("deleting"):
        listed = None if ids is None else listed_ids(collection, ids)
        gone = collection.delete(listed, where=condition)
        facts = {"collection": collection.uri, "rows_deleted": gone, "rows": len(collection)}
    tell(facts, as_json)
