"""Embedded storage: a folder with one SQLite file, and the codes in memory to search them.

docs/collections.md describes the file and what it promises.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import n_bytes
from hashlearn.collection.embedded import database
from hashlearn.collection.embedded.blocks import Block, merged, to_merge, to_stored
from hashlearn.collection.embedded.following_index import Held
from hashlearn.collection.embedded.kept_filters import KeptFilters
from hashlearn.collection.embedded.where import matching_ids
from hashlearn.collection.store import CollectionError, Payload, Rows, Spec, Store, UnsupportedByStoreError, Vectors
from hashlearn.collection.where import Condition
from hashlearn.index import Ball, Hits, Index
from hashlearn.index.inputs import sorted_ball
from hashlearn.index.kinds import KINDS
from hashlearn.typing import Ids, PackedCodes

_FAN, _FULL_ROWS = 16, 65536  # blocks are merged by this many, up to this size
_REWRITTEN_ROWS = 2**20  # in a block when all are written anew
_WASTE_ROWS = 200_000  # entries of no use that are not worth writing anew for
_LARGEST_ID = 2**63 - 1
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class EmbeddedStore(Store):
    """A collection in a folder. Changes go to the file, and from there to the index in memory."""

    batch_rows: ClassVar[int] = 64 * 2048

    def __init__(self, folder: Path, read_only: bool) -> None:
        self._folder = folder
        self._database = database.Database(folder, read_only)
        self.spec = self._database.spec
        self._held = Held(self._database)
        self._filters = KeptFilters()

    @classmethod
    def create(cls, uri: str, spec: Spec) -> EmbeddedStore:
        Index(spec.n_bits, spec.kind, **spec.settings)  # type: ignore[arg-type]  # says what is wrong with them
        database.create(Path(uri), spec)
        return cls(Path(uri), read_only=False)

    @classmethod
    def open(cls, uri: str, read_only: bool = False) -> EmbeddedStore:
        return cls(Path(uri), read_only)

    @classmethod
    def drop(cls, uri: str) -> None:
        database.drop(Path(uri))

    def close(self) -> None:
        self._database.close()

    def add(self, ids: Ids, codes: PackedCodes, payloads: Sequence[Payload] | None, vectors: Vectors | None) -> None:
        if not len(ids):
            return
        order = np.argsort(ids, kind="stable")
        block = Block(ids[order], codes[order], np.empty(0, dtype=np.int64))
        texts = None if payloads is None else [_JSON.encode(payload) for payload in payloads]
        with self._database.writing() as db:
            seq = self._held.follow(db)
            index = self._held.index(seq)
            known = index.known(block.ids)
            self._check_kind(index, block, known)
            waste = self._append(db, block, seq, rows=int(len(ids) - known.sum()))
            self._put_payloads(db, ids, texts, block.ids[known])
            if vectors is not None:
                floats = (row.tobytes() for row in np.asarray(vectors, dtype="<f4"))
                db.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", zip(ids.tolist(), floats, strict=True))
        self._held.apply(block, seq, seq + 1)
        self._tidy(waste)

    def delete(self, ids: Ids) -> int:
        return self._delete(np.unique(ids))

    def delete_where(self, where: Condition) -> int:
        return self._delete(where)

    def _delete(self, wanted: Ids | Condition) -> int:
        with self._database.writing() as db:
            seq = self._held.follow(db)
            index = self._held.index(seq)
            ids = wanted if isinstance(wanted, np.ndarray) else matching_ids(db, wanted, lambda: index.rows()[0])
            ids = ids[index.known(ids)]
            if not len(ids):
                return 0
            block = Block(ids[:0], np.empty((0, n_bytes(self.spec.n_bits)), dtype=np.uint8), ids)
            self._check_kind(index, block, np.zeros(0, dtype=bool))
            waste = self._append(db, block, seq, rows=-len(ids))
            rows = [(number,) for number in ids.tolist()]
            db.executemany("DELETE FROM payload WHERE id = ?", rows)
            if self.spec.vector_size is not None:
                db.executemany("DELETE FROM vector WHERE id = ?", rows)
        self._held.apply(block, seq, seq + 1)
        self._tidy(waste)
        return len(ids)

    def get(self, ids: Ids, vectors: bool = False) -> Rows:
        with self._held.reading() as (db, index, _):
            return self._rows(db, *index.rows(ids), vectors)

    def vectors(self, ids: Ids) -> tuple[Ids, Vectors]:
        with self._held.reading() as (db, index, _):
            known = index.rows(ids)[0]
            return known, self._vectors(db, known)

    def count(self, where: Condition | None = None) -> int:
        if where is None:
            with self._database.reading() as db:
                return int(db.execute("SELECT rows FROM state").fetchone()[0])
        with self._held.reading() as (db, index, seq):
            return len(self._filters.ids(db, index, seq, where))

    def next_id(self) -> int:
        with self._database.reading() as db:
            return int(db.execute("SELECT last_id FROM state").fetchone()[0]) + 1

    def take_ids(self, count: int) -> int:
        with self._database.writing() as db:
            last = int(db.execute("SELECT last_id FROM state").fetchone()[0])
            if last + count > _LARGEST_ID:
                raise CollectionError(f"There are no {count} ids after {last} in {self._folder}: give ids.")
            db.execute("UPDATE state SET last_id = ?", (last + count,))
        return last + 1

    def search(self, queries: PackedCodes, k: int, where: Condition | None = None, n_jobs: int | None = None) -> Hits:
        return self._search(queries, k, where, n_jobs)

    def search_projections(
        self, queries: NDArray[np.floating], k: int, where: Condition | None = None, n_jobs: int | None = None
    ) -> Hits:
        return self._search(queries, k, where, n_jobs)

    def _search(self, queries: NDArray[Any], k: int, where: Condition | None, n_jobs: int | None) -> Hits:
        with self._held.reading() as (db, index, seq):
            ids = None if where is None else self._filters.ids(db, index, seq, where)
            return index.search(queries, k, ids=ids, n_jobs=n_jobs)

    def within(
        self, queries: PackedCodes, radius: int, where: Condition | None = None, n_jobs: int | None = None
    ) -> Ball:
        with self._held.reading() as (db, index, seq):
            ball = index.within(queries, radius, n_jobs)
            if where is None or not len(ball.ids):
                return ball
            keep = np.isin(ball.ids, self._filters.ids(db, index, seq, where))
        ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(keep)])
        return sorted_ball([(ends[ball.lims], ball.distances[keep], ball.ids[keep])])

    def scan(self, batch_rows: int = 10_000, where: Condition | None = None, vectors: bool = False) -> Iterator[Rows]:
        while True:
            with self._database.reading() as db:
                with self._held.at_moment_of(db) as found:
                    if found is None:
                        continue
                    index, seq = found
                    ids, codes = index.rows() if where is None else index.rows(self._filters.ids(db, index, seq, where))
                    codes = codes.copy() if where is None else codes  # the index may change its own in place
                # The transaction stays open, so the payloads are of this moment too; the index may move on.
                for start in range(0, len(ids), batch_rows):
                    block = slice(start, start + batch_rows)
                    yield self._rows(db, ids[block], codes[block], vectors)
                return

    def info(self) -> dict[str, Any]:
        with self._database.reading() as db:
            rows, last_id = db.execute("SELECT rows, last_id FROM state").fetchone()
            blocks = db.execute("SELECT count(*) FROM block").fetchone()[0]
        files = [self._database.path, Path(f"{self._database.path}-wal")]
        return {
            "storage": "embedded",
            "rows": rows,
            "next_id": last_id + 1,
            "bytes": sum(file.stat().st_size for file in files if file.exists()),
            "blocks": blocks,
            "sqlite": sqlite3.sqlite_version,
        }

    def _append(self, db: sqlite3.Connection, block: Block, seq: int, rows: int) -> int:
        """Write a block after the last one, and merge small ones at the end; how many entries are of no use."""
        grown = len(block)
        self._insert(db, seq + 1, block)
        if len(block) < _FULL_ROWS:
            tail = db.execute("SELECT seq, size FROM block ORDER BY seq DESC LIMIT 80").fetchall()[::-1]
            count = to_merge([size for _, size in tail], _FAN, _FULL_ROWS)
            if count:
                first = tail[-count][0]
                whole = merged(self._held.blocks(db, first - 1), n_bytes(self.spec.n_bits))
                db.execute("DELETE FROM block WHERE seq >= ?", (first,))
                self._insert(db, seq + 1, whole)
                grown += len(whole) - sum(size for _, size in tail[-count:])
        last = int(block.ids[-1]) if len(block.ids) else -1
        db.execute(
            "UPDATE state SET seq = ?, rows = rows + ?, entries = entries + ?, last_id = max(last_id, ?)",
            (seq + 1, rows, grown, last),
        )
        return int(db.execute("SELECT entries - 2 * rows FROM state").fetchone()[0])

    def _insert(self, db: sqlite3.Connection, seq: int, block: Block) -> None:
        db.execute("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?)", (seq, len(block), *to_stored(block)))

    def _tidy(self, waste: int) -> None:
        """Write the blocks anew when more than half of what they say is outdated."""
        if waste < _WASTE_ROWS:
            return
        # The change itself is done and durable: not being able to tidy up (a full disk) is no failure of it.
        with contextlib.suppress(CollectionError):
            with self._database.writing() as db:
                seq = self._held.follow(db)
                ids, codes = self._held.index(seq).rows()
                db.execute("DELETE FROM block")
                after = seq
                for start in range(0, len(ids), _REWRITTEN_ROWS):
                    part, after = slice(start, start + _REWRITTEN_ROWS), after + 1
                    self._insert(db, after, Block(ids[part], codes[part], ids[:0]))
                after = max(after, seq + 1)
                db.execute("UPDATE state SET seq = ?, base = ?, entries = rows", (after, after))
            self._held.renumber(seq, after)

    def _put_payloads(self, db: sqlite3.Connection, ids: Ids, texts: list[str] | None, replaced: Ids) -> None:
        db.executemany("DELETE FROM payload WHERE id = ?", ((number,) for number in replaced.tolist()))
        if texts is not None:
            rows = (row for row in zip(ids.tolist(), texts, strict=True) if row[1] != "{}")
            db.executemany("INSERT OR REPLACE INTO payload VALUES (?, ?)", rows)

    def _check_kind(self, index: Index, block: Block, known: NDArray[np.bool_]) -> None:
        """Refuse what this kind of index cannot do before anything is written."""
        if self.spec.kind not in KINDS or KINDS[self.spec.kind].removes:
            return
        changed = (index.rows(block.ids[known])[1] != block.codes[known]).any(axis=1)
        if len(block.gone) or changed.any():
            what = "remove" if len(block.gone) else "replace"
            number = block.gone[0] if len(block.gone) else block.ids[known][changed][0]
            raise UnsupportedByStoreError(
                f"A collection of kind {self.spec.kind!r} cannot {what} rows (id {number}): "
                "use the kind 'flat', 'ivf' or 'multihash', or a new collection."
            )

    def _rows(self, db: sqlite3.Connection, ids: Ids, codes: PackedCodes, vectors: bool) -> Rows:
        """Payloads and vectors of rows that exist."""
        wanted = json.dumps(ids.tolist())
        asked = "id IN (SELECT value FROM json_each(?))"
        payloads: list[Payload] = [{} for _ in range(len(ids))]
        found = db.execute(f"SELECT id, json FROM payload WHERE {asked}", (wanted,)).fetchall()
        places = np.searchsorted(ids, [number for number, _ in found]).tolist()
        try:
            for place, (_, text) in zip(places, found, strict=True):
                payloads[place] = json.loads(text)
        except (ValueError, TypeError):
            raise CollectionError(f"{self._database.path} is damaged: a payload is no JSON text.") from None
        kept = self._vectors(db, ids) if vectors and self.spec.vector_size is not None else None
        return Rows(ids, codes, payloads, kept)

    def _vectors(self, db: sqlite3.Connection, ids: Ids) -> Vectors:
        """Vectors of rows that exist."""
        size = self.spec.vector_size or 0
        query = "SELECT floats FROM vector WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
        floats = [row for (row,) in db.execute(query, (json.dumps(ids.tolist()),))]
        if len(floats) != len(ids) or any(len(row) != 4 * size for row in floats):
            raise CollectionError(f"{self._database.path} is damaged: vectors are missing or cut short.")
        return np.frombuffer(b"".join(floats), dtype="<f4").astype(np.float32).reshape(len(ids), size)
