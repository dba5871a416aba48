"""Collections behind a server of hashlearn: a store whose calls are requests, so a URI is all that changes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import numpy as np

from hashlearn.collection.rescore import as_hits, taken
from hashlearn.collection.store import (
    OPEN_OR_DROP,
    Answer,
    CollectionError,
    CollectionExistsError,
    CollectionSpec,
    NoCollectionError,
    NoSuchRowsError,
    Payload,
    PayloadUpdate,
    Query,
    Store,
    StoredRows,
    UnsupportedByStoreError,
    Vectors,
    VerifyReport,
    model_was_replaced,
)
from hashlearn.collection.uri import shown
from hashlearn.collection.where import Condition, as_filter
from hashlearn.index import Hits, RangeHits
from hashlearn.parallel import row_blocks
from hashlearn.typing import Float32Array, Ids, PackedCodes

try:
    import httpx

    from hashlearn.collection.stores import wire
except ImportError as error:
    raise ImportError(
        "Collections on a server of hashlearn need httpx and msgspec: install them with pip install '.[client]'."
    ) from error

TOKEN_VARIABLE = "HASHLEARN_TOKEN"
_FORM = "http://host:port/name"
_API = "/api/v1/collections"
_CONNECT_SECONDS, _ANSWER_SECONDS = 10.0, 120.0
_BUSY_ATTEMPTS, _LONGEST_WAIT = 5, 10.0
_BODY_BYTES = 16 * 2**20  # of rows that are added at once; a server takes twice as much unless set otherwise
_TEXTS = 100
_QUERIES, _DETAILED_HITS, _BARE_HITS, _FLOATS = 1000, 100_000, 5_000_000, 4_000_000
Message = TypeVar("Message")


class HttpLink:
    """Requests to a server, and its errors as those of a collection. Any thread may use it.

    ``uri`` is ``http://host:port/name``, optionally with ``?token=``; without the name for a whole server.
    """

    def __init__(self, uri: str, whole_server: bool = False) -> None:
        try:
            parts = urlsplit(uri)
            found = parts.hostname and (parts.port is None or parts.port)
        except ValueError:
            found = None
        path = "" if not found else parts.path.rstrip("/")
        prefix, _, name = (path, "", "") if whole_server else path.rpartition("/")
        if not found or not (name or whole_server):
            raise CollectionError(f"{uri.partition('?')[0]} is no address of a collection: write {_FORM}.")
        self.server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{prefix}"
        self.shown = f"{self.server}/{name}" if name else self.server
        self.path = f"{_API}/{quote(unquote(name), safe='')}"
        token = dict(parse_qsl(parts.query)).get("token") or os.environ.get(TOKEN_VARIABLE)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
        self._client: httpx.Client | None = httpx.Client(base_url=self.server, headers=headers, timeout=timeout)

    def call(self, name: str, message: wire.Call, kind: type[Message]) -> Message:
        """Return what the server answers to a call of the store."""
        headers = {"Content-Type": wire.CONTENT_TYPE}
        answer = self.request("POST", f"{self.path}/store/{name}", content=wire.encode(message), headers=headers)
        try:
            return wire.decode(answer.content, kind)
        except ValueError as error:
            raise self._no_server() from error

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request, and again while the server is busy; raise what it refuses as an error of a collection."""
        for attempt in range(_BUSY_ATTEMPTS):
            if self._client is None:
                raise CollectionError(f"The collection {self.shown} is closed.")
            try:
                answer = self._client.request(method, path, **more)
            except httpx.HTTPError as error:
                why = str(error) or type(error).__name__
                raise CollectionError(f"Cannot reach {self.shown}: {why.rstrip('.')}.") from error
            if answer.is_success:
                return answer
            code, message = self._told(answer)
            if code != "busy" or attempt == _BUSY_ATTEMPTS - 1:
                raise self._error(answer.status_code, code, message)
            time.sleep(min(float(answer.headers.get("retry-after", 1)), _LONGEST_WAIT))
        raise AssertionError("unreachable")

    def _told(self, answer: httpx.Response) -> tuple[str, str]:
        try:
            told = answer.json()["error"]
            return str(told["code"]), str(told["message"])
        except (ValueError, TypeError, KeyError):
            raise self._no_server() from None

    def _error(self, status: int, code: str, message: str) -> Exception:
        place = self.shown
        if status in (401, 403):
            return CollectionError(
                f"{place} refuses: {message} Give token= to Collection.open, or set {TOKEN_VARIABLE}."
            )
        known = {
            "no_collection": NoCollectionError(f"There is no collection at {place}: create it first."),
            "exists": CollectionExistsError(f"There is a collection at {place} already: {OPEN_OR_DROP}."),
            "replaced": model_was_replaced(place),
            "not_found": self._no_server(),
            "unsupported": UnsupportedByStoreError(f"{place}: {message}"),
            "too_large": TooLargeError(f"{place}: {message}"),
        }
        if code in known:
            return known[code]
        return ValueError(message) if status == 400 else CollectionError(f"{place}: {message}")

    def _no_server(self) -> CollectionError:
        return CollectionError(f"What answers at {self.server} is no server of hashlearn, or another version.")

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
        self._client = None


