"""Codes of chunks: those of encode, in files that are whole, and a stopped run that goes on."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from chunk_data import N_ROWS, Chunks, hasher, rows_and_classes, shards
from scipy import sparse
from small_methods import small

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


NAMES = [name for name in hl.methods.method_names() if name != "auto"]


def union():
    return hl.JoinedHasher([small("gsdhp"), small("itq"), small("dch", n_bits=4)])


@pytest.mark.parametrize("name", [pytest.param("auto", marks=pytest.mark.slow), *NAMES, "union"])
def test_every_method_has_the_codes_of_encode(name, tmp_path):
    if name in hl.methods.DEEP_METHODS:
        pytest.importorskip("torch")
    X, y = rows_and_classes(2300)
    fitted = (union() if name == "union" else small(name)).fit(X[:400], y[:400])
    for rows in (X, X.astype(np.float64)):
        paths = fitted.encode_chunks(rows, tmp_path / str(rows.dtype), shard_rows=2048)
        np.testing.assert_array_equal(read(paths), fitted.encode(rows))


@pytest.fixture(scope="module")
def networks(data):
    """Hashers with a network of their own, in a union, on a module of the user's own, and as a hash function."""
    torch = pytest.importorskip("torch")
    X, y = data[0][:400], data[1][:400]
    return {
        "dch": small("dch").fit(X, y),
        "union": union().fit(X, y),
        "own module": small("dch", backbone=torch.nn.Linear(X.shape[1], 6)).fit(X, y),
        "function": small("gsdhp", function="network").fit(X, y),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dch", "union", "own module", "function"])
def test_networks_in_other_processes(name, networks, data, tmp_path):
    names, _ = shards(tmp_path, *data, [1000, 5000], [10])
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        paths = networks[name].encode_chunks(names, tmp_path / "codes", shard_rows=4096, executor=pool)
    np.testing.assert_array_equal(read(paths), networks[name].encode(data[0]))


@pytest.mark.slow
def test_networks_on_a_cluster(networks, data, tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(1, threads_per_worker=2, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        for name, hasher in networks.items():
            paths = hasher.encode_chunks(data[0], tmp_path / name, shard_rows=2048, executor=client)
            np.testing.assert_array_equal(read(paths), hasher.encode(data[0]))


def test_sparse_rows_of_a_network(networks, data, tmp_path):
    rows = sparse.csr_matrix(data[0] * (data[0] > 0))
    paths = networks["dch"].encode_chunks(rows, tmp_path / "codes", shard_rows=2048)
    np.testing.assert_array_equal(read(paths), networks["dch"].encode(rows))


def test_images_are_no_rows_of_features(tmp_path):
    pytest.importorskip("torch")
    images = np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3), dtype=np.uint8)
    backbone = {"name": "small_cnn", "image_size": 16, "n_features": 8}
    fitted = small("dch", backbone=backbone).fit(images, np.arange(8) % 2)
    with pytest.raises(TypeError, match="fitted on images, with the backbone 'small_cnn': use encode"):
        fitted.encode_chunks(np.zeros((10, 768), dtype=np.float32), tmp_path / "codes")
