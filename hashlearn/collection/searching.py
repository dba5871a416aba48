"""Searching the rows of a collection: by features, codes or texts, and whether its queries still fit the hasher."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hashlearn.codes import BitOrder, n_bytes, renamed_bit_order
from hashlearn.collection import validation
from hashlearn.collection.health import Health, QueryLog, health_of
from hashlearn.collection.reading import ReadableRows, Where, condition_of
from hashlearn.collection.rescore import MAX_CANDIDATES, Metric, make_rescore_plan, rescored
from hashlearn.collection.store import CollectionError
from hashlearn.collection.where import Condition
from hashlearn.index import Hits
from hashlearn.index.hits import RowDetails
from hashlearn.index.inputs import checked_count
from hashlearn.typing import Ids

KEEP_VECTORS = "create it with store_vectors=True (on the command line: index create --vectors)"


class SearchableRows(ReadableRows):
    """Base of ``Collection``: what answers queries."""

    @renamed_bit_order
    def search(
        self,
        X: Any = None,
        k: int = 10,
        *,
        codes: ArrayLike | None = None,
        texts: Any = None,
        where: Where | None = None,
        asymmetric: bool = False,
        rescore: bool | float | None = None,
        metric: Metric = "cosine",
        max_candidates: int = MAX_CANDIDATES,
        bit_order: BitOrder = "big",
        vectors: bool = False,
        n_jobs: int | None = None,
    ) -> Any:
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
        where : dict, default=None
            Only rows whose payload matches, such as ``{"color": "red", "year": {">=": 2020}}``.
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
        vectors : bool, default=False
            Whether the hits have the kept float vectors too.
        n_jobs : int, default=None
            Threads; None for all cores.

        Returns
        -------
        Hits, or for a single query HitList
            ``hits.to_list()`` has ids, distances and payloads; ``hits[0]`` are the rows of the first query.
        """
        rows, single = self._queries(X, codes, texts)
        if vectors and self.vector_size is None:
            raise CollectionError(f"{self.uri} keeps no vectors: {KEEP_VECTORS}.")
        k = checked_count(k, "k", 1)
        rescoring = rescore is not None and rescore is not False
        condition = condition_of(where)
        if codes is not None and (asymmetric or rescoring):
            raise ValueError(f"{'asymmetric' if asymmetric else 'rescore'} needs X: codes alone are not enough.")
        plan = make_rescore_plan(k, rescore, metric, max_candidates) if rescoring else None
        if plan is not None and self.vector_size is None:
            raise CollectionError(f"{self.uri} keeps no vectors to rescore by: {KEEP_VECTORS}.")
        if asymmetric:
            queries = self._encoded(rows, "expected_bits", np.float32, self.n_bits)
            self._log_queries(rows, self._query_log)
            search: Callable[[Any, int, Condition | None, int | None], Hits] = self._store.search_projections
        else:
            packed = None if codes is None else rows
            queries, search = self._query_codes(rows, packed, bit_order), self._store.search
        if plan is None:
            found = search(queries, k, condition, n_jobs)
        else:
            floats = validation.checked_vectors(rows, self.vector_size or 0, "X, to rescore by,")
            asked = [lambda numbers, limit: search(queries[numbers], limit, condition, n_jobs)]
            if any(getattr(self.hasher, name, None) is not None for name in ("thresholds_", "database_function_")):
                # Bits of stored rows have their own thresholds or function, so a row's own code may be far from its
                # query's. The rows near the code that the query would be stored with are looked at too.
                stored = self._packed_codes(rows, None, bit_order)
                asked.append(lambda numbers, limit: self._store.search(stored[numbers], limit, condition, n_jobs))
            found = rescored(floats, asked, self._store.vectors, plan)
        self._check_filter(condition, bool((found.ids >= 0).any()), 3)
        hits = self._ids.hits(found, partial(self._details, vectors))
        return hits[0] if single else hits

    def _details(self, vectors: bool, numbers: Ids) -> RowDetails:
        """Return payloads, ids and, if wanted, vectors of the rows with these numbers."""
        if self._closed:
            raise CollectionError(
                f"The payloads of hits are read when they are first asked for, and {self.uri} is closed by now: call "
                "to_list() or to_pandas() before closing it."
            )
        rows = self._store.get(numbers, vectors)
        found, shown = rows.ids.tolist(), self._ids.shown(rows)
        kept = {} if rows.vectors is None else dict(zip(found, rows.vectors, strict=True))
        ids = dict(zip(found, shown.ids.tolist(), strict=True))
        return RowDetails(dict(zip(found, shown.payloads, strict=True)), kept, ids)

    @renamed_bit_order
    def within(
        self,
        X: Any = None,
        radius: int = 2,
        *,
        codes: ArrayLike | None = None,
        texts: Any = None,
        where: Where | None = None,
        bit_order: BitOrder = "big",
        n_jobs: int | None = None,
    ) -> Any:
        """Find all rows at most ``radius`` bits away from each query, ordered by (distance, id).

        Parameters
        ----------
        X, codes, texts, where, bit_order, n_jobs : as in ``search``
        radius : int, default=2

        Returns
        -------
        Ball, or for a single query HitList
            ``ball.to_list()`` has ids, distances and payloads; ``ball[0]`` are the rows of the first query.
        """
        radius = min(checked_count(radius, "radius", 0), self.n_bits)
        condition = condition_of(where)
        rows, single = self._queries(X, codes, texts)
        queries = self._query_codes(rows, None if codes is None else rows, bit_order)
        found = self._store.within(queries, radius, condition, n_jobs)
        self._check_filter(condition, len(found.ids) > 0, 3)
        ball = self._ids.ball(found, partial(self._details, False))
        return ball[0] if single else ball

    def health(self, X: Any = None) -> Health:
        """Tell whether the collection still fits its queries.

        Few distinct codes for many rows mean that codes cannot tell rows apart. A confidence of queries well below
        that of training, or more and more bits near their thresholds, mean that queries have drifted away from what
        the hasher learned: fit anew, or ``migrate``.

        Parameters
        ----------
        X : array (queries, n_features), default=None
            Queries to judge. None for those that came as X since the collection was opened.
        """
        log = self._query_log
        if X is not None:
            log = QueryLog(every=1)
            self._log_queries(self._queries(X, None, None)[0], log)
        return health_of(self, log)

    def _given(self, X: Any, codes: ArrayLike | None, texts: Any) -> tuple[Any, bool]:
        """Return rows, codes or texts as arrays, and whether there is a single one. An empty list is no rows."""
        rows, single = validation.given_rows(X, codes, texts)
        if texts is not None or rows.shape != (0,):
            return rows, single
        if codes is not None:
            return np.empty((0, n_bytes(self.n_bits)), dtype=np.uint8), False
        return np.empty((0, getattr(self.hasher, "n_features_in_", 0)), dtype=np.float32), False

    def _queries(self, X: Any, codes: ArrayLike | None, texts: Any) -> tuple[Any, bool]:
        """Return queries as rows, or as codes if those were given, and whether there is a single one."""
        rows, single = self._given(X, codes, texts)
        rows = rows[None] if single else rows
        return rows if texts is None else self._embedded(rows), single
