"""``hashlearn evaluate``: measure how well codes or floats retrieve rows with the same labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from scipy import sparse

from hashlearn import files
from hashlearn.cli.inputs import file_or_column, load_model, open_features, read_labels_of, without_label
from hashlearn.cli.options import AsJson, BitOrder, Bits, Emphasis, Jobs, Unlabeled, emphasis_value
from hashlearn.cli.shell import PROSE_WIDTH, BadUse, epilog, folded, plain_value, print_json, progress, say
from hashlearn.codes import BitOrder as BitOrderName
from hashlearn.files.codes import FLOAT_FORMATS
from hashlearn.labels import as_labels, match_labels
from hashlearn.metrics import evaluate as evaluate_codes
from hashlearn.metrics import evaluate_floats, evaluate_scores
from hashlearn.metrics.rules import Denominator, EmptyQueries, Gain, Ties
from hashlearn.similarity import RelevanceName
from hashlearn.typing import Metric

app = typer.Typer()

_MOST_SCORES = 2**31
_COMMON = "--query-labels yq.npy --database-labels y.npy"
_EXAMPLES = (
    f"hashlearn evaluate --queries q.npy --database codes.npy {_COMMON}",
    f"hashlearn evaluate --queries Xq.npy --database X.npy {_COMMON} --model model.hl --at all",
    f"hashlearn evaluate --queries Xq.npy --database X.npy {_COMMON} --floats cosine --json",
    "hashlearn evaluate --queries q.npy --database codes/ --query-labels yq.npy --database-labels 'y*.npy'",
)
_TIES = "Order of rows at the same distance: expected, stable, optimistic or pessimistic."
_DENOMINATOR = "What average precision is divided by: the hits retrieved, min (of relevant and N) or all relevant."


@app.command(epilog=epilog(*_EXAMPLES))
def evaluate(
    queries: Annotated[str, typer.Option(metavar="FILE", help="Query codes, or features with --model or --floats.")],
    database: Annotated[str, typer.Option(metavar="FILE", help="Database codes, or features.")],
    query_labels: Annotated[str, typer.Option(metavar="FILE", help="Labels of the queries, or a column of a table.")],
    database_labels: Annotated[str, typer.Option(metavar="FILE", help="Labels of the database, likewise.")],
    model: Annotated[str | None, typer.Option(metavar="FILE", help="Encode both sides with this model first.")] = None,
    floats: Annotated[Metric | None, typer.Option(help="Rank float features by this instead of codes.")] = None,
    asymmetric: Annotated[
        bool, typer.Option("--asymmetric", help="With --model: rank by the expected bits of the queries, not by bits.")
    ] = False,
    emphasis: Emphasis = None,
    at: Annotated[str, typer.Option(metavar="N|all", help="Cut-off of MAP and recall.")] = "500",
    precision_at: Annotated[int, typer.Option(help="Cut-off of precision.")] = 10,
    ndcg_at: Annotated[int, typer.Option(help="Cut-off of NDCG.")] = 50,
    radius: Annotated[int, typer.Option(help="Hamming radius.")] = 2,
    ties: Annotated[Ties, typer.Option(metavar="RULE", help=_TIES)] = "expected",
    denominator: Annotated[Denominator, typer.Option(metavar="RULE", help=_DENOMINATOR)] = "retrieved",
    empty_queries: Annotated[
        EmptyQueries, typer.Option(help="Whether scores that are 0/0 count as 0 or are left out.")
    ] = "zero",
    gain: Annotated[Gain, typer.Option(help="NDCG gain: 2^rel - 1, or rel.")] = "exp",
    relevance: Annotated[RelevanceName, typer.Option(help="How relevant rows with shared labels are.")] = "count",
    unlabeled: Unlabeled = None,
    paper: Annotated[bool, typer.Option("--paper", help="Use the definitions of the paper's evaluator.")] = False,
    bits: Bits = None,
    bit_order: BitOrder = "big",
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Score a ranking of the database for every query, and name every definition used.

    The files are code files by default; with --model they are features, which are encoded first, and with --floats
    they are features that are ranked as floats, as a baseline.
    Rows without a label are left out of the queries and the database, and counted.
    """
    if model is not None and floats is not None:
        raise BadUse("Give --model or --floats, not both.")
    if emphasis is not None and model is None:
        raise BadUse("--emphasis needs --model: an OpenHasher, which weighs labels in the queries.")
    if asymmetric and model is None:
        raise BadUse("--asymmetric needs --model, which computes the expected bits of the queries.")
    if model is not None or floats is not None:
        query_labels = str(file_or_column(queries, query_labels))
        database_labels = str(file_or_column(database, database_labels))
    if paper:
        ties, denominator, empty_queries, gain = "stable", "retrieved", "zero", "exp"
    rules: dict[str, Any] = {
        "at": _cutoff(at),
        "precision_at": precision_at,
        "ndcg_at": ndcg_at,
        "ties": ties,
        "denominator": denominator,
        "empty_queries": empty_queries,
        "gain": gain,
        "relevance": relevance,
        "unlabeled": None if unlabeled is None else plain_value(unlabeled),
        "n_jobs": jobs,
    }
    names, label_names = (queries, database), (query_labels, database_labels)
    extra: dict[str, Any] = {}
    with progress("reading") as listener:
        hasher = None if model is None else load_model(model, jobs)
        if hasher is not None:
            sides = [open_features(hasher, str(model), name) for name in names]
        elif floats is not None:
            sides = [_floats(without_label(*pair)) for pair in zip(names, label_names, strict=True)]
        else:
            sides, extra = _read_codes(names, bits, bit_order)
        given = zip(names, label_names, sides, strict=True)
        labels = [read_labels_of(name, label_name, side.shape[0]) for name, label_name, side in given]
        # Checked here, so that an error names the files.
        first, second = (as_labels(y, rules["unlabeled"], n) for y, n in zip(labels, label_names, strict=True))
        match_labels(first, second, label_names)
        rules["progress"] = partial(listener, "evaluating")
        by_tables = hasher is not None and hasher.searched_by_tables
        if emphasis is not None and not by_tables:
            raise BadUse(f"--emphasis is for an OpenHasher, which {model} is not: leave it out.")
        if by_tables and asymmetric:
            raise BadUse("--asymmetric is for bits, and the codes of OpenHasher are searched by scores.")
        if floats is not None:
            scores = evaluate_floats(*sides, *labels, metric=floats, **rules)
        elif by_tables:
            scores = evaluate_scores(_scored(hasher, names, sides, emphasis_value(emphasis)), *labels, **rules)
        else:
            if hasher is not None:
                encoders = [hasher.expected_bits if asymmetric else hasher.encode_queries, hasher.encode]
                sides = [_mapped(*one) for one in zip(encoders, sides, names, strict=True)]
                extra = {"n_bits": hasher.n_bits_, "database": "hashed"}
            scores = evaluate_codes(sides[0], sides[1], labels[0], labels[1], radius=radius, **extra, **rules)
    if as_json:
        print_json(scores.as_dict())
        return
    for line in str(scores).splitlines():
        print(folded(line) if len(line) > PROSE_WIDTH else line)


