"""The folder: damage, files that are replaced or dropped while they are open, forks."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import hashlearn
from hashlearn import ITQ, Collection, Index
from hashlearn.collection import CollectionError
from hashlearn.collection.stores.embedded import database as files_of
from hashlearn.collection.stores.embedded.schema import payload_checksum
from hashlearn.index import IndexFileError
from hashlearn.models.format import ModelFileError

X = np.random.default_rng(5).normal(size=(60, 6)).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    """A collection with payloads of every second row, vectors and an indexed field, closed."""
    folder = tmp_path / "shop"
    with Collection.create(folder, ITQ(n_bits=12, random_state=0).fit(X), store_vectors=True, indexed=["n"]) as shop:
        shop.add(X, payload=[{"n": n, "name": f"thing {n}"} if n % 2 else None for n in range(60)])
        shop.delete([7])
    return folder


def file_of(folder):
    return Path(folder) / files_of.FILE


def changed(folder, *statements):
    """Change the file behind the collection's back."""
    db = sqlite3.connect(file_of(folder), isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


def everything(folder):
    """Ask all that a collection can tell."""
    with Collection.open(folder) as shop:
        return (
            len(shop),
            shop.search(X, k=5).ids.tolist(),
            shop.search(X, k=3, rescore=4).ids.tolist(),
            shop.count({"n": {">=": 30}}),
            shop.count({"name": "thing 31"}),
            [(item.id, item.payload) for item in shop.get(range(200)) if item],
            [number for rows in shop.scan(vectors=True) for number in rows.ids.tolist()],
        )


def test_bytes_that_are_no_text_in_the_schema_are_said(folder, tmp_path):
    """SQLite quotes them in its message, which Python cannot decode."""
    with Collection.open(folder) as shop:
        shop.backup(tmp_path / "backup")
    data = (
        file_of(folder)
        .read_bytes()
        .replace(b"tablespecspec", b"tables\x8eecspec")
        .replace(b"CREATE TABLE spec", b"CREATE TABLA spec")
    )
    file_of(folder).write_bytes(data)
    with pytest.raises(CollectionError, match=r"damaged: restore it from a backup"):
        Collection.open(folder)
    with Collection.restore(tmp_path / "backup", folder, replace=True) as shop:
        assert len(shop) == 59
    file_of(folder).write_bytes(data)
    Collection.drop(folder)
    assert not file_of(folder).exists()


def test_a_reader_without_write_permission_notices_a_writer_that_came_and_went(folder, monkeypatch):
    """It cannot share SQLite's log, so SQLite itself would not notice that pages have changed."""
    with monkeypatch.context() as forbidden:
        forbidden.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write everywhere
        reader = Collection.open(folder, read_only=True)
        assert len(reader) == 59
    with reader:
        with Collection.open(folder) as writer:
            writer.add(X[:1])
        assert not Path(f"{file_of(folder)}-wal").exists()
        with pytest.raises(CollectionError, match="open it again"):
            len(reader)
    with Collection.open(folder, read_only=True) as again:
        assert len(again) == 60


def test_facts_are_told_while_the_log_comes_and_goes(folder, monkeypatch):
    """The last writer removes the log, perhaps between two looks at it."""
    with Collection.open(folder, read_only=True) as shop:
        log = Path(f"{file_of(folder)}-wal")
        exists = Path.exists
        # It is removed just after something has found it.
        monkeypatch.setattr(Path, "exists", lambda self, **_: (exists(self), self != log or log.unlink())[0])
        assert shop.info()["rows"] == 59


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE state SET last_id = 3", "says about itself"),
        ("UPDATE state SET rows = rows - 1", "says about itself"),
        ("DELETE FROM state", "says about itself"),
        ("UPDATE spec SET kind = 'ivf'", "what it was made for"),
        ("UPDATE spec SET model = zeroblob(length(model))", "what it was made for"),
        ("DELETE FROM spec", "what it was made for"),
        ("DELETE FROM block WHERE seq = 1", "blocks of codes are missing"),
        ("UPDATE block SET size = size + 1 WHERE seq = 1", "block 1 does not match"),
        ("UPDATE block SET seq = 9 WHERE seq = 1", "block 9 does not match"),
        ("UPDATE payload SET json = replace(json, 'thing 31', 'thing 32') WHERE id = 31", "match"),
        ("UPDATE payload SET id = 8 WHERE id = 9", "payload"),
        ("DELETE FROM payload WHERE id = 11", "payloads"),
        ("INSERT INTO payload VALUES (12, '{}', 0)", "payload"),
        ("UPDATE payload SET checksum = NULL WHERE id = 13", "payload"),
        ("UPDATE vector SET floats = zeroblob(24) WHERE id = 4", "vector of row 4 does not match"),
        ("UPDATE vector SET floats = zeroblob(20) WHERE id = 4", "vector of row 4 is cut short"),
        ("DELETE FROM vector WHERE id = 4", "1 vectors are missing"),
        ("ALTER TABLE payload RENAME TO payloads", "table 'payload' is missing"),
        ("ALTER TABLE state RENAME COLUMN rows TO rowz", "table 'state' is missing or changed"),
        ("PRAGMA user_version = 2", "has format 2, and this hashlearn reads only format 3"),
        ("CREATE VIEW seen AS SELECT * FROM payload", "holds the view 'seen', which hashlearn did not make"),
        ("CREATE TRIGGER t AFTER INSERT ON payload BEGIN DELETE FROM vector; END", "holds the trigger 't'"),
        ("CREATE INDEX fast ON payload (json)", "holds the index 'fast'"),
        ("PRAGMA application_id = 1", "not a collection"),
    ],
)
def test_every_damage_is_said(folder, statement, sentence):
    everything(folder)
    changed(folder, statement)
    with pytest.raises(CollectionError, match=sentence) as caught:
        everything(folder)
    assert str(file_of(folder)) in str(caught.value)


