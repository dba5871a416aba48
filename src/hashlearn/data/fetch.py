"""Official files of data sets: where they are kept, how pooch downloads them, and the errors for missing files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from hashlearn.data.pool import DatasetMissing
from hashlearn.files.arrays import FileError
from hashlearn.progress import report

SETTING = "HASHLEARN_DATA"
_CHUNK = 1 << 18
_TIMEOUT = 30.0


@dataclass(frozen=True)
class RemoteFile:
    """A file as its authors publish it.

    ``checksum`` is ``md5:…`` or ``sha256:…``, or None if none is published. ``url`` is None for files that can only be
    downloaded by hand; ``note`` then says how to get them.
    """

    name: str
    size: int | None = None
    checksum: str | None = None
    url: str | None = None
    note: str = ""


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Return the folder of all data sets.

    Parameters
    ----------
    data_dir : str or Path, optional
        The folder; by default that of the environment variable HASHLEARN_DATA, or else the platform's cache.
    """
    if data_dir is not None:
        return Path(data_dir).expanduser()
    if os.environ.get(SETTING):
        return Path(os.environ[SETTING]).expanduser()
    return cache_folder()


def cache_folder() -> Path:
    """Return the folder in which this platform keeps files that can be downloaded or computed again."""
    return user_cache_path("hashlearn", appauthor=False) / "data"


def check_file(path: Path, file: RemoteFile) -> None:
    """Raise a FileError unless the file has its published size and checksum."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        raise FileError(f"{path} has {size} bytes where {file.name} has {file.size}: delete it and fetch it again.")
    if file.checksum is None:
        return
    from pooch import file_hash

    # The authors published MD5 sums. They detect damage, but do not prove who made the file.
    kind, _, wanted = file.checksum.partition(":")
    found = file_hash(str(path), alg=kind)
    if found != wanted:
        raise FileError(f"{path} has {kind} {found} where {file.name} has {wanted}: delete it and fetch it again.")


def fetch(file: RemoteFile, folder: Path) -> Path:
    """Return the path of the file in ``folder``, after downloading it if it is missing and checking it in any case.

    The file has its name only when it is complete. An interrupted download leaves nothing and starts from the beginning
    the next time.
    """
    path = folder / file.name
    if path.exists():
        check_file(path, file)
        return path
    if file.url is None:
        raise _missing(file, folder)
    _download(file, path)
    try:
        check_file(path, file)
    except FileError as error:
        path.unlink()
        raise FileError(f"{str(error).partition(':')[0]}: it was removed, try again.") from error
    return path


def _missing(file: RemoteFile, folder: Path, why: str = "") -> DatasetMissing:
    source = file.url or file.note or "its authors"
    return DatasetMissing(f"{file.name} is not here{why}: get it from {source} and put it into {folder}.")


def _download(file: RemoteFile, path: Path) -> None:
    import pooch

    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(_Progress(file.name), chunk_size=_CHUNK, timeout=_TIMEOUT)
    try:
        pooch.retrieve(str(file.url), None, fname=path.name, path=path.parent, downloader=downloader)
    except OSError as error:
        raise _missing(file, path.parent, f" and cannot be downloaded ({_reason(error)})") from error


class _Progress:
    """The progress bar of a download, as pooch calls it."""

    total = 0

    def __init__(self, name: str) -> None:
        self._phase = f"downloading {name}"
        self._done = 0

    def update(self, count: int) -> None:
        self._done = min(self._done + count, self.total) if self.total else self._done + count
        report(self._phase, self._done, self.total or self._done)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Do nothing: the last update has completed the bar."""


def _reason(error: BaseException) -> str:
    """Return what the operating system says at the end of a chain of exceptions, else the message of the first one."""
    text = str(error) or type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        text = getattr(cause, "strerror", None) or text
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(text).split()).rstrip(".")
