"""``hashlearn search``: find the rows of a collection that are nearest to some queries."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from hashlearn.cli.adding import open_codes, open_features
from hashlearn.cli.index import BitOrder
from hashlearn.cli.places import Uri
from hashlearn.cli.shell import BadUse, epilog, new_table, output, print_json, progress
from hashlearn.cli.texts import TextOption, text_rows
from hashlearn.cli.where import Where, read_where
from hashlearn.collection import Collection
from hashlearn.collection.id_kinds import json_id
from hashlearn.collection.rescore import MAX_CANDIDATES
from hashlearn.files.read import check_rows, row_chunks
from hashlearn.typing import Metric

app = typer.Typer()

_EXAMPLES = (
    "hashlearn search shop/ q.npy -k 10",
    """hashlearn search shop/ q.npy -k 10 --where '{"color": "red", "year": {">=": 2020}}' --json""",
    "hashlearn search shop/ q.npy --radius 3 --payload",
    "hashlearn search shop/ q.npy --rescore 10 --metric euclidean",
)
_MOST = "Maximum number of rows that --rescore ranks per query, if many are equally near."
_RESCORE = "Take N times k rows and rank them by the vectors that the collection keeps."


@app.command(epilog=epilog(*_EXAMPLES))
def search(
    uri: Uri,
    queries: Annotated[str, typer.Argument(metavar="Q", help="Features of the queries, or codes with --codes.")],
    k: Annotated[int, typer.Option("-k", help="Number of rows per query.")] = 10,
    radius: Annotated[int | None, typer.Option(metavar="R", help="All rows at most R bits away, instead of k.")] = None,
    text: TextOption = None,
    where: Where = None,
    asymmetric: Annotated[
        bool, typer.Option("--asymmetric", help="Compare expected bits of queries with codes.")
    ] = False,
    rescore: Annotated[float | None, typer.Option(metavar="N", help=_RESCORE)] = None,
    metric: Annotated[Metric, typer.Option(help="What --rescore ranks by.")] = "cosine",
    max_candidates: Annotated[int, typer.Option(metavar="N", help=_MOST)] = MAX_CANDIDATES,
    codes: Annotated[bool, typer.Option("--codes", help="Q holds codes, not features.")] = False,
    bit_order: BitOrder = "big",
    payload: Annotated[bool, typer.Option("--payload", help="Show the payload of each row found.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Number of threads (default: all cores).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Find the nearest rows of every query, by Hamming distance and then by id."""
    if radius is not None and (asymmetric or rescore is not None):
        raise BadUse("--radius is a Hamming distance: it does not go with --asymmetric or --rescore.")
    if codes and (asymmetric or rescore is not None):
        raise BadUse("--asymmetric and --rescore need features, not --codes.")
    if codes and text is not None:
        raise BadUse("Q holds texts (--text) or codes (--codes), not both.")
    condition = read_where(where)
    with Collection.open(uri, read_only=True) as collection, progress(f"searching {collection.uri}") as listener:
        rows: Any
        if text is not None:
            rows = text_rows(collection.hasher, collection.uri, queries, text)
        else:
            rows = open_codes(collection, queries, bit_order) if codes else open_features(collection, queries)
        results: list[list[dict[str, Any]]] = []
        for chunk in row_chunks(rows):
            block = rows[chunk]
            asked: dict[str, Any] = {"where": condition, "n_jobs": jobs}
            asked |= {"codes": block} if codes else {"X": _checked(block, queries, chunk.start)}
            if radius is not None:
                ball = collection.within(radius=radius, **asked)
                ends = ball.lims
                found = [(ball.ids[a:b], ball.distances[a:b]) for a, b in pairwise(ends)]
            else:
                asked |= {"rescore": rescore, "metric": metric, "max_candidates": max_candidates}
                hits = collection.search(k=k, asymmetric=asymmetric, **asked)
                found = [(i[p], d[p]) for i, d, p in zip(hits.ids, hits.distances, hits.filled, strict=True)]
            results += _described(collection, found, payload)
            listener(f"searching {collection.uri}", chunk.stop, rows.shape[0])
        facts = {"collection": collection.uri, "queries": len(results), "results": results}
    if as_json:
        print_json(facts)
    else:
        _print(results, payload)


def _checked(block: Any, name: str, first_row: int) -> Any:
    check_rows(block, name, first_row)
    return block


def _described(collection: Collection, found: list[tuple[Any, Any]], payload: bool) -> list[list[dict[str, Any]]]:
    payloads: dict[Any, Any] = {}
    if payload and found:
        wanted = np.unique(np.concatenate([ids for ids, _ in found]))
        payloads = {item.id: item.payload for item in collection.get(wanted, vectors=False) if item is not None}
    return [
        [
            {"id": json_id(one), "distance": distance} | ({"payload": payloads.get(one)} if payload else {})
            for one, distance in zip(ids.tolist(), distances.tolist(), strict=True)
        ]
        for ids, distances in found
    ]


def _print(results: list[list[dict[str, Any]]], payload: bool) -> None:
    columns = ("query", "rank", "id", "distance", *(["payload"] if payload else []))
    table = new_table(*columns, right=columns[:4])
    for query, rows in enumerate(results):
        for rank, row in enumerate(rows, 1):
            shown = f"{row['distance']:.6g}" if isinstance(row["distance"], float) else str(row["distance"])
            more = [escape(json.dumps(row["payload"], ensure_ascii=False))] if payload else []
            table.add_row(str(query), str(rank), escape(str(row["id"])), shown, *more)
    output().print(table)
