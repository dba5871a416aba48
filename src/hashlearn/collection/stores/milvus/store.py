"""Collections on Milvus: ids, codes, payloads and vectors in one collection, the spec in a second one.

Milvus has no transactions; see docs/stores.md for what a crash may leave behind.
"""

from __future__ import annotations

import json
import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from hashlearn.collection.rescore import as_hits
from hashlearn.collection.store import (
    OPEN_OR_DROP,
    CollectionError,
    CollectionExistsError,
    CollectionSpec,
    NoSuchRowsError,
    Payload,
    PayloadUpdate,
    StoredRows,
    UnsupportedByStoreError,
    Vectors,
    VerifyReport,
    rows_without_vectors,
    update_blocks,
    vectors_were_dropped,
)
from hashlearn.collection.stores.milvus import near as milvus_near
from hashlearn.collection.stores.milvus.link import (
    META_SUFFIX,
    MilvusLink,
    create_meta,
    fields_of_ours,
    foreign,
    load,
    make_collection,
    read_spec,
    read_uri,
    replace_spec,
    row_schema,
    wanted_fields,
)
from hashlearn.collection.stores.milvus.near import FIRST_KEY, LARGEST_ID, MAX_HITS, to_ids, to_keys
from hashlearn.collection.stores.milvus.where import split
from hashlearn.collection.stores.remote import QueryHits, RemoteStore, best, query_blocks, report_sentence, verify_rows
from hashlearn.collection.where import Condition, matches
from hashlearn.index import Hits
from hashlearn.typing import Ids, PackedCodes

MAX_PAYLOAD_BYTES = 65_536  # of a JSON field
MAX_VECTOR_SIZE = 4096  # of an ARRAY field
_REQUEST_BYTES = 2**24  # a quarter of what a server takes, which is 64 MiB unless set otherwise
_REQUEST_ROWS = 10_000
_IDS_AT_ONCE = 10_000
_LISTS = 1024
_WITHOUT_VECTOR = "array_length(vector) == 0"
_INDEXES = {"flat": "BIN_FLAT", "ivf": "BIN_IVF_FLAT"}
_NOTE = "Milvus checks its own files as it reads them; whether replicas agree is for its own tools (birdwatcher)."


