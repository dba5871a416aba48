"""Encoder: makes codes of rows and queries of a collection by its hasher, embeds texts, and notes how certain bits are.

``checked_*`` check what callers give.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hashlearn import models
from hashlearn.codes import BitOrder, check_codes, n_bytes, swap_bit_order
from hashlearn.collection.store import CollectionError, Store, Vectors
from hashlearn.collection.where import listed
from hashlearn.index import ScoreTables
from hashlearn.kernel import as_matrix
from hashlearn.labels import sliceable_labels
from hashlearn.models.format import ModelFileError
from hashlearn.parallel import BLOCK_ROWS, row_blocks
from hashlearn.typing import Float32Array, PackedCodes

if TYPE_CHECKING:
    from hashlearn.data.embed import TextModel

NOTES = ("text_model", "text_field", "label_field")
"""What a collection knows about its rows; it is kept with the hasher, so that one transaction changes both."""

NEAR = 0.2
"""A bit with an expected value below this in size is 60 : 40 at best."""
EVERY = 16
"""One query out of this number is looked at, so that figures cost next to nothing."""
_ENCODED_ROWS = 32 * BLOCK_ROWS


class QueryLog:
    """Adds up how certain the bits of queries are; any thread may add."""

    def __init__(self, every: int = EVERY) -> None:
        self._every = every
        self._lock = threading.Lock()
        self._queries = self._bits = self._near = 0
        self._size = 0.0

    def count(self, n_queries: int) -> slice:
        """Count queries and return which of them to look at."""
        with self._lock:
            first = -self._queries % self._every
            self._queries += n_queries
        return slice(first, n_queries, self._every)

    def add(self, expected: Float32Array) -> None:
        """Add the expected bits (n, n_bits) of queries that are looked at."""
        size = np.abs(expected)
        near, total = int(np.count_nonzero(size < NEAR)), float(size.sum(dtype=np.float64))
        with self._lock:
            self._bits += expected.size
            self._near += near
            self._size += total

    def figures(self) -> dict[str, Any]:
        """Return what was added up so far, by the names that ``Health`` has for it."""
        with self._lock:
            near, mean = (self._near / self._bits, self._size / self._bits) if self._bits else (None, None)
            return {"queries": self._queries, "near_threshold": near, "confidence": mean}


class Encoder:
    """The hasher of a collection, its text model, and a log of queries. Any thread may use it.

    Parameters
    ----------
    place : str
        The collection's URI, for messages.
    store : Store
        Its spec holds the bytes of the hasher's model file, which are read when the hasher is first needed.
    hasher : fitted hasher, default=None
        Used instead of reading the model.
    """

    def __init__(self, place: str, store: Store, hasher: Any = None) -> None:
        self.spec = store.spec
        self.n_bits = self.spec.n_bits
        self._place = place
        self._store = store
        self._hasher = hasher
        self._lock = threading.Lock()
        self._text_lock = threading.Lock()
        self._text_model: TextModel | None = None
        self.log = QueryLog()

    @property
    def hasher(self) -> Any:
        """The hasher; None in a collection of codes made elsewhere."""
        if self._hasher is None and self.spec.model:
            with self._lock:
                if self._hasher is None:
                    try:
                        self._hasher = models.loads(self.spec.model, f"The model in {self._place}")
                    except ModelFileError as error:
                        raise CollectionError(str(error)) from error
        return self._hasher

    def note(self, name: str) -> str | None:
        """Return one of the ``NOTES``; None if it is not known."""
        return getattr(self.hasher, f"{name}_", None)

    def accept(self, hasher: Any) -> None:
        """Use a hasher that computes the same as the stored one; CollectionError for another."""
        if not self.spec.model:
            raise CollectionError(f"{self._place} holds codes made elsewhere and no hasher: open it without one.")
        hasher = models.as_hasher(hasher)
        found = models.fingerprint(hasher)
        # Another version of hashlearn may have computed the fingerprint in another way.
        if found != self.spec.fingerprint and found != models.fingerprint(self.hasher):
            own = self.hasher
            raise CollectionError(
                f"{self._place} was made with another hasher ({type(own).__name__}, {own.n_bits_} bits, "
                f"{own.n_features_in_} features) than this {type(hasher).__name__}: open it without a hasher to use "
                "its own, or create a new collection."
            )
        own_model, other_model = self.note("text_model"), getattr(hasher, "text_model_", None)
        if own_model is not None and other_model not in (None, own_model):
            raise CollectionError(
                f"{self._place} was made for texts by the text model {own_model!r}. Got a hasher for texts by "
                f"{other_model!r} instead: open it without a hasher, or change the name with set_text_model."
            )
        self._hasher = with_notes(hasher, **{name: self.note(name) for name in NOTES})

    def given(self, X: Any, codes: ArrayLike | None, texts: Any) -> tuple[Any, bool]:
        """Return what was given as something that can be sliced by rows, and whether it is a single row.

        Texts are an array of objects. An empty list is no rows. The result has rows also if it was a single one.
        """
        if sum(given is not None for given in (X, codes, texts)) != 1:
            raise ValueError("Give X, codes= or texts=: one of the three.")
        if texts is not None:
            rows: Any = checked_texts(texts)
            return (rows, False) if rows.shape else (rows[None], True)
        chosen: Any = codes if X is None else as_matrix(X)
        shape = getattr(chosen, "shape", None)
        # A series of pandas or polars is a single row, but it cannot be indexed like an array.
        rows = chosen if shape is not None and (len(shape) > 1 or sparse.issparse(chosen)) else np.asarray(chosen)
        if getattr(getattr(rows, "dtype", None), "kind", None) in ("U", "S") and rows.size:
            raise ValueError(
                f"Rows and queries are numbers. Got the text {rows.ravel()[0].item()!r} instead: give texts as texts=, "
                "to a collection that knows its text model."
            )
        if not rows.shape:
            raise ValueError("Rows must be a 2-D array (rows, features). Got a single number instead.")
        if rows.shape == (0,):
            if codes is not None:
                return np.empty((0, n_bytes(self.n_bits)), dtype=np.uint8), False
            return np.empty((0, getattr(self.hasher, "n_features_in_", 0)), dtype=np.float32), False
        return (rows[None], True) if len(rows.shape) == 1 else (rows, False)

    def embedded(self, texts: NDArray[Any]) -> Float32Array:
        """Return the rows of texts by the text model that the hasher names, which is loaded once.

        Where the package for text models is missing, a server of hashlearn embeds them.
        """
        from hashlearn.data.embed import TextExtraMissing, named_model

        with self._text_lock:
            if self._text_model is None:
                try:
                    self._text_model = named_model(self.hasher, self._place)
                except TextExtraMissing:
                    found = self._store.embed(texts.tolist()) if len(texts) else None
                    if found is None:
                        raise
                    return found
        return self._text_model.rows(texts.tolist())

    @property
    def by_tables(self) -> bool:
        """Whether queries are tables of scores, as an OpenHasher makes them."""
        return getattr(self.hasher, "searched_by_tables", False)

    def codes_of_rows(self, rows: Any, labels: Any = None) -> PackedCodes:
        """Return the packed codes of rows to store, whose labels may be known."""
        if labels is None:
            return self._encoded(rows, "encode")
        if not _knows_labels(self.hasher):
            raise ValueError(
                "labels= is for codes of an OpenHasher, or of another hasher that learned codes for labels. "
                f"{self._place} has codes of {type(self.hasher).__name__}: leave labels out, or put them into the "
                "payload."
            )
        labels = sliceable_labels(labels)
        n_labels = labels.shape[0] if labels.shape else 1
        if n_labels != rows.shape[0]:
            raise ValueError(f"There must be one label per row. Got {n_labels} labels and {rows.shape[0]} rows.")
        return self._encoded(rows, "encode", labels)

    def codes_of_queries(self, rows: Any) -> PackedCodes:
        """Return the packed codes of queries, which are noted in the log."""
        packed: PackedCodes = self._encoded(rows, "encode" if self.by_tables else "encode_queries")
        self.note_queries(rows, self.log)
        return packed

    def query_values(
        self,
        rows: Any,
        codes: ArrayLike | None,
        bit_order: BitOrder,
        asymmetric: bool = False,
        emphasis: str | float | None = None,
    ) -> PackedCodes | Float32Array | ScoreTables:
        """Return the values of a ``Query`` for rows, which are noted in the log, or for the ``codes`` if given."""
        by_tables = self.by_tables
        if by_tables and asymmetric:
            raise ValueError(
                f"asymmetric=True is for bits, and {self._place} is searched by tables of scores: say with emphasis= "
                "how much labels count."
            )
        if emphasis is not None and not by_tables:
            raise ValueError(
                f"emphasis= is for codes of an OpenHasher, which hold labels. {self._place} has codes of "
                f"{'no hasher' if self.hasher is None else type(self.hasher).__name__}: leave emphasis out."
            )
        emphasis = "auto" if emphasis is None else emphasis
        if codes is not None:
            packed = checked_codes(rows, self.n_bits, bit_order)
            return self.hasher.query_codes(packed, emphasis) if by_tables else packed
        if by_tables:
            try:
                values = self.hasher.query(rows, emphasis)
            except ValueError:
                _refuse_missing_numbers(rows)
                raise
        else:
            values = self._encoded(rows, "expected_bits" if asymmetric else "encode_queries")
        self.note_queries(rows, self.log)
        return values

    def stored_otherwise(self) -> bool:
        """Return whether bits of stored rows have their own thresholds or function.

        A row's own code may then be far from the code that it has as a query.
        """
        return any(getattr(self.hasher, name, None) is not None for name in ("thresholds_", "database_function_"))

    def note_queries(self, rows: Any, log: QueryLog) -> None:
        """Count queries in a log, and look at some of them."""
        chosen = log.count(rows.shape[0])
        # Without calibration expected bits are projections, whose size means nothing.
        if chosen.start < chosen.stop and hasattr(self.hasher, "calibration_"):
            log.add(self._encoded(rows[chosen], "expected_bits"))

    def _encoded(self, rows: Any, method: str, labels: Any = None) -> Any:
        if (hasher := self.hasher) is None:
            raise CollectionError(f"{self._place} has no hasher to encode X: give codes= instead.")
        # The size of the blocks is fixed, so that codes do not depend on the number of rows. Blocks also bound the
        # memory for projections.
        blocks = row_blocks(rows.shape[0], _ENCODED_ROWS)
        known = [() if labels is None else (labels[block],) for block in blocks]
        try:
            parts = [getattr(hasher, method)(rows[block], *y) for block, y in zip(blocks, known, strict=True)]
        except ValueError:
            _refuse_missing_numbers(rows)
            raise
        if parts:
            return np.concatenate(parts)
        real = method == "expected_bits"
        return np.empty((0, self.n_bits if real else n_bytes(self.n_bits)), dtype=np.float32 if real else np.uint8)


def _knows_labels(hasher: Any) -> bool:
    """Return whether codes of rows whose label is known differ from codes of rows whose label is predicted."""
    if hasattr(hasher, "query") or hasattr(hasher, "label_codes_"):
        return True
    parts = [getattr(hasher, "hasher_", None), *getattr(hasher, "hashers_", ())]
    return any(_knows_labels(part) for part in parts if part is not None)


def with_notes(hasher: Any, **notes: str | None) -> Any:
    """Return the hasher with these names, in a shallow copy: the hasher itself may be fitted again, to other rows."""
    given = {f"{name}_": value for name, value in notes.items() if value is not None}
    if all(getattr(hasher, name, None) == value for name, value in given.items()):
        return hasher
    result = copy(hasher)
    vars(result).update(given)
    return result


def checked_texts(texts: Any) -> NDArray[Any]:
    """Return texts as an array of objects, without dimensions if there is a single one."""
    values = listed(texts)
    single = isinstance(values, str)
    if not single and (isinstance(values, (bytes, Mapping)) or not isinstance(values, Sequence)):
        raise ValueError(f"texts must be one text or a list of texts. Got {type(texts).__name__} instead.")
    for number, text in enumerate([values] if single else values):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"Each of texts must be a text that is not empty. Got {text!r} at place {number}.")
    return np.array(values, dtype=object)


def _refuse_missing_numbers(rows: Any) -> None:
    """Raise ValueError that names the first row with NaN or infinity, which a hasher's own message does not."""
    array = np.empty((0, 0)) if sparse.issparse(rows) else np.asarray(rows)
    if array.dtype.kind == "f" and array.ndim == 2 and len(bad := np.flatnonzero(~np.isfinite(array).all(axis=1))):
        raise ValueError(f"Rows and queries are finite numbers. Row {bad[0]} holds NaN or infinity.") from None


def checked_codes(codes: ArrayLike, n_bits: int, bit_order: BitOrder) -> PackedCodes:
    """Return packed codes with bit 0 in the most significant place; the padding bits must be zero."""
    array = np.ascontiguousarray(check_codes(codes, n_bits, bit_order))
    return swap_bit_order(array) if bit_order == "little" else array


def checked_vectors(values: Any, size: int, name: str) -> Vectors:
    """Return the values as finite float32 rows of ``size`` numbers."""
    if sparse.issparse(values):
        values = values.toarray()
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(as_matrix(values, name), dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != size:
        raise ValueError(f"{name} must have the shape (rows, {size}). Got {array.shape} instead.")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise ValueError(f"{name} must be finite float32 numbers: row {bad[0]} is not.")
    return array
