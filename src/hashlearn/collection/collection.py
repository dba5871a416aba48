"""Collection: an encoder and a store behind one interface, whichever storage keeps the rows."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, TypedDict, Unpack, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn import models
from hashlearn.codes import BitOrder
from hashlearn.collection import changing, copying, export, filter_advice, from_texts, health, migration, reading
from hashlearn.collection.encoder import Encoder, checked_vectors
from hashlearn.collection.ids import IdKind, ids_of_kind
from hashlearn.collection.new_spec import check_keywords, check_same, check_tables, make_spec, noted
from hashlearn.collection.rescore import MAX_CANDIDATES, checked_rescoring
from hashlearn.collection.store import (
    KEEP_VECTORS,
    CollectionError,
    CollectionExistsError,
    Include,
    Query,
    Store,
    VerifyReport,
)
from hashlearn.collection.stores import store_class
from hashlearn.collection.uri import MEMORY, as_uri, is_folder, shown, with_token
from hashlearn.collection.where import Condition, Where, condition_of
from hashlearn.index import HitList, Hits, RangeHits
from hashlearn.index.inputs import checked_count
from hashlearn.models.format import ModelFileError
from hashlearn.typing import Metric, PackedCodes

# What a single query, several queries and queries of an unknown number are given as: rows, or codes.
Many = np.ndarray[tuple[int, int], np.dtype[Any]] | Sequence[Sequence[float]] | None
One = np.ndarray[tuple[int], np.dtype[Any]] | Sequence[float] | None
Texts = list[str] | tuple[str, ...] | NDArray[Any] | None
Text = str | None
AnyCodes = ArrayLike | None
AnyTexts = Sequence[str] | NDArray[Any] | None
Radius = float | None

_PAYLOAD: Sequence[Include] = ("payload",)


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
    get = reading.get
    peek = reading.peek
    scan = reading.scan
    to_pandas = reading.to_pandas
    to_arrow = reading.to_arrow
    add = changing.add
    update_payload = changing.update_payload
    delete = changing.delete
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
        if (named := noted(hasher, text_model, text_field, label_field)) is not hasher:
            hasher, spec = named, replace(spec, model=models.dumps(named))
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
        self, X: Any = None, k: int = 10, *, codes: AnyCodes = None, texts: AnyTexts = None, **options: Unpack[_Search]
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
            if self.vector_size is None:
                raise CollectionError(f"{self.uri} keeps no vectors to rescore by: {KEEP_VECTORS}.")
            vectors = checked_vectors(rows, self.vector_size, "X, to rescore by,")
            plan = checked_rescoring(vectors, k, rescore, metric, max_candidates)
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
        self,
        X: Many = None,
        radius: Radius = None,
        *,
        codes: Many = None,
        texts: Texts = None,
        **options: Unpack[_Within],
    ) -> RangeHits: ...
    @overload
    def within(
        self, X: One = None, radius: Radius = None, *, codes: One = None, texts: Text = None, **options: Unpack[_Within]
    ) -> HitList: ...
    @overload
    def within(
        self,
        X: Any = None,
        radius: Radius = None,
        *,
        codes: AnyCodes = None,
        texts: AnyTexts = None,
        **options: Unpack[_Within],
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
        if self._encoder.by_tables:
            reach = _checked_distance(radius, self.uri)
        else:
            reach = min(checked_count(2 if radius is None else radius, "radius", 0), self.n_bits)
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

    def __iter__(self) -> Iterator[reading.Item]:
        """Iterate over all rows, in the order of ids that are numbers; ``scan`` gives batches, and vectors too."""
        return (item for rows in self.scan() for item in reading.items_of(rows))

    def count(self, where: Where | None = None) -> int:
        """Return how many rows there are, or how many match."""
        condition = condition_of(where)
        found = self._store.count(condition)
        self._check_filter(condition, found > 0)
        return found

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
        self._replace_hasher(noted(self.hasher, name), self.vector_size)

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

    def _checked_include(self, include: Sequence[Include]) -> set[Include]:
        """Return what the store has to read; ids that are texts are in payloads."""
        known = get_args(Include)
        if isinstance(include, str) or not set(include) <= set(known):
            raise ValueError(f"include must be a list of {', '.join(map(repr, known))}. Got {include!r} instead.")
        if "vector" in include and self.vector_size is None:
            raise CollectionError(f"{self.uri} keeps no vectors: {KEEP_VECTORS}.")
        return {*include} if self._ids.kind == "int" else {*include, "payload"}

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
