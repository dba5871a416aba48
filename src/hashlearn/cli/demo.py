"""``hashlearn demo``: show what the library does, in a minute and without any files."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hashlearn import codes, data, files, metrics
from hashlearn.cli.serve import PORT
from hashlearn.cli.shell import BadUse, epilog, new_table, output, print_json, progress, say
from hashlearn.data import Dataset
from hashlearn.methods import AutoHasher, BaseHasher, OpenHasher, find_method
from hashlearn.progress import report
from hashlearn.rows.advice import muted

app = typer.Typer()

_COLUMNS = ("method", "bytes", "MAP hashed", "MAP learned", "P@10", "fit s", "codes/s")


@app.command(
    epilog=epilog(
        "hashlearn demo",
        "hashlearn demo --bits 16 --save demo-data",
        "hashlearn demo --serve --open",
        "hashlearn demo --serve --images cifar10-images.zip --bits 64 --folder cifar-demo",
    )
)
def demo(
    bits: Annotated[int, typer.Option(min=16, max=1024, help="Bits per code, a multiple of 8.")] = 64,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    save: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Also save the data there as .npy files, to try other commands on."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Fill collections with the data and serve the page to explore them.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="With --serve: keep the collections there, so that they can be served again.")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="With --serve: your own pictures, a folder or zip with one folder per class."),
    ] = None,
    image_size: Annotated[
        int, typer.Option(min=8, max=512, help="With --images: width and height in pixels after scaling.")
    ] = 32,
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
        _serve(folder, images, image_size, bits, seed, port, open_page)
        return
    if folder is not None or images is not None or open_page:
        raise BadUse("--folder, --images and --open need --serve.")
    dataset = demo_dataset()
    if save is not None:
        _save(dataset, Path(save))
    with progress("demo"):
        result = run_demo(bits, seed, dataset)
    if as_json:
        print_json(result.as_dict())
    else:
        _print(result, save)


def _serve(
    folder: Path | None, images: Path | None, side: int, bits: int, seed: int, port: int, open_page: bool
) -> None:
    """Make the collections and serve them. Without a folder they are temporary and removed at the end."""
    from hashlearn.cli.serve import need_extra, serve_collections

    need_extra()
    if images is not None and not images.exists():
        raise BadUse(f"{images} does not exist.")
    from hashlearn.service.demo_collections import PICTURES, gist_demo, make_demo, pixel_demo
    from hashlearn.service.served_collection import open_collection
    from hashlearn.service.settings import ServerSettings, read_tokens

    settings = ServerSettings(tokens=read_tokens(None))
    with tempfile.TemporaryDirectory(prefix="hashlearn-demo-") as temporary:
        place = folder or Path(temporary) / "demo"
        wanted: dict[str, Any] = {"bits": bits, "seed": seed}
        with progress("demo"):
            if images is None:
                dataset = demo_dataset()
                wanted["dataset"] = dataset.name
                made = make_demo(place, wanted, lambda to: pixel_demo(dataset, bits, seed, to))
            else:
                wanted |= {"images": str(images.resolve()), "size": side}
                made = make_demo(place, wanted, lambda _: gist_demo(images, side, bits, seed))
        pictures = place / PICTURES if images is None else images
        if folder is not None:
            options = " ".join(f"{path} --images {path.name}={pictures}" for path in made)
            say(f"kept in {folder}: hashlearn serve {options} serves it again.")
        served = [open_collection(str(path), images=pictures) for path in made]
        serve_collections(served, settings, port, open_page)


def _save(dataset: Dataset, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, NDArray[Any]] = {
        "X": dataset.train_X,
        "y": dataset.train_y,
        "Xq": dataset.query_X,
        "yq": dataset.query_y,
    }
    for name, array in arrays.items():
        with files.written_whole(folder / f"{name}.npy") as stream:
            np.save(stream, array)


def _print(result: Demo, save: str | None) -> None:
    console = output()
    table = new_table(*_COLUMNS, right=_COLUMNS[1:])
    for row in result.rows:
        table.add_row(
            row.method,
            str(row.bytes_per_item),
            f"{row.map_hashed:.4f}",
            "–" if row.map_learned is None else f"{row.map_learned:.4f}",
            f"{row.precision_at_10:.4f}",
            "–" if row.fit_seconds is None else f"{row.fit_seconds:.2f}",
            "–" if row.codes_per_second is None else f"{row.codes_per_second:,.0f}",
        )
    console.print(
        f"{result.dataset}: {result.n_train} rows of {result.n_features} features, {result.n_queries} queries, "
        f"codes of {result.n_bits} bits\n"
    )
    console.print(table)
    console.print()
    console.print(result.chosen)
    console.print("\n".join(result.definition))
    folder = f"{save}/" if save else ""
    console.print(f"\nWhat next, on {'the saved data' if save else 'your own files'}:", soft_wrap=True)
    for command in (
        f"hashlearn fit {folder}X.npy --labels {folder}y.npy --bits {result.n_bits} -o {folder}model.hl",
        f"hashlearn encode {folder}model.hl {folder}X.npy -o {folder}codes.npy",
        f"hashlearn evaluate --model {folder}model.hl --queries {folder}Xq.npy --database {folder}X.npy "
        f"--query-labels {folder}yq.npy --database-labels {folder}y.npy",
    ):
        # Lines are not wrapped, so that a command can be copied in one piece.
        console.print(f"  {command}", soft_wrap=True, markup=False)


_PHASE = "comparing methods"
COMPARED = ("open", "auto", "gsdhp", "sdhp", "lsh")
DEFINITION = (
    "MAP: mean average precision over the whole ranking, rows at equal distance at their expected value.",
    "hashed: the database goes through the learned function, as new rows would.",
    "learned: the database keeps the codes that training gave it with its labels; OpenHasher encodes it with them.",
    "P@10: precision of the first 10, hashed database.",
    "Queries are new rows; the database is the training rows, whose labels all but LSH and the floats have seen.",
)


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
    """The rows of the comparison and what they were measured on."""

    dataset: str
    n_train: int
    n_queries: int
    n_features: int
    n_bits: int
    rows: list[DemoRow]
    chosen: str
    """What AutoHasher chose, and why."""
    definition: tuple[str, ...] = field(default=DEFINITION)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return asdict(self)


def demo_dataset() -> Dataset:
    """Load Fashion-MNIST (10,000 rows, 1,000 queries) if Debian's package is installed, else the digits."""
    return data.fashion_mnist(10_000, 1000) if data.fashion_mnist_there() else data.digits()


