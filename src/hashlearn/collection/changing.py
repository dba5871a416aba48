"""What changes the rows of a collection: the methods ``add``, ``update_payload`` and ``delete``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import BitOrder
from hashlearn.collection.encoder import checked_codes, checked_vectors
from hashlearn.collection.payloads import checked_payloads
from hashlearn.collection.store import KEEP_VECTORS, CollectionError, NoSuchRowsError, PayloadUpdate, Vectors
from hashlearn.collection.where import Where, condition_of
from hashlearn.index.inputs import new_ids
from hashlearn.parallel import row_blocks
from hashlearn.progress import report
from hashlearn.rows.advice import collapsed
from hashlearn.typing import PackedCodes

if TYPE_CHECKING:
    from hashlearn.collection.collection import Collection


def add(
    self: Collection,
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
    kept = _vectors_to_keep(self, rows if codes is None else None, vectors, n_rows)
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
    blocks, done = row_blocks(n_rows, self._store.batch_rows), 0
    try:
        for block in blocks:
            self._ids.check_free(self._store, row_ids[block])
            self._store.add(
                numbers[block],
                packed[block],
                None if payloads is None else payloads[block],
                None if kept is None else kept[block],
            )
            done = block.stop
            report("adding", done, n_rows)
    except CollectionError as error:
        if not done:
            raise
        raise type(error)(f"{error} The first {done} of these {n_rows} rows were added.") from error
    return row_ids


def update_payload(
    self: Collection, ids: Any = None, payload: Any = None, *, where: Where | None = None, merge: bool = True
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
            f"{len(missing)} of these {len(wanted)} ids are not in {self.uri}, the first is {missing[0]!r}: {error}.",
            missing,
        ) from error


def delete(self: Collection, ids: ArrayLike | None = None, *, where: Where | None = None) -> int:
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
    blocks = row_blocks(len(numbers), self._store.batch_rows)
    return sum(self._store.delete(numbers[block]) for block in blocks)


def _vectors_to_keep(self: Collection, X: Any, vectors: ArrayLike | None, n_rows: int) -> Vectors | None:
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
