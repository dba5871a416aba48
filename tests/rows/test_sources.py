"""Every kind of source gives the rows and labels that went in, by paths rather than data, and errors that name them."""

import pickle

import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from chunk_data import Chunks, assert_same, hasher, rows_and_classes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hashlearn.files import FileError
from hashlearn.kernel import PlainFeatures
from hashlearn.rows import as_source, survey
from hashlearn.rows.survey import SurveyPlan

N = 1500


@pytest.fixture(scope="module")
def data():
    return rows_and_classes(N)


def as_npy(folder, X, y):
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", y)
    return folder / "x.npy", folder / "y.npy"


def as_memory_maps(folder, X, y):
    rows, labels = as_npy(folder, np.vstack([X, X]), np.concatenate([y, y]))
    return np.load(rows, mmap_mode="r")[N:], np.load(labels, mmap_mode="r")[N:]


def as_h5(folder, X, y):
    with h5py.File(folder / "d.h5", "w") as file:
        file.create_dataset("group/X", data=X, chunks=(100, 8))
        file["y"] = y
    return f"{folder / 'd.h5'}:group/X", f"{folder / 'd.h5'}:y"


def as_open_h5(folder, X, y):
    as_h5(folder, X, y)
    file = h5py.File(folder / "d.h5", "r")
    return file["group/X"], file["y"]


def as_zarr(folder, X, y):
    group = zarr.open_group(folder / "d.zarr", mode="w")
    group.create_array("X", data=X, chunks=(128, X.shape[1]))
    group.create_array("y", data=y)
    return folder / "d.zarr", folder / "d.zarr"


def as_zarr_parts(folder, X, y):
    as_zarr(folder, X, y)
    return f"{folder / 'd.zarr'}:X", f"{folder / 'd.zarr'}:y"


def as_open_zarr(folder, X, y):
    as_zarr(folder, X, y)
    group = zarr.open_group(folder / "d.zarr", mode="r")
    return group["X"], group["y"]


def as_parquet(folder, X, y):
    for k, rows in enumerate(np.array_split(np.arange(N), 3)):
        table = pd.DataFrame({"vector": list(X[rows]), "label": y[rows], "note": "x"})
        (folder / "set" / f"day={k}").mkdir(parents=True)
        table.to_parquet(folder / "set" / f"day={k}" / "part.parquet", row_group_size=170)
    return f"{folder / 'set'}:vector", f"{folder / 'set'}:label"


def as_parquet_columns(folder, X, y):
    table = pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])]).assign(label=y)
    table.to_parquet(folder / "t.parquet", row_group_size=333)
    return f"{folder / '*.parquet'}:-label", f"{folder / '*.parquet'}:label"


def as_csv(folder, X, y):
    table = pd.DataFrame(X.astype(np.float64)).add_prefix("f").assign(label=y)
    for k, rows in enumerate(np.array_split(np.arange(N), 2)):
        table.iloc[rows].to_csv(folder / f"{k}.csv", index=False)
    return [f"{folder}/{k}.csv:-label" for k in range(2)], [f"{folder}/{k}.csv:label" for k in range(2)]


def as_dask(folder, X, y):
    import dask.array as da

    return da.from_zarr(str(as_zarr(folder, X, y)[0]), component="X"), da.from_array(y, chunks=999)


KINDS = [as_npy, as_memory_maps, as_h5, as_open_h5, as_zarr, as_zarr_parts, as_open_zarr, as_parquet]
KINDS += [as_parquet_columns, as_csv, as_dask]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_rows_and_labels_come_back_in_any_range(kind, data, tmp_path):
    X, y = data
    source = as_source(*kind(tmp_path, X, y))
    assert (source.n_rows, source.n_features) == (N, X.shape[1])
    for size in (N, 700, 64):
        # What is sent to a worker must be small: names and row numbers, not rows.
        sent = [pickle.dumps(rows) for rows in source.ranges(size)]
        assert kind is as_dask or max(map(len, sent)) < 6000
        back = [pickle.loads(rows) for rows in sent]
        rows = [
            rows.read_checked(a, min(a + 50, rows.stop), X.shape[1])
            for rows in back
            for a in range(rows.start, rows.stop, 50)
        ]
        labels = [
            rows.read_labels(a, min(a + 50, rows.stop)) for rows in back for a in range(rows.start, rows.stop, 50)
        ]
        np.testing.assert_allclose(np.concatenate(rows), X, rtol=1e-6)
        np.testing.assert_array_equal(np.concatenate(labels), y)


