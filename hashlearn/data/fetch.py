"""Official files of data sets: where they are kept, how they are downloaded, and the errors for missing files."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from hashlearn.data.embedded import DatasetMissing
from hashlearn.files.arrays import FileError
from hashlearn.progress import report

SETTING = "HASHLEARN_DATA"
_CHUNK = 1 << 18
_TIMEOUT = 30.0
_ATTEMPTS = 5


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
    """The folder of all data sets.

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
    """The folder in which this platform keeps files that can be downloaded or computed again."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hashlearn" / "data"


def check_file(path: Path, file: RemoteFile) -> None:
    """Raise a FileError unless the file has its published size and checksum."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        raise FileError(f"{path} has {size} bytes where {file.name} has {file.size}: delete it and fetch it again.")
    if file.checksum is None:
        return
    kind, _, wanted = file.checksum.partition(":")
    found = _digest(path, kind)
    if found != wanted:
        raise FileError(f"{path} has {kind} {found} where {file.name} has {wanted}: delete it and fetch it again.")


def _digest(path: Path, kind: str) -> str:
    # The authors published MD5 sums. They detect damage, but do not prove who made the file.
    digest = hashlib.new(kind, usedforsecurity=False)
    total, done = path.stat().st_size, 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            report(f"checking {path.name}", done, total)
    return digest.hexdigest()


def fetch(file: RemoteFile, folder: Path) -> Path:
    """Return the path of the file in ``folder``, after downloading it if it is missing and checking it in any case.

    A download is written to ``NAME.part``. After an interruption the next call resumes it, if the server supports
    ranges.
    """
    path = folder / file.name
    if not path.exists():
        if file.url is None:
            raise DatasetMissing(put_there(file, folder))
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        _download(file, part, folder)
        try:
            check_file(part, file)
        except FileError as error:
            # If a wrong file stayed, each later call would try to resume it.
            part.unlink()
            raise FileError(f"{str(error).partition(':')[0]}: it was removed, try again.") from error
        os.replace(part, path)
        return path
    check_file(path, file)
    return path


def put_there(file: RemoteFile, folder: Path, why: str = "") -> str:
    """The error message for a missing file: its name, where to get it and which folder to put it into."""
    source = file.url or file.note or "its authors"
    return f"{file.name} is not here{why}: get it from {source} and put it into {folder}."


def _download(file: RemoteFile, part: Path, folder: Path) -> None:
    for attempt in range(_ATTEMPTS):
        before = part.stat().st_size if part.exists() else 0
        try:
            if _transfer(file, part):
                return
        except urllib.error.HTTPError as error:
            why = f" and {error.code} {error.reason} came instead of it"
            raise DatasetMissing(put_there(file, folder, why)) from error
        except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
            # Try again if this attempt received some bytes; without any, the server is most likely out of reach.
            gained = (part.stat().st_size if part.exists() else 0) > before
            if not gained or attempt == _ATTEMPTS - 1:
                why = f" and cannot be downloaded ({_reason(error)})"
                raise DatasetMissing(put_there(file, folder, why)) from error
    raise DatasetMissing(put_there(file, folder, f" and its download was cut {_ATTEMPTS} times"))


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return " ".join(str(text).split()).rstrip(".")


def _transfer(file: RemoteFile, part: Path) -> bool:
    """Send one request and append its body to ``part``. Returns False if the connection ended before the file did."""
    have = part.stat().st_size if part.exists() else 0
    if file.size is not None and have >= file.size:
        return True
    request = urllib.request.Request(str(file.url), headers={"User-Agent": "hashlearn"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # no bytes are left to send; the checksum tells whether the file is right
            return True
        raise
    with response:
        # A server without support for ranges answers 200 and sends the file from its start.
        if response.status != 206:
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else file.size
        with part.open("ab" if have else "wb") as stream:
            while chunk := response.read(_CHUNK):
                stream.write(chunk)
                have += len(chunk)
                report(f"downloading {file.name}", have, max(total or have, have))
    return total is None or have >= total
