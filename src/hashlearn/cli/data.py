"""``hashlearn data``: list data sets, show where their files are, and download them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hashlearn.cli import images as features_command
from hashlearn.cli import texts as texts_command
from hashlearn.cli.options import command_group
from hashlearn.cli.shell import (
    epilog,
    folded,
    new_table,
    output,
    print_json,
    progress,
    show_table,
    tell,
    unknown_name,
)
from hashlearn.data.catalog import DATA_SETS, CatalogEntry, here, home, prepare
from hashlearn.data.fetch import RemoteFile, data_folder
from hashlearn.data.pool import Pool
from hashlearn.data.protocols import PROTOCOLS

app, data = command_group(
    "data",
    "List data sets, show their files and licenses, and download them.",
    "hashlearn data list",
    "hashlearn data info cifar10",
    "hashlearn data prepare cifar10",
)
data.command("features", epilog=features_command.EPILOG)(features_command.features)
data.command("embed", epilog=texts_command.EPILOG)(texts_command.embed)

DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir", metavar="FOLDER", help="Folder of the data sets (environment variable: HASHLEARN_DATA)."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from [bold]hashlearn data list[/bold].")]


@data.command("list", epilog=epilog("hashlearn data list", "hashlearn data list --data-dir /data --json"))
def list_sets(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the data sets and the named splits."""
    sets: list[dict[str, Any]] = [
        {
            "name": spec.name,
            "title": spec.title,
            "rows": spec.rows,
            "labels": spec.labels,
            "here": here(spec, data_dir),
        }
        for spec in DATA_SETS.values()
    ]
    protocols: list[dict[str, Any]] = [{"name": name, "about": protocol.about} for name, protocol in PROTOCOLS.items()]
    if as_json:
        print_json({"folder": str(data_folder(data_dir)), "data_sets": sets, "protocols": protocols})
        return
    console = output(prose=True)
    ready = ", ".join(row["name"] for row in sets if row["here"])
    console.print(f"Here already: {ready}", markup=False)
    print("Download another: hashlearn data prepare NAME")
    print("Your own rows: hashlearn bench run --data mine.npz --labels y --methods auto itq\n")
    names = ("data set", "rows", "here")
    table = new_table(*names, "what it is", right=("rows",), whole=names, gap=2)
    for row in sets:
        about = f"{row['title']}; {row['labels']}"
        table.add_row(row["name"], f"{row['rows']:,}", "yes" if row["here"] else "no", about)
    show_table(console, table)
    table = new_table("protocol", "what it does", whole=("protocol",), gap=2)
    for row in protocols:
        table.add_row(row["name"], row["about"].replace("``", ""))
    print()
    show_table(console, table)
    console.print(f"\nFolder: {data_folder(data_dir)}", markup=False, soft_wrap=True)


@data.command(epilog=epilog("hashlearn data info cifar10"))
def info(name: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Print the facts of a data set: its files, its license, and which of its files are on this machine."""
    spec = _spec(name)
    folder = home(spec, data_dir)
    files = [_file_facts(file, spec, data_dir) for file in (*spec.files, *spec.instead)]
    facts: dict[str, Any] = {
        "name": spec.name,
        "title": spec.title,
        "rows": spec.rows,
        "labels": spec.labels,
        "license": spec.license,
        "homepage": spec.homepage or "none",
        "layout": spec.layout,
        "folder": str(folder),
    }
    if as_json:
        print_json({**facts, "files": files})
        return
    for title, value in facts.items():
        line = f"{title:<8}  {value}"
        print(folded(line, indent=10) if " " in str(value) else line)
    for number, file in enumerate(files):
        size = f"{file['size']:,} bytes" if file["size"] else "size not known"
        role = "or" if number >= len(spec.files) else "file"
        place = "here" if file["here"] else "not here"
        print(f"{role:<8}  {file['name']}: {size}, {place}")
        for line in (file["checksum"] or "checksum not known", file["url"] or file["note"]):
            print(folded(" " * 10 + line, indent=10))


@data.command(
    "prepare", epilog=epilog("hashlearn data prepare cifar10", "hashlearn data prepare mnist --data-dir data")
)
def prepare_set(
    name: Name,
    data_dir: DataDir = None,
    features: Annotated[bool, typer.Option(help="Also compute GIST features of the CIFAR images, once.")] = True,
    as_json: AsJson = False,
) -> None:
    """Download, check and unpack a data set, and compute its features. Files that exist are only checked."""
    spec = _spec(name)
    with progress(f"preparing {spec.name}"):
        pool = prepare(spec.name, data_dir, features=features)
    facts = _pool_facts(pool, str(home(spec, data_dir)))
    tell(facts, as_json)


def _spec(name: str) -> CatalogEntry:
    if name not in DATA_SETS:
        raise unknown_name("data set", name, list(DATA_SETS))
    return DATA_SETS[name]


def _file_facts(file: RemoteFile, spec: CatalogEntry, data_dir: str | None) -> dict[str, Any]:
    there = (home(spec, data_dir) / file.name).exists()
    return {"name": file.name, "size": file.size, "checksum": file.checksum, "url": file.url, "note": file.note} | {
        "here": there
    }


def _pool_facts(pool: Pool, folder: str) -> dict[str, Any]:
    return {
        "name": pool.name,
        "rows": len(pool),
        "features": int(pool.X.shape[1]),
        "labels": f"label sets of {pool.y.shape[1]} labels"
        if pool.multilabel
        else f"{len(set(pool.y.tolist()))} classes",
        "training rows": int((pool.part == 0).sum()) if pool.part is not None else None,
        "test rows": int((pool.part == 1).sum()) if pool.part is not None else None,
        "folder": folder,
    }