def with_old_rows(folder, before, table, condition="1"):
    """Bring rows of an older copy back, as a page does that the disk failed to write: their own checksums are right."""
    changed(
        folder,
        f"ATTACH '{before}' AS before",
        f"DELETE FROM {table} WHERE {condition}",
        f"INSERT INTO {table} SELECT * FROM before.{table} WHERE {condition}",
    )


@pytest.mark.parametrize("table", ["vector", "payload"])
def test_verify_notices_rows_from_before_a_later_change(folder, tmp_path, table):
    shutil.copy(file_of(folder), tmp_path / "before")
    with Collection.open(folder) as shop:
        shop.add(-X[9:12], ids=[9, 10, 11], payload=[{"n": 0}] * 3)
        assert shop.verify().problems == ()
    with_old_rows(folder, tmp_path / "before", table, "id IN (9, 10)")
    with Collection.open(folder) as shop:
        assert any(f"its {table}s are not those that were written" in problem for problem in shop.verify().problems)


def test_the_sums_follow_every_change(folder):
    with Collection.open(folder) as shop:
        shop.add(X[:20], ids=np.arange(10, 30))  # some rows replaced, all of them known or new
        shop.add(X[:3], ids=[7, 500, 501], payload=[{"n": 1}] * 3)
        shop.delete([500, 11])
        shop.update_payload([12], [{"n": 5}])
        assert shop.verify() == (60, 22, 60, (), ())
        shop.migrate(X[30:60] * 2, ids=range(30, 60), vectors="drop")
        shop.add(X[:1], ids=[20])
        assert shop.verify() == (60, 22, 59, (), ())


def test_a_model_from_before_a_migration_is_noticed(folder, tmp_path):
    shutil.copy(file_of(folder), tmp_path / "before")
    with Collection.open(folder) as shop:
        shop.migrate(X[10:40] * 2, ids=range(10, 40), vectors="drop")
    with_old_rows(folder, tmp_path / "before", "spec")
    with pytest.raises(CollectionError, match="its model and settings are those from before a later change"):
        Collection.open(folder)


