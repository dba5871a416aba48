"""Codes in other engines: searches by Hamming distance find what ``hl.Index`` finds, with the real packages."""

import apsw
import duckdb
import lancedb
import numpy as np
import pyarrow
import pytest
import sqlite_vec
from qdrant_client import QdrantClient, models

import hashlearn as hl

K = 25


@pytest.fixture(scope="module", params=["AutoHasher", "GSDHP"])
def coded(request, digits):
    """Codes of rows, codes of queries, and their neighbors; of GSDHP very many rows have one code."""
    X, y = digits
    n_bits = {"AutoHasher": 128, "GSDHP": 64}[request.param]
    hasher = getattr(hl, request.param)(n_bits, random_state=0).fit(X[:600], y[:600])
    codes, queries = hasher.encode(X), hasher.encode_queries(X[1500:1520])
    index = hl.Index(n_bits)
    index.add(codes)
    hits = index.search(queries, K)
    return n_bits, codes, queries, hits


def check(found, query, hits, codes, queries):
    """Distances are those of the index; ids too, except among the ties at the last distance."""
    ids, distances = np.array([row[0] for row in found]), np.array([row[1] for row in found])
    np.testing.assert_array_equal(distances, hits.distances[query])
    np.testing.assert_array_equal(hl.codes.hamming_distances(queries[query : query + 1], codes)[0, ids], distances)
    assert len(set(ids)) == K
    sure = distances < distances[-1]
    assert set(ids[sure]) == set(hits.ids[query][sure])


def test_sqlite_vec(coded):
    n_bits, codes, queries, hits = coded
    db = apsw.Connection(":memory:")
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    db.execute(f"CREATE VIRTUAL TABLE items USING vec0(code bit[{n_bits}])")
    rows = [(i, row.tobytes()) for i, row in enumerate(codes)]
    db.executemany("INSERT INTO items(rowid, code) VALUES (?, vec_bit(?))", rows)
    nearest = "SELECT rowid, distance FROM items WHERE code MATCH vec_bit(?) AND k = ? ORDER BY distance"
    ordered = "SELECT rowid, vec_distance_hamming(code, vec_bit(?)) AS d FROM items ORDER BY d, rowid LIMIT ?"
    for query, code in enumerate(queries):
        check(list(db.execute(nearest, (code.tobytes(), K))), query, hits, codes, queries)
        assert [row[0] for row in db.execute(ordered, (code.tobytes(), K))] == hits.ids[query].tolist()


def test_duckdb(coded):
    n_bits, codes, queries, hits = coded
    db = duckdb.connect()
    db.execute("CREATE TABLE items (id BIGINT, code BIT)")
    rows = pyarrow.table({"id": np.arange(len(codes)), "code": [row.tobytes() for row in codes]})
    db.register("rows", rows)
    db.execute("INSERT INTO items SELECT id, code::BIT FROM rows")
    assert db.execute("SELECT DISTINCT bit_length(code) FROM items").fetchall() == [(n_bits,)]
    statement = "SELECT id, bit_count(xor(code, ?::BLOB::BIT)) AS d FROM items ORDER BY d, id LIMIT ?"
    for query, code in enumerate(queries):
        found = db.execute(statement, [code.tobytes(), K]).fetchall()
        assert found == list(zip(hits.ids[query].tolist(), hits.distances[query].tolist(), strict=True))


def test_lancedb(coded, tmp_path):
    _, codes, queries, hits = coded
    vectors = pyarrow.FixedSizeListArray.from_arrays(codes.ravel(), codes.shape[1])
    rows = pyarrow.table({"id": np.arange(len(codes)), "code": vectors})
    items = lancedb.connect(tmp_path).create_table("items", rows)
    for query, code in enumerate(queries):
        found = items.search(code, vector_column_name="code").distance_type("hamming").limit(K).to_list()
        check([(row["id"], row["_distance"]) for row in found], query, hits, codes, queries)


def test_qdrant(coded):
    """Qdrant has no Hamming distance. Of zeros and ones Manhattan is the same, of signs (bits - dot product) / 2."""
    n_bits, codes, queries, hits = coded
    client = QdrantClient(":memory:")
    one_byte = models.VectorParams(size=n_bits, distance=models.Distance.MANHATTAN, datatype=models.Datatype.UINT8)
    signs = models.VectorParams(size=n_bits, distance=models.Distance.DOT)
    for name, parameters, vectors in (
        ("bits", one_byte, hl.codes.unpack),
        ("signs", signs, lambda codes, n_bits: hl.codes.unpack_signs(codes, n_bits).astype(np.float32)),
    ):
        client.create_collection(name, vectors_config=parameters)
        client.upload_collection(name, vectors=vectors(codes, n_bits), ids=range(len(codes)))
        for query, vector in enumerate(vectors(queries, n_bits)):
            points = client.query_points(name, query=vector.tolist(), limit=K).points
            distances = [p.score if name == "bits" else (n_bits - p.score) / 2 for p in points]
            check(list(zip([p.id for p in points], distances, strict=True)), query, hits, codes, queries)