def _cutoff(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdigit() or int(text) < 1:
        raise BadUse(f"--at must be a number from 1, or all. Got '{text}'.")
    return int(text)


def _floats(name: str) -> NDArray[Any]:
    rows = files.read_features(name)
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows)


def _mapped(function: Callable[[Any], NDArray[Any]], rows: Any, name: str) -> NDArray[Any]:
    """Return what a function makes of all rows of an open file, of which only some are in memory at a time."""
    return np.concatenate([function(block) for _, block in files.checked_chunks(rows, name)])


def _scored(hasher: Any, names: tuple[str, str], sides: list[Any], emphasis: str | float | None) -> NDArray[np.float32]:
    """Return the score of every row of the database for every query."""
    n_queries, n_rows = (side.shape[0] for side in sides)
    if n_queries * n_rows > _MOST_SCORES:
        raise BadUse(
            f"{n_queries:,} queries and {n_rows:,} rows have more scores than fit into memory ({_MOST_SCORES:,}): "
            "evaluate fewer queries."
        )
    database = _mapped(hasher.encode, sides[1], names[1])
    weight = "auto" if emphasis is None else emphasis
    return _mapped(lambda rows: hasher.query(rows, weight).scores(database), sides[0], names[0])


def _read_codes(names: tuple[str, str], bits: int | None, bit_order: BitOrderName) -> tuple[list[Any], dict[str, Any]]:
    sides = []
    for name in names:
        try:
            sides.append(files.read_codes(name, bits, bit_order))
        except files.FileError as error:
            if "float rows" in str(error):
                raise BadUse(f"{name} holds floats, not codes: add --model model.hl or --floats cosine.") from error
            raise
    query_file, database_file = sides
    if query_file.info.bits != database_file.info.bits:
        raise files.FileError(
            f"{names[0]} has codes of {query_file.info.bits} bits, {names[1]} of {database_file.info.bits}."
        )
    if database_file.info.format in FLOAT_FORMATS:
        raise files.FileError(f"{names[1]} holds floats; a database must be codes, only queries may be floats.")
    models = {file.info.model for file in sides if file.info.model}
    if len(models) > 1:
        say(f"warning: the codes come from different models ({', '.join(sorted(models))}).")
    source = database_file.info.source
    database = source if source in ("learned", "hashed") else "codes"
    return [query_file.codes, database_file.codes], {"n_bits": query_file.info.bits, "database": database}
