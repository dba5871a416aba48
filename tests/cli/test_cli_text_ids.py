"""Collections whose ids are texts, on the command line: create, add, search, delete."""

import json

import numpy as np
import pytest

from hashlearn import Collection, files


def facts(result):
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


@pytest.mark.slow
def test_texts_from_files_to_hits(call, model, folder):
    names = [f"sku {n}, [red]" for n in range(240)]
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names))
    assert facts(call("index", "create", "shop", "--model", "model.hl", "--ids", "text", "--json"))["ids"] == "text"
    code, _, err = call("index", "add", "shop", "X.npy")
    assert (code, "give --ids" in err) == (2, True)
    assert facts(call("index", "add", "shop", "X.npy", "--ids", "names.txt", "--json"))["rows"] == 240
    found = facts(call("search", "shop", "X.npy", "-k", 240, "--payload", "--json"))["results"]
    assert all({row["id"] for row in rows} == set(names) for rows in found)
    assert all(row["payload"] == {} for rows in found for row in rows)
    code, out, _ = call("search", "shop", "X.npy", "-k", 1)
    assert (code, "[red]" in out) == (0, True)
    (folder / "gone.txt").write_text(f"{names[0]}\n{names[1]}\n")
    assert facts(call("index", "delete", "shop", "--ids", "gone.txt", "--json"))["rows_deleted"] == 2
    with Collection.open(folder / "shop") as shop:
        assert shop.get(names[:3])[:2] == [None, None]


def test_listed_texts_and_columns(call, folder):
    np.save(folder / "codes.npy", np.arange(3, dtype=np.uint8)[:, None])
    (folder / "t.csv").write_text("name,sku\nx,7a\ny,7b\nz,7c\n")
    facts(call("index", "create", "shop", "--bits", 8, "--ids", "text", "--json"))
    facts(call("index", "add", "shop", "--codes", "codes.npy", "--ids", "t.csv:sku", "--json"))
    assert facts(call("index", "delete", "shop", "--ids", "7a,7c", "--json"))["rows"] == 1


def test_a_line_is_an_id_and_none_is_a_header(tmp_path):
    path = tmp_path / "ids.txt"
    path.write_text("id\n17\n")
    assert files.read_text_ids(path) == ["id", "17"]
    path.write_text("a\n\nb\n")
    with pytest.raises(files.FileError, match="row 1 holds no id"):
        files.read_text_ids(path)


def test_update_of_payloads(call, folder):
    np.save(folder / "codes.npy", np.arange(2, dtype=np.uint8)[:, None])
    (folder / "t.csv").write_text("sku,price\n7a,1\n7b,2\n")
    facts(call("index", "create", "shop", "--bits", 8, "--ids", "text", "--json"))
    facts(call("index", "add", "shop", "--codes", "codes.npy", "--ids", "t.csv:sku", "--payload", "t.csv", "--json"))
    (folder / "new.jsonl").write_text('{"price": 5}\n')
    (folder / "one.txt").write_text("7b\n")
    told = facts(call("index", "update", "shop", "--ids", "one.txt", "--payload", "new.jsonl", "--json"))
    assert told["rows_updated"] == 1
    with Collection.open(folder / "shop") as shop:
        assert [item.payload for item in shop.get(["7a", "7b"])] == [
            {"sku": "7a", "price": 1},
            {"sku": "7b", "price": 5},
        ]
    where = ("--where", '{"price": {"<": 3}}')
    told = facts(call("index", "update", "shop", *where, "--fields", '{"cheap": true}', "--json"))
    assert told["rows_updated"] == 1
    with Collection.open(folder / "shop") as shop:
        assert shop.get("7a").payload == {"sku": "7a", "price": 1, "cheap": True}
    for words in ((), where, (*where, "--payload", "new.jsonl"), (*where, "--fields", "[1]"), ("--ids", "one.txt")):
        assert call("index", "update", "shop", *words)[0] == 2, words
    told = facts(call("index", "update", "shop", "--ids", "7a,7b", "--fields", '{"price": 9}', "--json"))
    assert told["rows_updated"] == 2
    with Collection.open(folder / "shop") as shop:
        assert [item.payload["price"] for item in shop.get(["7a", "7b"])] == [9, 9]
    both = ("--ids", "7a", "--payload", "new.jsonl", "--fields", '{"price": 9}')
    assert call("index", "update", "shop", *both)[0] == 2
