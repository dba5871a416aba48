"""Exported files in their own runtimes: each function gives codes, query codes and expected bits of rows."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sqlite3
import subprocess
from pathlib import Path

import duckdb
import numpy as np
import pytest

NODE = """
import { readFileSync, writeFileSync } from "node:fs";
const [file, rows, out, codesOnly] = process.argv.slice(1);
const { encode, encodeQuery, expectedBits, nFeatures } = await import(file);
const bytes = readFileSync(rows);
const X = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const parts = [];
for (let i = 0; i < X.length; i += nFeatures) {
  const row = X.subarray(i, i + nFeatures);
  parts.push(encode(row));
  if (!codesOnly) parts.push(encodeQuery(row), new Uint8Array(expectedBits(row).buffer));
}
writeFileSync(out, Buffer.concat(parts));
"""


def run_numpy(path: Path, X):
    made = runpy.run_path(str(path))
    return made["encode"](X), made["encode_queries"](X), made["expected_bits"](X)


def run_onnx(path: Path, X):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = ["codes", "query_codes", "expected_bits"]
    # In parts, because a session keeps the kernel features of all rows of a call at once.
    parts = [session.run(wanted, {"rows": X[i : i + 2048]}) for i in range(0, len(X), 2048)]
    return tuple(np.concatenate([part[place] for part in parts]) for place in range(3))


def need_node() -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed.")
    return node


def run_node(path: Path, X, codes_only: bool = False, **settings):
    rows, out = path.with_suffix(".rows"), path.with_suffix(".out")
    rows.write_bytes(np.ascontiguousarray(X, dtype="<f4").tobytes())
    command = [need_node(), "--input-type=module", "-e", NODE, str(path), str(rows), str(out)]
    subprocess.run([*command, "1"] if codes_only else command, check=True, timeout=1800, **settings)
    if codes_only:
        return (np.fromfile(out, dtype=np.uint8).reshape(len(X), -1),)
    return split_results(out.read_bytes(), len(X))


def split_results(content: bytes, n_rows: int):
    """Codes, query codes and expected bits of rows that are written one after the other."""
    row_bytes = len(content) // n_rows
    # 2 ceil(bits / 8) bytes of codes and 4 bits bytes of floats.
    n_bits = next(bits for bits in range(1, 1025) if 2 * -(-bits // 8) + 4 * bits == row_bytes)
    width, table = -(-n_bits // 8), np.frombuffer(content, dtype=np.uint8).reshape(n_rows, row_bytes)
    expected = np.ascontiguousarray(table[:, 2 * width :]).view("<f4")
    return table[:, :width], table[:, width : 2 * width], expected


def run_postgres(path: Path, X, connection, codes_only: bool = False):
    """The functions of a script; rows go into a table, as in a user's database."""
    script = path.read_text()
    name = re.search(r"FUNCTION project_(\w+)\(", script)[1]
    connection.execute(script)
    connection.execute("CREATE TEMPORARY TABLE exported_rows (i int, x vector)")
    with connection.cursor().copy("COPY exported_rows FROM STDIN") as copy:
        for i, row in enumerate(X):
            copy.write_row((i, "[" + ",".join(f"{value:.9g}" for value in row.tolist()) + "]"))
    columns = f"hash_{name}(x)::text"
    if not codes_only:
        columns += f", hash_query_{name}(x)::text, expected_{name}(x)::real[]"
    found = connection.execute(f"SELECT {columns} FROM exported_rows ORDER BY i").fetchall()
    connection.execute("DROP TABLE exported_rows")
    codes = _packed([row[0] for row in found])
    if codes_only:
        return (codes,)
    return codes, _packed([row[1] for row in found]), np.array([row[2] for row in found], dtype=np.float32)


def opened_views(path: Path, X, to: str):
    """A database in memory after the script, with rows in the table that it makes."""
    db = duckdb.connect() if to == "duckdb" else sqlite3.connect(":memory:")
    script = path.read_text()
    (db.execute if to == "duckdb" else db.executescript)(script)
    rows = [(i, row if to == "duckdb" else json.dumps(row)) for i, row in enumerate(X.tolist())]
    db.executemany(f"INSERT INTO {re.search(r'rows_[a-z]+', script)[0]} VALUES (?, ?)", rows)
    return db


def run_views(path: Path, X, to: str, codes_only: bool = False):
    db = opened_views(path, X, to)
    codes, *queries = (
        _packed([row[0] for row in db.execute(f"SELECT code FROM {kind}_{path.stem} ORDER BY id").fetchall()])
        for kind in (("hash",) if codes_only else ("hash", "hash_query"))
    )
    if codes_only:
        return (codes,)
    expected = db.execute(f"SELECT v FROM expected_{path.stem} ORDER BY id, i").fetchall()
    return codes, *queries, np.array(expected).reshape(len(X), -1)


def _packed(texts):
    return np.packbits(np.array([list(text) for text in texts]) == "1", axis=1)