def test_verify_uses_the_model_of_the_moment(folder):
    """Another process may have migrated the collection and dropped its vectors."""
    with Collection.open(folder) as early, Collection.open(folder) as late:
        assert early.verify().problems == ()
        late.migrate(X[10:40] * 2, ids=range(10, 40), vectors="drop")
        late.add(X[:2] * 2, ids=[3, 100])
        assert early.verify() == late.verify() == (60, 28, 58, (), ())


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, '{"n":' * 100_000 + "1" + "}" * 100_000, "[1]"])
def test_a_payload_that_no_collection_writes_is_said(folder, text):
    """Its checksum is right, so somebody made it on purpose."""
    checksum = payload_checksum(11, text.encode())
    changed(
        folder,
        f"UPDATE payload SET json = '{text}', checksum = {checksum} WHERE id = 11",
    )
    with Collection.open(folder) as shop:
        for ask in (lambda: shop.get(11), lambda: shop.count({"name": "x"}), lambda: shop.count({'a"b': "x"})):
            with pytest.raises(CollectionError, match="payload"):
                ask()
        assert any("payload of row 11" in problem for problem in shop.verify().problems)


def test_lost_payloads_are_noticed_where_not_all_rows_have_one(folder):
    changed(folder, "DELETE FROM payload WHERE id = 11")
    with Collection.open(folder) as shop:
        assert shop.get(13).payload["n"] == 13
        for _ in range(2):  # the first such question is not the only one that is answered so
            with pytest.raises(CollectionError, match="payloads"):
                shop.get(11)


def test_a_lost_end_of_the_log_is_noticed(folder, tmp_path):
    """SQLite drops the rest of a damaged log without a word; the count of commits beside it tells."""
    shop = Collection.open(folder)
    shop.add(X[:2], ids=[100, 101])
    shop.add(X[:2], ids=[102, 103])
    shutil.copytree(folder, tmp_path / "copy")
    shop.close()
    log = Path(f"{file_of(tmp_path / 'copy')}-wal")
    data = bytearray(log.read_bytes())
    data[-1000] ^= 1
    log.write_bytes(data)
    with pytest.raises(CollectionError, match=r"lost its last 1 commits.*collection\.commits"):
        Collection.open(tmp_path / "copy")
    (tmp_path / "copy" / files_of.COMMITS_FILE).unlink()  # as the sentence says
    with Collection.open(tmp_path / "copy") as shop:
        assert len(shop) == 61


def test_a_damaged_count_of_commits_is_ignored(folder):
    (folder / files_of.COMMITS_FILE).write_bytes(b"\xff" * 20)
    assert everything(folder)[0] == 59
    (folder / files_of.COMMITS_FILE).write_bytes(b"")
    assert everything(folder)[0] == 59


def test_the_process_that_wrote_notices_that_its_commits_are_gone(folder, tmp_path):
    old = tmp_path / "old.sqlite"
    shutil.copy(file_of(folder), old)
    with Collection.open(folder) as shop:
        shop.add(X[:1], ids=[500])
        shop.close()
        shop = Collection.open(folder)
        shop.add(X[:1], ids=[501])
        # Into the same file, as cp does, and with SQLite's own help, so that the copy is whole.
        source, target = sqlite3.connect(old), sqlite3.connect(file_of(folder))
        source.backup(target)
        source.close()
        target.close()
        for ask in (shop.count, lambda: shop.search(X[:1], k=1), lambda: shop.add(X[:1])):
            with pytest.raises(CollectionError, match=r"went back .* Open it again"):
                ask()
        shop.close()


def refused(call):
    with pytest.raises((CollectionError, ModelFileError, IndexFileError), match=r"collection|in use"):
        call()


LOOKS = {
    "backup": lambda shop, folder: refused(lambda: shop.backup(file_of(folder))),
    "backup to its log": lambda shop, folder: refused(lambda: shop.backup(f"{file_of(folder)}-shm")),
    "restore": lambda shop, folder: refused(lambda: Collection.restore(file_of(folder), folder.parent / "other")),
    "load": lambda shop, folder: refused(lambda: hashlearn.load(file_of(folder))),
    "load an index": lambda shop, folder: refused(lambda: Index.load(file_of(folder))),
    "open": lambda shop, folder: file_of(folder).open("rb").close(),
    "copytree": lambda shop, folder: shutil.copytree(folder, folder.parent / "other"),
}