def test_parquet_and_zarr_and_h5_learn_the_same_as_arrays(data, tmp_path):
    expected = hasher().fit(*data)
    for k, kind in enumerate((as_parquet, as_zarr, as_open_h5)):
        (tmp_path / str(k)).mkdir()
        assert_same(expected, hasher().fit_chunks(*kind(tmp_path / str(k), *data)))


@pytest.mark.parametrize("range_blocks", [16, 1], ids=["carried along", "read again"])
@pytest.mark.parametrize("kind", [as_npy, as_h5, lambda folder, X, y: (sparse.csr_matrix(X), y)])
def test_drawn_rows_are_the_same_wherever_they_come_from(kind, tmp_path, monkeypatch, range_blocks):
    monkeypatch.setattr(survey, "RANGE_BLOCKS", range_blocks)
    X, y = rows_and_classes(5000)
    chunks = kind(tmp_path, X, y)
    carried = range_blocks == 16 or kind is as_h5
    assert SurveyPlan.for_source(as_source(*chunks), PlainFeatures()).carry_rows == carried
    assert_same(hasher().fit(X, y), hasher().fit_chunks(*chunks))


@pytest.mark.slow
def test_a_dask_data_frame(data):
    import dask.dataframe as dd

    X, y = data
    table = pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])]).assign(label=y)
    frame = dd.from_pandas(table, npartitions=4)
    assert_same(hasher().fit(X, y), hasher().fit_chunks(frame, "label"))
    with pytest.raises(FileError, match="no column 'nothing'"):
        as_source(frame, "nothing")


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(lambda sizes: sum(sizes) > 0),
    size=st.integers(1, 60),
    start=st.integers(0, 50),
)
def test_streams_give_the_ranges_of_arrays(sizes, size, start):
    total = sum(sizes)
    X = np.arange(2 * total, dtype=np.float32).reshape(total, 2)
    chunks = [(part, part[:, 0]) for part in np.split(X, np.cumsum(sizes)[:-1])]
    listed, stream = as_source(chunks), as_source(lambda: iter(chunks))
    for one, other in zip(listed.ranges(size, start), stream.ranges(size, start), strict=True):
        assert (one.start, one.stop) == (other.start, other.stop)
        np.testing.assert_array_equal(one.read(one.start, one.stop), other.read(one.start, one.stop))
        np.testing.assert_array_equal(one.read(one.start, one.stop), X[one.start : one.stop])


def test_names_that_mean_nothing(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))
    (tmp_path / "folder").mkdir()
    for name, message in [
        (tmp_path / "gone.npy", "does not exist"),
        (tmp_path / "*.parquet", "No file matches"),
        (tmp_path / "folder", "without Parquet files"),
    ]:
        with pytest.raises(FileError, match=message):
            as_source(name)
    with pytest.raises(FileError, match="4 labels for 5 rows"):
        as_source(tmp_path / "x.npy", np.arange(4))
    with pytest.raises(FileError, match="empty"):
        as_source(Chunks(np.zeros((0, 2)), np.zeros(0), 3))


def test_shards_of_different_widths(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3000, 4)))
    np.save(tmp_path / "b.npy", np.zeros((3000, 5)))
    with pytest.raises(FileError, match="one width"):
        hasher().fit_chunks(str(tmp_path / "*.npy"), np.arange(6000) % 3)


def test_a_file_that_is_written_anew_is_looked_at_again(tmp_path, data):
    """What was found out about it once holds only as long as the file is the same."""
    X, y = data
    rows, labels = as_npy(tmp_path, X, y)
    source = as_source(rows, labels)
    np.testing.assert_array_equal(next(source.ranges(N)).read(3, 7), X[3:7])
    np.save(rows, -X.astype(np.float64))
    sent = pickle.loads(pickle.dumps(next(source.ranges(N))))
    np.testing.assert_array_equal(sent.read(3, 7), -X[3:7].astype(np.float64))
    np.save(rows, X[:5])
    with pytest.raises(FileError, match="rows 3 to 6 cannot be read: it has only 5 rows now"):
        next(source.ranges(N)).read(3, 7)
    rows.unlink()
    with pytest.raises(FileError, match=r"rows 3 to 6 cannot be read: .*does not exist"):
        next(source.ranges(N)).read(3, 7)
