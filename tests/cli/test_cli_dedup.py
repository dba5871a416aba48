"""``hashlearn dedup``: pairs and clusters as files."""

import json

import numpy as np
import pytest

import hashlearn as hl


@pytest.fixture
def codes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    codes = np.random.default_rng(0).integers(0, 256, (400, 8), dtype=np.uint8)
    codes[300:] = codes[:100]
    codes[350:, 0] ^= 1
    np.save("codes.npy", codes)
    return codes


def test_pairs_and_clusters(call, codes, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    code, out, _ = call(
        "dedup", "codes.npy", "--bits", 64, "--radius", 2, "--pairs", "p.parquet", "--clusters", "c.npy", "--json"
    )
    assert code == 0
    found = hl.near_duplicates(codes, 2)
    facts = json.loads(out)
    assert (facts["rows"], facts["pairs"], facts["clusters_of_several"], facts["kept"]) == (400, 100, 100, 300)
    table = parquet.read_table("p.parquet")
    assert table.column_names == ["row", "other", "distance"]
    assert np.column_stack([column.to_numpy() for column in table.columns]).tolist() == found.pairs.tolist()
    np.testing.assert_array_equal(np.load("c.npy"), found.clusters)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c.npy", "codes.npy", "p.parquet"]


def test_bad_use(call, codes):
    code, _, err = call("dedup", "codes.npy", "--bits", 64, "--radius", -1)
    assert code == 2
    assert "--radius" in err
    code, _, err = call("dedup", "codes.npy", "--bits", 64, "--radius", 1, "--pairs", "p.csv")
    assert code != 0
    assert ".parquet or .npy" in err
