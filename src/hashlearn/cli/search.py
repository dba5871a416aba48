"""``hashlearn search``: find the rows of a collection that are nearest to some queries."""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
import typer

from hashlearn.cli.inputs import Rows, open_rows
from hashlearn.cli.options import AsJson, BitOrder, Emphasis, Jobs, Uri, Where, emphasis_value, read_object
from hashlearn.cli.shell import BadUse, epilog, print_json, print_table, progress, say, width_of_output
from hashlearn.collection import Collection
from hashlearn.collection.ids import ids_of_kind, json_id
from hashlearn.typing import Metric

app = typer.Typer()

_TEXT = "Words to search for; if Q is given, the column of Q with the texts."
_ID = "A row of the collection whose nearest rows to find, itself left out; may be repeated."
_RADIUS = "All rows at most R bits away, instead of k; with codes of 'open', at most at the distance R."
_RESCORE = "Take N times k rows and rank them by the vectors that the collection keeps."


@app.command(
    epilog=epilog(
        "hashlearn search shop/ q.npy -k 10",
        """hashlearn search shop/ q.npy -k 10 --where '{"color": "red", "year": {">=": 2020}}' --json""",
        "hashlearn search shop/ q.npy --radius 3 --payload",
        "hashlearn search shop/ q.npy --rescore 10 --metric euclidean",
        "hashlearn search shop/ --id 17 --payload",
        "hashlearn search faq/ --text 'I lost my card' --payload",
        "hashlearn search faq/ queries.csv --text question",
    )
)
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
    codes: Annotated[bool, typer.Option("--codes", help="Q holds codes, not features.")] = False,
    bit_order: BitOrder = "big",
    payload: Annotated[bool, typer.Option("--payload", help="Show the payload of each row found.")] = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
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
    if queries is None and text is not None and not text.strip():
        raise BadUse("--text is empty: give the words to search for.")
    options: dict[str, Any] = {"where": read_object(where), "n_jobs": jobs, "emphasis": emphasis_value(emphasis)}
    options["include"] = ["payload"] if payload else []
    last = k + offset if radius is None else None
    if radius is None:
        # A row that is searched for finds itself too.
        options |= {"k": k + offset + bool(ids), "asymmetric": asymmetric, "rescore": rescore, "metric": metric}
    else:
        options["radius"] = int(radius) if radius.is_integer() else radius
    results: list[list[dict[str, Any]]] = []
    skipped: list[int] = []
    with Collection.open(uri, read_only=True) as collection, progress(f"searching {collection.uri}") as listener:
        own: list[Any] = []
        if ids:
            asked, own = _stored(collection, ids, needs_floats)
        elif queries is None:
            asked = Rows("texts", "--text", [text])
        else:
            asked = open_rows(collection, queries, text, codes, bit_order)
        for batch in asked.batches():
            given = asked.read(batch) | options
            found: Any = collection.search(**given) if radius is None else collection.within(**given)
            skipped += [] if found.skipped is None else found.skipped.tolist()
            for number, rows in enumerate(found.to_list(), batch.start):
                others = [row for row in rows if row["id"] != own[number]] if own else rows
                results.append([row | {"id": json_id(row["id"])} for row in others[offset:last]])
            listener(f"searching {collection.uri}", batch.stop, asked.n_rows)
        if not any(results) and not len(collection):
            say(f"{collection.uri} is empty: add rows with hashlearn index add.")
        facts = {"collection": collection.uri, "queries": len(results), "results": results}
    if not as_json:
        _print(results, payload, offset)
        return
    print_json(facts | ({"skipped": skipped} if any(skipped) else {}))


def _stored(collection: Collection, texts: list[str], needs_floats: bool) -> tuple[Rows, list[Any]]:
    """Return the stored rows of these ids as queries (codes, or kept vectors where those are needed), and the ids."""
    if collection.id_kind == "int" and not all(text.isdigit() for text in texts):
        strange = next(text for text in texts if not text.isdigit())
        raise BadUse(f"The ids of {collection.uri} are whole numbers from 0. Got --id {strange!r}.")
    values: list[Any] = [int(text) for text in texts] if collection.id_kind == "int" else texts
    ids = ids_of_kind(collection.id_kind).array(values)
    if needs_floats and collection.vector_size is None:
        raise BadUse(f"--rescore and --asymmetric need vectors, and {collection.uri} keeps none: search with Q.")
    items: list[Any] = collection.get(ids, vectors=needs_floats)
    missing = [json_id(one) for one, item in zip(ids.tolist(), items, strict=True) if item is None]
    if missing:
        raise BadUse(f"{collection.uri} has no row with the id {missing[0]!r}.")
    if needs_floats:
        return Rows("X", "--id", np.stack([item.vector for item in items])), ids.tolist()
    return Rows("codes", "--id", np.stack([item.code for item in items])), ids.tolist()


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
    print_table(columns, lines, right=columns[:4], width=width_of_output() if payload else None)