class MilvusStore(RemoteStore):
    """A collection on Milvus. Several threads may use it."""

    batch_rows: ClassVar[int] = _REQUEST_ROWS
    atomic: ClassVar[bool] = False  # Milvus promises this for no number of rows
    server: ClassVar[str] = "Milvus"
    kinds: ClassVar[Sequence[str]] = tuple(_INDEXES)

    def __init__(
        self, link: MilvusLink, spec: CollectionSpec, read_only: bool = False, has_vectors: bool = False
    ) -> None:
        self.spec = spec
        self._has_vectors = has_vectors  # in use, or set aside by a migration
        self._link = link
        self._name = link.address.collection
        self._place, self._read_only = link.address.shown, read_only

    @classmethod
    def check_new(cls, uri: str, spec: CollectionSpec) -> None:
        cls._require_kind(spec.kind)
        if spec.vector_size is not None and spec.vector_size > MAX_VECTOR_SIZE:
            raise UnsupportedByStoreError(
                f"A row on Milvus keeps a vector of at most {MAX_VECTOR_SIZE} numbers. Got {spec.vector_size}: create "
                "the collection without vectors, or keep it in a folder."
            )
        if spec.indexed:
            raise UnsupportedByStoreError(
                "Milvus 2.3 has no indexes on fields of a payload: create the collection without indexed=, or keep it "
                "in a folder or on PostgreSQL."
            )

    @classmethod
    def create(cls, uri: str, spec: CollectionSpec) -> MilvusStore:
        address = read_uri(uri)
        cls.check_new(uri, spec)
        link = MilvusLink(address)
        try:
            if link.call("has_collection", address.collection):
                if link.call("has_collection", address.collection + META_SUFFIX):
                    raise CollectionExistsError(f"There is a collection at {address.shown} already: {OPEN_OR_DROP}.")
                raise CollectionError(foreign(address.shown))
            create_meta(link, spec)
            settings = {} if spec.kind == "flat" else {"nlist": spec.settings.get("n_lists") or _LISTS}
            make_collection(link, address.collection, row_schema(spec), "code", _INDEXES[spec.kind], settings)
            load(link)
        except BaseException:
            link.close()
            raise
        return cls(link, spec, has_vectors=spec.vector_size is not None)

    @classmethod
    def open(cls, uri: str, read_only: bool = False) -> MilvusStore:
        link = MilvusLink(read_uri(uri))
        try:
            found = fields_of_ours(link)
            load(link)
            spec = read_spec(link)
            wanted = wanted_fields(spec)
            if spec.vector_size is None and found.get("vector", "").startswith("ARRAY("):
                wanted["vector"] = found["vector"]  # set aside by a migration
            if found != wanted:
                raise CollectionError(
                    f"The collection at {link.address.shown} has the fields {found}, expected {wanted}: it was made by "
                    "something else."
                )
            return cls(link, spec, read_only, "vector" in found)
        except BaseException:
            link.close()
            raise

    @classmethod
    def drop(cls, uri: str) -> None:
        link = MilvusLink(read_uri(uri))
        try:
            fields_of_ours(link)
            # In this order, an interruption leaves something that is not a collection; the next creation removes it.
            for name in (link.address.collection, link.address.collection + META_SUFFIX):
                link.call("drop_collection", name)
        finally:
            link.close()

    def add(self, ids: Ids, codes: PackedCodes, payloads: Sequence[Payload] | None, vectors: Vectors | None) -> None:
        self._require_writable()
        self._put(ids, codes, _texts(ids, payloads), vectors)

    def _put(self, ids: Ids, codes: PackedCodes, texts: list[str], vectors: Vectors | Sequence[Vectors] | None) -> None:
        if not len(ids):
            return
        sizes = np.array([len(text.encode()) for text in texts])
        per_row = 16 + codes.shape[1] + (0 if vectors is None else 4 * max(map(len, vectors)))
        for part in _requests(sizes + per_row):
            rows = [
                {"id": row_id, "code": code.tobytes(), "payload": text}
                for row_id, code, text in zip(to_keys(ids[part]).tolist(), codes[part], texts[part], strict=True)
            ]
            if self._has_vectors:
                floats = [[]] * len(rows) if vectors is None else [vector.tolist() for vector in vectors[part]]
                for row, vector in zip(rows, floats, strict=True):
                    row["vector"] = vector
            self._link.call("upsert", self._name, rows)

    def update_payloads(self, update: PayloadUpdate) -> int:
        self._require_writable()
        ids = update.wanted if isinstance(update.wanted, np.ndarray) else self._matching(update.wanted)
        for rows in update.changed(self.get(part) for part in update_blocks(ids, "looking at rows")):
            _texts(rows.ids, rows.payloads)
        updated = 0
        try:
            for rows in update.changed(self.get(part) for part in update_blocks(ids)):
                texts = _texts(rows.ids, rows.payloads)
                self._put(rows.ids, rows.codes, texts, self._kept_vectors(rows.ids))
                updated += len(rows.ids)
        except NoSuchRowsError as error:
            raise NoSuchRowsError(
                f"it was removed meanwhile, and {updated} payloads were changed before that was noticed", error.missing
            ) from error
        return updated

    def _kept_vectors(self, ids: Ids) -> list[Vectors] | None:
        """Return the vectors of rows, also those that a migration has set aside; empty for a row that has none."""
        if not self._has_vectors:
            return None
        pages = (self._pages(listed, ["id", "vector"]) for listed in _listed(ids))
        found = {row["id"]: np.array(row["vector"], np.float32) for page in pages for row in page}
        return [found.get(number, np.empty(0, np.float32)) for number in ids.tolist()]

    def delete(self, wanted: Ids | Condition) -> int:
        self._require_writable()
        removed = 0
        for listed in _listed(wanted if isinstance(wanted, np.ndarray) else self._matching(wanted)):
            removed += self._count(listed)
            self._link.call("delete", self._name, filter=listed)
        return removed

    def _matching(self, where: Condition | None) -> Ids:
        found = [row["id"] for text in self._expressions(where) for row in self._pages(text, ["id"])]
        return np.array(found, dtype=np.int64)

    def get(self, ids: Ids, vectors: bool = False) -> StoredRows:
        wanted = np.unique(ids)
        return self._rows(
            [row for listed in _listed(wanted) for row in self._pages(listed, self._fields(vectors))], vectors
        )

    def count(self, where: Condition | None = None) -> int:
        return sum(self._count(expression) for expression in self._expressions(where))

    def _count(self, expression: str) -> int:
        rows = self._link.call(
            "query", self._name, filter=expression, output_fields=["count(*)"], consistency_level="Strong"
        )
        return int(rows[0]["count(*)"])

    def take_ids(self, count: int) -> int:
        """Return consecutive ids from a random number on: Milvus has no counter that clients could share.

        If there are a million additions of a thousand rows each, two of them overlap with a probability of 1 in 10,000.
        """
        self._require_writable()
        return secrets.randbelow(LARGEST_ID - count)

    def nearest(self, codes: PackedCodes, k: int, where: Condition | None) -> Hits:
        if k > MAX_HITS:
            raise UnsupportedByStoreError(
                f"Milvus returns at most {MAX_HITS} rows per query. Got k={k}: ask for fewer (rescore= multiplies k), "
                "use within for all rows in a radius, or keep the collection in a folder."
            )
        exact = self.spec.kind == "flat" or where is not None
        expressions = self._expressions(where)
        found: list[QueryHits] = []
        for block in query_blocks(codes, 2 * k):
            parts = [milvus_near.nearest(self._ask(exact), block, k, text, exact) for text in expressions]
            found += [best([part[place] for part in parts], k) for place in range(len(block))]
        return as_hits(found)

    def ball(self, codes: PackedCodes, radius: int, where: Condition | None) -> list[QueryHits]:
        expressions = self._expressions(where)
        found: list[QueryHits] = []
        for block in query_blocks(codes, MAX_HITS):
            parts = [milvus_near.ball(self._ask(True), block, radius, text) for text in expressions]
            found += [best([part[place] for part in parts], None) for place in range(len(block))]
        return found

    def _ask(self, exact: bool) -> milvus_near.AskServer:
        parameters: dict[str, int] = {}
        if self.spec.kind == "ivf":
            lists = self.spec.settings.get("n_lists") or _LISTS
            # Only a search of every list is exact.
            parameters["nprobe"] = lists if exact else min(lists, self.spec.settings.get("n_probes") or 16)

        def ask(
            queries: PackedCodes, limit: int, expression: str, least: int | None, most: int | None
        ) -> list[QueryHits]:
            bounds: dict[str, int] = {}
            if most is not None:
                bounds["radius"] = most + 1  # Milvus takes what is nearer than the radius
            if least:
                bounds["range_filter"] = least
            answer = self._link.call(
                "search",
                self._name,
                data=[query.tobytes() for query in queries],
                anns_field="code",
                limit=limit,
                filter=expression,
                search_params={"metric_type": "HAMMING", "params": {**parameters, **bounds}},
                output_fields=["id"],
                consistency_level="Strong",
            )
            return [
                (
                    to_ids(np.array([hit["id"] for hit in hits], dtype=np.int64)),
                    np.array([round(hit["distance"]) for hit in hits], dtype=np.int64),
                )
                for hits in answer
            ]

        return ask

    def scan(
        self, batch_rows: int = 10_000, where: Condition | None = None, vectors: bool = False, after: int = -1
    ) -> Iterator[StoredRows]:
        """Yield all rows by id.

        Rows that change meanwhile appear as before or after the change: Milvus has no snapshots.
        """
        expression, rest = split(where)
        if after >= 0:
            expression = f"{expression} and (id > {after} or id == {FIRST_KEY})".removeprefix(" and ")
        waiting: list[dict[str, Any]] = []
        for row in self._pages(expression, self._fields(vectors), batch_rows):
            if rest is None or matches(rest, row["payload"]):
                waiting.append(row)
            if len(waiting) == batch_rows:
                yield self._rows(waiting, vectors)
                waiting = []
        if waiting:
            yield self._rows(waiting, vectors)

    def _expressions(self, where: Condition | None) -> list[str]:
        """Return expressions that together select the rows that match, each row once."""
        expression, rest = split(where)
        if rest is None:
            return [expression]
        # Conditions that Milvus cannot express are evaluated here; the matching rows are then selected by id.
        rows = self._pages(expression, ["id", "payload"])
        return _listed(np.array([row["id"] for row in rows if matches(rest, row["payload"])], dtype=np.int64))

    def _pages(self, expression: str, fields: list[str], page: int = MAX_HITS) -> Iterator[dict[str, Any]]:
        """Yield rows by increasing id. A page that is too large for one answer is requested in smaller pages.

        An answer of fewer rows than a page holds all of them. Of more rows Milvus gives any, unless it is asked for
        those of smallest id; then it stops where one of its segments ends, so only an empty answer is the last one.
        """
        page, last, smallest = min(page, MAX_HITS), FIRST_KEY - 1, False
        at_end: list[dict[str, Any]] = []
        while True:
            beyond = f"{expression} and id > {last}".removeprefix(" and ")
            try:
                rows = self._link.call(
                    "query",
                    self._name,
                    filter=beyond,
                    limit=page,
                    output_fields=fields,
                    consistency_level="Strong",
                    reduce_stop_for_best=smallest,
                )
            except CollectionError as error:
                if page == 1 or not any(word in str(error) for word in ("exceed", "larger than", "exhausted")):
                    raise
                page = max(1, page // 4)
                continue
            if len(rows) == page and not smallest:
                smallest = True
                continue
            rows = sorted(rows, key=lambda row: int(row["id"]))
            for row in rows:
                if row["id"] == FIRST_KEY:
                    at_end = [{**row, "id": LARGEST_ID}]
                else:
                    yield row
            if not rows or not smallest:
                break
            last = int(rows[-1]["id"])
        yield from at_end

    def _fields(self, vectors: bool) -> list[str]:
        return ["id", "code", "payload", *(["vector"] if vectors and self.spec.vector_size else [])]

    def _rows(self, found: list[dict[str, Any]], vectors: bool) -> StoredRows:
        n_bytes = (self.spec.n_bits + 7) // 8
        codes = np.frombuffer(b"".join(row["code"][0] for row in found), np.uint8).reshape(len(found), n_bytes)
        floats = self._floats(found) if vectors and self.spec.vector_size else None
        ids = np.array([row["id"] for row in found], dtype=np.int64)
        return StoredRows(ids, codes.copy(), [row["payload"] for row in found], floats)

    def _floats(self, found: list[dict[str, Any]]) -> Vectors:
        if not all(len(row["vector"]) for row in found):
            raise vectors_were_dropped()
        return np.array([row["vector"] for row in found], np.float32).reshape(len(found), self.spec.vector_size or 0)

    def replace_model(self, model: bytes, fingerprint: str, vector_size: int | None) -> None:
        self._require_writable()
        missing = 0 if vector_size is None or not self._has_vectors else self._count(_WITHOUT_VECTOR)
        if missing:
            raise rows_without_vectors(self._place, missing)
        spec = replace(self.spec, model=model, fingerprint=fingerprint, vector_size=vector_size)
        replace_spec(self._link, self.spec, spec)
        self.spec = spec

    def verify(self) -> VerifyReport:
        """Read every row, and look whether it can be one of this collection's."""
        counted, problems = self.count(), []
        padding = np.uint8((1 << (-self.spec.n_bits % 8)) - 1)

        def look(batch: StoredRows) -> None:
            for number in batch.ids[(batch.codes[:, -1] & padding) != 0]:
                problems.append(f"The code of row {number} has bits beyond the {self.spec.n_bits} of this collection.")

        found = verify_rows(self.scan(vectors=self.spec.vector_size is not None), counted, look)
        if found.rows != counted:
            problems.append(f"Milvus counts {counted} rows and shows {found.rows}; if nobody writes, some are lost.")
        return found._replace(problems=tuple(problems), notes=(_NOTE,))

    def compact(self) -> None:
        """Have the server merge segments and drop removed rows, and wait until it has."""
        self._require_writable()
        job, seconds = self._link.call("compact", self._name), self._link.address.timeout
        end = time.monotonic() + seconds
        while (told := str(self._link.call("get_compaction_state", job))) != "Completed":
            if time.monotonic() > end:
                raise CollectionError(
                    f"Milvus is still compacting {self._place} after {seconds:g} s (state {told}); it goes on by "
                    "itself."
                )
            time.sleep(0.2)

    def backup(self, path: str) -> None:
        found, names = self.verify(), f"{self._name},{self._name}{META_SUFFIX}"
        raise UnsupportedByStoreError(
            "Milvus makes backups by its own tool: run milvus-backup create --name NAME --colls "
            f"{shlex.quote(names)} instead of writing {path}, and milvus-backup restore to restore. "
            f"{report_sentence(found, self._place)}"
        )

    @classmethod
    def restore(cls, path: str, uri: str, replace: bool) -> NoReturn:
        raise UnsupportedByStoreError(
            "Milvus restores its own backups: run milvus-backup restore --name NAME, then 'hashlearn index verify' on "
            f"{read_uri(uri).shown}. A backup of a folder can be restored to a folder."
        )

    def info(self) -> dict[str, Any]:
        return {
            "storage": "milvus",
            "uri": self._place,
            "rows": self.count(),
            "bytes": None,
            "kind": self.spec.kind,
            "index": _INDEXES[self.spec.kind],
            "settings": self.spec.settings,
            "server": f"Milvus {self._link.call('get_server_version')}",
        }

    def close(self) -> None:
        self._link.close()


def _texts(ids: Ids, payloads: Sequence[Payload] | None) -> list[str]:
    """Return payloads as JSON; CollectionError for one that is too long for Milvus."""
    if payloads is None:
        return ["{}"] * len(ids)
    # Texts instead of dicts: Milvus finds a name only if the text holds its characters and not \\u escapes.
    texts = [json.dumps(payload, ensure_ascii=False, separators=(",", ":")) for payload in payloads]
    largest, number = max(
        ((len(text.encode()), number) for text, number in zip(texts, ids, strict=True)), default=(0, 0)
    )
    if largest > MAX_PAYLOAD_BYTES:
        raise CollectionError(
            f"Milvus keeps payloads of at most {MAX_PAYLOAD_BYTES} bytes of JSON. That of id {number} has {largest}: "
            "keep the rest elsewhere, or the collection in a folder."
        )
    return texts


def _listed(ids: Ids) -> list[str]:
    numbers = to_keys(ids).tolist()
    return [f"id in {numbers[start : start + _IDS_AT_ONCE]}" for start in range(0, len(numbers), _IDS_AT_ONCE)]


def _requests(sizes: NDArray[np.int64]) -> Iterator[slice]:
    """Yield parts of rows that fit into one request each."""
    start = total = 0
    for row, size in enumerate(sizes.tolist()):
        if row > start and (total + size > _REQUEST_BYTES or row - start == _REQUEST_ROWS):
            yield slice(start, row)
            start, total = row, 0
        total += size
    yield slice(start, len(sizes))
