"""Files inside a folder, a zip or a tar archive, read in place; and unpacking that cannot leave its folder."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO

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
        raise NotImplementedError

    def contains(self, name: str) -> bool:
        """Return whether there is such a file now. A link in a folder that leads out of it is none."""
        return name in self.names()

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

    def names(self) -> list[str]:
        return self._names

    @cached_property
    def _names(self) -> list[str]:
        # Made when it is first asked for: a folder of which files are read by name may hold millions.
        return sorted(_walk(self.path))

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


def _walk(folder: Path) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__MACOSX"))]
        for name in files:
            if not name.startswith("."):
                yield (Path(where) / name).relative_to(folder).as_posix()


class _Zip(Tree):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._archive = zipfile.ZipFile(path)
        self._names = sorted(
            info.filename
            for info in self._archive.infolist()
            if not info.is_dir() and not info.filename.startswith("__MACOSX/")
        )
        self._known = frozenset(self._names)

    def names(self) -> list[str]:
        return self._names

    def contains(self, name: str) -> bool:
        return name in self._known

    def _open(self, name: str) -> IO[bytes]:
        return self._archive.open(name)

    def stamp(self, name: str) -> tuple[int, int]:
        info = self._archive.getinfo(name)
        return info.file_size, info.CRC

    def is_link(self, name: str) -> bool:
        return stat.S_ISLNK(self._archive.getinfo(name).external_attr >> 16)

    def close(self) -> None:
        self._archive.close()


class _Tar(Tree):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._archive = tarfile.open(path)  # noqa: SIM115 - closed by close()
        self._members = {member.name: member for member in self._archive.getmembers() if not member.isdir()}

    def names(self) -> list[str]:
        # Links and devices are no files; only regular members can be read.
        return sorted(name for name, member in self._members.items() if member.isreg())

    def others(self) -> list[str]:
        """Links, devices and the like."""
        return sorted(name for name, member in self._members.items() if not member.isreg())

    def _open(self, name: str) -> IO[bytes]:
        stream = self._archive.extractfile(self._members[name])
        if stream is None:
            raise FileError(f"{self.path}: {name} is not a regular file.")
        return stream

    def stamp(self, name: str) -> tuple[int, int]:
        member = self._members[name]
        return member.size, int(member.mtime)

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
        odd = tree.others() if isinstance(tree, _Tar) else []
        if isinstance(tree, _Zip):
            odd = [name for name in targets if tree.is_link(name)]
        if odd:
            raise FileError(f"{archive} is not unpacked: {odd[0]} in it is a link or no regular file.")
        written = []
        for name in _reading_order(tree, targets):
            path = folder / targets[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(path) as stream:
                stream.write(tree.read(name))
            written.append(path)
    return sorted(written)


def _reading_order(tree: Tree, targets: dict[str, PurePosixPath]) -> list[str]:
    # A compressed tar read in another order than its own would be unpacked from the start for every member.
    return sorted(targets, key=lambda name: tree._members[name].offset) if isinstance(tree, _Tar) else list(targets)


def _target(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    unsafe = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name
    if unsafe or not path.parts:
        raise FileError(f"{archive} is not unpacked: {name!r} in it would be written outside its folder.")
    return path
