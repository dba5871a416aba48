"""Texts as input instead of features: ``hashlearn data embed``, and ``--text`` of other commands."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hashlearn import files
from hashlearn.cli.options import AsJson, Restart
from hashlearn.cli.shell import BadUse, epilog, progress, tell
from hashlearn.data.embed import TextModel, TextModelError, embed_texts, named_model, text_model
from hashlearn.data.texts import read_texts
from hashlearn.typing import Float32Array

EPILOG = epilog(
    "hashlearn data embed texts.csv --text question --model all-MiniLM-L6-v2 -o X.npy",
    "hashlearn data embed texts.jsonl --text body --labels topic --labels-out y.npy --model ./my-model -o X.npy",
)
TextOption = Annotated[
    str | None,
    typer.Option("--text", metavar="COLUMN", help="The file holds texts: the column of them, .csv .jsonl .parquet."),
]
EmbedOption = Annotated[
    str | None,
    typer.Option("--embed", metavar="MODEL", help="With --text: name or folder of a sentence-transformers model."),
]


def embed(
    source: Annotated[Path, typer.Argument(metavar="TEXTS", help="Texts in a .csv, .tsv, .jsonl or .parquet file.")],
    text: Annotated[str, typer.Option("--text", metavar="COLUMN", help="The column of the texts.")],
    model: Annotated[str, typer.Option(metavar="MODEL", help="Name or folder of a sentence-transformers model.")],
    out: Annotated[Path, typer.Option("--output", "-o", metavar="X.npy", help="Output file for the embeddings.")],
    labels: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of the classes.")] = None,
    labels_out: Annotated[
        Path | None, typer.Option(metavar="y.npy", help="Also write the classes, in the order of the rows.")
    ] = None,
    restart: Restart = False,
    as_json: AsJson = False,
) -> None:
    """Turn texts into vectors of unit length with a sentence-transformers model, once.

    After an interruption the same command resumes. The file X.npy.json beside X.npy names the model.
    """
    if (labels is None) != (labels_out is None):
        raise BadUse("--labels and --labels-out go together: give both or neither.")
    files.check_output(out, (".npy",))
    if labels_out is not None:
        files.check_output(labels_out, (".npy",))
    started = time.perf_counter()
    found = read_texts(source, text, labels)
    with progress(f"embedding {source}"):
        X = embed_texts(found.texts, model, out, restart=restart)
    if labels_out is not None:
        with files.written_whole(labels_out) as stream:
            np.save(stream, np.asarray(found.labels))
    facts: dict[str, Any] = {
        "texts": int(X.shape[0]),
        "features": int(X.shape[1]),
        "model": model,
        "seconds": round(time.perf_counter() - started, 3),
        "output": str(out),
    }
    tell(facts, as_json)


def fit_texts(hasher: Any, source: str, text: str, labels: str | None, model: str | None) -> dict[str, Any]:
    """Embed the texts of a file and fit to them. The fitted hasher keeps the name of the text model."""
    if model is None:
        raise BadUse("--text needs --embed: the name or folder of a sentence-transformers model.")
    started = time.perf_counter()
    found = read_texts(source, text, labels)
    X = embed_texts(found.texts, model)
    embedded = time.perf_counter()
    hasher.fit(X, found.labels)
    hasher.text_model_ = text_model(model).name
    return {
        "rows": int(X.shape[0]),
        "features": int(X.shape[1]),
        "text_model": hasher.text_model_,
        "seconds_embed": round(embedded - started, 3),
        "seconds_fit": round(time.perf_counter() - embedded, 3),
        "iterations": getattr(hasher, "n_iter_", None),
    }


class TextRows:
    """Texts that can be sliced like the array of their embeddings, which are computed when rows are asked for."""

    batch_rows = 2048
    """Texts whose codes are stored together: after a kill, at most this number is embedded again."""

    def __init__(self, texts: list[str], model: TextModel) -> None:
        self._texts, self._model = texts, model
        self.shape = (len(texts), model.n_features)

    def __getitem__(self, rows: Any) -> Float32Array:
        return self._model.rows(self._texts if rows is Ellipsis else self._texts[rows])


def open_texts(hasher: Any, where: str, source: str, text: str) -> TextRows:
    """Read the texts of a file, which the text model that a fitted hasher names will embed."""
    model = model_of(hasher, where)
    return TextRows(read_texts(source, text).texts, model)


def model_of(hasher: Any, where: str) -> TextModel:
    """Load the text model that a fitted hasher names. ``where`` is the hasher's file or collection, for errors."""
    with wrong_models_as_bad_use():
        return named_model(hasher, where)


@contextmanager
def wrong_models_as_bad_use() -> Iterator[None]:
    """Report a text model that is missing or does not go with the hasher as a mistake in the arguments."""
    try:
        yield
    except TextModelError as error:
        raise BadUse(str(error)) from error
