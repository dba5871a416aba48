"""``hashlearn demo``: show what the library does, in a minute and without any files."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hashlearn import codes, data, files, metrics
from hashlearn.cli.options import AsJson
from hashlearn.cli.serve import PORT, need_extra, serve_collections
from hashlearn.cli.shell import BadUse, epilog, folded, print_json, print_table, progress
from hashlearn.data import Dataset
from hashlearn.methods import AutoHasher, OpenHasher, find_method
from hashlearn.progress import report
from hashlearn.rows.advice import muted

app = typer.Typer()

_PHASE = "comparing methods"
_COMPARED = ("open", "auto", "gsdhp", "sdhp", "lsh")
_DEFINITION = (
    "MAP: mean average precision over the whole ranking, rows at equal distance at their expected value.",
    "hashed: the database goes through the learned function, as new rows would.",
    "learned: the database keeps the codes that training gave it with its labels; OpenHasher encodes it with them.",
    "P@10: precision of the first 10, hashed database.",
    "Queries are new rows; the database is the training rows, whose labels all but LSH and the floats have seen.",
)


@app.command(
    epilog=epilog(
        "hashlearn demo",
        "hashlearn demo --bits 16 --save demo-data",
        "hashlearn demo --serve --open",
    )
)
def demo(
    bits: Annotated[int, typer.Option(min=16, max=1024, help="Bits per code, a multiple of 8.")] = 64,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Also save the data there as .npy files, to try other commands on."),
    ] = None,
    as_json: AsJson = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Fill collections with the data and serve the page to explore them.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --serve: the port; 0 takes a free one.")] = PORT,
    open_page: Annotated[bool, typer.Option("--open", help="With --serve: open the page in a browser.")] = False,
) -> None:
    """Compare learned codes with random codes and with floats, on data that needs no download.

    The data is Fashion-MNIST if Debian's package dataset-fashion-mnist is installed, else the digits of scikit-learn.
    With [bold]--serve[/bold], a page in the browser shows the neighbors of each picture instead.
    """
    if serve:
        if save is not None or as_json:
            raise BadUse("--save and --json are for the comparison, without --serve.")
        _serve(bits, seed, port, open_page)
        return
    if open_page:
        raise BadUse("--open needs --serve.")
    dataset = _demo_dataset()
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        arrays = {"X": dataset.train_X, "y": dataset.train_y, "Xq": dataset.query_X, "yq": dataset.query_y}
        for name, array in arrays.items():
            with files.written_whole(save / f"{name}.npy") as stream:
                np.save(stream, array)
    with progress("demo"):
        result = run_demo(bits, seed, dataset)
    if as_json:
        print_json(asdict(result))
    else:
        _print(result, save)


def _serve(bits: int, seed: int, port: int, open_page: bool) -> None:
    """Make temporary collections and serve them."""
    need_extra()
    from hashlearn.service.demo_collections import PICTURES, make_demo
    from hashlearn.service.served_collection import open_collection
    from hashlearn.service.settings import ServerSettings, read_tokens

    settings = ServerSettings(tokens=read_tokens(None))
    with tempfile.TemporaryDirectory(prefix="hashlearn-demo-") as temporary:
        folder = Path(temporary)
        with progress("demo"):
            made = make_demo(folder, _demo_dataset(), bits, seed)
        served = [open_collection(str(path), images=folder / PICTURES) for path in made]
        serve_collections(served, settings, port, open_page)


@dataclass(frozen=True)
class DemoRow:
    """The results of one method. Values that a method does not have are None."""

    method: str
    bytes_per_item: int
    map_hashed: float
    map_learned: float | None
    precision_at_10: float
    fit_seconds: float | None
    codes_per_second: float | None


@dataclass(frozen=True)
class Demo:
    """The rows of the comparison and what they were measured on. ``chosen`` is what AutoHasher chose, and why."""

    dataset: str
    n_train: int
    n_queries: int
    n_features: int
    n_bits: int
    rows: list[DemoRow]
    chosen: str
    definition: tuple[str, ...] = _DEFINITION


def _print(result: Demo, save: Path | None) -> None:
    print(
        f"{result.dataset}: {result.n_train} rows of {result.n_features} features, {result.n_queries} queries, "
        f"codes of {result.n_bits} bits\n"
    )

    def shown(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    columns = ("method", "bytes", "MAP hashed", "MAP learned", "P@10", "fit s", "codes/s")
    rows = [
        (
            row.method,
            str(row.bytes_per_item),
            f"{row.map_hashed:.4f}",
            shown(row.map_learned, ".4f"),
            f"{row.precision_at_10:.4f}",
            shown(row.fit_seconds, ".2f"),
            shown(row.codes_per_second, ",.0f"),
        )
        for row in result.rows
    ]
    print_table(columns, rows, right=columns[1:])
    print()
    for sentence in (result.chosen, *result.definition):
        print(folded(sentence))
    folder = f"{save}/" if save else ""
    print(f"\nWhat next, on {'the saved data' if save else 'your own files'}:")
    print(f"  hashlearn fit {folder}X.npy --labels {folder}y.npy --bits {result.n_bits} -o {folder}model.hl")
    print(f"  hashlearn encode {folder}model.hl {folder}X.npy -o {folder}codes.npy")
    print(
        f"  hashlearn evaluate --model {folder}model.hl --queries {folder}Xq.npy --database {folder}X.npy "
        f"--query-labels {folder}yq.npy --database-labels {folder}y.npy"
    )


def _demo_dataset() -> Dataset:
    """Load Fashion-MNIST (10,000 rows, 1,000 queries) if Debian's package is installed, else the digits."""
    return data.fashion_mnist(10_000, 1000) if data.fashion_mnist_there() else data.digits()


