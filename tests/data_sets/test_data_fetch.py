"""Downloads against a real server on this machine: cut, wrong, refused; and archives that want to escape."""

import hashlib
import io
import stat
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from data_sets.tiny_archives import cifar10_members, write_tar
from hashlearn import data
from hashlearn.data import DatasetMissing, catalog, fetch
from hashlearn.data.fetch import RemoteFile
from hashlearn.files import FileError
from hashlearn.files.tree import open_tree, unpack
from hashlearn.progress import listening

CONTENT = np.random.default_rng(0).bytes(700_000)


class Server(ThreadingHTTPServer):
    """Serves CONTENT at any path; ``cuts`` is how many answers end after ``cut_at`` bytes."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.cuts, self.cut_at, self.asked = CONTENT, 0, 300_000, 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.asked += 1
        if self.path.startswith("/gone"):
            self.send_error(404)
            return
        body = server.content
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.cuts:
            server.cuts -= 1
            body = body[: server.cut_at]
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def the_file(server, **changes):
    md5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    return RemoteFile(
        **{"name": "file.bin", "size": len(CONTENT), "checksum": f"md5:{md5}", "url": server.url} | changes
    )


def test_download_once_then_never_again(server, tmp_path):
    path = fetch.fetch(the_file(server), tmp_path / "new")
    assert path.read_bytes() == CONTENT
    assert fetch.fetch(the_file(server), tmp_path / "new") == path
    assert server.asked == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["file.bin"]


def test_a_cut_connection_is_an_error_and_leaves_nothing(server, tmp_path):
    server.cuts = 1
    with pytest.raises(DatasetMissing, match=f"file.bin is not here and cannot.*from {server.url} and put it into"):
        fetch.fetch(the_file(server), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert fetch.fetch(the_file(server), tmp_path).read_bytes() == CONTENT


def test_progress_ends_at_the_size_of_the_file(server, tmp_path):
    notes = []
    with listening(lambda phase, done, total: notes.append((phase, done, total))):
        fetch.fetch(the_file(server), tmp_path)
    assert notes[-1] == ("downloading file.bin", len(CONTENT), len(CONTENT))
    assert {total for _, _, total in notes} == {len(CONTENT)}


@pytest.mark.parametrize("changes", [{"checksum": "md5:" + "0" * 32}, {"size": 5}, {"checksum": "sha256:" + "0" * 64}])
def test_a_wrong_file_is_not_kept(server, tmp_path, changes):
    with pytest.raises(FileError, match=r"file\.bin.* where file\.bin has .*removed"):
        fetch.fetch(the_file(server, **changes), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_file_that_was_here_is_named_and_left(server, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"x" * len(CONTENT))
    with pytest.raises(FileError, match="delete it and fetch it again"):
        fetch.fetch(the_file(server), tmp_path)
    assert server.asked == 0
    assert (tmp_path / "file.bin").exists()


def test_offline_and_missing_are_one_sentence(server, tmp_path):
    gone = the_file(server, url=server.url.replace("/file.bin", "/gone"))
    with pytest.raises(DatasetMissing, match="404"):
        fetch.fetch(gone, tmp_path)
    dead = the_file(server, url="http://127.0.0.1:9/file.bin")
    with pytest.raises(DatasetMissing) as caught:
        fetch.fetch(dead, tmp_path)
    assert str(caught.value) == (
        "file.bin is not here and cannot be downloaded (Connection refused): get it from http://127.0.0.1:9/file.bin "
        f"and put it into {tmp_path}."
    )
    with pytest.raises(DatasetMissing, match="get it from the moon and put it into"):
        fetch.fetch(RemoteFile("x", note="the moon"), tmp_path)


def test_the_folder_of_the_data(tmp_path, monkeypatch):
    assert fetch.data_folder("here").as_posix() == "here"
    assert fetch.data_folder() == fetch.cache_folder()
    monkeypatch.setenv("HASHLEARN_DATA", str(tmp_path))
    assert fetch.data_folder() == tmp_path
    assert fetch.data_folder("here").as_posix() == "here"


def test_prepare_fetches_unpacks_and_computes(server, tmp_path, monkeypatch):
    members, _, labels = cifar10_members("python")
    server.content = write_tar(tmp_path / "made.tar.gz", members).read_bytes()
    spec = catalog.DATA_SETS["cifar10"]
    file = RemoteFile("cifar-10-python.tar.gz", len(server.content), None, server.url)
    monkeypatch.setitem(catalog.DATA_SETS, "cifar10", type(spec)(**{**vars(spec), "files": (file,)}))
    assert not catalog.here(catalog.data_set("cifar10"), tmp_path)
    pool = data.prepare("cifar10", tmp_path)
    assert pool.X.shape == (24, 512)
    np.testing.assert_array_equal(pool.y, labels)
    assert catalog.here(catalog.data_set("cifar10"), tmp_path)
    assert (tmp_path / "cifar10" / "cifar-10-batches-py" / "test_batch").is_file()
    again = data.load("cifar10-gist", tmp_path)
    np.testing.assert_array_equal(again.X, pool.X)
    assert isinstance(again.X, np.memmap)
    assert server.asked == 1


def tar_with(path, **facts):
    info = tarfile.TarInfo()
    for key, value in facts.items():
        setattr(info, key, value)
    info.size = 4 if info.isreg() else 0
    with tarfile.open(path, "w:gz") as archive:
        good = tarfile.TarInfo("good")
        good.size = 4
        archive.addfile(good, io.BytesIO(b"good"))
        archive.addfile(info, io.BytesIO(b"evil") if info.isreg() else None)
    return path


@pytest.mark.parametrize(
    "facts",
    [
        {"name": "../evil"},
        {"name": "/evil"},
        {"name": "a/../../evil"},
        {"name": "a\\..\\evil"},
        {"name": "C:evil"},
        {"name": "evil", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"name": "evil", "type": tarfile.LNKTYPE, "linkname": "good"},
        {"name": "evil", "type": tarfile.CHRTYPE},
    ],
)
def test_a_tar_cannot_leave_its_folder(tmp_path, facts):
    archive = tar_with(tmp_path / "evil.tar.gz", **facts)
    with pytest.raises(FileError, match=r"evil\.tar\.gz is not unpacked: .*(outside its folder|link)"):
        unpack(archive, tmp_path / "folder")
    assert [path.name for path in tmp_path.rglob("*")] == ["evil.tar.gz"]


def test_a_zip_cannot_leave_its_folder(tmp_path):
    for name, mode in (("../evil", 0o644), ("link", stat.S_IFLNK | 0o777)):
        archive = tmp_path / "evil.zip"
        with zipfile.ZipFile(archive, "w") as stream:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            stream.writestr(info, "/etc/passwd")
        with pytest.raises(FileError, match="is not unpacked"):
            unpack(archive, tmp_path / "folder")
    assert [path.name for path in tmp_path.rglob("*")] == ["evil.zip"]


def test_good_archives_unpack_and_read_alike(tmp_path):
    files = {"a/b.txt": b"one", "c.txt": b"two"}
    with zipfile.ZipFile(tmp_path / "good.zip", "w") as stream:
        for name, content in files.items():
            stream.writestr(name, content)
    write_tar(tmp_path / "good.tar.gz", files)
    for archive in ("good.zip", "good.tar.gz"):
        folder = tmp_path / archive.replace(".", "-")
        assert len(unpack(tmp_path / archive, folder)) == 2
        for place in (tmp_path / archive, folder):
            with open_tree(place) as tree:
                assert {name: tree.read(name) for name in tree.names()} == files
                assert tree.find("none", "b.txt") == "a/b.txt"


def test_no_archive_and_no_folder(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"PK no")
    (tmp_path / "x.txt").write_bytes(b"")
    for name, says in (("x.zip", "damaged"), ("x.txt", "neither a folder nor an archive"), ("y", "does not exist")):
        with pytest.raises(FileError, match=says), open_tree(tmp_path / name):
            pass
