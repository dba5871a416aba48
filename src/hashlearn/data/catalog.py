"""The catalog of data sets, read from ``catalog.toml``; loading and preparing a data set by name."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from pkgutil import resolve_name

from hashlearn.data.fetch import RemoteFile, check_file, data_folder, fetch
from hashlearn.data.gist import gist_pool
from hashlearn.data.mnist import fashion_mnist_there
from hashlearn.data.pool import DatasetMissing, Pool
from hashlearn.files.tree import is_archive, unpack


@dataclass(frozen=True)
class CatalogEntry:
    """The description of one data set: a table of ``catalog.toml``.

    Parameters
    ----------
    name, title, labels, license, homepage, layout : str
        Facts that ``hashlearn data info`` prints. ``layout`` names the files that a user may put into the folder.
    rows : int
    reader : str
        The function, as ``module:name``, that reads the data set from its folder and returns a ``Pool``.
    files : tuple of RemoteFile
        Official files, which ``prepare`` downloads.
    instead : tuple of RemoteFile
        Other files, each of which can replace ``files``.
    unpacked : tuple of str
        Names that exist in the folder after the files are unpacked; they replace ``files`` too.
    gist : bool
        Whether ``prepare`` also computes GIST features.
    gist_of : str or None
        The data set whose GIST features this one is; they are computed where its own files are absent.
    own_folder : bool
        Whether files are looked for only in the folder of this data set, because another data set has files with the
        same names.
    """

    name: str
    title: str
    rows: int
    labels: str
    license: str
    homepage: str
    layout: str
    reader: str
    files: tuple[RemoteFile, ...] = ()
    instead: tuple[RemoteFile, ...] = ()
    unpacked: tuple[str, ...] = ()
    gist: bool = False
    gist_of: str | None = None
    own_folder: bool = False

    def read(self, folder: Path) -> Pool:
        """Read the data set from its folder."""
        pool: Pool = resolve_name(self.reader)(folder)
        return pool


def _catalog() -> dict[str, CatalogEntry]:
    entries = tomllib.loads(files("hashlearn.data").joinpath("catalog.toml").read_text(encoding="utf-8"))
    for entry in entries.values():
        for key in ("files", "instead"):
            entry[key] = tuple(RemoteFile(**file) for file in entry.get(key, ()))
        entry["unpacked"] = tuple(entry.get("unpacked", ()))
    return {name: CatalogEntry(name, **entry) for name, entry in entries.items()}


DATA_SETS: dict[str, CatalogEntry] = _catalog()


def data_set(name: str) -> CatalogEntry:
    """Return the catalog entry with that name; ValueError if there is none."""
    if name not in DATA_SETS:
        raise ValueError(f"The data set must be one of {', '.join(DATA_SETS)}. Got {name!r} instead.")
    return DATA_SETS[name]


def home(spec: CatalogEntry, data_dir: str | Path | None = None) -> Path:
    """Return the folder of a data set: its own, or the common folder if its files are directly in that one."""
    folder = data_folder(data_dir)
    own = folder / spec.name
    # Without any files yet, the answer is the own folder, because that is where downloads go.
    return folder if not spec.own_folder and not _names_in(own, spec) and _names_in(folder, spec) else own


def here(spec: CatalogEntry, data_dir: str | Path | None = None) -> bool:
    """Return whether the files of a data set exist. They are not read, because that may take minutes."""
    if not (spec.files or spec.instead) or (spec.name == "fashion-mnist" and fashion_mnist_there()):
        return True
    if spec.gist_of is not None and here(data_set(spec.gist_of), data_dir):
        return True
    found, needed = _names_in(home(spec, data_dir), spec), {file.name for file in spec.files}
    return bool(found - needed) or bool(needed and needed <= found)


def _names_in(folder: Path, spec: CatalogEntry) -> set[str]:
    names = [*(file.name for file in (*spec.files, *spec.instead)), *spec.unpacked]
    return {name for name in names if (folder / name).exists()}


def load(name: str, data_dir: str | Path | None = None) -> Pool:
    """Load all rows of a data set.

    Parameters
    ----------
    name : str
        A name from ``DATA_SETS``.
    data_dir : str or Path, optional
        The folder of all data sets, as in ``data_folder``.

    Returns
    -------
    Pool

    Raises
    ------
    DatasetMissing
        If files are missing; the message says how to get them.

    Examples
    --------
    >>> load("digits").X.shape
    (1797, 64)
    """
    spec = data_set(name)
    if spec.gist_of is not None and not _names_in(home(spec, data_dir), spec):
        base = data_set(spec.gist_of)
        return gist_pool(load(base.name, data_dir), home(base, data_dir))
    return spec.read(home(spec, data_dir))


def prepare(name: str, data_dir: str | Path | None = None, *, features: bool = True) -> Pool:
    """Download, check and unpack the files of a data set, compute its features, and load it.

    Parameters
    ----------
    name, data_dir
        As in ``load``.
    features : bool
        Whether to compute GIST features of the data sets that have them.

    Returns
    -------
    Pool

    Raises
    ------
    DatasetMissing
        If a file is missing and cannot be downloaded.
    FileError
        If a file does not have its published size and checksum.
    """
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
        unpacked = any((folder / name).exists() for name in spec.unpacked)
        for file in spec.files:
            if not (is_archive(Path(file.name)) and unpacked):
                path = fetch(file, folder)
                # A zip can be read in place. A compressed tar would have to be unpacked each time it is read.
                if path.name.endswith(".tar.gz"):
                    unpack(path, folder)
        pool = spec.read(folder)
    return gist_pool(pool, folder) if features and spec.gist else pool
