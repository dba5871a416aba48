"""Collection: an encoder and a store behind one interface, whichever storage keeps the rows."""

from __future__ import annotations

import html
import os
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self, TypedDict, Unpack, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn import models
from hashlearn.codes import BitOrder
from hashlearn.collection import copying, export, filter_advice, from_texts, health, migration
from hashlearn.collection.encoder import Encoder, checked_codes, checked_vectors, with_notes
from hashlearn.collection.ids import IdKind, ids_of_kind
from hashlearn.collection.new_spec import check_keywords, check_same, check_tables, make_spec
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.rescore import MAX_CANDIDATES, checked_rescoring
from hashlearn.collection.store import (
    CollectionError,
    CollectionExistsError,
    Include,
    NoSuchRowsError,
    Payload,
    PayloadUpdate,
    Query,
    Store,
    StoredRows,
    Vectors,
    VerifyReport,
)
from hashlearn.collection.stores import store_class
from hashlearn.collection.uri import MEMORY, as_uri, is_folder, shown, with_token
from hashlearn.collection.where import Condition, condition_of
from hashlearn.index import HitList, Hits, RangeHits, tables
from hashlearn.index.inputs import checked_count, new_ids
from hashlearn.models.format import ModelFileError
from hashlearn.progress import report
from hashlearn.rows.advice import collapsed
from hashlearn.typing import Metric, PackedCodes

Where = Mapping[str, Any]
OneId = int | str | uuid.UUID
Many = np.ndarray[tuple[int, int], np.dtype[Any]] | Sequence[Sequence[float]] | None
One = np.ndarray[tuple[int], np.dtype[Any]] | Sequence[float] | None
Texts = list[str] | tuple[str, ...] | NDArray[Any] | None
Text = str | None
Radius = float | None

KEEP_VECTORS = "create it with store_vectors=True (on the command line: index create --vectors)"
_PAYLOAD: Sequence[Include] = ("payload",)


class Item(NamedTuple):
    """One row of a collection. ``id`` is an int, a str or a uuid.UUID, by the kind of ids of the collection.

    ``vector`` is None when the collection keeps none or none was asked for.
    """

    id: Any
    code: PackedCodes
    payload: Payload
    vector: Vectors | None


class Items(list[Item], tables.Table):
    """Rows of a collection: a list that can be shown as a table of ids and the fields of payloads."""

    columns = ("id",)

    def lines(self) -> list[dict[str, Any]]:
        return [{"id": item.id, **tables.fields_as_columns(item.payload, self.columns)} for item in self]


class _Options(TypedDict, total=False):
    """Arguments that every kind of query may have."""

    where: Where | None
    emphasis: str | float | None
    bit_order: BitOrder
    include: Sequence[Include]
    n_jobs: int | None


class _Search(_Options, total=False):
    offset: int
    asymmetric: bool
    rescore: bool | float | None
    metric: Metric
    max_candidates: int


class _Within(_Options, total=False):
    limit: int | None


