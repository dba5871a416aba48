"""A store with the hasher of its rows: who may use it, how rows and texts are encoded, how certain queries were."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn import models
from hashlearn.codes import BitOrder, n_bytes
from hashlearn.collection import validation
from hashlearn.collection.health import QueryFigures, QueryLog
from hashlearn.collection.id_kinds import IdKind, ids_of_kind
from hashlearn.collection.store import CollectionError, Store
from hashlearn.collection.uri import MEMORY, shown
from hashlearn.modelfile import ModelFileError
from hashlearn.parallel import BLOCK_ROWS, row_blocks
from hashlearn.typing import Float32Array, PackedCodes

if TYPE_CHECKING:
    from hashlearn.data.embed import TextModel

_ENCODED_ROWS = 32 * BLOCK_ROWS


class HashedStore:
    """Base of ``Collection``: the storage, for the process that opened it, and the hasher of its rows."""

    def __init__(self, uri: str, store: Store, hasher: Any = None) -> None:
        self.uri = shown(uri)
        self._opened = store
        self._process = os.getpid()
        self._hasher = hasher
        self._ids = ids_of_kind(store.spec.ids)
        self._lock = threading.Lock()
        self._text_lock = threading.Lock()
        self._text_model: tuple[Any, TextModel] | None = None  # and the hasher that it belongs to
        self._query_log = QueryLog()
        self._closed = False

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

    def _remedy(self, usual: str) -> str:
        """What to do where another process needs the collection, which cannot open one in memory."""
        return "create it in a folder instead of in memory" if self.uri == MEMORY else usual

    @property
    def _store(self) -> Store:
        """The storage, if this is the process that opened it.

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
    def n_bits(self) -> int:
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
        model = self._store.spec.model
        with self._lock:
            if self._hasher is None and model:
                try:
                    self._hasher = models.loads(model, f"The model in {self.uri}")
                except ModelFileError as error:
                    raise CollectionError(str(error)) from error
            return self._hasher

    @property
    def text_model(self) -> str | None:
        """The sentence-transformers model that embeds texts for the hasher; None if it is not known."""
        return getattr(self.hasher, "text_model_", None)

    def encode_queries(self, X: Any) -> PackedCodes:
        """Packed codes of queries by the collection's hasher; ``health`` counts them."""
        packed = self._encoded(X, "encode_queries", np.uint8, n_bytes(self.n_bits))
        self._log_queries(X, self._query_log)
        return packed

    def query_figures(self) -> QueryFigures:
        """How certain the bits of the queries were that came as X since the collection was opened."""
        return self._query_log.figures()

    def _accept(self, hasher: Any) -> None:
        """Use a hasher that computes the same as the stored one; CollectionError for another."""
        spec = self._store.spec
        if not spec.model:
            raise CollectionError(f"{self.uri} holds codes made elsewhere and no hasher: open it without one.")
        hasher = models.as_hasher(hasher)
        found = models.fingerprint(hasher)
        # Another version of hashlearn may have computed the fingerprint in another way.
        if found != spec.fingerprint and found != models.fingerprint(self.hasher):
            own = self.hasher
            raise CollectionError(
                f"{self.uri} was made with another hasher ({type(own).__name__}, {own.n_bits_} bits, "
                f"{own.n_features_in_} features) than this {type(hasher).__name__}: open it without a hasher to use "
                "its own, or create a new collection."
            )
        if getattr(hasher, "text_model_", None) != self.text_model and self.text_model is not None:
            hasher = self._with_own_text_model(hasher)
        with self._lock:
            self._hasher = hasher

    def _with_own_text_model(self, hasher: Any) -> Any:
        """Return a hasher that names the collection's text model; CollectionError if it names another one."""
        from hashlearn.data.named_model import with_text_model

        if (other := getattr(hasher, "text_model_", None)) is not None:
            raise CollectionError(
                f"{self.uri} was made for texts by the text model {self.text_model!r}. Got a hasher for texts by "
                f"{other!r} instead: open it without a hasher, or change the name with set_text_model."
            )
        return with_text_model(hasher, str(self.text_model))

    def _embedded(self, texts: NDArray[Any]) -> Float32Array:
        """Return the rows of texts by the text model that the hasher names, which is loaded once."""
        from hashlearn.data.named_model import named_model

        hasher = self.hasher
        with self._text_lock:
            # A migration replaces the hasher, and with it the model.
            if self._text_model is None or self._text_model[0] is not hasher:
                self._text_model = hasher, named_model(hasher, self.uri)
            model = self._text_model[1]
        return model.rows(texts.tolist())

    def _encoded(self, rows: Any, method: str, dtype: Any, width: int) -> Any:
        if (hasher := self.hasher) is None:
            raise CollectionError(f"{self.uri} has no hasher to encode X: give codes= instead.")
        # The size of the blocks is fixed, so that codes do not depend on the number of rows. Blocks also bound the
        # memory for projections.
        blocks = row_blocks(validation.row_count(rows), _ENCODED_ROWS)
        try:
            parts = [getattr(hasher, method)(rows[block]) for block in blocks]
        except ValueError:
            validation.refuse_missing_numbers(rows)  # says which row it is, which the hasher's own message does not
            raise
        return np.concatenate(parts) if parts else np.empty((0, width), dtype=dtype)

    def _log_queries(self, rows: Any, log: QueryLog) -> None:
        """Count queries for ``health``, and look at some of them."""
        chosen = log.count(validation.row_count(rows))
        # Without calibration expected bits are projections, whose size means nothing.
        if chosen.start < chosen.stop and hasattr(self.hasher, "calibration_"):
            log.add(self._encoded(rows[chosen], "expected_bits", np.float32, self.n_bits))

    def _packed_codes(self, rows: Any, codes: ArrayLike | None, bit_order: BitOrder) -> PackedCodes:
        if codes is not None:
            return validation.checked_codes(codes, self.n_bits, bit_order)
        return self._encoded(rows, "encode", np.uint8, n_bytes(self.n_bits))

    def _query_codes(self, rows: Any, codes: ArrayLike | None, bit_order: BitOrder) -> PackedCodes:
        if codes is not None:
            return validation.checked_codes(codes, self.n_bits, bit_order)
        return self.encode_queries(rows)

    def _replace_hasher(self, hasher: Any, vector_size: int | None) -> None:
        from hashlearn.collection.migration import model_of

        with self._lock:
            self._store.replace_model(*model_of(hasher), vector_size)
            self._hasher = hasher