def run_demo(n_bits: int = 32, seed: int = 0, dataset: Dataset | None = None) -> Demo:
    """Fit the compared methods and score them beside cosine similarity of the floats."""
    dataset = dataset or demo_dataset()
    steps, rows, chosen = len(COMPARED) + 1, [], ""
    for done, name in enumerate(COMPARED):
        report(_PHASE, done, steps)
        hasher = find_method(name)(n_bits=n_bits, random_state=seed)
        with muted():  # advice about codes of the other methods would hide the comparison
            rows.append(_hashed_row(hasher, dataset))
        if isinstance(hasher, AutoHasher):
            chosen = f"AutoHasher chose {hasher.report_.chosen}. {hasher.report_.reason}"
    report(_PHASE, len(COMPARED), steps)
    rows.append(_float_row(dataset))
    report(_PHASE, steps, steps)
    n_train, n_features = dataset.train_X.shape
    return Demo(dataset.name, n_train, len(dataset.query_X), n_features, n_bits, rows, chosen)


def _hashed_row(hasher: Any, dataset: Dataset) -> DemoRow:
    started = time.perf_counter()
    hasher.fit(dataset.train_X, dataset.train_y)
    seconds = time.perf_counter() - started
    database, rate = _timed_codes(hasher, dataset.train_X)
    rules = metrics.Rules(at=None, precision_at=10)
    labels, learned = (dataset.query_y, dataset.train_y), None
    if isinstance(hasher, OpenHasher):
        tables, known = hasher.query(dataset.query_X), hasher.encode(dataset.train_X, dataset.train_y)
        hashed = metrics.evaluate_scores(tables.scores(database), *labels, rules=rules)
        learned = metrics.evaluate_scores(tables.scores(known), *labels, rules=rules).map
        return _row(hasher, hashed, learned, seconds, rate)
    queries = hasher.encode_queries(dataset.query_X)
    hashed = metrics.evaluate(queries, database, *labels, rules=rules)
    if hasher.info.database == "learned":
        learned = metrics.mean_average_precision(queries, hasher.codes_, dataset.query_y, dataset.train_y, at=None)
    return _row(hasher, hashed, learned, seconds, rate)


def _row(hasher: BaseHasher, hashed: metrics.Scores, learned: float | None, seconds: float, rate: float) -> DemoRow:
    size = codes.n_bytes(hasher.n_bits_)
    return DemoRow(hasher.info.title, size, hashed.map, learned, hashed.precision, seconds, rate)


def _timed_codes(hasher: BaseHasher, X: NDArray[np.float32]) -> tuple[NDArray[np.uint8], float]:
    """Codes, and codes per second in the fastest of a few runs: one run on a small data set is too short to time."""
    best, spent, result = float("inf"), 0.0, None
    while result is None or spent < 0.2:
        started = time.perf_counter()
        result = hasher.encode(X)
        seconds = time.perf_counter() - started
        best, spent = min(best, seconds), spent + seconds
    return result, len(X) / best


def _float_row(dataset: Dataset) -> DemoRow:
    scores = metrics.evaluate_floats(
        dataset.query_X, dataset.train_X, dataset.query_y, dataset.train_y, metric="cosine", at=None, precision_at=10
    )
    width = dataset.train_X.shape[1] * dataset.train_X.itemsize
    return DemoRow("float cosine", width, scores.map, None, scores.precision, None, None)