class Collection:
    """A hasher with the codes, ids and payloads of rows, kept on disk or on a server.

    ``Collection.create`` makes a new collection, ``Collection.open`` opens one.

    The URI says where the collection is kept: in a folder (nothing else to install), ``http://host:port/name`` on a
    server that ``hashlearn serve`` runs, ``milvus://host:port/name`` or
    ``postgresql://user:password@host/database?collection=name``. The methods are the same for all of them. ``:memory:``
    is a new collection for trying out, which is gone when it is closed.

    When ``add`` or ``delete`` returns, the change is durable, and every other process sees it in its next call.
    Several threads may use one collection at the same time.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import Collection, ITQ
    >>> X = np.random.default_rng(0).normal(size=(100, 16))
    >>> hasher = ITQ(n_bits=8, random_state=0).fit(X)
    >>> shop = Collection.create(":memory:", hasher)
    >>> ids = shop.add(X, payload={"color": ["red", "blue"] * 50, "year": list(range(1950, 2050))})
    >>> hits = shop.search(X[:1], k=3, where={"color": "red", "year": {">=": 1960}})
    >>> [hit.payload["color"] for hit in hits[0]]
    ['red', 'red', 'red']
    >>> shop.delete(where={"year": {"<": 1960}}), len(shop)
    (10, 90)
    >>> shop.close()
    """

    _warns_of_filters = True
    """Whether a filter that finds nothing warns of fields that cannot match. ``filter_advice`` tells them."""

    # Methods whose work has a module of its own are defined there.
    from_texts = classmethod(from_texts.from_texts)
    copy = copying.copy
    export = export.export
    filter_advice = filter_advice.filter_advice
    health = health.health
    migrate = migration.migrate
    undo_migration = migration.undo_migration
    learn_labels = migration.learn_labels

    def __init__(self, uri: str, store: Store | None = None, hasher: Any = None) -> None:
        if not isinstance(store, Store):
            raise TypeError(
                f"Write Collection.create({uri!r}, hasher) for a new collection, or Collection.open({uri!r}) for one "
                "that exists."
            )
        self.uri = shown(uri)
        self._opened = store
        self._process = os.getpid()
        self._making = Encoder(self.uri, store, hasher)
        self._ids = ids_of_kind(store.spec.ids)
        self._asked: set[filter_advice.Asked] = set()
        self._warned_of_collapse = False
        self._closed = False

    @classmethod
    def create(
        cls,
        uri: str | os.PathLike[str],
        hasher: Any = None,
        *,
        n_bits: int | None = None,
        store_vectors: bool = False,
        vector_size: int | None = None,
        kind: str = "flat",
        indexed: Sequence[str] = (),
        ids: IdKind = "int",
        text_model: str | None = None,
        text_field: str | None = None,
        label_field: str | None = None,
        exist_ok: bool = False,
        token: str | None = None,
        **settings: int | None,
    ) -> Collection:
        """Make a new, empty collection.

        Parameters
        ----------
        uri : str or path-like
            A folder, ``http://host:port/name`` on a server of hashlearn, ``milvus://host:port/name`` or
            ``postgresql://user:password@host/database?collection=name``. ``:memory:`` is a collection for trying out:
            each call makes another one, in a temporary folder, which is removed when the collection is closed or no
            longer used, or Python ends. Other processes cannot open it; ``backup`` keeps it.
        hasher : fitted hasher, or a pipeline that ``hl.save`` takes, default=None
            It is kept with the collection. Without one, give ``n_bits`` and add codes made elsewhere.
        n_bits : int, default=None
            Length of the codes if there is no hasher.
        store_vectors : bool, default=False
            Whether to keep the float rows too, for ``search(rescore=...)``.
        vector_size : int, default=None
            Length of the kept vectors. It is the hasher's number of features unless vectors of another length are
            given to ``add``.
        kind : str, default="flat"
            The kind of index, as in ``Index``; "flat" is exact. ``settings`` are those of the kind.
        indexed : list of str, default=()
            Fields of the payload that filters ask for, such as ``["digit", "size.width"]``: comparisons with them are
            quick also the first time. They cannot be changed later.
        ids : {"int", "text", "uuid"}, default="int"
            The kind of ids. Whole numbers are the fastest. UUIDs are given as ``uuid.UUID`` or text and returned as
            ``uuid.UUID``.
        text_model : str, default=None
            The sentence-transformers model whose embeddings the hasher was fitted to, by name or folder, for
            ``add(texts=...)`` and ``search(texts=...)``. It is loaded at once, to check the number of features. A
            hasher that ``hashlearn fit`` fitted to texts names it already.
        text_field, label_field : str, default=None
            The fields of payloads that hold the text and the labels of a row. They are kept with the hasher, for
            ``learn_labels`` and for ``hashlearn serve``, which shows labels.
        exist_ok : bool, default=False
            Open a collection that is there already, with its rows, if it was made with a hasher that computes the same
            and with the same settings.
        token : str, default=None
            For a collection on a server of hashlearn: the token that the server takes. Without it, the environment
            variable HASHLEARN_TOKEN is used.

        Raises
        ------
        CollectionExistsError
            If there is already a collection.
        CollectionError
            If the place cannot be used, or the collection there was made in another way.
        """
        check_keywords(kind, settings, cls.create)
        text, hasher = with_token(as_uri(uri), token), models.as_hasher(hasher)
        if exist_ok and text == MEMORY:
            raise ValueError("Each collection in memory is a new one, so exist_ok=True has no meaning: leave it out.")
        storage = store_class(text)
        check_tables(storage, hasher, text)
        spec = make_spec(hasher, n_bits, store_vectors, vector_size, kind, dict(settings), indexed, ids)
        if (noted := _noted(hasher, text_model, text_field, label_field)) is not hasher:
            hasher, spec = noted, replace(spec, model=models.dumps(noted))
        try:
            store = storage.create(text, spec)
        except CollectionExistsError:
            if not exist_ok:
                raise
        else:
            return cls(text, store, hasher)
        found = cls.open(text, hasher)
        try:
            check_same(found._store.spec, spec, found.uri)
        except BaseException:
            found.close()
            raise
        return found

    @classmethod
    def open(
        cls, uri: str | os.PathLike[str], hasher: Any = None, read_only: bool = False, *, token: str | None = None
    ) -> Collection:
        """Open what ``create`` made.

        Parameters
        ----------
        uri : str or path-like
        hasher : fitted hasher, default=None
            Used in place of the stored one, after checking that both compute the same.
        read_only : bool, default=False
        token : str, default=None
            As for ``create``.

        Raises
        ------
        CollectionError
            If there is no collection, it is damaged, or its hasher is another one.
        """
        text = with_token(as_uri(uri), token)
        store = store_class(text).open(text, read_only)
        try:
            result = cls(text, store)
            if hasher is not None:
                result._encoder.accept(hasher)
        except BaseException:
            store.close()
            raise
        return result

    @classmethod
    def drop(cls, uri: str | os.PathLike[str], *, token: str | None = None) -> None:
        """Remove a collection and all its rows for good."""
        text = with_token(as_uri(uri), token)
        store_class(text).drop(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close files and connections. Closing twice does no harm."""
        self._closed = True
        if os.getpid() == self._process:
            self._opened.close()

    def __reduce__(self) -> NoReturn:
        remedy = self._remedy(f"open {self.uri} where it is needed")
        raise TypeError(
            f"A collection cannot be pickled or copied, because it holds open files or connections: {remedy}."
        )

    def __repr__(self) -> str:
        return f"Collection({self.uri!r}, n_bits={self.n_bits})"

    def _repr_html_(self) -> str:
        if self._closed:
            return f"<p>{html.escape(repr(self))}, closed</p>"
        return f"<p>{html.escape(repr(self))}, {len(self):,} rows</p>{self.peek(5)._repr_html_()}"

    @property
    def n_bits(self) -> int:
        """The length of the codes."""
        return self._store.spec.n_bits

    @property
    def id_kind(self) -> IdKind:
        """The kind of ids that the collection was made with: "int", "text" or "uuid"."""
        return self._ids.kind

    @property
    def vector_size(self) -> int | None:
        """How many floats per row are kept for rescoring; None if no vectors are kept."""
        return self._store.spec.vector_size

    @property
    def hasher(self) -> Any:
        """The hasher that encodes rows and queries; None in a collection of codes made elsewhere."""
        return self._encoder.hasher

    @property
    def text_model(self) -> str | None:
        """The sentence-transformers model that embeds texts for the hasher; None if it is not known."""
        return self._encoder.note("text_model")

    @property
    def text_field(self) -> str | None:
        """The field of payloads that holds the text of a row; None if it is not known."""
        return self._encoder.note("text_field")

    @property
    def label_field(self) -> str | None:
        """The field of payloads that holds the labels of a row; None if it is not known."""
        return self._encoder.note("label_field")

    def info(self) -> dict[str, Any]:
        """Return facts as a dict: uri, rows, n_bits, hasher, vector size, kind of index, and facts of the storage.

        ``text_model``, ``text_field`` and ``label_field`` are those that ``create`` describes, if they are known.
        """
        spec, stored = self._store.spec, self._store.info()
        if spec.ids != "int":
            stored.pop("next_id", None)  # a number that no id has
        return {
            "uri": self.uri,
            "n_bits": spec.n_bits,
            "hasher": type(self.hasher).__name__ if spec.model else None,
            "text_model": self.text_model,
            "text_field": self.text_field,
            "label_field": self.label_field,
            "vector_size": spec.vector_size,
            "kind": spec.kind,
            "settings": dict(spec.settings),
            "indexed": list(spec.indexed),
            "ids": spec.ids,
            **stored,
        }

    # ---- searching ----

    @overload
    def search(
        self, X: Many = None, k: int = 10, *, codes: Many = None, texts: Texts = None, **options: Unpack[_Search]
    ) -> Hits: ...
    @overload
    def search(
        self, X: One = None, k: int = 10, *, codes: One = None, texts: Text = None, **options: Unpack[_Search]
    ) -> HitList: ...
    @overload
    def search(
        self, X: Any = None, k: int = 10, *, codes: Any = None, texts: Any = None, **options: Unpack[_Search]
    ) -> Hits: ...
    def search(
        self,
        X: Any = None,
        k: int = 10,
        *,
        codes: ArrayLike | None = None,
        texts: Any = None,
        offset: int = 0,
        where: Where | None = None,
        emphasis: str | float | None = None,
        asymmetric: bool = False,
        rescore: bool | float | None = None,
        metric: Metric = "cosine",
        max_candidates: int = MAX_CANDIDATES,
        bit_order: BitOrder = "big",
        include: Sequence[Include] = _PAYLOAD,
        n_jobs: int | None = None,
    ) -> Hits | HitList:
        """Find the k nearest rows of every query, ordered by (distance, id).

        Where ids are texts or UUIDs, rows at the same distance have a fixed order, which is not that of their ids.

        Parameters
        ----------
        X : array (queries, n_features), default=None
            Queries that the hasher encodes; or give ``codes`` or ``texts``. A 1-D array is a single query.
        k : int, default=10
        codes : uint8 array (queries, bytes), default=None
            Packed codes of queries, in ``bit_order``.
        texts : list of str, or one str, default=None
            Texts that the collection's text model embeds. One str is a single query.
        offset : int, default=0
            Leave out this many of the nearest rows: ``offset=10`` is the second page of ``k=10``.
        where : dict, default=None
            Only rows whose payload matches, such as ``{"color": "red", "year": {">=": 2020}}``.
        emphasis : {"alike", "auto", "label"} or float from 0 to 1, default=None
            Of collections of an OpenHasher: how much labels count, "auto" unless told otherwise. Distances are then
            minus the scores.
        asymmetric : bool, default=False
            Rank by -q.h with the expected bits q of X, which are real-valued, and the signs h of the codes; distances
            are float32. PostgreSQL and Milvus rank so only the 10 k rows that are nearest by Hamming distance.
        rescore : bool or float, default=None
            Look at this many times k rows (True: 10) by Hamming distance, or asymmetric, and rank those by the kept
            float vectors. All rows that are as near as the last of them are looked at too, so equal codes hide no row.
        metric : {"cosine", "euclidean", "dot"}, default="cosine"
            Distance of rescoring: 1 - cosine, Euclidean, or minus the product.
        max_candidates : int
            The most rows that rescoring looks at per query. A warning says where it cut such a tie.
        bit_order : {"big", "little"}, default="big"
        include : list of {"payload", "vector", "code"}, default=("payload",)
            What the hits have besides id and distance. All of it is read at the moment of the search. An empty list is
            the fastest.
        n_jobs : int, default=None
            Threads; None for all cores.

        Returns
        -------
        Hits, or for a single query HitList
            ``hits.to_list()`` has ids, distances and payloads; ``hits[0]`` are the rows of the first query.
        """
        encoder = self._encoder
        rows, single = encoder.given(X, codes, texts)
        kept, condition = self._checked_include(include), condition_of(where)
        offset = checked_count(offset, "offset", 0)
        k = checked_count(k, "k", 1) + offset
        if texts is not None:
            rows = encoder.embedded(rows)
        rescoring = rescore is not None and rescore is not False
        if codes is not None and (asymmetric or rescoring):
            raise ValueError(f"{'asymmetric' if asymmetric else 'rescore'} needs X: codes alone are not enough.")
        plan = None
        if rescoring:
            plan = checked_rescoring(self._vectors_of_queries(rows), k, rescore, metric, max_candidates)
            if encoder.stored_otherwise():
                plan = plan._replace(also=encoder.codes_of_rows(rows))
        query = Query(encoder.query_values(rows, codes, bit_order, asymmetric, emphasis), plan, condition, kept, n_jobs)
        answer = self._store.search(query, k)
        if plan is not None and answer.cut:
            warnings.warn(
                f"For {answer.cut:,} of {len(plan.vectors):,} queries {plan.max_rows:,} rows or more are as near as "
                f"the last of the {plan.nearest:,} rows to rescore; only {plan.max_rows:,} were looked at, those of "
                "smallest id. Raise max_candidates, or use a hasher that gives more distinct codes.",
                stacklevel=2,
            )
        self._check_filter(condition, bool((answer.hits.ids >= 0).any()))
        hits = self._ids.hits(answer, include)
        hits = hits.after(offset) if offset else hits
        return hits[0] if single else hits

    @overload
    def within(
        self, X: Many = None, radius: Radius = None, *, codes: Many = None, texts: Texts = None, **more: Unpack[_Within]
    ) -> RangeHits: ...
    @overload
    def within(
        self, X: One = None, radius: Radius = None, *, codes: One = None, texts: Text = None, **more: Unpack[_Within]
    ) -> HitList: ...
    @overload
    def within(
        self, X: Any = None, radius: Radius = None, *, codes: Any = None, texts: Any = None, **more: Unpack[_Within]
    ) -> RangeHits: ...
    def within(
        self,
        X: Any = None,
        radius: float | None = None,
        *,
        codes: ArrayLike | None = None,
        texts: Any = None,
        where: Where | None = None,
        emphasis: str | float | None = None,
        bit_order: BitOrder = "big",
        include: Sequence[Include] = _PAYLOAD,
        limit: int | None = None,
        n_jobs: int | None = None,
    ) -> RangeHits | HitList:
        """Find all rows at most ``radius`` bits away from each query, ordered by (distance, id).

        Parameters
        ----------
        X, codes, texts, where, emphasis, bit_order, include, n_jobs : as in ``search``
        radius : int or float, default=None
            None is 2 bits. In a collection of an OpenHasher it is the largest distance, minus the least score, and must
            be given.
        limit : int, default=None
            The most rows of each query that are returned, the nearest ones; ``found`` counts all.

        Returns
        -------
        RangeHits, or for a single query HitList
            ``ball.to_list()`` has ids, distances and payloads; ``ball[0]`` are the rows of the first query.
        """
        by_tables = self._encoder.by_tables
        reach = _checked_distance(radius, self.uri) if by_tables else self._checked_bits(radius)
        most = None if limit is None else checked_count(limit, "limit", 1)
        condition, kept = condition_of(where), self._checked_include(include)
        rows, single = self._encoder.given(X, codes, texts)
        if texts is not None:
            rows = self._encoder.embedded(rows)
        values = self._encoder.query_values(rows, codes, bit_order, emphasis=emphasis)
        answer = self._store.within(Query(values, None, condition, kept, n_jobs), reach, most)
        self._check_filter(condition, len(answer.hits.ids) > 0)
        ball = self._ids.hits(answer, include)
        return ball[0] if single else ball

    def _checked_bits(self, radius: float | None) -> int:
        return min(checked_count(2 if radius is None else radius, "radius", 0), self.n_bits)

    def encode_queries(self, X: Any) -> PackedCodes:
        """Return packed codes of queries by the collection's hasher; ``health`` counts them."""
        return self._encoder.codes_of_queries(self._encoder.given(X, None, None)[0])

    # ---- reading ----

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True  # otherwise an empty collection would count as false, because its length is 0

    def __contains__(self, one: Any) -> bool:
        """Return whether there is a row with this id."""
        return self.get([one], vectors=False)[0] is not None

    def __iter__(self) -> Iterator[Item]:
        """Iterate over all rows, in the order of ids that are numbers; ``scan`` gives batches, and vectors too."""
        return (item for rows in self.scan() for item in _items_of(rows))

    def count(self, where: Where | None = None) -> int:
        """Return how many rows there are, or how many match."""
        condition = condition_of(where)
        found = self._store.count(condition)
        self._check_filter(condition, found > 0)
        return found

    @overload
    def get(self, ids: OneId, vectors: bool = True) -> Item | None: ...
    @overload
    def get(self, ids: Iterable[Any], vectors: bool = True) -> list[Item | None]: ...
    @overload
    def get(
        self, ids: None = None, vectors: bool = True, *, where: Where | None = None, limit: int | None = None
    ) -> Items: ...
    def get(
        self, ids: Any = None, vectors: bool = True, *, where: Where | None = None, limit: int | None = None
    ) -> Any:
        """Read rows by their ids, or the rows whose payload matches.

        Parameters
        ----------
        ids : one id, or a list, default=None
        vectors : bool, default=True
            Whether to read kept vectors too.
        where : dict, default=None
            In place of ids: a filter, as in ``search``.
        limit : int, default=None
            In place of ids: the most rows to read, the first ones in the order of ``scan``.

        Returns
        -------
        Item or None, or a list
            For one id the row, or None if there is none. For a list of ids, a list of them. For a filter or a limit,
            a list of rows that also has ``to_pandas`` and ``to_arrow``.
        """
        chosen = where is not None or limit is not None
        if (ids is not None) == chosen:
            raise ValueError(
                "Give ids, or where= and limit=, to get rows. To read all rows, iterate over the collection."
            )
        if chosen:
            return self._matching(where, limit, vectors)
        wanted = self._wanted(ids)
        numbers = np.unique(self._ids.numbers(wanted))
        rows = self._ids.shown(self._store.get(numbers, vectors and self.vector_size is not None))
        found = {item.id: item for item in _items_of(rows)}
        items = [found.get(one) for one in wanted.tolist()]
        return items[0] if self._ids.is_single(ids) else items

    def _matching(self, where: Where | None, limit: int | None, vectors: bool) -> Items:
        if limit is None:
            items = Items(item for rows in self.scan(where=where, vectors=vectors) for item in _items_of(rows))
        else:
            first = next(self.scan(checked_count(limit, "limit", 1), where, vectors), None)
            items = Items() if first is None else Items(_items_of(first))
        self._check_filter(condition_of(where), bool(items), depth=2)
        return items

    def peek(self, limit: int = 10) -> Items:
        """Return the first rows without their vectors, to see what there is. A notebook shows them as a table."""
        return self.get(vectors=False, limit=limit)

    def scan(self, batch_rows: int = 10_000, where: Where | None = None, vectors: bool = False) -> Iterator[StoredRows]:
        """Iterate over all rows in batches, in the order of ids that are numbers.

        Parameters
        ----------
        batch_rows : int, default=10000
            The most rows of a batch.
        where : dict, default=None
            A filter, as in ``search``.
        vectors : bool, default=False

        Yields
        ------
        StoredRows
            ids, codes, payloads, and vectors or None.
        """
        wanted = vectors and self.vector_size is not None
        batches = self._store.scan(checked_count(batch_rows, "batch_rows", 1), condition_of(where), wanted)
        return (self._ids.shown(rows) for rows in batches)

    def to_pandas(self, where: Where | None = None) -> Any:
        """Return a data frame of pandas with one line per row, or per row that matches: id and the fields of payloads.

        A field with the name "id" becomes ``payload.id``. Codes and vectors are not in it; ``scan`` has them.
        """
        return self._matching(where or {}, None, vectors=False).to_pandas()

    def to_arrow(self, where: Where | None = None) -> Any:
        """Return a table of PyArrow with the columns of ``to_pandas``. UUIDs are text in it."""
        return self._matching(where or {}, None, vectors=False).to_arrow()

    # ---- changing ----

    def add(
        self,
        X: Any = None,
        ids: ArrayLike | None = None,
        payload: Any = None,
        *,
        codes: ArrayLike | None = None,
        texts: Any = None,
        labels: Any = None,
        vectors: ArrayLike | None = None,
        bit_order: BitOrder = "big",
    ) -> NDArray[Any]:
        """Add rows, or replace rows whose id exists (code, payload and vector together).

        Large batches are added in several transactions; an error says how many rows were added.

        Parameters
        ----------
        X : array (rows, n_features), default=None
            Rows that the hasher encodes; or give ``codes`` or ``texts``. A 1-D array is a single row; then ``ids`` may
            be one id and ``payload`` one dict.
        ids : array-like, default=None
            Of the collection's kind, each once: whole numbers from 0 (without them, rows get the numbers after the
            largest id so far), UUIDs (without them, rows get random ones), or texts, which must be given.
        payload : default=None
            One JSON object per row: a list of dicts (None for nothing), a dict of columns, a pyarrow Table, or a
            DataFrame of pandas or polars.
        codes : uint8 array (rows, bytes), default=None
            Packed codes made elsewhere, in ``bit_order``.
        texts : list of str, or one str, default=None
            Texts that the collection's text model embeds. They are not kept, unless ``payload`` holds them too, such
            as ``payload={"text": texts}``.
        labels : as y of the hasher's ``encode``, default=None
            Of collections of an OpenHasher, or of a hasher that learned codes for labels (``GSDHP``, ``AutoHasher``):
            labels that are known, None or the hasher's ``unlabeled`` where they are not. Codes hold them in place of
            predicted labels. They are not kept for reading, unless ``payload`` holds them too.
        vectors : array (rows, vector_size), default=None
            Floats to keep in place of X, in a collection that keeps vectors.
        bit_order : {"big", "little"}, default="big"

        Returns
        -------
        array (rows,)
            The ids.
        """
        rows, single = self._encoder.given(X, codes, texts)
        given_ids: Any = [ids] if single and self._ids.is_single(ids) else ids
        if single:
            payload = [payload] if isinstance(payload, Mapping) else payload
            vectors = None if vectors is None else np.atleast_2d(vectors)
        n_rows = rows.shape[0]
        row_ids = self._ids.of_new_rows(given_ids, n_rows)
        payloads = checked_payloads(payload, n_rows)
        if texts is not None:
            rows = self._encoder.embedded(rows)  # after the checks of ids and payloads, because it takes long
        kept = self._vectors_to_keep(rows if codes is None else None, vectors, n_rows)
        if codes is None:
            packed = self._encoder.codes_of_rows(rows, [labels] if single and labels is not None else labels)
        elif labels is not None:
            raise ValueError("labels= needs X or texts: codes hold their labels already.")
        else:
            packed = checked_codes(rows, self.n_bits, bit_order)
        if not n_rows:
            return self._ids.array([])
        if not self._warned_of_collapse:
            self._warned_of_collapse = _warn_of_collapse(packed, self.n_bits)
        if row_ids is None:
            row_ids = new_ids(None, n_rows, self._store.take_ids(n_rows))
        numbers, payloads = self._ids.numbers(row_ids), self._ids.payloads_to_keep(row_ids, payloads)
        step, done = self._store.batch_rows, 0
        try:
            for done in range(0, n_rows, step):
                block = slice(done, min(done + step, n_rows))
                self._ids.check_free(self._store, row_ids[block])
                self._store.add(
                    numbers[block],
                    packed[block],
                    None if payloads is None else payloads[block],
                    None if kept is None else kept[block],
                )
                report("adding", block.stop, n_rows)
        except CollectionError as error:
            if not done:
                raise
            raise type(error)(f"{error} The first {done} of these {n_rows} rows were added.") from error
        return row_ids

    def update_payload(
        self, ids: Any = None, payload: Any = None, *, where: Where | None = None, merge: bool = True
    ) -> int:
        """Give rows new payloads; codes and vectors stay.

        In a folder and on PostgreSQL the call is one transaction, however many rows there are: if it fails or is
        interrupted, nothing is changed. Other writers wait meanwhile, so what they replace is not lost. If one of the
        rows does not exist, that is a NoSuchRowsError and nothing is changed.

        Milvus has no transactions: it writes 10,000 rows at a time, so a call that is interrupted may have changed the
        first of them (to repeat it does no harm), and a row that another process replaces during the call may get its
        old code and vector back.

        Parameters
        ----------
        ids : one id, or a list, default=None
        payload : dict for one id or a filter; for a list as in ``add``
        where : dict, default=None
            In place of ids: all rows whose payload matches get the same fields. A filter, as in ``search``.
        merge : bool, default=True
            Replace only the fields that the new payloads have; False replaces payloads whole.

        Returns
        -------
        int
            How many rows there were.
        """
        if (ids is None) == (where is None):
            raise ValueError("Give ids or where= to update, not both and not neither.")
        named = self._ids.kind != "int"
        if where is not None:
            if not isinstance(payload, Mapping):
                raise ValueError(f"With where=, payload must be one dict for all rows. Got {payload!r} instead.")
            given, condition = checked_payloads([payload], 1) or [], condition_of(where)
            self._ids.check_payloads(given)
            updated = self._store.update_payloads(PayloadUpdate(condition, given, merge, named))
            self._check_filter(condition, updated > 0)
            return updated
        wanted, payload = self._wanted(ids), [payload] if self._ids.is_single(ids) else payload
        self._ids.of_new_rows(wanted, len(wanted))  # refuses ids that are there twice
        given = checked_payloads(payload, len(wanted)) or []
        if payload is None:
            raise ValueError("Give payload=, one object per id.")
        new, numbers = self._ids.payloads_to_keep(wanted, given) or [], self._ids.numbers(wanted)
        if not len(wanted):
            return 0
        order = np.argsort(numbers)
        update = PayloadUpdate(numbers[order], [new[place] for place in order.tolist()], merge, named)
        try:
            return self._store.update_payloads(update)
        except NoSuchRowsError as error:
            missing = wanted[np.isin(numbers, error.missing)].tolist()
            raise NoSuchRowsError(
                f"{len(missing)} of these {len(wanted)} ids are not in {self.uri}, the first is {missing[0]!r}: "
                f"{error}.",
                missing,
            ) from error

    def delete(self, ids: ArrayLike | None = None, *, where: Where | None = None) -> int:
        """Remove rows by their ids, or the rows whose payload matches.

        Parameters
        ----------
        ids : one id, or a list, default=None
        where : dict, default=None
            A filter, as in ``search``. An empty one is refused.

        Returns
        -------
        int
            How many rows were removed.
        """
        if (ids is None) == (where is None):
            raise ValueError("Give ids or where= to delete, not both and not neither.")
        if where is not None:
            condition = condition_of(where)
            if condition is None:
                raise ValueError(
                    "An empty filter would delete every row: use Collection.drop for that (on the command line: index "
                    "drop)."
                )
            removed = self._store.delete(condition)
            self._check_filter(condition, removed > 0)
            return removed
        numbers = self._ids.present(self._store, self._wanted(ids))
        step = self._store.batch_rows
        return sum(self._store.delete(numbers[start : start + step]) for start in range(0, len(numbers), step))

    # ---- the whole collection ----

    def verify(self) -> VerifyReport:
        """Read everything and check all that can be checked; ``problems`` says what is wrong, one sentence each.

        A folder is checked row by row against its checksums. Servers check their own pages as they are read; ``notes``
        says what was left to them.
        """
        found = self._store.verify()
        spec, problems = self._store.spec, [*found.problems, *self._ids.problems(self._store)]
        try:
            hasher = models.loads(spec.model, f"The model in {self.uri}") if spec.model else None
            # The fingerprint is not compared: another version of hashlearn may have computed it in another way.
            if hasher is not None and hasher.n_bits_ != spec.n_bits:
                problems.append(f"The model in {self.uri} is not the one that the collection was made with.")
        except ModelFileError as error:
            problems.append(str(error))
        return found._replace(problems=tuple(problems))

    def set_text_model(self, name: str) -> None:
        """Name the text model of a collection that does not know it, or whose text model has moved to another folder.

        The name is kept with the collection. Codes stay as they are, so it must be the model whose embeddings the
        hasher was fitted to; only their number of features can be checked. Other processes know the name once they open
        the collection again.

        Parameters
        ----------
        name : str
            A model of sentence-transformers: name or folder.
        """
        self._replace_hasher(_noted(self.hasher, name), self.vector_size)

    def compact(self) -> None:
        """Free the space of replaced and removed rows. Other processes may read meanwhile, and write in turn."""
        self._store.compact()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a consistent copy to one file while the collection is in use. The file is whole and checked, or absent.

        On PostgreSQL and Milvus an UnsupportedByStoreError names the server's own tool, after checking the collection.
        """
        self._store.backup(os.fspath(path))

    @classmethod
    def restore(cls, path: str | os.PathLike[str], uri: str | os.PathLike[str], *, replace: bool = False) -> Collection:
        """Make a collection out of a backup, after checking all of it, and open it.

        Parameters
        ----------
        path : str or path-like
            What ``backup`` wrote.
        uri : str or path-like
        replace : bool, default=False
            Restore over a collection that is there, in one transaction. Processes that have it open go on with the
            restored one.
        """
        text = as_uri(uri)
        store_class(text).restore(os.fspath(path), text, replace)
        return cls.open(text)

    def _vectors_to_keep(self, X: Any, vectors: ArrayLike | None, n_rows: int) -> Vectors | None:
        """Return the vectors to keep beside the codes; None in a collection that keeps none."""
        if self.vector_size is None:
            if vectors is not None:
                raise CollectionError(f"{self.uri} keeps no vectors: {KEEP_VECTORS}.")
            return None
        if vectors is None and X is None:
            raise ValueError(f"{self.uri} keeps vectors of {self.vector_size} floats: give vectors= beside codes=.")
        kept = checked_vectors(X if vectors is None else vectors, self.vector_size, "vectors")
        if len(kept) != n_rows:
            raise ValueError(f"There must be one vector per row. Got {len(kept)} vectors and {n_rows} rows.")
        return kept

    def _checked_include(self, include: Sequence[Include]) -> set[Include]:
        """Return what the store has to read; ids that are texts are in payloads."""
        known = get_args(Include)
        if isinstance(include, str) or not set(include) <= set(known):
            raise ValueError(f"include must be a list of {', '.join(map(repr, known))}. Got {include!r} instead.")
        if "vector" in include and self.vector_size is None:
            raise CollectionError(f"{self.uri} keeps no vectors: {KEEP_VECTORS}.")
        return {*include} if self._ids.kind == "int" else {*include, "payload"}

    def _vectors_of_queries(self, rows: Any) -> Vectors:
        if self.vector_size is None:
            raise CollectionError(f"{self.uri} keeps no vectors to rescore by: {KEEP_VECTORS}.")
        return checked_vectors(rows, self.vector_size, "X, to rescore by,")

    def _wanted(self, ids: Any) -> NDArray[Any]:
        """Return one id or a list of them as a checked array."""
        if isinstance(ids, Mapping):
            raise ValueError(f"ids must be one id or a list of ids. Got {ids!r} instead: give a filter as where=.")
        return self._ids.array([ids] if self._ids.is_single(ids) else ids)

    @property
    def _store(self) -> Store:
        """The storage, which a fork of the process that opened the collection may not use.

        A forked child shares files and connections with its parent, and locks that other threads of the parent held at
        the fork are never released in the child. Using the storage there could hang, or damage what the parent writes.
        """
        if os.getpid() != self._process:
            remedy = self._remedy("open the collection in each process")
            raise CollectionError(
                f"{self.uri} was opened in process {self._process}, and this is its fork {os.getpid()}: {remedy}."
            )
        return self._opened

    @property
    def _encoder(self) -> Encoder:
        store = self._store
        if self._making.spec.model != store.spec.model:  # an exception came after the model was replaced
            self._making = Encoder(self.uri, store)
        return self._making

    def _remedy(self, usual: str) -> str:
        """Return what to do where another process needs the collection, which cannot open one in memory."""
        return "create it in a folder instead of in memory" if self.uri == MEMORY else usual

    def _replace_hasher(self, hasher: Any, vector_size: int | None) -> None:
        model, fingerprint = (b"", "") if hasher is None else (models.dumps(hasher), models.fingerprint(hasher))
        self._store.replace_model(model, fingerprint, vector_size)
        self._making = Encoder(self.uri, self._store, hasher)

    def _replace_codes(self, hasher: Any, numbers: NDArray[np.int64], packed: PackedCodes) -> None:
        self._store.replace_codes(models.dumps(hasher), models.fingerprint(hasher), numbers, packed)
        self._making = Encoder(self.uri, self._store, hasher)

    def _check_filter(self, condition: Condition | None, found: bool, depth: int = 1) -> None:
        """Warn of fields that cannot match if a filter found nothing, once per field and kind of values.

        ``depth`` counts the calls from a public method to this one.
        """
        if condition is not None and not found and self._warns_of_filters:
            filter_advice.warn_of_filter(self._store, condition, self._asked, depth + 2)


def _checked_distance(radius: Any, uri: str) -> float:
    number = isinstance(radius, (int, float, np.number)) and not isinstance(radius, bool)
    if not number or not np.isfinite(radius):
        raise ValueError(
            f"{uri} is searched by tables of scores: give radius= as the largest distance, which is minus the least "
            f"score, for example the distance of the last hit of a search. Got {radius!r} instead."
        )
    return float(radius)


def _items_of(rows: StoredRows) -> Iterator[Item]:
    vectors = [None] * len(rows.ids) if rows.vectors is None else rows.vectors
    return map(Item, rows.ids.tolist(), rows.codes, rows.payloads, vectors)


def _noted(hasher: Any, text_model: str | None, text_field: str | None = None, label_field: str | None = None) -> Any:
    """Return the hasher with the names that are given; the text model is loaded to check the number of features."""
    notes = {"text_model": text_model, "text_field": text_field, "label_field": label_field}
    for name, value in notes.items():
        if value is not None and hasher is None:
            why = "for its embeddings" if name == "text_model" else "with which it is kept"
            raise ValueError(f"{name}= needs a hasher {why}, and there is none for {value!r}.")
        if name != "text_model" and value is not None and not (isinstance(value, str) and value):
            raise ValueError(f"{name} must be a text that is not empty. Got {value!r} instead.")
    if text_model is not None:
        from hashlearn.data.embed import checked_model

        notes["text_model"] = checked_model(hasher, text_model).name
    return with_notes(hasher, **notes)


def _warn_of_collapse(codes: PackedCodes, n_bits: int) -> bool:
    """Warn if there are fewer distinct codes than a tenth of the rows, or of the possible codes; return whether."""
    found = collapsed(codes, n_bits)
    if found is None:
        return False
    distinct, looked_at = found
    of = "" if looked_at == len(codes) else f" of {len(codes):,}, taken as a sample"
    warnings.warn(
        f"The codes collapse: {distinct:,} distinct codes for {looked_at:,} rows{of}. Rows with equal codes are "
        "found in the order of their ids: keep vectors (store_vectors=True) and search with rescore=True, or use a "
        "hasher that tells more rows apart.",
        stacklevel=3,
    )
    return True


def collections(uri: str | os.PathLike[str], *, token: str | None = None) -> list[dict[str, Any]]:
    """List the collections of a server of hashlearn, or those in the folders of a folder.

    Parameters
    ----------
    uri : str or path-like
        ``http://host:port``, or a folder.
    token : str, default=None
        As for ``Collection.create``.

    Returns
    -------
    list of dict
        At least ``uri`` (for ``Collection.open``), ``name``, ``rows``, ``n_bits`` and ``ids``, by name.
    """
    text = with_token(as_uri(uri), token)
    if text.lower().startswith(("http://", "https://")):
        from hashlearn.collection.stores.http import served_collections

        return sorted(served_collections(text), key=lambda facts: str(facts["name"]))
    from hashlearn.collection.stores.embedded.database import FILE

    if not is_folder(text) or not os.path.isdir(text):
        raise CollectionError(f"{shown(text)} is neither a folder nor the address of a server of hashlearn.")
    found = []
    for path in sorted(Path(text).glob(f"*/{FILE}")):
        with Collection.open(path.parent, read_only=True) as one:
            facts = {"uri": one.uri, "name": path.parent.name, "rows": len(one), "n_bits": one.n_bits}
            found.append({**facts, "ids": one.id_kind})
    return found
