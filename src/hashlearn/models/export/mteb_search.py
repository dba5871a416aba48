"""A hasher as a search model of mteb: its retrieval tasks are answered from codes alone."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from hashlearn.data.embed import checked_model, named_model
from hashlearn.index import Index


class CodeSearch:
    """Search of codes, as ``mteb.evaluate`` takes it for retrieval and reranking.

    mteb looks for the methods and needs nothing else, so this file does not import it.

    Parameters
    ----------
    hasher : a fitted hasher
        Fitted to embeddings of texts.
    text_model : str, default=None
        The sentence-transformers model of these embeddings, by name or folder. Hashers of ``hashlearn fit --embed`` and
        of collections name it already.
    emphasis : {"alike", "auto", "label"} or float from 0 to 1, default="alike"
        Of an OpenHasher: how much labels count. Other hashers are searched by Hamming distance.

    Examples
    --------
    ::

        hasher = hl.OpenHasher(128).fit(model.encode(texts), labels)
        mteb.evaluate(CodeSearch(hasher, "all-MiniLM-L6-v2"), mteb.get_tasks(["SciFact"]))
    """

    mteb_model_meta = None
    """mteb then reports the model without a name."""

    def __init__(self, hasher: Any, text_model: str | None = None, *, emphasis: str | float = "alike") -> None:
        check_is_fitted(hasher)
        self.hasher, self.emphasis = hasher, emphasis
        self.text_model = named_model(hasher, "the hasher") if text_model is None else checked_model(hasher, text_model)

    def index(self, corpus: Any, **settings: Any) -> None:
        """Encode the documents; ``corpus`` has columns ``id``, ``text`` and perhaps ``title``."""
        texts = [" ".join(filter(None, (row.get("title"), row["text"]))) for row in corpus]
        self._ids = [row["id"] for row in corpus]
        self._places = {name: place for place, name in enumerate(self._ids)}
        self._codes = Index(self.hasher.n_bits_)
        self._codes.add(self.hasher.encode(self.text_model.rows(texts)))

    def search(
        self, queries: Any, *, top_k: int, top_ranked: dict[str, list[str]] | None = None, **settings: Any
    ) -> dict[str, dict[str, float]]:
        """Return the scores of the nearest documents of each query, or of those in ``top_ranked``, by their ids."""
        found = {}
        for row in queries:
            X = self.text_model.rows([row["text"]])
            by_tables = self.hasher.searched_by_tables
            query = self.hasher.query(X, self.emphasis) if by_tables else self.hasher.encode_queries(X)
            wanted = None if top_ranked is None else [self._places[name] for name in top_ranked[row["id"]]]
            hits = self._codes.search(query, top_k, wanted)[0]
            found[row["id"]] = {self._ids[hit.id]: -float(hit.distance) for hit in hits}
        return found