def added_elsewhere(folder, count):
    """Let another process add rows and close the collection."""
    code = f"""
import numpy as np
from hashlearn import Collection
with Collection.open({str(folder)!r}) as shop:
    shop.add(np.ones(({count}, 6), dtype=np.float32))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(os.name != "posix", reason="locks of other systems belong to a descriptor")
@pytest.mark.parametrize("look", LOOKS)
def test_looking_at_the_own_file_loses_no_rows(folder, look):
    """When a process closes any descriptor of a file, it loses the locks that SQLite holds on it."""
    with Collection.open(folder) as shop:
        shop.add(X[:1])
        LOOKS[look](shop, folder)
        added_elsewhere(folder, 5)
        shop.add(X[:20])
        added_elsewhere(folder, 3)
        assert len(shop) == 60 + 5 + 20 + 3
    with Collection.open(folder) as shop:
        assert len(shop) == 60 + 5 + 20 + 3
        assert shop.verify().problems == ()


@pytest.mark.parametrize("look", ["backup", "backup to its log", "restore", "load", "load an index"])
def test_own_calls_leave_the_locks_alone(folder, look):
    """The log stays where it is, because nobody else can take itself for the last user of the file."""
    with Collection.open(folder) as shop, Collection.open(folder) as reader:
        shop.add(X[:1])
        assert len(reader) == 60
        LOOKS[look](shop, folder)
        log = os.stat(f"{file_of(folder)}-wal").st_ino
        added_elsewhere(folder, 5)
        assert os.stat(f"{file_of(folder)}-wal").st_ino == log


@pytest.mark.skipif(os.name != "posix", reason="locks of other systems belong to a descriptor")
def test_a_log_that_was_removed_is_said_while_others_in_the_process_use_it(folder):
    with Collection.open(folder) as shop, Collection.open(folder) as other:
        assert len(other) == len(shop) == 59
        LOOKS["open"](shop, folder)
        added_elsewhere(folder, 5)
        with pytest.raises(CollectionError, match=r"log of .* was removed while this process had it open"):
            shop.add(X[:1])
        other.close()
        shop.add(X[:1])
        assert len(shop) == 65


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be removed elsewhere")
def test_rows_written_to_a_log_that_has_gone_are_not_acknowledged(folder):
    with Collection.open(folder) as shop:
        with (
            pytest.raises(CollectionError, match=r"its log was replaced .* repeat the change"),
            shop._store._database.writing() as transaction,
        ):
            transaction.state = transaction.state._replace(last_id=1000)
            Path(f"{file_of(folder)}-wal").unlink()
        shop.add(X[:1])
        assert shop.verify().problems == ()


def replaced(folder, make):
    """Another folder in the place of one that is open."""
    shutil.rmtree(folder)
    make()


def test_a_collection_dropped_and_created_again_under_a_process(folder):
    hasher = ITQ(n_bits=12, random_state=0).fit(X)
    with Collection.open(folder) as shop, Collection.open(folder, read_only=True) as reader:
        everything(folder)
        assert shop.count({"n": {">": 1}}) == reader.count({"n": {">": 1}}) == 28
        Collection.drop(folder)
        for ask in (shop.count, lambda: reader.search(X[:1], k=1), lambda: shop.add(X[:1])):
            with pytest.raises(CollectionError, match=r"no collection in .* any more"):
                ask()
        Collection.create(folder, hasher, store_vectors=True, indexed=["n"]).close()
        # The same kind of collection: both go on with it, and what is added is in it.
        assert len(shop) == len(reader) == 0
        assert shop.add(X[:3], payload=[{"n": 5}] * 3).tolist() == [0, 1, 2]
        assert len(reader) == reader.count({"n": 5}) == 3
        assert reader.count({"n": {">": 1}}) == 3
        assert reader.search(X[:3], k=1, rescore=True).ids[:, 0].tolist() == [0, 1, 2]
    with Collection.open(folder) as again:
        assert len(again) == 3


def test_a_copy_restored_under_a_process(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    with Collection.open(folder) as shop:
        shop.add(X[:5], ids=np.arange(200, 205))
        assert len(shop) == 64
        replaced(folder, lambda: shutil.copytree(tmp_path / "copy", folder))
        started = time.monotonic()
        assert len(shop) == 59
        assert shop.get(200) is None
        assert shop.search(X[:3], k=1, rescore=True).ids[:, 0].tolist() == [0, 1, 2]
        shop.add(X[:1], ids=[300])
        assert time.monotonic() - started < 5  # searches used to spin here
    assert everything(folder)[0] == 60


def test_another_collection_in_its_place_is_said(folder):
    with Collection.open(folder) as shop:
        replaced(folder, lambda: Collection.create(folder, n_bits=8).close())
        for ask in (shop.count, lambda: shop.search(X[:1], k=1), lambda: shop.add(X[:1])):
            with pytest.raises(CollectionError, match=r"replaced by another collection \(8 bits.*open it again"):
                ask()


def test_rows_written_to_a_file_that_has_gone_are_not_acknowledged(folder, monkeypatch):
    with Collection.open(folder) as shop:
        database = shop._store._database
        original = database._acknowledge

        def move_away(state):
            os.rename(folder, f"{folder}.away")
            Collection.create(folder, n_bits=8).close()
            original(state)

        monkeypatch.setattr(database, "_acknowledge", move_away)
        with pytest.raises(CollectionError, match="these may be lost: look"):
            shop.add(X[:1])


def test_drop_waits_for_a_writer_and_a_writer_for_drop(folder, monkeypatch):
    monkeypatch.setattr(files_of, "WAIT_SECONDS", 0.2)
    with Collection.open(folder) as shop:
        other = sqlite3.connect(file_of(folder), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CollectionError, match="written by somebody else"):
            Collection.drop(folder)
        assert len(shop) == 59
        monkeypatch.setattr(files_of, "WAIT_SECONDS", 60.0)
        errors, waiting = [], threading.Event()
        database = shop._store._database
        connect = database._connect

        def connected():
            try:
                return connect()
            finally:
                waiting.set()

        database._free.clear()
        database._connect = connected

        def add():
            try:
                shop.add(X[:1])
            except CollectionError as error:
                errors.append(str(error))

        writer = threading.Thread(target=add)
        writer.start()
        waiting.wait()
        for end in ("-wal", "-shm", ""):  # what drop does while it holds the lock
            Path(f"{file_of(folder)}{end}").unlink()
        other.execute("ROLLBACK")
        other.close()
        writer.join()
        assert len(errors) == 1
        assert "no collection in" in errors[0]


def test_what_is_damaged_can_be_dropped(folder):
    file_of(folder).write_bytes(b"no database at all" * 500)
    Collection.drop(folder)
    assert not folder.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_is_told_to_open_for_itself(folder):
    """Children that forked while another thread wrote hung for good."""
    shop = Collection.open(folder)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            shop.add(X[:1], ids=[900])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for ask in (shop.count, lambda: shop.search(X[:1], k=1), lambda: shop.hasher, lambda: shop.add(X[:1])):
            pid = os.fork()
            if not pid:
                signal.alarm(20)  # a child that hangs is killed
                said = 1
                try:
                    ask()
                except CollectionError as error:
                    said = 0 if "open the collection in each process" in str(error) else 2
                finally:
                    shop.close()
                    os._exit(said)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        stop.set()
        writer.join()
    assert len(shop) == 60  # the parent goes on
    shop.close()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="another user is needed, who may not write")
def test_a_folder_of_somebody_else(folder):
    """A user without the right to write is told what to do, and reads."""
    for path in (folder, *folder.parents):
        if str(path).startswith("/tmp/"):
            path.chmod(0o755)
    script = (
        "import os, sys\nfrom hashlearn.collection import CollectionError\n"
        "from hashlearn.collection.stores.embedded.store import EmbeddedStore\nos.setgid(65534); os.setuid(65534)\n"
        "try:\n    EmbeddedStore.open(sys.argv[1])\nexcept CollectionError as error:\n    print(error)\n"
        "print(EmbeddedStore.open(sys.argv[1], read_only=True).count())\n"
    )
    told = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False)
    assert "open it with read_only=True" in told.stdout, told.stderr
    assert told.stdout.splitlines()[-1] == "59"


def test_a_folder_that_may_not_be_looked_into_is_said(folder, tmp_path, monkeypatch):
    def refuse(self, **_):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", refuse)
    for call in (Collection.open, Collection.drop, lambda place: Collection.create(place, n_bits=8)):
        with pytest.raises(CollectionError, match="Permission denied"):
            call(folder)
