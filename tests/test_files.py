"""Readers and writers: exact layouts, every format there and back, and one clear sentence for every damage."""

import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from hashlearn import files
from hashlearn.files import feature_file
from hashlearn.files import read as files_read

X = np.array([[1.5, -2.0, 0.0], [0.25, 3.0, 4.0], [5.0, 6.5, -7.0], [0.0, 0.0, 1.0]], dtype=np.float32)


def vecs(rows, item):
    return b"".join(struct.pack(f"<i{len(row)}{item}", len(row), *row) for row in rows)


def write_features(kind: str, folder: Path) -> str:
    path = folder / f"X.{kind}"
    if kind == "npy":
        np.save(path, X)
    elif kind == "npz":
        np.savez(path, X=X, other=np.zeros(2))
    elif kind == "csv":
        path.write_text("\n".join(",".join(map(str, row)) for row in X.tolist()))
    elif kind == "tsv":
        path.write_text("a\tb\tc\n" + "".join("\t".join(map(str, row)) + "\n" for row in X.tolist()))
    elif kind == "parquet":
        pq.write_table(pa.table({name: X[:, place] for place, name in enumerate("abc")}), path)
    elif kind == "fvecs":
        path.write_bytes(vecs(X.tolist(), "f"))
    else:
        with h5py.File(path, "w") as file:
            file["group/images"] = X
            file["other"] = np.zeros(3)
        return f"{path}:group/images"
    return str(path)


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "tsv", "parquet", "fvecs", "h5"])
def test_features_come_back_from_every_format(kind, tmp_path):
    np.testing.assert_array_equal(np.asarray(files.read_features(write_features(kind, tmp_path))), X)


def test_big_formats_stay_on_disk(tmp_path):
    assert isinstance(files.open_features(write_features("npy", tmp_path)), np.memmap)
    assert isinstance(files.open_features(write_features("fvecs", tmp_path)).base, np.memmap)
    assert isinstance(files.open_features(write_features("h5", tmp_path)), h5py.Dataset)


def test_bvecs_and_ivecs_layout(tmp_path):
    (tmp_path / "a.bvecs").write_bytes(b"\x02\0\0\0\x07\xff\x02\0\0\0\x00\x09")
    (tmp_path / "a.ivecs").write_bytes(b"\x01\0\0\0\xfe\xff\xff\xff")
    assert files.read_features(tmp_path / "a.bvecs").tolist() == [[7, 255], [0, 9]]
    assert files.read_features(tmp_path / "a.ivecs").tolist() == [[-2]]


def test_sparse_npz(tmp_path):
    sparse.save_npz(tmp_path / "s.npz", sparse.csc_matrix(X))
    rows = files.read_features(tmp_path / "s.npz")
    assert rows.format == "csr"
    np.testing.assert_array_equal(rows.toarray(), X)
    sparse.save_npz(tmp_path / "y.npz", sparse.csr_matrix(X > 0, dtype=np.int8))
    np.testing.assert_array_equal(files.read_labels(tmp_path / "y.npz").toarray(), X > 0)


