"""``hashlearn demo``: show what the library does, in a minute and without any files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hashlearn import files
from hashlearn.cli.shell import BadUse, epilog, new_table, output, print_json, progress, say
from hashlearn.data import Dataset
from hashlearn.demo import Demo, demo_dataset, run_demo

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
    bits: Annotated[int, typer.Option(min=1, max=1024, help="Bits per code.")] = 32,
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
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --serve: the port; 0 takes a free one.")] = 8000,
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
    from hashlearn.service.demo_collections import gist_demo, make_demo, pixel_demo
    from hashlearn.service.served_collection import open_collection
    from hashlearn.service.settings import ServerSettings
    from hashlearn.service.tokens import read_tokens

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
        if folder is not None:
            say(f"kept in {folder}: hashlearn serve {' '.join(map(str, made))} serves it again.")
        serve_collections([open_collection(str(path)) for path in made], settings, port, open_page)


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