def run_demo(n_bits: int, seed: int, dataset: Dataset) -> Demo:
    """Fit the compared methods and score them beside cosine similarity of the floats."""
    steps, rows, chosen = len(_COMPARED) + 1, [], ""
    for done, name in enumerate(_COMPARED):
        report(_PHASE, done, steps)
        hasher = find_method(name)(n_bits=n_bits, random_state=seed)
        with muted():  # advice about codes of the other methods would hide the comparison
            rows.append(_hashed_row(hasher, dataset))
        if isinstance(hasher, AutoHasher):
            chosen = f"AutoHasher chose {hasher.report_.chosen}. {hasher.report_.reason}"
    report(_PHASE, len(_COMPARED), steps)
    rows.append(_float_row(dataset))
    report(_PHASE, steps, steps)
    n_train, n_features = dataset.train_X.shape
    return Demo(dataset.name, n_train, len(dataset.query_X), n_features, n_bits, rows, chosen)


def _hashed_row(hasher: Any, dataset: Dataset) -> DemoRow:
    started = time.perf_counter()
    hasher.fit(dataset.train_X, dataset.train_y)
    seconds = time.perf_counter() - started
    rates: list[float] = []
    while not rates or len(dataset.train_X) * sum(1 / rate for rate in rates) < 0.2:
        started = time.perf_counter()  # one run on a small data set is too short to time
        database = hasher.encode(dataset.train_X)
        rates.append(len(dataset.train_X) / (time.perf_counter() - started))
    labels: dict[str, Any] = {"query_y": dataset.query_y, "database_y": dataset.train_y}
    labels["rules"] = metrics.Rules(at=None, precision_at=10)
    learned = None
    if isinstance(hasher, OpenHasher):
        tables, known = hasher.query(dataset.query_X), hasher.encode(dataset.train_X, dataset.train_y)
        hashed = metrics.evaluate_scores(tables.scores(database), **labels)
        learned = metrics.evaluate_scores(tables.scores(known), **labels).map
    else:
        queries = hasher.encode_queries(dataset.query_X)
        hashed = metrics.evaluate(queries, database, **labels)
        if hasher.info.database == "learned":
            learned = metrics.evaluate(queries, hasher.codes_, **labels).map
    size = codes.n_bytes(hasher.n_bits_)
    return DemoRow(hasher.info.title, size, hashed.map, learned, hashed.precision, seconds, max(rates))


def _float_row(dataset: Dataset) -> DemoRow:
    rules = metrics.Rules(at=None, precision_at=10)
    scores = metrics.evaluate_floats(
        dataset.query_X, dataset.train_X, dataset.query_y, dataset.train_y, metric="cosine", rules=rules
    )
    width = dataset.train_X.shape[1] * dataset.train_X.itemsize
    return DemoRow("float cosine", width, scores.map, None, scores.precision, None, None)