def test_sparse_indices_outside_are_refused(tmp_path):
    bad = sparse.csr_matrix(X)
    bad.indices = bad.indices + 100
    sparse.save_npz(tmp_path / "s.npz", bad)
    with pytest.raises(files.FileError, match=r"s\.npz cannot be read: .*ind"):
        files.read_features(tmp_path / "s.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_a_npz_are_read_in_any_order(save, order, tmp_path):
    values = np.asarray(np.random.default_rng(0).normal(size=(500, 7)), order=order)
    save(tmp_path / "d.npz", X=values)
    rows = files.open_features(tmp_path / "d.npz")
    assert (rows.shape, rows.dtype) == (values.shape, values.dtype)
    for block in (slice(0, 3), slice(3, 200), slice(450, 900), slice(10, 11), slice(7, 7)):
        np.testing.assert_array_equal(rows[block], values[block])
    np.testing.assert_array_equal(rows[...], values)


def zeros_npz(path, n_rows, promised=None):
    """A compressed .npz file of many zeros, written in blocks as a small file of a large array."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (promised or n_rows, 1024)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("X.npy", "w") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for _ in range(n_rows // 1024):
            stream.write(bytes(4 * 2**20))


def test_a_small_npz_of_a_large_array_is_read_in_blocks(tmp_path):
    zeros_npz(tmp_path / "X.npz", 2**17)
    assert (tmp_path / "X.npz").stat().st_size < 2**20
    tracemalloc.start()
    try:
        rows = files.open_features(tmp_path / "X.npz")
        assert sum(len(block) for _, block in files.checked_chunks(rows, "X.npz")) == 2**17
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * 2**20  # the array has 512


def test_a_npz_that_is_larger_than_memory_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    zeros_npz(tmp_path / "X.npz", 2**15)
    sparse.save_npz(tmp_path / "s.npz", sparse.eye(2**15, format="csr"))
    monkeypatch.setattr("hashlearn.files.arrays._free_memory", lambda: 2**18)
    with pytest.raises(files.FileError, match=r"X\.npz takes 134 MB unpacked, and only 0 MB of memory are free"):
        files.read_features(tmp_path / "X.npz")
    with pytest.raises(files.FileError, match=r"s\.npz takes \d MB unpacked"):
        files.read_features(tmp_path / "s.npz")


def test_columns_and_data_sets_larger_than_memory_are_refused(tmp_path, monkeypatch):
    n_rows = 2**18
    zeros = pa.array(np.zeros(n_rows, dtype=np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(4 * n_rows)), 4)
    pq.write_table(pa.table({"a": zeros, "b": zeros, "y": zeros}), tmp_path / "X.parquet")
    pq.write_table(pa.table({"v": vectors}), tmp_path / "V.parquet")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file.create_dataset("X", data=np.zeros((n_rows, 2)), compression="gzip")
        file.create_dataset("y", data=np.zeros(n_rows), compression="gzip")
        file.create_dataset("names", data=["a"] * n_rows, compression="gzip")
    reads = {
        "X.parquet:a,b": (files.open_features, 4),
        "V.parquet": (files.open_features, 8),
        "X.parquet:y": (files.read_labels, 2),
        "y.h5:X": (files.read_features, 4),
        "y.h5:y": (files.read_labels, 2),
        "y.h5:names": (files.read_labels, 2),
    }
    for name, (read, _) in reads.items():
        assert read(tmp_path / name).shape[0] == n_rows
    monkeypatch.setattr("hashlearn.files.arrays._free_memory", lambda: 2**20)
    for name, (read, size) in reads.items():
        with pytest.raises(files.FileError, match=f"takes {size} MB unpacked, and only 1 MB of memory"):
            read(tmp_path / name)


def test_a_npz_with_less_than_its_header_promises(tmp_path):
    zeros_npz(tmp_path / "X.npz", 2**10, promised=2**40)
    with pytest.raises(
        files.FileError, match=r"X\.npz is damaged: X should have .* bytes by its header, and has 4,194"
    ):
        files.open_features(tmp_path / "X.npz")


def test_npz_picks_a_part(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, train=X, test=X[:1])
    assert files.read_features(f"{path}:test").shape == (1, 3)
    with pytest.raises(files.FileError, match=r"several parts \(train, test\); choose one"):
        files.read_features(path)
    with pytest.raises(files.FileError, match="no part 'valid'; it has train, test"):
        files.read_features(f"{path}:valid")


def test_pandas_csv_loses_its_index_and_its_text(tmp_path):
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": [1.0, 2.0], "name": ["x", "y"], "label": [7, 8]}, index=[10, 20]).to_csv(path)
    with pytest.warns(UserWarning, match="left out: name"):
        assert files.read_features(path).tolist() == [[1, 7], [2, 8]]
    with pytest.warns(UserWarning, match="left out: name"):
        assert files.read_features(f"{path}:-label").tolist() == [[1], [2]]
    assert files.read_features(f"{path}:label,a").tolist() == [[7, 1], [8, 2]]
    assert files.read_labels(f"{path}:name").tolist() == ["x", "y"]


def test_csv_longer_than_a_chunk_keeps_its_order_and_names_a_late_row(tmp_path):
    path = tmp_path / "long.csv"
    lines = [f"{i},{-i}" for i in range(10_000)]
    path.write_text("\n".join(lines))
    assert files.read_features(path).tolist() == [[i, -i] for i in range(10_000)]
    lines[9000] = "9000,"
    path.write_text("\n".join(lines))
    with pytest.raises(files.FileError, match="a value is missing in row 9000, column 2"):
        files.read_features(path)


def test_semicolons_quotes_and_byte_order_mark(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbf"a";"b"\r\n"1";2\r\n\r\n3;4\r\n')
    assert files.read_features(f"{path}:a").tolist() == [[1], [3]]


def test_parquet_list_column_wins(tmp_path):
    path = tmp_path / "e.parquet"
    table = pa.table({"id": [1, 2], "embedding": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32()))})
    pq.write_table(table, path)
    rows = files.read_features(path)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[1, 2], [3, 4]]
    assert files.read_features(f"{path}:id").tolist() == [[1], [2]]
    pq.write_table(pa.table({"e": [[1.0, 2.0], [3.0]]}), path)
    with pytest.raises(files.FileError, match="row 1 has 1 values, the first has 2"):
        files.read_features(path)
    pq.write_table(pa.table({"e": [1.0, None]}), path)
    with pytest.raises(files.FileError, match="missing in row 1, column 'e'"):
        files.read_features(path)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("y.txt", "cat\ndog\ncat\n", ["cat", "dog", "cat"]),
        ("y.txt", "3\n1\n", [3, 1]),
        ("y.csv", "label\ncat\ndog\n", ["cat", "dog"]),
        ("y.csv", "cat\ndog\n", ["cat", "dog"]),
        ("y.csv", "whatever\n1\n2\n", [1, 2]),
        ("y.csv", "1,0\n0,1\n1,1\n", [[1, 0], [0, 1], [1, 1]]),
        ("y.csv", "sea,sky\n1,0\n0,1\n", [[1, 0], [0, 1]]),
        ("y.csv:kind", "kind,x\ncat,1.5\ndog,2\n", ["cat", "dog"]),
    ],
)
def test_text_labels(name, content, expected, tmp_path):
    (tmp_path / name.partition(":")[0]).write_text(content)
    assert files.read_labels(tmp_path / name).tolist() == expected


def test_array_and_parquet_labels(tmp_path):
    np.save(tmp_path / "y.npy", np.array([["a"], ["b"]]))
    assert files.read_labels(tmp_path / "y.npy").tolist() == ["a", "b"]
    pq.write_table(pa.table({"y": ["a", None], "z": [1, 2]}), tmp_path / "y.parquet")
    assert files.read_labels(f"{tmp_path}/y.parquet:z").tolist() == [1, 2]
    assert files.read_labels(f"{tmp_path}/y.parquet:y", missing=True).tolist() == ["a", None]
    with pytest.raises(files.FileError, match="row 1 has no label"):
        files.read_labels(f"{tmp_path}/y.parquet:y")
    np.save(tmp_path / "f.npy", np.array([0.0, 1.0, np.nan]))
    with pytest.raises(files.FileError, match=r"f\.npy: row 2 has no label"):
        files.read_labels(tmp_path / "f.npy")
    np.save(tmp_path / "m.npy", np.array([[0, 2], [1, 0]]))
    with pytest.raises(files.FileError, match="not only 0 and 1"):
        files.read_labels(tmp_path / "m.npy")


def test_pairs(tmp_path):
    (tmp_path / "p.csv").write_text("left,right\n0,3\n2,1\n")
    assert files.read_pairs(tmp_path / "p.csv").tolist() == [[0, 3], [2, 1]]
    (tmp_path / "p.csv").write_text("0,3.5\n")
    with pytest.raises(files.FileError, match="pairs of row numbers"):
        files.read_pairs(tmp_path / "p.csv")


def damaged_npy(path):
    np.save(path, X)
    path.write_bytes(path.read_bytes()[:-5])


def damaged_npz(path):
    np.savez(path, X=X)
    path.write_bytes(path.read_bytes()[:-30])


def flipped_npz(path):
    np.savez(path, X=X)
    raw = bytearray(path.read_bytes())
    raw[raw.index(X.tobytes())] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        ("X.npy", lambda p: p.write_bytes(b"PK\x03\x04 not numpy"), "is not a .npy file: it does not begin with"),
        ("X.npy", damaged_npy, "is cut short: it holds fewer bytes than its header promises."),
        ("X.npy", lambda p: p.write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': ??? \n"), "is a damaged .npy file: "),
        ("X.npy", lambda p: p.write_bytes(b"\x93NUMPY"), "is a damaged .npy file: "),
        (
            "X.npy",
            lambda p: np.save(p, np.array([{}], dtype=object)),
            "holds Python objects, which are never unpickled",
        ),
        ("X.npy", lambda p: p.write_bytes(pickle.dumps(1)), "is not a .npy file"),
        ("X.npy", lambda p: p.write_bytes(b""), "is empty."),
        ("X.npy", lambda p: None, "does not exist."),
        ("X.npy", lambda p: p.mkdir(), "is a folder, not a file."),
        ("X.npy", lambda p: np.save(p, np.arange(3)), "must hold a 2-D array (rows, features); it is 1-D."),
        ("X.npy", lambda p: np.save(p, np.array([["a"]])), "must hold numbers; its type is <U1."),
        ("X.npy", lambda p: np.save(p, np.zeros((0, 3))), "holds no rows or no features: its shape is (0, 3)."),
        ("X.npy", lambda p: np.save(p, np.array([[1, 1], [2, np.nan]])), "row 1 holds NaN or infinity."),
        ("X.npz", damaged_npz, "is not a .npz file, or it is cut short"),
        ("X.npz", flipped_npz, "cannot be read: Bad CRC-32"),
        ("X.npz", lambda p: np.savez(p, X=np.array([{}], dtype=object)), "holds Python objects"),
        ("X.csv", lambda p: p.write_text("1,2\n3\n"), "line 2 has 1 columns, the first has 2."),
        ("X.csv", lambda p: p.write_text("1,2\n3,x\n"), "'x' is not a number in row 1, column 2."),
        ("X.csv", lambda p: p.write_text("a,b\n"), "has a header but no rows."),
        ("X.csv", lambda p: p.write_text("\n\n"), "has no rows."),
        ("X.csv", lambda p: p.write_text("1,2\nnan,2\n"), "row 1 holds NaN or infinity."),
        ("X.csv", lambda p: p.write_bytes(b"\xff\xfe1,2"), "is not text in UTF-8: save it as UTF-8"),
        ("X.fvecs", lambda p: p.write_bytes(vecs(X.tolist(), "f")[:-2]), "is damaged or cut short: 62 bytes"),
        ("X.fvecs", lambda p: p.write_bytes(struct.pack("<i", -3)), "its first row claims -3 values."),
        ("X.ivecs", lambda p: p.write_bytes(struct.pack("<6i", 2, 1, 1, 9, 1, 1)), "row 1 does not have 2 values"),
        ("X.parquet", lambda p: p.write_bytes(b"PAR1 and nothing"), "is not a Parquet file, or it is damaged."),
        ("X.parquet", lambda p: pq.write_table(pa.table({"a": ["x"]}), p), "has no column of numbers."),
        ("X.h5", lambda p: p.write_bytes(b"\x89HDF and nothing"), "is not an HDF5 file."),
        ("X.mat", lambda p: p.write_bytes(b"MATLAB"), "has no known ending; known are .npy, .npz"),
    ],
)
def test_damage_is_one_sentence_that_names_the_file(name, make, sentence, tmp_path):
    path = tmp_path / name
    make(path)
    with pytest.raises(files.FileError) as caught:
        files.read_features(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert sentence in message
    assert "\n" not in message
    assert message.endswith(".")


def test_sparse_nan_names_its_row(tmp_path):
    bad = X.copy()
    bad[2, 0] = np.inf
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_matrix(bad))
    with pytest.raises(files.FileError, match="row 2 holds NaN"):
        files.read_features(tmp_path / "s.npz")


def test_bad_row_is_counted_from_the_start_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files_read, "_CHUNK_BYTES", 1)
    rows = np.zeros((5000, 2))
    rows[4999, 1] = np.nan
    np.save(tmp_path / "X.npy", rows)
    with pytest.raises(files.FileError, match="row 4999 holds NaN"):
        files.read_features(tmp_path / "X.npy")


def test_missing_extras_name_how_to_get_them(tmp_path, monkeypatch):
    for name in ("X.parquet", "X.h5"):
        (tmp_path / name).write_bytes(b"something")
    for module in ("pyarrow.parquet", "h5py"):
        monkeypatch.setitem(sys.modules, module, None)
    for name in ("X.parquet", "X.h5"):
        with pytest.raises(files.FileError, match=r"pip install '\.\[files\]'"):
            files.read_features(tmp_path / name)


@pytest.mark.slow
def test_import_needs_no_heavy_module():
    # scikit-learn itself imports some of these where they are installed, so they are made missing instead.
    heavy = ["typer", "rich", "pandas", "pyarrow", "h5py"]
    code = f"import sys; sys.modules.update(dict.fromkeys({heavy})); import hashlearn, hashlearn.files"
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(files.__file__).parents[2], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_finished_feature_file_has_its_name_on_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(feature_file, "sync_folder", lambda folder: synced.append((folder, path.exists())))
    path = tmp_path / "X.npy"
    with feature_file.FeatureWriter(path, {}, 2, "float32") as writer:
        writer.add(np.ones((3, 2)), 3, {})
        writer.finish({})
    assert synced == [(tmp_path, True)]
    np.testing.assert_array_equal(np.load(path), np.ones((3, 2)))
