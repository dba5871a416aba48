"""``hashlearn evaluate``: measure how well codes or floats retrieve rows with the same labels."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from scipy import sparse

from hashlearn import codes, files
from hashlearn.cli.columns import file_or_column, without_label
from hashlearn.cli.encode import encode_all, open_for
from hashlearn.cli.options import AsJson, Emphasis, Jobs, emphasis_value
from hashlearn.cli.shell import PROSE_WIDTH, BadUse, counted, epilog, folded, plain_value, print_json, progress, say
from hashlearn.files.codes import FLOAT_FORMATS
from hashlearn.labels import as_labels, match_labels
from hashlearn.metrics import Scores, evaluate_floats, evaluate_scores
from hashlearn.metrics import evaluate as evaluate_codes
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
_File = "FILE"
_TIES = "Order of rows at the same distance: expected, stable, optimistic or pessimistic."
_DENOMINATOR = "What average precision is divided by: the hits retrieved, min (of relevant and N) or all relevant."


@app.command(epilog=epilog(*_EXAMPLES))
def evaluate(
    queries: Annotated[str, typer.Option(metavar=_File, help="Query codes, or features with --model or --floats.")],
    database: Annotated[str, typer.Option(metavar=_File, help="Database codes, or features.")],
    query_labels: Annotated[str, typer.Option(metavar=_File, help="Labels of the queries, or a column of a table.")],
    database_labels: Annotated[str, typer.Option(metavar=_File, help="Labels of the database, likewise.")],
    model: Annotated[str | None, typer.Option(metavar=_File, help="Encode both sides with this model first.")] = None,
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
    unlabeled: Annotated[
        str | None, typer.Option(metavar="VALUE", help="The label that means 'no label', such as -1.")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Use the definitions of the paper's evaluator.")] = False,
    bits: Annotated[int | None, typer.Option(help="Bits, for code files without a .json file beside them.")] = None,
    bit_order: Annotated[codes.BitOrder, typer.Option(help="Bit order of such files.")] = "big",
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
    with progress("reading") as listener:
        hasher = None if model is None else _load(model, jobs)
        extra: dict[str, Any] = {}
        if hasher is not None:
            sides = [open_for(hasher, str(model), name) for name in names]
        elif floats is not None:
            sides = [_floats(without_label(*pair)) for pair in zip(names, label_names, strict=True)]
        else:
            sides, extra = _read(names, bits, bit_order)
        # The number of rows is known first: it shows whether the first line of a label file is a header.
        query_y, database_y = _labels(names, label_names, [side.shape[0] for side in sides], rules["unlabeled"])
        rules["progress"] = counted(listener, "evaluating")
        if floats is not None:
            scores = evaluate_floats(sides[0], sides[1], query_y, database_y, metric=floats, **rules)
        else:
            if hasher is not None and hasher.searched_by_tables:
                if asymmetric:
                    raise BadUse("--asymmetric is for bits, and the codes of OpenHasher are searched by scores.")
                chosen = emphasis_value(emphasis)
                table = _scored(hasher, names, sides, "auto" if chosen is None else chosen)
                _print(evaluate_scores(table, query_y, database_y, **rules), as_json)
                return
            if emphasis is not None:
                raise BadUse(f"--emphasis is for an OpenHasher, which {model} is not: leave it out.")
            if hasher is not None:
                sides, extra = _encoded(hasher, names, sides, asymmetric)
            scores = evaluate_codes(sides[0], sides[1], query_y, database_y, radius=radius, **extra, **rules)
    _print(scores, as_json)


def _print(scores: Scores, as_json: bool) -> None:
    if as_json:
        print_json(scores.as_dict())
    else:
        for line in str(scores).splitlines():
            print(folded(line) if len(line) > PROSE_WIDTH else line)


def _labels(names: tuple[str, str], label_names: tuple[str, str], counts: list[int], unlabeled: Any) -> tuple[Any, Any]:
    """Read the labels of both sides and check here that they can be compared, so that an error names the files."""
    query_y, database_y = (
        _labels_of(name, label_name, count) for name, label_name, count in zip(names, label_names, counts, strict=True)
    )
    first, second = label_names
    match_labels(as_labels(query_y, unlabeled, first), as_labels(database_y, unlabeled, second), label_names)
    return query_y, database_y


def _labels_of(name: str, label_name: str, n_rows: int) -> Any:
    """Read the labels of ``n_rows`` rows in the file ``name``."""
    labels = files.read_labels(label_name, missing=True, n_rows=n_rows)
    if labels.shape[0] != n_rows:
        raise files.FileError(f"{label_name} has {labels.shape[0]} labels, {name} has {n_rows} rows.")
    return labels


def _cutoff(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdigit() or int(text) < 1:
        raise BadUse(f"--at must be a number from 1, or all. Got '{text}'.")
    return int(text)


def _floats(name: str) -> Any:
    rows = files.read_features(name)
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows)


def _load(model: str, jobs: int | None) -> Any:
    from hashlearn.models import load

    hasher = load(model)
    if jobs is not None:
        hasher.n_jobs = jobs
    return hasher


def _encoded(
    hasher: Any, names: tuple[str, str], sides: list[Any], asymmetric: bool
) -> tuple[list[Any], dict[str, Any]]:
    queries = encode_all(hasher, sides[0], names[0], "expected" if asymmetric else "packed", queries=True)
    return [queries, encode_all(hasher, sides[1], names[1])], {"n_bits": hasher.n_bits_, "database": "hashed"}


def _scored(hasher: Any, names: tuple[str, str], sides: list[Any], emphasis: str | float) -> NDArray[np.float32]:
    """Return the score of every row of the database for every query."""
    n_queries, n_rows = (side.shape[0] for side in sides)
    if n_queries * n_rows > _MOST_SCORES:
        raise BadUse(
            f"{n_queries:,} queries and {n_rows:,} rows have more scores than fit into memory ({_MOST_SCORES:,}): "
            "evaluate fewer queries."
        )
    database = encode_all(hasher, sides[1], names[1])
    blocks = files.checked_chunks(sides[0], names[0])
    return np.concatenate([hasher.query(block, emphasis).scores(database) for _, block in blocks])


def _read(names: tuple[str, str], bits: int | None, bit_order: codes.BitOrder) -> tuple[list[Any], dict[str, Any]]:
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