class TooLargeError(CollectionError):
    """A request is larger than the server takes."""


class HttpStore(Store):
    """A collection that a server of hashlearn keeps. Rows are encoded here, by the hasher that the server sends."""

    batch_rows: ClassVar[int] = 10_000

    def __init__(self, link: HttpLink, served: wire.ServedSpec, read_only: bool) -> None:
        self.spec, self._codes_by = served.spec, served.codes_by
        self._link = link
        self._place, self._read_only = link.shown, read_only or not served.writable

    @classmethod
    def check_new(cls, uri: str, spec: CollectionSpec) -> None:
        cls._create(uri, spec, check_only=True)

    @classmethod
    def create(cls, uri: str, spec: CollectionSpec) -> HttpStore:
        cls._create(uri, spec)
        return cls.open(uri)

    @classmethod
    def _create(cls, uri: str, spec: CollectionSpec, check_only: bool = False) -> None:
        with contextlib.closing(HttpLink(uri)) as link:
            link.call("create", wire.CreateCall(spec, check_only), int)

    @classmethod
    def open(cls, uri: str, read_only: bool = False) -> HttpStore:
        link = HttpLink(uri)
        try:
            return cls(link, link.call("spec", wire.NoCall(), wire.ServedSpec), read_only)
        except BaseException:
            link.close()
            raise

    @classmethod
    def drop(cls, uri: str) -> None:
        with contextlib.closing(HttpLink(uri)) as link:
            link.request("DELETE", link.path)

    def add(self, ids: Ids, codes: PackedCodes, payloads: Sequence[Payload] | None, vectors: Vectors | None) -> None:
        self._require_writable()
        row_bytes = 8 + codes.shape[1] + (0 if vectors is None else 4 * vectors.shape[1])
        parts = row_blocks(len(ids), max(1, _BODY_BYTES // row_bytes))[::-1]
        while parts:
            part = parts.pop()
            some = None if payloads is None else [*payloads[part]]
            floats = None if vectors is None else vectors[part]
            try:
                self._link.call("write/add", wire.AddCall(ids[part], codes[part], some, floats, self._codes_by), int)
            except TooLargeError:
                if part.stop - part.start == 1:
                    raise
                half = (part.start + part.stop) // 2
                parts += [slice(half, part.stop), slice(part.start, half)]

    def update_payloads(self, update: PayloadUpdate) -> int:
        self._require_writable()
        message = wire.UpdateCall([*update.payloads], update.merge)
        if isinstance(update.wanted, np.ndarray):
            message.ids = update.wanted
        else:
            message.where = {} if update.wanted is None else as_filter(update.wanted)
        done = self._link.call("write/update", message, wire.Updated)
        if done.missing:
            raise NoSuchRowsError("no payload was changed", done.missing)
        return done.count

    def delete(self, wanted: Ids | Condition) -> int:
        self._require_writable()
        if isinstance(wanted, np.ndarray):
            return self._link.call("write/delete", wire.DeleteCall(ids=wanted), int)
        return self._link.call("write/delete", wire.DeleteCall(where=as_filter(wanted)), int)

    def get(self, ids: Ids, vectors: bool = False) -> StoredRows:
        wanted, size = np.unique(ids), self.spec.vector_size if vectors else None
        blocks = row_blocks(len(wanted), min(self.batch_rows, max(1, _FLOATS // (size or 1))))
        calls = [wire.GetCall(wanted[part], vectors) for part in blocks or [slice(0)]]
        return _joined([self._link.call("get", call, StoredRows) for call in calls])

    def count(self, where: Condition | None = None) -> int:
        return self._link.call("count", wire.CountCall(wire.filter_of(where)), int)

    def take_ids(self, count: int) -> int:
        self._require_writable()
        return self._link.call("write/take_ids", wire.TakeIdsCall(count), int)

    def search(self, query: Query, k: int) -> Answer[Hits]:
        floats = k * (self.spec.vector_size or 0) if "vector" in query.include else 0
        step = min(_QUERIES, (_DETAILED_HITS if query.include else _BARE_HITS) // k, _FLOATS // max(floats, 1))
        parts = []
        for part in _blocks(query, max(1, step)):
            message = wire.SearchCall(wire.WireQuery.pack(part), k, self._codes_by)
            parts.append(self._link.call("search", message, wire.WireAnswer).unpack())
        if len(parts) == 1:
            return parts[0]
        found = [(one.ids, one.distances) for part in parts for one in part.hits.per_query()]
        hits, skipped = as_hits(found, parts[0].hits.distances.dtype.type), [part.hits.skipped for part in parts]
        hits.skipped = None if any(one is None for one in skipped) else np.concatenate(skipped)
        return Answer(hits, _rows_of([part.rows for part in parts]), sum(part.cut for part in parts))

    def within(self, query: Query, radius: float, limit: int | None = None) -> Answer[RangeHits]:
        parts = []
        for part in _blocks(query, _QUERIES):
            message = wire.WithinCall(wire.WireQuery.pack(part), float(radius), limit, self._codes_by)
            parts.append(self._link.call("within", message, wire.WireAnswer).unpack())
        if len(parts) == 1:
            return parts[0]
        counts = np.concatenate([np.diff(part.hits.offsets) for part in parts])
        hits = RangeHits(
            np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]),
            np.concatenate([part.hits.ids for part in parts]),
            np.concatenate([part.hits.distances for part in parts]),
            found=np.concatenate([part.hits.found for part in parts]),
        )
        return Answer(hits, _rows_of([part.rows for part in parts]))

    def scan(
        self, batch_rows: int = 10_000, where: Condition | None = None, vectors: bool = False, after: int = -1
    ) -> Iterator[StoredRows]:
        """Iterate over the rows by id; each batch shows one moment, because it is one request."""
        size = self.spec.vector_size if vectors else None
        page = min(batch_rows, self.batch_rows, max(1, _FLOATS // (size or 1)))
        while True:
            message = wire.ScanCall(page, wire.filter_of(where), vectors, after)
            rows = self._link.call("scan", message, StoredRows)
            if len(rows.ids):
                yield rows
            if len(rows.ids) < page:
                return
            after = int(rows.ids[-1])

    def info(self) -> dict[str, Any]:
        facts = self._link.call("info", wire.NoCall(), dict[str, Any])
        return {**facts, "uri": self._link.shown, "server": self._link.server}

    def replace_model(self, model: bytes, fingerprint: str, vector_size: int | None) -> None:
        self._replace(wire.ReplaceCall(self.spec.fingerprint, model, vector_size))

    def replace_codes(self, model: bytes, fingerprint: str, ids: Ids, codes: PackedCodes) -> None:
        self._replace(wire.ReplaceCall(self.spec.fingerprint, model, self.spec.vector_size, ids, codes))

    def _replace(self, message: wire.ReplaceCall) -> None:
        self._require_writable()
        self._link.call("write/replace", message, int)
        found = self._link.call("spec", wire.NoCall(), wire.ServedSpec)
        self.spec, self._codes_by = found.spec, found.codes_by

    def embed(self, texts: Sequence[str]) -> Float32Array:
        calls = [wire.EmbedCall([*texts[part]]) for part in row_blocks(len(texts), _TEXTS)]
        return np.concatenate([self._link.call("embed", call, Float32Array) for call in calls])

    def verify(self) -> VerifyReport:
        return self._link.call("verify", wire.NoCall(), VerifyReport)

    def compact(self) -> None:
        self._require_writable()
        self._link.call("write/compact", wire.NoCall(), int)

    def backup(self, path: str) -> None:
        raise UnsupportedByStoreError(
            f"A backup of {self._link.shown} is made where its server runs: run 'hashlearn index backup' on "
            "the folder there. To copy the rows, use Collection.export."
        )

    @classmethod
    def restore(cls, path: str, uri: str, replace: bool) -> NoReturn:
        raise UnsupportedByStoreError(
            f"A backup cannot be restored over HTTP to {shown(uri)}: run 'hashlearn index restore' where its "
            "server runs."
        )

    def close(self) -> None:
        self._link.close()


def served_collections(uri: str) -> list[dict[str, Any]]:
    """Return the facts of all collections of a server."""
    with contextlib.closing(HttpLink(uri, whole_server=True)) as link:
        found = link.request("GET", _API).json()["collections"]
        return [{**facts, "uri": f"{link.server}/{facts['name']}"} for facts in found]


def _blocks(query: Query, step: int) -> Iterator[Query]:
    """Yield the queries in parts of ``step``; at least one part."""
    for part in row_blocks(len(query.values), step) or [slice(0)]:
        plan = query.rescoring
        if plan is not None:
            plan = plan._replace(vectors=plan.vectors[part], also=None if plan.also is None else plan.also[part])
        yield query._replace(values=taken(query.values, part), rescoring=plan)


def _rows_of(parts: Sequence[StoredRows | None]) -> StoredRows | None:
    """Return the rows of several answers, each once."""
    found = [part for part in parts if part is not None]
    return _joined(found) if found else None


def _joined(parts: Sequence[StoredRows]) -> StoredRows:
    if len(parts) == 1:
        return parts[0]
    ids, first = np.unique(np.concatenate([part.ids for part in parts]), return_index=True)
    codes = np.concatenate([part.codes for part in parts])
    payloads = [payload for part in parts for payload in part.payloads]
    vectors = [part.vectors for part in parts if part.vectors is not None]
    return StoredRows(
        ids,
        codes[first] if len(codes) else codes,
        [payloads[place] for place in first.tolist()] if payloads else [],
        np.concatenate(vectors)[first] if vectors else None,
    )
