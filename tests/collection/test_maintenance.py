"""Backup, restore, verify and compact, on every kind of storage and under use."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from hashlearn import ITQ, Collection
from hashlearn.cli import main
from hashlearn.collection import CollectionError, UnsupportedByStoreError
from hashlearn.collection.stores.embedded import database as connection
from hashlearn.collection.stores.embedded.database import FILE
from hashlearn.collection.stores.embedded.schema import payload_checksum
from hashlearn.progress import listening
from hashlearn.wholefile import OpenConnection

X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def hasher():
    return ITQ(n_bits=12, random_state=0).fit(X)


@pytest.fixture
def shop(tmp_path, hasher):
    with Collection.create(tmp_path / "shop", hasher, store_vectors=True, indexed=["n"]) as collection:
        collection.add(X, payload=[{"n": n} if n % 3 else None for n in range(300)])
        yield collection


def contents(collection):
    return [
        (rows.ids.tolist(), rows.codes.tolist(), rows.payloads, rows.vectors.tolist())
        for rows in collection.scan(64, vectors=True)
    ]


def changed(folder, statement):
    db = sqlite3.connect(Path(folder) / FILE, isolation_level=None)
    db.execute(statement)
    db.close()


def test_a_backup_is_one_moment_and_comes_back(shop, tmp_path):
    before, told = contents(shop), []
    with listening(lambda phase, done, total: told.append((phase, done, total))):
        shop.backup(tmp_path / "monday")
    shop.add(X[:10], ids=np.arange(500, 510))
    shop.delete(np.arange(50))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["monday"]  # one file, and nothing half
    assert ("copying", *[max(done for phase, done, _ in told if phase == "copying")] * 2) in told
    with listening(lambda phase, done, total: told.append((phase, done, total))):
        restored = Collection.restore(tmp_path / "monday", tmp_path / "again")
    assert any(phase == "restoring" for phase, _, _ in told)
    with restored:
        assert contents(restored) == before
        assert restored.verify() == (300, 200, 300, (), ())
        assert restored.add(X[:1]).tolist() == [300]  # and lives on
        assert restored.count({"n": {">": 295}}) == 3
    with pytest.raises(CollectionError, match=r"holds a collection already.*--replace"):
        Collection.restore(tmp_path / "monday", tmp_path / "again")
    shop.backup(tmp_path / "monday")  # an earlier backup is replaced
    with Collection.restore(tmp_path / "monday", tmp_path / "third") as third:
        assert contents(third) == contents(shop)


@pytest.mark.slow
def test_restoring_over_a_collection_in_use(shop, tmp_path, hasher):
    before = contents(shop)
    shop.backup(tmp_path / "monday")
    with Collection.open(tmp_path / "shop", read_only=True) as reader:
        shop.delete(np.arange(100))
        shop.add(X[:50], ids=np.arange(1000, 1050))
        assert len(reader) == 250
        seen = reader.scan(50)
        first = next(seen)
        with Collection.restore(tmp_path / "monday", tmp_path / "shop", replace=True) as restored:
            # A question that was begun before is answered from before.
            assert sum(len(rows.ids) for rows in [first, *seen]) == 250
            for collection in (shop, reader, restored):
                assert contents(collection) == before
                assert collection.search(X[:20], k=1, rescore=True).ids[:, 0].tolist() == list(range(20))
                assert collection.count({"n": {"<": 10}}) == 6
        shop.add(X[:1], ids=[2000])
        assert len(reader) == len(shop) == 301
    shutil.rmtree(tmp_path / "shop")
    other = Collection.create(tmp_path / "shop", n_bits=5)
    Collection.restore(tmp_path / "monday", tmp_path / "shop", replace=True).close()
    with pytest.raises(CollectionError, match="replaced by another collection"):
        len(other)
    other.close()


def test_restoring_over_a_damaged_collection(shop, tmp_path):
    before = contents(shop)
    shop.backup(tmp_path / "monday")
    shop.close()
    for damage in (b"\0" * 50, b"no database at all" * 1000, (tmp_path / "shop" / FILE).read_bytes()[:9000]):
        (tmp_path / "shop" / FILE).write_bytes(damage)
        with Collection.restore(tmp_path / "monday", tmp_path / "shop", replace=True) as again:
            assert contents(again) == before
    names = sorted(path.name for path in (tmp_path / "shop").iterdir())
    assert names in ([FILE], ["collection.commits", FILE])


def test_damage_is_neither_backed_up_nor_restored(shop, tmp_path):
    shop.backup(tmp_path / "good")
    changed(tmp_path / "shop", "UPDATE vector SET floats = zeroblob(32) WHERE id = 17")
    with pytest.raises(CollectionError, match=r"damaged, so there is no backup .* row 17"):
        shop.backup(tmp_path / "bad")
    with pytest.raises(CollectionError, match="damaged"):
        shop.backup(tmp_path / "good")
    assert not (tmp_path / "bad").exists()
    data = bytearray((tmp_path / "good").read_bytes())
    data[data.index(X[200].tobytes()) + 3] ^= 8
    (tmp_path / "worse").write_bytes(data)
    with pytest.raises(CollectionError, match=r"damaged, so nothing was restored .* row 200"):
        Collection.restore(tmp_path / "worse", tmp_path / "new")
    assert not (tmp_path / "new" / FILE).exists()
    Collection.restore(tmp_path / "good", tmp_path / "new").close()


def test_what_is_no_backup_is_said(shop, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for name in ("notes.txt", "shop"):
        with pytest.raises(CollectionError, match="is no backup"):
            shop.backup(tmp_path / name)
        with pytest.raises(CollectionError, match="is no backup"):
            Collection.restore(tmp_path / name, tmp_path / "new")
    with pytest.raises(CollectionError, match="no folder"):
        shop.backup(tmp_path / "nowhere" / "backup")
    assert len(shop)  # after an error, the file is opened again by the next call
    with pytest.raises(CollectionError, match="is in use"):
        Collection.restore(tmp_path / "shop" / FILE, tmp_path / "new")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_backups_while_others_write(shop, tmp_path):
    """Every backup holds whole transactions: batches of ten rows."""
    stop, errors = threading.Event(), []

    def write():
        try:
            while not stop.is_set():
                shop.add(X[:10])
        except Exception as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    for number in range(5):
        with Collection.open(tmp_path / "shop", read_only=True) as reader:
            reader.backup(tmp_path / "live")
        with Collection.restore(tmp_path / "live", tmp_path / f"new{number}") as copy:
            assert len(copy) % 10 == 0
            assert copy.verify().problems == ()
    stop.set()
    writer.join()
    assert not errors


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_killed_restore_leaves_the_old_or_the_new(shop, tmp_path):
    shop.add(X, ids=np.arange(1000, 1300))
    shop.backup(tmp_path / "large")
    shop.delete(np.arange(1000, 1300))
    shop.close()
    script = (
        "import os, signal, sys\nfrom hashlearn import Collection\nfrom hashlearn.progress import listening\n"
        "def kill(phase, done, total):\n    if phase == 'restoring': os.kill(os.getpid(), signal.SIGKILL)\n"
        "with listening(kill):\n    Collection.restore(sys.argv[1], sys.argv[2], replace=True)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "large"), str(tmp_path / "shop")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with Collection.open(tmp_path / "shop") as again:
        assert len(again) == 300
        assert again.verify().problems == ()


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE block SET codes = zeroblob(length(codes)) WHERE seq = 1", "block 1 does not match"),
        ("DELETE FROM block", "blocks of codes are missing"),
        ("UPDATE payload SET json = '{\"n\":7}' WHERE id = 4", "payload of row 4 does not match"),
        ("UPDATE payload SET json = '{\"n\":7}', checksum = 1 WHERE id < 20", "the same holds for 8 more rows"),
        ("INSERT INTO vector VALUES (900, x'00', 1)", "there is a vector for row 900, which does not exist"),
        ("DELETE FROM payload WHERE id = 4", "its payloads are not those that were written (199 of 200)"),
        ("UPDATE vector SET checksum = checksum + 1 WHERE id = 9", "vector of row 9 does not match"),
        ("DELETE FROM vector WHERE id = 9", "vector of row 9 is missing"),
        ("UPDATE vector SET floats = 'text' WHERE id = 9", "vector of row 9 does not match"),
    ],
)
def test_verify_says_everything_that_is_wrong(shop, tmp_path, statement, sentence):
    assert shop.verify() == (300, 200, 300, (), ())
    changed(tmp_path / "shop", statement)
    found = shop.verify()
    assert any(sentence in problem for problem in found.problems), found.problems
    changed(tmp_path / "shop", "UPDATE vector SET checksum = NULL WHERE id = 250")
    assert len(shop.verify().problems) > len(found.problems)  # one kind of damage hides no other


def test_verify_compares_indexed_fields_with_payloads(shop, tmp_path):
    checksum = payload_checksum(4, b'{"n":77}')
    changed(tmp_path / "shop", f"UPDATE payload SET json = '{{\"n\":77}}', checksum = {checksum} WHERE id = 4")
    assert any("indexed fields of row 4" in problem for problem in shop.verify().problems)


def test_compact_gives_space_back(shop, tmp_path):
    for _ in range(5):
        shop.add(X, ids=np.arange(300), payload=[{"n": n, "text": "x" * 500} for n in range(300)])
    shop.delete(np.arange(20, 300))
    before, size = contents(shop), shop.info()["bytes"]
    with Collection.open(tmp_path / "shop", read_only=True) as reader:
        assert len(reader) == 20
        shop.compact()
        assert contents(reader) == contents(shop) == before
        assert shop.info()["bytes"] < size / 4
        assert shop.info()["blocks"] == 1
        shop.add(X[:1], ids=[999])
        assert len(reader) == 21
        assert shop.verify().problems == ()
        with pytest.raises(CollectionError, match="read only"):
            reader.compact()


@pytest.mark.parametrize("kind", ["postgres", "milvus"])
def test_servers_have_their_own_tools(request, kind, hasher, tmp_path):
    uri = request.getfixturevalue(f"{kind}_uri")
    with Collection.create(uri, hasher, store_vectors=True) as shop:
        shop.add(X, ids=np.arange(300), payload=[{"n": n} if n % 3 else None for n in range(300)])
        shop.delete(np.arange(100))
        found = shop.verify()
        assert found[:4] == (200, 134, 200, ())
        assert found.notes
        shop.compact()
        assert len(shop) == 200
        tool = {"postgres": "pg_dump --format=custom", "milvus": "milvus-backup create"}[kind]
        with pytest.raises(UnsupportedByStoreError, match=f"{tool}.*200 rows .* all is well"):
            shop.backup(tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
    with pytest.raises(UnsupportedByStoreError, match="restore"):
        Collection.restore(tmp_path / "backup", uri)


def test_pg_dump_takes_the_names_that_the_sentence_gives(postgres_server, hasher, tmp_path):
    """The command of the sentence, with the database filled in, makes a dump that pg_restore brings back."""
    uri = postgres_server.uri('odd "name" ü')
    with Collection.create(uri, hasher) as shop:
        shop.add(X[:20], ids=np.arange(20))
        with pytest.raises(UnsupportedByStoreError) as caught:
            shop.backup(tmp_path / "dump")
    command = str(caught.value).split("run ")[1].split(", and pg_restore")[0]
    place = f"host={postgres_server.folder} user=postgres dbname=postgres"
    command = command.replace("DATABASE", f"'{place}'").replace("pg_dump", str(postgres_server.programs / "pg_dump"), 1)
    secret = {"PGPASSWORD": postgres_server.password, "PATH": os.environ["PATH"]}
    if not (postgres_server.programs / "pg_dump").exists():
        pytest.skip("this PostgreSQL comes without pg_dump")
    made = subprocess.run(command, shell=True, env=secret, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    Collection.drop(uri)
    restorer = [str(postgres_server.programs / "pg_restore"), f"--dbname={place}"]
    subprocess.run([*restorer, str(tmp_path / "dump")], env=secret, check=True)
    with Collection.open(uri) as again:
        assert len(again) == 20
        assert again.verify().problems == ()
    Collection.drop(uri)


def run(capsys, *arguments):
    code = main(["index", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_the_commands(shop, tmp_path, capsys):
    folder = tmp_path / "shop"
    assert run(capsys, "backup", folder, tmp_path / "b", "--json")[0] == 0
    assert run(capsys, "restore", tmp_path / "b", tmp_path / "new")[0] == 0
    assert "holds a collection already" in run(capsys, "restore", tmp_path / "b", tmp_path / "new")[2]
    assert run(capsys, "restore", tmp_path / "b", tmp_path / "new", "--replace")[0] == 0
    code, out, _ = run(capsys, "compact", tmp_path / "new", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 300)
    code, out, _ = run(capsys, "verify", tmp_path / "new", "--json")
    assert (code, json.loads(out)["problems"]) == (0, [])
    changed(tmp_path / "new", "UPDATE vector SET floats = zeroblob(32) WHERE id = 3")
    code, out, err = run(capsys, "verify", tmp_path / "new")
    assert code == 1
    assert "vector of row 3" in err
    code, out, _ = run(capsys, "verify", tmp_path / "new", "--json")
    assert (code, len(json.loads(out)["problems"])) == (1, 1)
    code, _, err = run(capsys, "backup", tmp_path / "new", tmp_path / "c")
    assert (code, (tmp_path / "c").exists()) == (1, False)
    assert "so there is no backup" in err


def test_a_backup_does_not_replace_a_collection(shop, tmp_path):
    with Collection.create(tmp_path / "other", n_bits=8) as other:
        other.add(codes=np.zeros((3, 1), dtype=np.uint8))
        for folder in ("shop", "other"):
            with pytest.raises(CollectionError, match="the file of a collection: give the backup another name"):
                shop.backup(tmp_path / folder / FILE)
    with pytest.raises(CollectionError, match="the file of a collection"):  # closed
        shop.backup(tmp_path / "other" / FILE)
    with Collection.open(tmp_path / "other") as other:
        assert len(other) == 3


class FullDisk(OpenConnection):
    """A connection to a disk that has no room to copy the log into the file."""

    def execute(self, statement, *values):
        if "wal_checkpoint" in statement and Path(self.execute("PRAGMA database_list").fetchone()[2]).name == FILE:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return super().execute(statement, *values)


def test_a_restore_that_replaced_the_collection_says_so_on_a_full_disk(shop, tmp_path, monkeypatch):
    shop.backup(tmp_path / "monday")
    before = contents(shop)
    shop.delete(np.arange(100))
    monkeypatch.setattr(connection, "OpenConnection", FullDisk)
    Collection.restore(tmp_path / "monday", tmp_path / "shop", replace=True).close()
    assert contents(shop) == before
    assert shop.verify().problems == ()


def test_compact_on_a_full_disk_says_what_it_did(shop, monkeypatch):
    monkeypatch.setattr(connection, "OpenConnection", FullDisk)
    shop._store._database._close_free()
    with pytest.raises(CollectionError, match="nothing was lost, but its log could not be emptied"):
        shop.compact()
    assert shop.verify().problems == ()
