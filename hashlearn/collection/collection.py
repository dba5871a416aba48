"""Collection: a hasher, codes, ids and payloads behind one interface, whichever storage keeps them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn import models
from hashlearn.codes import BitOrder, renamed_bit_order
from hashlearn.collection import validation
from hashlearn.collection.collapse import warn_of_collapse
from hashlearn.collection.id_kinds import IdKind
from hashlearn.collection.new_spec import check_keywords, check_same, make_spec, naming_text_model
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.reading import Where, condition_of
from hashlearn.collection.searching import KEEP_VECTORS, SearchableRows
from hashlearn.collection.store import (
    CollectionError,
    CollectionExistsError,
    Store,
    Vectors,
    VerifyReport,
)
from hashlearn.collection.uri import MEMORY, as_uri, store_class
from hashlearn.deprecation import warn_deprecated
from hashlearn.index.inputs import checked_count, new_ids
from hashlearn.modelfile import ModelFileError
from hashlearn.progress import listening, report

if TYPE_CHECKING:
    from hashlearn.collection.migration import OldVectors
    from hashlearn.hashers.migrated import MigrationReport


class Collection(SearchableRows):
    """A hasher with the codes, ids and payloads of rows, kept on disk or on a server.

    ``Collection.create`` makes a new collection, ``Collection.open`` opens one.

    The URI says where the collection is kept: in a folder (nothing else to install), ``milvus://host:port/name`` or
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

    def __init__(self, uri: str, store: Store | None = None, hasher: Any = None) -> None:
        if not isinstance(store, Store):
            raise TypeError(
                f"Write Collection.create({uri!r}, hasher) for a new collection, or Collection.open({uri!r}) for one "
                "that exists."
            )
        super().__init__(uri, store, hasher)
        self._warned_of_collapse = False

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
        exist_ok: bool = False,
        **settings: int | None,
    ) -> Collection:
        """Make a new, empty collection.

        Parameters
        ----------
        uri : str or path-like
            A folder, ``milvus://host:port/name`` or ``postgresql://user:password@host/database?collection=name``.
            ``:memory:`` is a collection for trying out: each call makes another one, in a temporary folder of its own,
            which is removed when the collection is closed or no longer used, or Python ends. Other processes cannot
            open it; ``backup`` keeps it.
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
        exist_ok : bool, default=False
            Open a collection that is there already, with its rows, if it was made with a hasher that computes the same
            and with the same settings.

        Raises
        ------
        CollectionExistsError
            If there is already a collection.
        CollectionError
            If the place cannot be used, or the collection there was made in another way.
        """
        check_keywords(kind, settings, cls.create)
        text, hasher = as_uri(uri), models.as_hasher(hasher)
        if exist_ok and text == MEMORY:
            raise ValueError("Each collection in memory is a new one, so exist_ok=True has no meaning: leave it out.")
        spec = make_spec(hasher, n_bits, store_vectors, vector_size, kind, dict(settings), indexed, ids)
        if text_model is not None:
            hasher = naming_text_model(hasher, text_model)
            spec = replace(spec, model=models.dumps(hasher))
        try:
            store = store_class(text).create(text, spec)
        except CollectionExistsError:
            if not exist_ok:
                raise
        else:
            return cls(text, store, hasher)
        found = cls.open(text)
        try:
            check_same(found._store.spec, spec, found.uri)
            if hasher is not None:
                found._accept(hasher)
        except BaseException:
            found.close()
            raise
        return found

    @classmethod
    def open(cls, uri: str | os.PathLike[str], hasher: Any = None, read_only: bool = False) -> Collection:
        """Open what ``create`` made.

        Parameters
        ----------
        uri : str or path-like
        hasher : fitted hasher, default=None
            Used in place of the stored one, after checking that both compute the same.
        read_only : bool, default=False

        Raises
        ------
        CollectionError
            If there is no collection, it is damaged, or its hasher is another one.
        """
        text = as_uri(uri)
        store = store_class(text).open(text, read_only)
        try:
            result = cls(text, store)
            if hasher is not None:
                result._accept(hasher)
        except BaseException:
            store.close()
            raise
        return result

    @classmethod
    def drop(cls, uri: str | os.PathLike[str]) -> None:
        """Remove a collection and all its rows for good."""
        text = as_uri(uri)
        store_class(text).drop(text)

    def __repr__(self) -> str:
        return f"Collection({self.uri!r}, n_bits={self.n_bits})"

    def info(self) -> dict[str, Any]:
        """Return facts as a dict: uri, rows, n_bits, hasher, vector size, kind of index, and facts of the storage.

        ``text_model`` is the name of the sentence-transformers model whose embeddings the hasher was fitted to, if that
        is known.
        """
        spec = self._store.spec
        return {
            "uri": self.uri,
            "n_bits": spec.n_bits,
            "hasher": type(self.hasher).__name__ if spec.model else None,
            "text_model": self.text_model,
            "vector_size": spec.vector_size,
            "kind": spec.kind,
            "settings": dict(spec.settings),
            "indexed": list(spec.indexed),
            "ids": spec.ids,
            **self._store.info(),
        }

    @renamed_bit_order
    def add(
        self,
        X: Any = None,
        ids: ArrayLike | None = None,
        payload: Any = None,
        *,
        codes: ArrayLike | None = None,
        texts: Any = None,
        vectors: ArrayLike | None = None,
        bit_order: BitOrder = "big",
        progress: Callable[[int, int], None] | None = None,
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
        vectors : array (rows, vector_size), default=None
            Floats to keep in place of X, in a collection that keeps vectors.
        bit_order : {"big", "little"}, default="big"
        progress : callable, default=None
            Deprecated: ``with hashlearn.progress.listening(listener)`` tells the progress of all long work.

        Returns
        -------
        array (rows,)
            The ids.
        """
        if progress is not None:
            # The decorator ``renamed_bit_order`` adds one frame to the stack.
            old, new = "the argument 'progress' of Collection.add", "hashlearn.progress.listening"
            warn_deprecated(old, new, since="0.3", stacklevel=3)
            with listening(lambda phase, done, total: progress(done, total)):
                return self.add(X, ids, payload, codes=codes, texts=texts, vectors=vectors, bit_order=bit_order)
        rows, single = self._given(X, codes, texts)
        if single:
            rows, ids, payload, vectors = self._one_row(rows, ids, payload, vectors)
        n_rows = validation.row_count(rows)
        row_ids = self._ids.of_new_rows(ids, n_rows)
        payloads = checked_payloads(payload, n_rows)
        if texts is not None:
            rows = self._embedded(rows)  # after the checks of ids and payloads, because it takes long
        kept = self._vectors_to_keep(rows if codes is None else None, vectors, n_rows)
        packed = self._packed_codes(rows, None if codes is None else rows, bit_order)
        if not n_rows:
            return self._ids.array([])
        if not self._warned_of_collapse:
            # The decorator ``renamed_bit_order`` adds one frame to the stack.
            self._warned_of_collapse = warn_of_collapse(packed, self.n_bits, stacklevel=3)
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

    def take_ids(self, count: int) -> int:
        """Reserve ``count`` consecutive ids and return the first; ``add`` gives none of them to other rows."""
        if self._ids.kind != "int":
            raise CollectionError(f"The ids of {self.uri} are of the kind {self._ids.kind!r}, which has no next one.")
        return self._store.take_ids(checked_count(count, "count", 0))

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
        from hashlearn.collection.update import update_matching, update_rows

        if (ids is None) == (where is None):
            raise ValueError("Give ids or where= to update, not both and not neither.")
        if where is not None:
            if not isinstance(payload, Mapping):
                raise ValueError(f"With where=, payload must be one dict for all rows. Got {payload!r} instead.")
            condition = condition_of(where)
            updated = update_matching(self._store, self._ids, condition, payload, merge)
            self._check_filter(condition, updated > 0, 2)
            return updated
        validation.refuse_filter(ids)
        if self._ids.is_single(ids):
            ids, payload = [ids], [payload]
        wanted = self._ids.array(ids)
        self._ids.of_new_rows(wanted, len(wanted))  # refuses ids that are there twice
        return update_rows(self._store, self._ids, self.uri, wanted, payload, merge)

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
            removed = self._store.delete_where(condition)
            self._check_filter(condition, removed > 0, 2)
            return removed
        validation.refuse_filter(ids)
        wanted = self._ids.array([ids] if self._ids.is_single(ids) else ids)  # type: ignore[arg-type]
        numbers = self._ids.present(self._store, wanted)
        step = self._store.batch_rows
        return sum(self._store.delete(numbers[start : start + step]) for start in range(0, len(numbers), step))

    @renamed_bit_order
    def export(self, path: str | os.PathLike[str], *, bit_order: BitOrder | None = None) -> int:
        """Write all rows to a file, whole or not at all.

        A .npy file holds codes, with their facts in .npy.json and the ids in .ids.npy. A .parquet file holds id, code,
        payload (JSON text) and vector. A .faiss file is a flat binary index of faiss with the ids, and its facts are in
        .faiss.json. Ids that are texts or UUIDs are text in .ids.npy and .parquet. In .faiss they are numbers, and
        .ids.json has the text of each number.

        Parameters
        ----------
        path : str or path-like
        bit_order : {"big", "little"}, default=None
            Of the codes in .npy (None: "big") and in .faiss (None: "little", as faiss packs bits, so queries to it must
            be packed in this order too). The facts beside the file name it. In .parquet it is always "big".

        Returns
        -------
        int
            How many rows there were.
        """
        from hashlearn.collection.export import export

        return export(self, path, bit_order)

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

    def migrate(
        self,
        X: Any,
        ids: ArrayLike,
        y: Any = None,
        *,
        text_model: str | None = None,
        vectors: OldVectors = None,
        max_loss: float | None = None,
        commit: bool = True,
    ) -> MigrationReport:
        """Change to a new embedding model; codes stay as they are, and queries come from the new model from then on.

        The new function learns from embeddings of a sample of rows onto their stored codes, as ``hl.migrate`` does. The
        model is replaced as a whole or not at all. Other processes go on with the model that they opened, whose queries
        are as good as before, until they open the collection again. ``undo_migration`` goes back.

        Parameters
        ----------
        X : array (rows, n_new_features)
            Embeddings of the sample by the new model.
        ids : array-like
            The ids of these rows.
        y : labels, default=None
            By which the expected loss is counted; without them it is counted by the neighbors that rows had.
        text_model : str, default=None
            The new model, if it is one of sentence-transformers: name or folder. Without it texts cannot be added or
            searched for after the migration; ``set_text_model`` can name it later.
        vectors : {"drop"} or None, default=None
            What becomes of kept vectors, which are of the old model. "drop" goes on without vectors and without
            rescoring; ``undo_migration`` brings them back. With None, a collection that keeps vectors is not migrated;
            an estimate (``commit=False``) needs no choice.
        max_loss : float, default=None
            The precision that may be lost (``report.loss``); if more is expected, nothing is changed.
        commit : bool, default=True
            False only estimates the loss.

        Returns
        -------
        MigrationReport
        """
        from hashlearn.collection.migration import commit_migration, plan_migration

        hasher = plan_migration(self, X, ids, y, vectors, text_model, commit)
        if commit:
            commit_migration(self, hasher, max_loss)
        return hasher.report_

    def undo_migration(self, vectors: OldVectors = None) -> None:
        """Go back to the hasher, and its text model, before the last ``migrate``. Rows that were added meanwhile stay.

        Vectors that the migration dropped are in use again. Rows that were added or replaced meanwhile have none: then
        nothing is changed, unless ``vectors="drop"`` goes back to the hasher alone.
        """
        from hashlearn.collection.migration import undo_migration

        undo_migration(self, vectors)

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
        self._replace_hasher(naming_text_model(self.hasher, name), self.vector_size)

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

    def _one_row(self, row: Any, ids: Any, payload: Any, vectors: Any) -> tuple[Any, Any, Any, Any]:
        """Return the arguments of ``add`` for a single row as those for a list of one."""
        return (
            row[None],
            [ids] if self._ids.is_single(ids) else ids,
            [payload] if isinstance(payload, Mapping) else payload,
            vectors if vectors is None else np.atleast_2d(vectors),
        )

    def _vectors_to_keep(self, X: Any, vectors: ArrayLike | None, n_rows: int) -> Vectors | None:
        """The vectors to keep beside the codes; None in a collection that keeps none."""
        if self.vector_size is None:
            if vectors is not None:
                raise CollectionError(f"{self.uri} keeps no vectors: {KEEP_VECTORS}.")
            return None
        if vectors is None and X is None:
            raise ValueError(f"{self.uri} keeps vectors of {self.vector_size} floats: give vectors= beside codes=.")
        kept = validation.checked_vectors(X if vectors is None else vectors, self.vector_size, "vectors")
        if len(kept) != n_rows:
            raise ValueError(f"There must be one vector per row. Got {len(kept)} vectors and {n_rows} rows.")
        return kept
