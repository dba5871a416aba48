"""Codes of chunks: those of encode, in files that are whole, and a stopped run that goes on."""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from chunk_data import N_ROWS, Chunks, hasher, rows_and_classes, shards

import hashlearn as hl
from hashlearn.files import FileError, read_codes


@pytest.fixture(scope="module")
def data():
    return rows_and_classes()


@pytest.fixture(scope="module")
def fitted(data):
    return hasher().fit(*data)


def read(paths):
    return np.concatenate([read_codes(path).codes for path in paths])


@pytest.mark.parametrize("kind", ["array", "stream", "processes"])
def test_codes_are_those_of_encode(kind, data, fitted, tmp_path):
    X = data[0]
    expected = fitted.encode(X)
    if kind == "array":
        paths = fitted.encode_chunks(X, tmp_path / "codes", shard_rows=2048)
        assert len(paths) == -(-N_ROWS // 2048)
    elif kind == "stream":
        paths = fitted.encode_chunks(Chunks(X, None, 1111), tmp_path / "codes", shard_rows=4096)
    else:
        names, _ = shards(tmp_path, *data, [1000, 5000], [10])
        with ProcessPoolExecutor(1) as pool:
            paths = fitted.encode_chunks(names, tmp_path / "codes", shard_rows=4096, executor=pool)
    np.testing.assert_array_equal(read(paths), expected)


def test_a_stopped_run_goes_on_and_leaves_nothing_half_written(data, fitted, tmp_path):
    X = data[0].copy()
    X[5000] = np.nan
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(FileError, match="row 5000"):
        fitted.encode_chunks(tmp_path / "x.npy", tmp_path / "codes", shard_rows=2048)
    there = sorted(path.name for path in (tmp_path / "codes").glob("*.npy"))
    assert "codes-000002.npy" not in there
    assert "codes-000000.npy" in there
    assert not list((tmp_path / "codes").glob(".*"))
    before = (tmp_path / "codes" / "codes-000000.npy").stat().st_mtime_ns
    np.save(tmp_path / "x.npy", data[0])
    paths = fitted.encode_chunks(tmp_path / "x.npy", tmp_path / "codes", shard_rows=2048)
    np.testing.assert_array_equal(read(paths), fitted.encode(data[0]))
    assert paths[0].stat().st_mtime_ns == before


def test_a_damaged_file_is_made_again(data, fitted, tmp_path):
    paths = fitted.encode_chunks(data[0], tmp_path / "codes", shard_rows=4096)
    paths[0].write_bytes(paths[0].read_bytes()[:-5])
    np.testing.assert_array_equal(
        read(fitted.encode_chunks(data[0], tmp_path / "codes", shard_rows=4096)), fitted.encode(data[0])
    )


def test_a_folder_of_another_run_is_refused(data, fitted, tmp_path):
    fitted.encode_chunks(data[0], tmp_path / "codes")
    with pytest.raises(FileError, match="function differ"):
        hl.LSH(24, random_state=0).fit(data[0]).encode_chunks(data[0], tmp_path / "codes")
    with pytest.raises(FileError, match="data differ"):
        fitted.encode_chunks(data[0][:4000], tmp_path / "codes")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(FileError, match="not empty"):
        fitted.encode_chunks(data[0], tmp_path / "other")
    with pytest.raises(ValueError, match="multiple of 2048"):
        fitted.encode_chunks(data[0], tmp_path / "third", shard_rows=1000)
    with pytest.raises(ValueError, match="16"):
        fitted.encode_chunks(data[0][:, :5], tmp_path / "third")
