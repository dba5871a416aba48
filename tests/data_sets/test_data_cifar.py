"""CIFAR in its official layouts, and pickles that want more than arrays."""

import os
import pickle

import numpy as np
import pytest

from data_sets.tiny_archives import cifar10_members, planes, python2_pickle, python3_pickle, write_tar
from hashlearn.data import DatasetMissing, cifar
from hashlearn.files import FileError
from hashlearn.files.tree import unpack


@pytest.mark.parametrize("kind", ["python", "binary"])
@pytest.mark.parametrize("unpacked", [False, True])
def test_both_official_archives_packed_or_not(tmp_path, kind, unpacked):
    members, pixels, labels = cifar10_members(kind)
    archive = write_tar(tmp_path / f"cifar-10-{kind}.tar.gz", members)
    if unpacked:
        unpack(archive, tmp_path)
        archive.unlink()
    pool = cifar.cifar10(tmp_path)
    np.testing.assert_array_equal(pool.y, labels)
    assert pool.part.tolist() == [0] * 20 + [1] * 4
    assert pool.label_names[3] == "cat"
    # Pixel (row 1, column 2) of the blue plane is byte 2·1024 + 1·32 + 2 of a stored row.
    np.testing.assert_array_equal(pool.images[:, 1, 2, 2], pixels[:, 2 * 1024 + 32 + 2])
    assert pool.features(np.array([0])).max() <= 1.0


@pytest.mark.parametrize("kind", ["python", "binary"])
def test_cifar100_has_fine_and_coarse_labels(tmp_path, kind):
    fine = [f"fine{number}" for number in range(100)]
    coarse = [f"coarse{number}" for number in range(20)]
    members = {}
    for part, seed in (("train", 0), ("test", 1)):
        rows, fine_y, coarse_y = planes(3, seed), [7, 99, 7 + seed], [1, 19, 1]
        if kind == "python":
            batch = {b"data": rows, b"fine_labels": fine_y, b"coarse_labels": coarse_y, b"filenames": [b"a"] * 3}
            members[f"cifar-100-python/{part}"] = python3_pickle(batch)
        else:
            both = np.array([coarse_y, fine_y], dtype=np.uint8).T
            members[f"cifar-100-binary/{part}.bin"] = np.column_stack([both, rows]).tobytes()
    if kind == "python":
        names = {b"fine_label_names": [name.encode() for name in fine], b"coarse_label_names": coarse}
        members["cifar-100-python/meta"] = python2_pickle(names)
    else:
        members["cifar-100-binary/fine_label_names.txt"] = "\n".join(fine).encode() + b"\n"
        members["cifar-100-binary/coarse_label_names.txt"] = "\n".join(coarse).encode() + b"\n"
    write_tar(tmp_path / f"cifar-100-{kind}.tar.gz", members)
    pool = cifar.cifar100(tmp_path)
    assert pool.y.shape == (6, 120)
    assert pool.y.dtype == np.uint8
    assert pool.label_names[7] == "fine7"
    assert pool.label_names[101] == "coarse1"
    shared = pool.y.astype(int) @ pool.y.T.astype(int)
    assert shared[0].tolist() == [2, 0, 2, 2, 0, 1]  # both labels, none, both | both, none, coarse only
    np.testing.assert_array_equal(pool.images[0, 0, 0], planes(3, 0)[0, [0, 1024, 2048]])


class Runs:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("evil", "asks"),
    [
        (Runs(os.system, ("touch hacked",)), "system"),
        (Runs(eval, ("open('hacked', 'w')",)), "eval"),
        (Runs(getattr, ("text", "upper")), "getattr"),
        (np.float64(1.0), "scalar"),
        (np.array([Runs(os.system, ("touch hacked",))], dtype=object), "system|type 'O8'"),
    ],
)
def test_a_pickle_never_runs_anything(tmp_path, monkeypatch, evil, asks):
    monkeypatch.chdir(tmp_path)
    members, _, _ = cifar10_members("python")
    members["cifar-10-batches-py/data_batch_2"] = pickle.dumps({b"data": evil, b"labels": []}, protocol=2)
    archive = write_tar(tmp_path / "cifar-10-python.tar.gz", members)
    with pytest.raises(FileError, match=asks):
        cifar.cifar10(archive)
    assert not (tmp_path / "hacked").exists()


def test_the_old_opcodes_are_a_real_pickle():
    rows = planes(2)
    content = pickle.loads(python2_pickle({b"data": rows, b"labels": [1, 2]}), encoding="bytes")
    np.testing.assert_array_equal(content[b"data"], rows)


def test_unpickling_leaves_numpys_own_types_alone(tmp_path):
    members, _, _ = cifar10_members("python")
    cifar.cifar10(write_tar(tmp_path / "cifar-10-python.tar.gz", members))
    assert np.dtype("u1").itemsize == 1
    assert np.dtype("u1").metadata is None


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("data_batch_1", b"\x80\x02}q", "truncated"),
        ("data_batch_1", b"no pickle", "damaged|not read"),
        ("data_batch_1", pickle.dumps([1], protocol=2), "no CIFAR batch"),
        ("data_batch_1", python2_pickle({b"data": planes(2), b"labels": [1]}), "2 images and 1 labels"),
        ("data_batch_1", python2_pickle({b"data": planes(2)[:, :9], b"labels": [1, 2]}), "3072 bytes"),
        ("data_batch_1", python2_pickle({b"data": planes(2), b"labels": [1, 10]}), "0..9"),
        ("test_batch", None, "lacks test_batch"),
    ],
)
def test_damage_is_one_sentence(tmp_path, name, content, says):
    members, _, _ = cifar10_members("python")
    members[f"cifar-10-batches-py/{name}"] = content
    members = {key: value for key, value in members.items() if value is not None}
    archive = write_tar(tmp_path / "cifar-10-python.tar.gz", members)
    with pytest.raises(FileError, match=says) as caught:
        cifar.cifar10(archive)
    assert "cifar-10-python.tar.gz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cut_archive_and_a_cut_record(tmp_path):
    members, _, _ = cifar10_members("binary")
    archive = write_tar(tmp_path / "cifar-10-binary.tar.gz", members)
    archive.write_bytes(archive.read_bytes()[:-2000])
    with pytest.raises(FileError, match="damaged or cut short"):
        cifar.cifar10(tmp_path)
    members["cifar-10-batches-bin/data_batch_3.bin"] = b"\0" * 3072
    write_tar(archive, members)
    with pytest.raises(FileError, match="whole records of 3073"):
        cifar.cifar10(tmp_path)


def test_nothing_there(tmp_path):
    for load in (cifar.cifar10, cifar.cifar100):
        for folder in (tmp_path, tmp_path / "none"):
            with pytest.raises(DatasetMissing, match=r"put cifar-10.*there"):
                load(folder)
