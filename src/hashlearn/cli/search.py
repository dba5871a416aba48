"""``hashlearn search``: find the rows of a collection that are nearest to some queries."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape

from hashlearn import codes
from hashlearn.cli.options import BitOrder, Emphasis, Jobs, Uri, Where, emphasis_value, read_where
from hashlearn.cli.rows import open_codes, open_features
from hashlearn.cli.shell import BadUse, epilog, new_table, output, plain_lines, print_json, progress, say, show_table
from hashlearn.cli.texts import TextRows, model_of, open_texts
from hashlearn.collection import Collection
from hashlearn.collection.ids import ids_of_kind, json_id
from hashlearn.collection.rescore import MAX_CANDIDATES
from hashlearn.files.read import check_rows, row_chunks
from hashlearn.typing import Metric

app = typer.Typer()

_EXAMPLES = (
    "hashlearn search shop/ q.npy -k 10",
    """hashlearn search shop/ q.npy -k 10 --where '{"color": "red", "year": {">=": 2020}}' --json""",
    "hashlearn search shop/ q.npy --radius 3 --payload",
    "hashlearn search shop/ q.npy --rescore 10 --metric euclidean",
    "hashlearn search shop/ q.npy --emphasis alike",
    "hashlearn search shop/ --id 17 --payload",
    "hashlearn search faq/ --text 'I lost my card' --payload",
    "hashlearn search faq/ queries.csv --text question",
)
_TEXT = "Words to search for; if Q is given, the column of Q with the texts."
_ID = "A row of the collection whose nearest rows to find, itself left out; may be repeated."
_MOST = "Maximum number of rows that --rescore ranks per query, if many are equally near."
_RADIUS = "All rows at most R bits away, instead of k; with codes of 'open', at most at the distance R."
_LONGEST_WHOLE_ID = 40  # a UUID has 36 characters
_FOLDED_LINES = 1000  # longer tables are not fitted into the width of a terminal
_RESCORE = "Take N times k rows and rank them by the vectors that the collection keeps."


@app.command(epilog=epilog(*_EXAMPLES))
def search(
    uri: Uri,
    queries: Annotated[
        str | None, typer.Argument(metavar="[Q]", help="Features of the queries, or codes with --codes.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of rows per query.")] = 10,
    offset: Annotated[int, typer.Option(metavar="N", min=0, help="Leave out the N nearest rows: a later page.")] = 0,
    radius: Annotated[float | None, typer.Option(metavar="R", help=_RADIUS)] = None,
    text: Annotated[str | None, typer.Option("--text", metavar="WORDS", help=_TEXT)] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", metavar="ID", help=_ID)] = None,
    where: Where = None,
    asymmetric: Annotated[
        bool, typer.Option("--asymmetric", help="Compare expected bits of queries with codes.")
    ] = False,
    emphasis: Emphasis = None,
    rescore: Annotated[float | None, typer.Option(metavar="N", help=_RESCORE)] = None,
    metric: Annotated[Metric, typer.Option(help="What --rescore ranks by.")] = "cosine",
    max_candidates: Annotated[int, typer.Option(metavar="N", help=_MOST)] = MAX_CANDIDATES,
    codes: Annotated[bool, typer.Option("--codes", help="Q holds codes, not features.")] = False,
    bit_order: BitOrder = "big",
    payload: Annotated[bool, typer.Option("--payload", help="Show the payload of each row found.")] = False,
    jobs: Jobs = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Find the nearest rows of every query, by Hamming distance and then by id."""
    needs_floats = asymmetric or rescore is not None
    if radius is not None and offset:
        raise BadUse("--offset goes with -k, not with --radius.")
    if radius is not None and needs_floats:
        raise BadUse("--radius is a Hamming distance: it does not go with --asymmetric or --rescore.")
    if codes and (needs_floats or text is not None or ids or queries is None):
        raise BadUse("--codes says that Q holds codes: it needs Q, and not --asymmetric, --rescore, --text or --id.")
    if (queries is None and text is None) != bool(ids):
        raise BadUse("Give queries Q (with --text, its column of texts), or --text WORDS, or --id ID.")
    condition = read_where(where)
    with Collection.open(uri, read_only=True) as collection, progress(f"searching {collection.uri}") as listener:
        asked = Queries.open(collection, queries, text, ids, codes, bit_order, needs_floats)
        options: dict[str, Any] = {"where": condition, "n_jobs": jobs, "emphasis": emphasis_value(emphasis)}
        if radius is None:
            options |= {"asymmetric": asymmetric, "rescore": rescore, "metric": metric}
            options["max_candidates"] = max_candidates
        results: list[list[dict[str, Any]]] = []
        for chunk in row_chunks(asked.rows):
            found = _found(collection, asked, chunk, k + offset, radius, options)
            results += _described(collection, [(ids[offset:], far[offset:]) for ids, far in found], payload)
            listener(f"searching {collection.uri}", chunk.stop, asked.rows.shape[0])
        if not any(results) and not len(collection):
            say(f"{collection.uri} is empty: add rows with hashlearn index add.")
        facts = {"collection": collection.uri, "queries": len(results), "results": results}
    if as_json:
        print_json(facts)
    else:
        _print(results, payload, offset)


