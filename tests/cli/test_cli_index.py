"""``hashlearn index`` and ``hashlearn search``: what the library does, streamed, resumed, and said in one sentence."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest
from real_command import COMMAND, ENVIRONMENT

from hashlearn import Collection, codes, models
from hashlearn.cli import load_command
from hashlearn.cli.rows import Journal
from hashlearn.collection.stores.embedded.store import EmbeddedStore
from hashlearn.files import read as files_read


def facts(result):
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


@pytest.fixture
def meta(folder):
    """Payloads of the 240 rows in three kinds of files, and their ids."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rows = [{"n": n, "colour": ["red", "blue"][n % 2], "price": n / 8} for n in range(240)]
    parquet.write_table(pa.Table.from_pylist(rows), folder / "meta.parquet")
    (folder / "meta.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [f"{row['n']},{row['colour']},{row['price']}" for row in rows]
    (folder / "meta.csv").write_text("\n".join(["n,colour,price", *lines]) + "\n")
    (folder / "ids.txt").write_text("".join(f"{2**60 + n}\n" for n in range(240)))
    np.save(folder / "ids.npy", 2**60 + np.arange(240))
    (folder / "ids.csv").write_text("name,id\n" + "".join(f"x,{2**60 + n}\n" for n in range(240)))
    return rows


def test_from_files_to_neighbours(call, model, folder, meta):
    made = facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    assert (made["rows"], made["n_bits"], made["hasher"], made["kind"]) == (0, 12, "GSDHP", "flat")
    done = facts(call("index", "add", "shop", "X.npy", "--ids", "ids.txt", "--payload", "meta.parquet", "--json"))
    assert (done["rows_added"], done["rows"]) == (240, 240)
    where = {"colour": "red", "n": {">=": 100}}
    found = facts(call("search", "shop", "Xq.npy", "-k", 4, "--where", json.dumps(where), "--payload", "--json"))
    with Collection.open(folder / "shop") as shop:
        hits = shop.search(np.load(folder / "Xq.npy"), k=4, where=where)
        assert [[row["id"] for row in rows] for rows in found["results"]] == hits.ids.tolist()
        assert [[row["distance"] for row in rows] for rows in found["results"]] == hits.distances.tolist()
        assert all(row["payload"] == meta[row["id"] - 2**60] for rows in found["results"] for row in rows)
        ball = shop.within(np.load(folder / "Xq.npy"), 2)
    near = facts(call("search", "shop", "Xq.npy", "--radius", 2, "--json"))
    assert [row["id"] for rows in near["results"] for row in rows] == ball.ids.tolist()
    code, out, _ = call("search", "shop", "Xq.npy", "-k", 2)
    assert code == 0
    assert len(out.strip().splitlines()) == 2 + 2 * 30
    assert facts(call("index", "delete", "shop", "--where", '{"colour": "blue"}', "--json"))["rows_deleted"] == 120
    assert facts(call("index", "delete", "shop", "--ids", f"{2**60},{2**60 + 1},7", "--json"))["rows_deleted"] == 1
    told = facts(call("index", "info", "shop", "--json"))
    assert (told["rows"], told["storage"]) == (119, "embedded")
    assert "119" in call("index", "info", "shop")[1]


@pytest.mark.parametrize("payload", ["meta.jsonl", "meta.csv", "meta.parquet"])
@pytest.mark.parametrize("ids", ["ids.npy", "ids.csv:id"])
def test_kinds_of_files(call, model, folder, meta, payload, ids):
    facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    facts(call("index", "add", "shop", "X.npy", "--ids", ids, "--payload", payload, "--json"))
    with Collection.open(folder / "shop") as shop:
        assert [item.payload for item in shop.get(2**60 + np.arange(240))] == meta


def test_codes_made_elsewhere_and_exported(call, folder):
    stored = codes.pack(np.random.default_rng(0).integers(0, 2, (50, 20)))
    np.save(folder / "foreign.npy", codes.swap_bit_order(stored))
    facts(call("index", "create", "shop", "--bits", 20, "--json"))
    code, out, err = call("index", "add", "shop", "--codes", "foreign.npy", "--bit-order", "little", "--json")
    assert (code, json.loads(out)["rows_added"]) == (0, 50)
    assert err == ""
    assert facts(call("index", "export", "shop", "-o", "out.npy", "--json"))["rows"] == 50
    np.testing.assert_array_equal(np.load(folder / "out.npy"), stored)
    np.testing.assert_array_equal(np.load(folder / "out.ids.npy"), np.arange(50))
    # What was exported says itself how its bits lie.
    facts(call("index", "export", "shop", "-o", "little.npy", "--bit-order", "little", "--json"))
    facts(call("index", "create", "copy", "--bits", 20, "--json"))
    facts(call("index", "add", "copy", "--codes", "little.npy", "--ids", "little.ids.npy", "--json"))
    found = facts(call("search", "copy", "foreign.npy", "--codes", "--bit-order", "little", "-k", 1, "--json"))
    assert [rows[0]["distance"] for rows in found["results"]] == [0] * 50
    for name in ("out.parquet", "out.faiss"):
        facts(call("index", "export", "shop", "-o", name, "--json"))
        assert (folder / name).stat().st_size > 0
    assert json.loads((folder / "out.faiss.json").read_text())["bit_order"] == "little"
    told = {option.name: option.help for option in load_command("index").commands["export"].params}
    assert "of .faiss (default: little)" in told["bit_order"]


def test_vectors_rescore_and_asymmetric(call, model, folder):
    facts(call("index", "create", "shop", "--model", "model.hl", "--vectors", "--json"))
    facts(call("index", "add", "shop", "X.npy", "--json"))
    X, q = np.load(folder / "X.npy"), np.load(folder / "Xq.npy")
    found = facts(call("search", "shop", "Xq.npy", "-k", 3, "--rescore", 80, "--metric", "euclidean", "--json"))
    exact = np.argsort(np.linalg.norm(q[:, None] - X[None], axis=2), axis=1)[:, :3]
    assert [[row["id"] for row in rows] for rows in found["results"]] == exact.tolist()
    found = facts(call("search", "shop", "Xq.npy", "-k", 3, "--asymmetric", "--json"))
    with Collection.open(folder / "shop") as shop:
        hits = shop.search(q, k=3, asymmetric=True)
    assert [[row["id"] for row in rows] for rows in found["results"]] == hits.ids.tolist()


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_second_run_goes_on(call, model, folder, meta, monkeypatch, with_ids):
    """The first run fails in the middle; the second adds the rest, and no row is there twice or missing."""
    facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    command = ["index", "add", "shop", "big.npy", "--payload", "big.jsonl", *(["--ids", "big.txt"] * with_ids)]
    X = np.random.default_rng(1).normal(size=(5000, 6)).astype(np.float32)
    np.save(folder / "big.npy", X)
    (folder / "big.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(5000)))
    (folder / "big.txt").write_text("".join(f"{5000 - n}\n" for n in range(5000)))
    monkeypatch.setattr(files_read, "_CHUNK_BYTES", 1)  # 2048 rows at a time
    original, calls = EmbeddedStore.add, []

    def fail_second(self, *arguments):
        calls.append(len(arguments[0]))
        if len(calls) == 2:
            raise OSError("the machine went away")
        original(self, *arguments)

    monkeypatch.setattr(EmbeddedStore, "add", fail_second)
    code, _, err = call(*command)
    assert code == 1
    assert "went away" in err
    with Collection.open(folder / "shop") as other:
        assert len(other) == 2048
        other.add(codes=np.zeros((3, 2), dtype=np.uint8), payload=[{"other": True}] * 3)  # somebody else's rows
    code, out, err = call(*command, "--json")
    assert "going on after 2048 of 5000 rows" in err
    assert json.loads(out)["rows_added"] == 5000 - 2048
    assert calls == [2048, 2048, 3, 2048, 904]
    with Collection.open(folder / "shop") as shop:
        assert len(shop) == 5003
        ids = 5000 - np.arange(5000) if with_ids else np.arange(5000)
        items = shop.get(ids)
        assert [item.payload["n"] for item in items] == list(range(5000))
        np.testing.assert_array_equal([item.code for item in items], models.load(folder / "model.hl").encode(X))
    assert not list((folder / "shop").glob("adding-*"))


def test_a_run_that_dies_before_it_can_note_what_it_did(call, model, folder, monkeypatch):
    facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    original, calls = Journal.write, []

    def fail_second(self):
        calls.append(1)
        if len(calls) == 2:
            raise OSError("the machine went away")
        original(self)

    monkeypatch.setattr(Journal, "write", fail_second)
    assert call("index", "add", "shop", "X.npy")[0] == 1
    assert facts(call("index", "info", "shop", "--json"))["rows"] == 240
    done = facts(call("index", "add", "shop", "X.npy", "--json"))
    assert (done["rows_added"], done["rows"]) == (240, 240)  # again, under the same ids
    assert facts(call("index", "add", "shop", "X.npy", "--json"))["rows"] == 480  # a new command adds new rows


def test_an_interrupted_run_notices_another_file(call, model, folder, monkeypatch):
    facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    monkeypatch.setattr(files_read, "_CHUNK_BYTES", 1)
    np.save(folder / "big.npy", np.zeros((5000, 6), dtype=np.float32))
    original, calls = EmbeddedStore.add, []

    def fail_second(self, *arguments):
        calls.append(1)
        if len(calls) == 2:
            raise OSError("the machine went away")
        original(self, *arguments)

    monkeypatch.setattr(EmbeddedStore, "add", fail_second)
    assert call("index", "add", "shop", "big.npy")[0] == 1
    np.save(folder / "big.npy", np.ones((5000, 6), dtype=np.float32))
    code, _, err = call("index", "add", "shop", "big.npy")
    assert code == 1
    assert "big.npy has changed since a run was interrupted after 2048" in err
    assert facts(call("index", "add", "shop", "big.npy", "--restart", "--json"))["rows_added"] == 5000


@pytest.mark.slow
def test_killed_and_resumed(call, model, folder):
    """A real process, a real SIGKILL."""
    facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    X = np.random.default_rng(2).normal(size=(700_000, 6)).astype(np.float32)
    np.save(folder / "long.npy", X)
    process = subprocess.Popen(
        [*COMMAND, "index", "add", "shop", "long.npy"], cwd=folder, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 100
    with Collection.open(folder / "shop", read_only=True) as shop:
        while not len(shop):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert 0 < len(shop) < 700_000
        assert facts(call("index", "add", "shop", "long.npy", "--json"))["rows"] == 700_000
        assert len(shop) == 700_000
        some = np.random.default_rng(3).choice(700_000, 100)
        np.testing.assert_array_equal(
            [item.code for item in shop.get(some)], models.load(folder / "model.hl").encode(X[some].astype(np.float64))
        )
    assert not list((folder / "shop").glob("adding-*"))


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["index", "add", "shop", "narrow.npy"], 1, "narrow.npy has 2 features"),
        (["index", "add", "shop", "X.npy", "--ids", "few.txt"], 1, "few.txt has 2 rows, X.npy has 240."),
        (["index", "add", "shop", "X.npy", "--ids", "same.txt"], 1, "same.txt holds an id more than once."),
        (["index", "add", "shop", "X.npy", "--ids", "words.txt"], 1, "words.txt: row 1 holds 'x'"),
        (["index", "add", "shop", "X.npy", "--payload", "few.jsonl"], 1, "few.jsonl has 1 rows"),
        (["index", "add", "shop", "X.npy", "--payload", "bad.jsonl"], 1, "bad.jsonl: row 7 is no JSON"),
        (["index", "add", "shop", "X.npy", "--payload", "nan.jsonl"], 1, "nan.jsonl: The payload of row 9"),
        (["index", "add", "shop", "X.npy", "--payload", "few.txt"], 1, "must end in"),
        (["index", "add", "shop"], 2, "Give features X or --codes"),
        (["index", "add", "shop", "--codes", "eight.npy"], 1, "eight.npy"),
        (["index", "add", "nowhere", "X.npy"], 1, "no collection in nowhere"),
        (["index", "create", "shop", "--bits", 8], 1, "already"),
        (["index", "create", "new"], 2, "Give --model, --bits for codes made elsewhere, or --from"),
        (["index", "create", "new", "--bits", 8, "--kind", "tree"], 1, "kind"),
        (["index", "create", "new", "--bits", 8, "--set", "a"], 2, "name=number"),
        (["index", "create", "ftp://me:secret@host/x", "--bits", 8], 1, "ftp:// is no known storage"),
        (["index", "create", ":memory:", "--bits", 8], 2, "would end with this command: give a folder."),
        (["index", "info", ":memory:"], 1, ":memory: cannot be opened"),
        (["serve", ":memory:"], 1, "exists only in the object that Collection.create returned"),
        (["index", "delete", "shop"], 2, "Give --ids or --where"),
        (["index", "delete", "shop", "--where", "{}"], 1, "every row"),
        (["index", "export", "shop", "-o", "c.txt"], 1, "c.txt must end in"),
        (["search", "shop", "Xq.npy", "--where", "{colour"], 2, "--where is no JSON"),
        (["search", "shop", "Xq.npy", "--where", "[1]"], 2, "--where must be a JSON object"),
        (["search", "shop", "Xq.npy", "--where", '{"a": {"~": 1}}'], 1, "no operator"),
        (["search", "shop", "Xq.npy", "--rescore", "5"], 1, "keeps no vectors"),
        (["search", "shop", "Xq.npy", "--radius", 2, "--rescore", "5"], 2, "--radius"),
        (["search", "shop", "Xq.npy", "-k", 0], 2, "greater than or equal to 1"),
    ],
)
def test_mistakes_are_one_sentence_and_change_nothing(arguments, code, sentence, call, model, folder):
    np.save(folder / "narrow.npy", np.zeros((4, 2)))
    np.save(folder / "eight.npy", np.zeros((4, 1), dtype=np.uint8))
    (folder / "few.txt").write_text("1\n2\n")
    (folder / "same.txt").write_text("1\n" * 240)
    (folder / "words.txt").write_text("1\nx\n" * 120)
    (folder / "few.jsonl").write_text("{}\n")
    (folder / "bad.jsonl").write_text("{}\n" * 7 + "{oops\n" + "{}\n" * 232)
    (folder / "nan.jsonl").write_text("{}\n" * 9 + '{"x": NaN}\n' + "{}\n" * 230)
    facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    got, out, err = call(*arguments)
    assert (got, out) == (code, "")
    assert err.startswith("hashlearn: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert "secret" not in err
    assert facts(call("index", "info", "shop", "--json"))["rows"] == 0


def test_help_has_examples(call):
    for command in ("create", "add", "delete", "info", "export"):
        code, out, _ = call("index", command, "--help")
        assert code == 0
        assert f"hashlearn index {command} shop/" in " ".join(out.split())
    assert "--where" in call("search", "--help")[1]
    assert "Manage collections" in call("index")[1]


def test_drop_asks_first(call, folder, monkeypatch):
    facts(call("index", "create", "shop", "--bits", 20, "--json"))
    np.save(folder / "c.npy", np.zeros((3, 3), dtype=np.uint8))
    facts(call("index", "add", "shop", "--codes", "c.npy", "--json"))
    code, out, err = call("index", "create", "shop", "--bits", 20)
    assert (code, out) == (1, "")
    assert "open it, or drop it first (Collection.drop; on the command line: index drop)." in err
    code, _, err = call("index", "drop", "shop")
    assert (code, err) == (
        2,
        "hashlearn: Standard input is not a terminal, so removing shop cannot be confirmed: add --yes.\n",
    )
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, err: asked.append(text) or len(asked) > 1)
    code, out, err = call("index", "drop", "shop")
    assert (code, out, err) == (1, "", "hashlearn: nothing was removed.\n")
    assert asked == ["Remove shop and its 3 rows for good?"]
    assert facts(call("index", "info", "shop", "--json"))["rows"] == 3
    assert call("index", "drop", "shop")[0] == 0
    assert not (folder / "shop").exists()
    code, _, err = call("index", "drop", "shop", "--yes")
    assert (code, err) == (1, "hashlearn: There is no collection in shop.\n")
    facts(call("index", "create", "shop", "--bits", 20, "--json"))
    assert facts(call("index", "drop", "shop", "--yes", "--json")) == {"collection": "shop", "dropped": True}
    assert not (folder / "shop").exists()


def test_a_damaged_collection_can_be_dropped_without_being_asked(call, folder):
    facts(call("index", "create", "shop", "--bits", 20, "--json"))
    (folder / "shop" / "collection.sqlite").write_bytes(b"gone")
    assert call("index", "drop", "shop", "--yes")[0] == 0
    assert not (folder / "shop").exists()


def test_what_was_not_kept_is_said_in_the_words_of_the_command_line(call, model, folder):
    facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    for command in (
        ["search", "shop", "X.npy", "--rescore", 2],
        ["index", "add", "shop", "X.npy", "--vectors", "X.npy"],
    ):
        code, _, err = call(*command)
        assert code == 1
        assert "on the command line: index create --vectors" in err
