"""Data sets by name: where they are, loading them, and getting what is not here."""

from __future__ import annotations

from pathlib import Path

from hashlearn.data.catalog import DATA_SETS, CatalogEntry
from hashlearn.data.embedded import DatasetMissing, fashion_mnist_there
from hashlearn.data.features import gist_pool
from hashlearn.data.fetch import check_file, data_folder, fetch
from hashlearn.data.pool import Pool
from hashlearn.files.tree import is_archive, unpack


def data_set(name: str) -> CatalogEntry:
    """The data set of that name."""
    if name not in DATA_SETS:
        raise ValueError(f"The data set must be one of {', '.join(DATA_SETS)}. Got {name!r} instead.")
    return DATA_SETS[name]


def home(spec: CatalogEntry, data_dir: str | Path | None = None) -> Path:
    """The folder that a set is read from: its own, or the common one where its files lie directly in that."""
    folder = data_folder(data_dir)
    own = folder / spec.name
    # What is missing should go to the own folder; what lies beside it is used where it is.
    return folder if not spec.own_folder and not _names_in(own, spec) and _names_in(folder, spec) else own


def here(spec: CatalogEntry, data_dir: str | Path | None = None) -> bool:
    """Whether the files of a set seem to be here; they are not read, which for some takes minutes."""
    if spec.gist_of is not None and here(data_set(spec.gist_of), data_dir):
        return True
    needed = {file.name for file in spec.files}
    found = _names_in(home(spec, data_dir), spec)
    others = (found - needed) if spec.files or spec.instead else {""}
    return (
        (bool(needed) and needed <= found) or bool(others) or (spec.name == "fashion-mnist" and fashion_mnist_there())
    )


def _names_in(folder: Path, spec: CatalogEntry) -> set[str]:
    names = [file.name for file in (*spec.files, *spec.instead)] + list(spec.unpacked)
    return {name for name in names if (folder / name).exists()}


def load(name: str, data_dir: str | Path | None = None) -> Pool:
    """All rows of a data set by name, from ``data_dir``, the setting HASHLEARN_DATA or the platform's cache.

    >>> load("digits").X.shape
    (1797, 64)
    """
    spec = data_set(name)
    if spec.gist_of is not None and not _names_in(home(spec, data_dir), spec):
        base = data_set(spec.gist_of)
        return gist_pool(load(base.name, data_dir), home(base, data_dir))
    return spec.read(home(spec, data_dir))


def prepare(name: str, data_dir: str | Path | None = None, *, features: bool = True) -> Pool:
    """Fetch, check and unpack what a data set needs, compute its features, and load it."""
    spec = data_set(name)
    folder = home(spec, data_dir)
    if spec.gist_of is not None and not _names_in(folder, spec):
        return prepare(spec.gist_of, data_dir)
    for file in (*spec.files, *spec.instead):
        if (folder / file.name).is_file():
            check_file(folder / file.name, file)
    try:
        pool = spec.read(folder)
    except DatasetMissing:
        if not any(file.url for file in spec.files):
            raise
        _fetch_all(spec, folder)
        pool = spec.read(folder)
    return gist_pool(pool, folder) if features and spec.gist else pool


def _fetch_all(spec: CatalogEntry, folder: Path) -> None:
    unpacked = any((folder / name).exists() for name in spec.unpacked)
    for file in spec.files:
        if is_archive(Path(file.name)) and unpacked:
            continue
        path = fetch(file, folder)
        # A zip is read in place; a compressed tar would be unpacked anew at every reading.
        if path.name.endswith(".tar.gz"):
            unpack(path, folder)
