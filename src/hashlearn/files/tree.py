"""Files inside a folder, a zip or a tar archive, read in place; and unpacking that cannot leave its folder."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any

from hashlearn.files.arrays import FileError, one_line
from hashlearn.files.output import written_whole

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, RuntimeError, NotImplementedError)


class TooLarge(FileError):
    """A file with more bytes than may be read."""


class Tree:
    """The regular files of a folder or archive by their paths, with slashes. Reading writes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        """Paths of all regular files, sorted."""
        return list(self._members)

    @cached_property
    def _members(self) -> dict[str, Any]:
        """What the archive says of each regular file. Made when it is first asked for: there may be millions."""
        return dict(sorted(self._found()))

    def _found(self) -> Iterable[tuple[str, Any]]:
        raise NotImplementedError

    def contains(self, name: str) -> bool:
        """Return whether there is such a file now. A link in a folder that leads out of it is none."""
        return name in self._members

    def read(self, name: str, limit: int | None = None) -> bytes:
        """Return the bytes of a file; TooLarge, before they are in memory, if there are more than ``limit``."""
        with self._open(name) as stream:
            data = stream.read() if limit is None else stream.read(limit + 1)
        if limit is not None and len(data) > limit:
            raise TooLarge(f"{self.path}: {name} has more than the {limit:,} bytes that may be read.")
        return data

    def _open(self, name: str) -> IO[bytes]:
        raise NotImplementedError

    def stamp(self, name: str) -> tuple[int, int]:
        """Size in bytes, unpacked, and a number that changes when the content does."""
        raise NotImplementedError

    def others(self) -> list[str]:
        """Return the links, devices and the like in an archive."""
        return []

    def reading_order(self) -> list[str]:
        """Return the paths in the order in which reading all files takes the least time."""
        return self.names()

    def close(self) -> None:
        """Let go of the archive."""

    def find(self, *ends: str) -> str | None:
        """Return the first file, in the order of ``ends``, that has such a name or whose path ends so."""
        names = self.names()
        for end in ends:
            for name in names:
                if name == end or name.endswith("/" + end):
                    return name
        return None


class _Folder(Tree):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._root = path.resolve(strict=True)

    def _found(self) -> Iterable[tuple[str, None]]:
        for where, folders, files in os.walk(self.path):
            folders[:] = [name for name in folders if not name.startswith((".", "__MACOSX"))]
            for name in files:
                if not name.startswith("."):
                    yield (Path(where) / name).relative_to(self.path).as_posix(), None

    def contains(self, name: str) -> bool:
        if "\0" in name:
            return False
        path = self._root / name
        try:
            # Following links takes as long as a search. A plain file directly in the folder needs none followed.
            if stat.S_ISREG(path.lstat().st_mode) and "/" not in name and os.sep not in name:
                return True
            path = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        return path.is_relative_to(self._root) and path.is_file()

    def _open(self, name: str) -> IO[bytes]:
        return (self._root / name).open("rb")

    def stamp(self, name: str) -> tuple[int, int]:
        there = (self.path / name).stat()
        return there.st_size, there.st_mtime_ns


class _Zip(Tree):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._archive = zipfile.ZipFile(path)

    def _found(self) -> Iterable[tuple[str, zipfile.ZipInfo]]:
        files = [info for info in self._archive.infolist() if not info.is_dir()]
        return ((info.filename, info) for info in files if not info.filename.startswith("__MACOSX/"))

    def _open(self, name: str) -> IO[bytes]:
        return self._archive.open(name)

    def stamp(self, name: str) -> tuple[int, int]:
        info = self._archive.getinfo(name)
        return info.file_size, info.CRC

    def others(self) -> list[str]:
        return [name for name, info in self._members.items() if stat.S_ISLNK(info.external_attr >> 16)]

    def close(self) -> None:
        self._archive.close()


class _Tar(Tree):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._archive = tarfile.open(path)  # noqa: SIM115 - closed by close()
        self._all = [member for member in self._archive.getmembers() if not member.isdir()]

    def _found(self) -> Iterable[tuple[str, tarfile.TarInfo]]:
        # Links and devices are no files; only regular members can be read.
        return ((member.name, member) for member in self._all if member.isreg())

    def _open(self, name: str) -> IO[bytes]:
        stream = self._archive.extractfile(self._members[name])
        assert stream is not None  # it is one only for what is no regular file
        return stream

    def stamp(self, name: str) -> tuple[int, int]:
        member = self._members[name]
        return member.size, int(member.mtime)

    def others(self) -> list[str]:
        return sorted(member.name for member in self._all if not member.isreg())

    def reading_order(self) -> list[str]:
        # A compressed tar read in another order than its own would be unpacked from the start for every member.
        return sorted(self._members, key=lambda name: self._members[name].offset)

    def close(self) -> None:
        self._archive.close()


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVES)


def tree_at(path: Path) -> Tree:
    """Return a folder or an archive, which the caller must close."""
    if not path.exists():
        raise FileError(f"{path} does not exist.")
    if path.is_dir():
        return _Folder(path)
    if not is_archive(path):
        raise FileError(f"{path} is neither a folder nor an archive ({', '.join(ARCHIVES)}).")
    with _damage_said(path):
        return _Zip(path) if path.suffix.lower() == ".zip" else _Tar(path)


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """Yield a folder or an archive for the time of a block; damage that the block meets inside it is one sentence."""
    tree = tree_at(path)
    with closing(tree), _damage_said(path):
        yield tree


@contextmanager
def _damage_said(path: Path) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except DAMAGE as error:
        # Folders fail with messages that name the file already.
        if path.is_dir():
            raise
        raise FileError(f"{path} is damaged or cut short: {one_line(error)}") from error


def unpack(archive: Path, folder: Path) -> list[Path]:
    """Write an archive's files under ``folder``; FileError, and nothing written, if a member would go elsewhere.

    Absolute paths, ``..``, drive letters, links and devices are refused rather than mended: no data set needs them.
    """
    with open_tree(archive) as tree:
        targets = {name: _target(archive, name) for name in tree.names()}
        if odd := tree.others():
            raise FileError(f"{archive} is not unpacked: {odd[0]} in it is a link or no regular file.")
        written = []
        for name in tree.reading_order():
            path = folder / targets[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(path) as stream:
                stream.write(tree.read(name))
            written.append(path)
    return sorted(written)


def _target(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    unsafe = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name
    if unsafe or not path.parts:
        raise FileError(f"{archive} is not unpacked: {name!r} in it would be written outside its folder.")
    return path
