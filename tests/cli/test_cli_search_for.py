"""What ``hashlearn search`` can search for besides a file: rows of the collection, by ids of every kind."""

import json
import time
import uuid

import numpy as np
import pytest

from hashlearn import Collection

IDS = {
    "int": [str(n) for n in range(40)],
    "text": [f"sku {n}, [red]" for n in range(40)],
    "uuid": [str(uuid.UUID(int=n)) for n in range(40)],
}


def facts(result):
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("kind", IDS)
def test_rows_are_searched_for_by_their_ids(call, model, folder, kind):
    ids = IDS[kind]
    X = np.load(folder / "X.npy")[:40]
    np.save(folder / "few.npy", X)
    (folder / "ids.txt").write_text("".join(f"{one}\n" for one in ids))
    facts(call("index", "create", "shop", "--model", "model.hl", "--ids", kind, "--vectors", "--json"))
    facts(call("index", "add", "shop", "few.npy", "--ids", "ids.txt", "--json"))
    found = facts(call("search", "shop", "--id", ids[7], "--id", ids[3], "-k", 40, "--json"))["results"]
    with Collection.open(folder / "shop", read_only=True) as shop:
        for place, rows in zip((7, 3), found, strict=True):
            code = shop.get([int(ids[place]) if kind == "int" else ids[place]])[0].code
            wanted = shop.search(codes=code[None], k=40).to_list()[0]
            wanted = [(str(row["id"]), row["distance"]) for row in wanted if str(row["id"]) != ids[place]]
            assert [(str(row["id"]), row["distance"]) for row in rows] == wanted
    later = facts(call("search", "shop", "--id", ids[3], "-k", 5, "--offset", 4, "--json"))["results"][0]
    assert [str(row["id"]) for row in later] == [one for one, _ in wanted[4:9]]
    near = facts(call("search", "shop", "--id", ids[7], "-k", 2, "--rescore", 20, "--metric", "euclidean", "--json"))
    far = np.linalg.norm(X - X[7], axis=1)
    assert [str(row["id"]) for row in near["results"][0]] == [ids[n] for n in np.argsort(far)[1:3]]
    ball = facts(call("search", "shop", "--id", ids[7], "--radius", 12, "--json"))["results"][0]
    assert {str(row["id"]) for row in ball} == set(ids) - {ids[7]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Give queries Q"),
        (("X.npy", "--radius", "3", "--offset", "2"), "--offset goes with -k"),
        (("X.npy", "--id", "1"), "Give queries Q"),
        (("--text", "red shoes"), "names no text model"),
        (("--text", " "), "--text is empty"),
        (("--id", "1", "--codes"), "--codes says that Q holds codes"),
        (("--id", "one"), "ids of shop are whole numbers from 0. Got --id 'one'"),
        (("--id", "900"), "shop has no row with the id 900"),
        (("--id", "1", "--rescore", "10"), "shop keeps none"),
    ],
)
def test_what_cannot_be_searched_for(call, model, words, said):
    facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    facts(call("index", "add", "shop", "X.npy", "--json"))
    code, out, err = call("search", "shop", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_a_field_that_no_payload_has_is_told_once(call, model, folder):
    (folder / "meta.csv").write_text("color\n" + "red\n" * 240)
    facts(call("index", "create", "shop", "--model", "model.hl", "--json"))
    facts(call("index", "add", "shop", "X.npy", "--payload", "meta.csv", "--json"))
    for more in (("-k", 3), ("--radius", 3)):
        code, out, err = call("search", "shop", "Xq.npy", "--where", '{"colour": "red"}', "--json", *more)
        assert (code, json.loads(out)["results"]) == (0, [[]] * 30)
        assert err == (
            "hashlearn: warning: No payload has the field 'colour', so the filter finds nothing: payloads have color. "
            "Did you mean 'color'?\n"
        )


def test_a_file_that_is_missing_is_told_where_texts_are_ids(call, folder):
    facts(call("index", "create", "shop", "--bits", 8, "--ids", "text", "--json"))
    code, out, err = call("index", "delete", "shop", "--ids", "gone.txt", "--json")
    assert (code, json.loads(out)["rows_deleted"]) == (0, 0)
    assert "there is no file gone.txt, so this is taken for the id of a row" in err


def test_a_long_table_is_as_quick_as_json(call, folder, model):
    """Rich lays out 5,000 lines in a second; 60,000 lines took 15 s, and all neighbors of all queries did not end."""
    assert call("index", "create", "shop", "--model", "model.hl")[0] == 0
    assert call("index", "add", "shop", "X.npy")[0] == 0
    started = time.process_time()
    code, out, _ = call("search", "shop", "Xq.npy", "-k", 99999)
    assert time.process_time() - started < 2
    assert code == 0
    head, line, *rows = out.splitlines()
    assert head.split() == ["query", "rank", "id", "distance"]
    assert set(line) == {"─"}
    assert len(rows) == 30 * 240
    found = json.loads(call("search", "shop", "Xq.npy", "-k", 99999, "--json")[1])["results"]
    assert [(int(row.split()[2]), int(row.split()[3])) for row in rows] == [
        (hit["id"], hit["distance"]) for hits in found for hit in hits
    ]


def test_an_empty_collection_says_so(call, folder, model):
    assert call("index", "create", "shop", "--model", "model.hl")[0] == 0
    code, out, err = call("search", "shop", "Xq.npy", "--json")
    assert code == 0
    assert json.loads(out)["results"] == [[]] * 30
    assert err == "hashlearn: shop is empty: add rows with hashlearn index add.\n"


def test_facts_of_text_ids_have_no_number_that_no_id_has(call, folder, model):
    assert call("index", "create", "shop", "--model", "model.hl", "--ids", "text")[0] == 0
    np.save(folder / "one.npy", np.load(folder / "X.npy")[:1])
    (folder / "ids.txt").write_text("red shoe\n")
    assert call("index", "add", "shop", "one.npy", "--ids", "ids.txt")[0] == 0
    told = json.loads(call("index", "info", "shop", "--json")[1])
    assert "next_id" not in told
    assert not any(isinstance(value, int) and value > 10**9 for value in told.values())
