"""``hashlearn fit``: learn a hash function from features and labels, and write a model file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import hashlearn
from hashlearn import files
from hashlearn.cli.inputs import feature_names, file_or_column, is_many, read_labels_of, takes_images, without_label
from hashlearn.cli.options import AsJson, Cluster, EmbedOption, Features, Jobs, TextOption, Unlabeled, Workers, working
from hashlearn.cli.shell import BadUse, as_bad_use, epilog, plain_value, progress, say, tell, unknown_name
from hashlearn.data.embed import embed_texts, embedding_model, text_model
from hashlearn.data.texts import read_texts
from hashlearn.methods import BaseHasher, make_hasher, method_names
from hashlearn.parameters import check_parameters
from hashlearn.progress import Stop, keep_partial
from hashlearn.rows import as_source

app = typer.Typer()

_LABELS = "Classes, 0/1 columns, or tags: a file, or the name of a column of the table X."
_METHOD = "A name from 'hashlearn methods'. Default: open, for search in hashlearn; for pairs gsdhp."
_CHECKPOINT = "Record progress there; after a stop the same command resumes."
_PARTIAL = "After Ctrl-C, save the bits, rounds or epochs that are finished."


@app.command(
    epilog=epilog(
        "hashlearn fit X.npy --labels y.npy --bits 64 -o model.hl",
        "hashlearn fit table.csv --labels label --method gsdhp --set loss=hinge -o model.hl",
        "hashlearn fit X.npy --similar pairs.csv --dissimilar other.csv -o model.hl",
        "hashlearn fit images/ --method gsdhp-star --set backbone=small_cnn -o model.hl",
        "hashlearn fit texts.csv --text question --labels topic --embed all-MiniLM-L6-v2 -o model.hl",
        "hashlearn fit 'shards/*.npy' --labels 'labels/*.npy' --checkpoint going -o model.hl",
    )
)
def fit(
    features: Features,
    model: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Output file for the model.")],
    labels: Annotated[str | None, typer.Option("--labels", "-y", metavar="FILE", help=_LABELS)] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help=_METHOD)] = None,
    bits: Annotated[int | None, typer.Option(help="Bits per code. Default: 128 for open, 64 for others.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    text: TextOption = None,
    embed: EmbedOption = None,
    unlabeled: Unlabeled = None,
    similar: Annotated[str | None, typer.Option(metavar="FILE", help="Pairs of similar rows, not labels.")] = None,
    dissimilar: Annotated[str | None, typer.Option(metavar="FILE", help="Pairs of dissimilar rows.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    jobs: Jobs = None,
    codes_out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write the codes learned for the rows (.npy or .npz).")
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Read rows in chunks even from a single file.")] = False,
    checkpoint: Annotated[str | None, typer.Option(metavar="FOLDER", help=_CHECKPOINT)] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    partial: Annotated[bool, typer.Option("--keep-partial", help=_PARTIAL)] = False,
    as_json: AsJson = False,
) -> None:
    """Learn a hash function from features and labels, and save it.

    Pick a part of a file with a colon: data.npz:X, data.h5:images, table.parquet:label.
    With --text, --labels is a column of the same file, and the model file keeps the name of the text model.
    With a pattern, a folder of Parquet files, a zarr folder or --stream, rows are read in chunks and never all at once.
    """
    pairs = [similar, dissimilar] if similar or dissimilar else []
    method = method or ("gsdhp" if pairs else "open")
    if bits is None:
        bits = 128 if method == "open" else 64
    hasher = _new_hasher(method, bits, seed, jobs, settings or [], unlabeled)
    images = takes_images(hasher, features)
    if not images:
        labels = labels if text is not None else file_or_column(features, labels)
        _check_supervision(method, hasher, labels, bool(pairs))
    model_path = files.check_output(model)
    if codes_out is not None:
        files.check_output(codes_out, (".npy", ".npz"))
    many = stream or any(option is not None for option in (checkpoint, workers, cluster))
    chunked = not images and text is None and (many or is_many(features))
    if images and (many or pairs):
        raise BadUse("Images are learned by one process, from labels; to go on after a stop, --set checkpoint=FILE.")
    if (embed is None) != (text is None):
        raise BadUse(
            "--embed needs --text: the column of the texts."
            if text is None
            else "--text needs --embed: the name or folder of a sentence-transformers model."
        )
    if text is not None and (images or many or pairs):
        raise BadUse("Texts are learned from labels by one process; for more, embed them first: hashlearn data embed.")
    if chunked and pairs:
        raise BadUse("Pairs are learned from rows in memory: give one file and neither --stream nor workers.")
    if partial and checkpoint is not None:
        raise BadUse("After Ctrl-C the same command goes on from --checkpoint: give that or --keep-partial, not both.")
    with progress(f"fitting {method}"), _stoppable(partial) as stops:
        if chunked:
            with working(workers, cluster) as executor:
                facts = _learn_chunks(hasher, features, labels, executor, checkpoint, codes_out)
        elif images:
            facts = _learn_images(hasher, features, labels)
        elif text is not None:
            facts = _learn_texts(hasher, features, text, labels, str(embed))
        else:
            facts = _learn(hasher, features, labels, pairs)
    if not images and text is None:
        if (embedded_by := embedding_model(features)) is not None:
            hasher.text_model_ = facts["text_model"] = embedded_by
        if (columns := feature_names(without_label(features, labels))) is not None:
            hasher.table_columns_ = columns
            facts["columns"] = columns if as_json else ", ".join(columns[:6]) + (" …" if len(columns) > 6 else "")
    _write(hasher, model_path, None if chunked else codes_out)
    facts["iterations"] = getattr(hasher, "n_iter_", None)
    facts = {"method": method, "bits": hasher.n_bits_, **facts, "model": str(model_path), "codes": codes_out}
    if stops:
        facts["partial"] = [stop._asdict() for stop in stops] if as_json else ", ".join(map(str, stops))
    choice = getattr(hasher, "report_", None)
    if as_json:
        plain = (bool, int, float, str, type(None))
        facts["params"] = {name: value for name, value in hasher.get_params().items() if isinstance(value, plain)}
        facts |= {} if choice is None else {"report": asdict(choice)}
    tell(facts, as_json)
    if choice is not None and not as_json:
        print(f"\n{choice}")


@contextmanager
def _stoppable(partial: bool) -> Iterator[list[Stop]]:
    """With ``partial``, yield a list that gets the loops which Ctrl-C ended; else Ctrl-C interrupts as usual."""
    if not partial:
        yield []
        return
    with keep_partial() as stops:
        try:
            yield stops
        except KeyboardInterrupt:
            say("Ctrl-C came outside of the steps after which something can be kept, so nothing is written.")
            raise


def _learn(hasher: Any, features: str, labels: str | None, pairs: list[str | None]) -> dict[str, Any]:
    started = time.perf_counter()
    X = files.read_features(without_label(features, labels))
    y = None if labels is None else read_labels_of(features, labels, X.shape[0])
    lists = [files.read_pairs(name) if name else np.empty((0, 2), dtype=np.intp) for name in pairs]
    read = time.perf_counter()
    if pairs:
        hasher.fit_pairs(X, *lists)
    else:
        hasher.fit(X, y)
    return {
        "rows": int(X.shape[0]),
        "features": int(X.shape[1]),
        "seconds_read": round(read - started, 3),
        "seconds_fit": _seconds_since(read),
    }


def _learn_chunks(
    hasher: Any, features: str, labels: str | None, executor: Any, checkpoint: str | None, codes_out: str | None
) -> dict[str, Any]:
    if hasher.info.passes is None:
        raise BadUse(
            f"{type(hasher).__name__} needs all rows in memory; the column 'passes' of 'hashlearn methods' tells which "
            "methods do not."
        )
    started = time.perf_counter()
    source = as_source(without_label(features, labels), labels)
    hasher.fit_chunks(source, executor=executor, checkpoint=checkpoint, codes=codes_out or False)
    return {
        "rows": source.n_rows,
        "features": source.n_features,
        "seconds_fit": _seconds_since(started),
        "passes": hasher.info.passes,
    }


def _learn_texts(hasher: Any, source: str, text: str, labels: str | None, model: str) -> dict[str, Any]:
    """Embed the texts of a file and fit to them. The fitted hasher keeps the name of the text model."""
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
        "seconds_fit": _seconds_since(embedded),
    }


def _learn_images(hasher: Any, images: str, labels: str | None) -> dict[str, Any]:
    """Fit to all images of a folder or zip, in the sorted order of their paths.

    Without a file of labels, the class of an image is the name of its folder.
    """
    from hashlearn.deep.extra import require_torch

    require_torch()
    from hashlearn.deep.images import folder_classes, image_names

    started = time.perf_counter()
    names = image_names(images)
    y = np.asarray(folder_classes(names)) if labels is None else read_labels_of(images, labels, len(names))
    hasher.fit(images, y)
    return {"images": len(names), "labels": labels or "folders", "seconds_fit": _seconds_since(started)}


def _seconds_since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _new_hasher(method: str, bits: int, seed: int, jobs: int | None, settings: list[str], unlabeled: str | None) -> Any:
    if method not in method_names():
        raise unknown_name("method", method, method_names())
    params: dict[str, Any] = {"n_bits": bits, "random_state": seed, "n_jobs": jobs}
    if unlabeled is not None:
        settings = [f"unlabeled={unlabeled}", *settings]
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise BadUse(f"--set needs name=value. Got '{setting}'.")
        params[name] = plain_value(text)
    with as_bad_use(TypeError, ValueError):
        hasher = make_hasher(method, params)
        check_parameters(hasher)  # now, because reading the features may take long
    return hasher


def _check_supervision(method: str, hasher: BaseHasher, labels: str | None, pairs: bool) -> None:
    if pairs and not hasattr(hasher, "fit_pairs"):
        raise BadUse(f"{method} does not learn from pairs.")
    if pairs and labels is not None:
        raise BadUse("Give --labels or pairs (--similar, --dissimilar), not both.")
    if not hasher.info.supervised:
        if labels is not None:
            say(f"{method} learns without labels, so --labels only has its length checked.")
    elif not pairs and labels is None:
        if hasher._uses_labels:
            also = " or pairs with --similar and --dissimilar" if hasattr(hasher, "fit_pairs") else ""
            raise BadUse(f"{method} learns from labels: give them with --labels{also}.")
        say(f"without --labels {method} learns from the features alone (unsupervised), which finds classes less well.")


def _write(hasher: Any, model: Path, codes_out: str | None) -> None:
    from hashlearn.models import save

    save(hasher, model)
    if codes_out is None:
        return
    facts = {"source": hasher.info.database, "model": model.name, "hashlearn": hashlearn.__version__}
    info = files.CodeInfo.for_rows(hasher.n_bits_, "packed", "big", len(hasher.codes_), **facts)
    with files.CodeWriter.to(codes_out, info) as writer:
        writer.append(hasher.codes_)