def _found(
    collection: Collection, asked: Queries, chunk: slice, k: int, radius: float | None, options: dict[str, Any]
) -> list[tuple[Any, Any]]:
    """Return the ids and distances of the rows that each query of a chunk finds."""
    block = asked.rows[chunk]
    if not asked.coded:
        check_rows(block, asked.name, chunk.start)
    given = {"codes" if asked.coded else "X": block, **options}
    if radius is not None:
        ball = collection.within(radius=int(radius) if radius.is_integer() else radius, **given)
        found = [(ball.ids[a:b], ball.distances[a:b]) for a, b in pairwise(ball.offsets)]
    else:
        hits = collection.search(k=k + (asked.ids is not None), **given)
        found = [(i[p], d[p]) for i, d, p in zip(hits.ids, hits.distances, hits.filled, strict=True)]
    if asked.ids is None:
        return found
    most = k if radius is None else None
    return [_without(*pair, own, most) for pair, own in zip(found, asked.ids[chunk], strict=True)]


def _without(ids: Any, distances: Any, own: Any, most: int | None) -> tuple[Any, Any]:
    """Return hits without the row that was searched for."""
    keep = ids != own
    return ids[keep][:most], distances[keep][:most]


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


def _print(results: list[list[dict[str, Any]]], payload: bool, offset: int) -> None:
    columns = ("query", "rank", "id", "distance", *(["payload"] if payload else []))
    lines = [
        (
            *(str(query), str(rank), str(row["id"])),
            f"{row['distance']:.6g}" if isinstance(row["distance"], float) else str(row["distance"]),
            *([json.dumps(row["payload"], ensure_ascii=False)] if payload else []),
        )
        for query, rows in enumerate(results)
        for rank, row in enumerate(rows, 1 + offset)
    ]
    if len(lines) > _FOLDED_LINES:
        print("\n".join(plain_lines(columns, lines, right=columns[:4])))
        return
    longest = max((len(str(row["id"])) for rows in results for row in rows), default=0)
    whole = ("query", "rank", "distance", *(["id"] if longest <= _LONGEST_WHOLE_ID else []))
    table = new_table(*columns, right=columns[:4], whole=whole, gap=2)
    for line in lines:
        table.add_row(*map(escape, line))
    show_table(output(), table)


@dataclass(frozen=True)
class Queries:
    """Features or packed codes that can be sliced. ``ids`` are those of queries that are rows of the collection."""

    name: str
    rows: Any
    coded: bool = False
    ids: NDArray[Any] | None = None

    @classmethod
    def open(
        cls,
        collection: Collection,
        file: str | None,
        text: str | None,
        ids: list[str] | None,
        coded: bool,
        bit_order: codes.BitOrder,
        needs_floats: bool,
    ) -> Queries:
        """Open the one kind of queries that was given."""
        if ids:
            return cls._stored(collection, ids, needs_floats)
        if file is None:
            if not str(text).strip():
                raise BadUse("--text is empty: give the words to search for.")
            words = TextRows([str(text)], model_of(collection.hasher, collection.uri))
            return cls("--text", words[...])
        if text is not None:
            return cls(file, open_texts(collection.hasher, collection.uri, file, text)[...])
        if coded:
            return cls(file, open_codes(collection, file, bit_order), coded=True)
        return cls(file, open_features(collection, file))

    @classmethod
    def _stored(cls, collection: Collection, texts: list[str], needs_floats: bool) -> Queries:
        """Return the stored rows of these ids as queries: their codes, or their kept vectors if those are needed."""
        ids = ids_of_kind(collection.id_kind).array([_id(collection, text) for text in texts])
        if needs_floats and collection.vector_size is None:
            raise BadUse(f"--rescore and --asymmetric need vectors, and {collection.uri} keeps none: search with Q.")
        items = collection.get(ids, vectors=needs_floats)
        missing = [json_id(one) for one, item in zip(ids.tolist(), items, strict=True) if item is None]
        if missing:
            raise BadUse(f"{collection.uri} has no row with the id {missing[0]!r}.")
        found = [item for item in items if item is not None]
        if needs_floats:
            return cls("--id", np.stack([item.vector for item in found if item.vector is not None]), ids=ids)
        return cls("--id", np.stack([item.code for item in found]), coded=True, ids=ids)


def _id(collection: Collection, text: str) -> int | str:
    if collection.id_kind != "int":
        return text
    if not text.isdigit():
        raise BadUse(f"The ids of {collection.uri} are whole numbers from 0. Got --id {text!r}.")
    return int(text)
