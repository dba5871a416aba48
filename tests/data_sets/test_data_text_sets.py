"""NUS-WIDE, COCO, MNIST and plain arrays, from small files of the exact layouts."""

import gzip
import json
import struct
import zipfile

import numpy as np
import pytest

from hashlearn import data
from hashlearn.data import Dataset, DatasetMissing, coco, mnist, nuswide, plain
from hashlearn.files import FileError

CONCEPTS = {"airport": [1, 0, 0, 0, 1, 0], "sky": [1, 1, 1, 1, 0, 0], "lake": [0, 0, 1, 1, 0, 0]}
WORDS = np.random.default_rng(0).integers(0, 300, (6, 500))


def lines(values):
    return "".join(" ".join(map(str, np.atleast_1d(row))) + " \n" for row in values)


def all_labels(folder):
    (folder / "Groundtruth" / "AllLabels").mkdir(parents=True)
    (folder / "Low_Level_Features").mkdir()
    for concept, values in CONCEPTS.items():
        (folder / "Groundtruth" / "AllLabels" / f"Labels_{concept}.txt").write_text(lines(values))
    (folder / "Low_Level_Features" / "BoW_int.dat").write_text(lines(WORDS))
    return folder


def train_test_labels(folder, slip=0):
    (folder / "TrainTestLabels").mkdir()
    for concept, values in CONCEPTS.items():
        for part, rows in (("Train", slice(0, 4)), ("Test", slice(4, 6))):
            own = list(values[rows])
            if slip and (concept, part) == ("lake", "Train"):
                own[0] = slip
            (folder / "TrainTestLabels" / f"Labels_{concept}_{part}.txt").write_text(lines(own))
    (folder / "BoW_Train_int.dat").write_text(lines(WORDS[:4]))
    (folder / "BoW_Test_int.dat").write_text(lines(WORDS[4:]))
    return folder


def test_nuswide_all_labels_keeps_the_most_frequent_and_drops_the_rest(tmp_path):
    pool = nuswide.nuswide(all_labels(tmp_path), n_concepts=2)
    assert pool.label_names == ("airport", "sky")  # airport and lake are equally frequent: the first by name
    assert pool.ids.tolist() == [0, 1, 2, 3, 4]
    assert pool.y.dtype == np.uint8
    assert pool.y.tolist() == [[1, 1], [0, 1], [0, 1], [0, 1], [1, 0]]
    np.testing.assert_array_equal(pool.X, WORDS[:5])
    assert pool.part is None


def test_nuswide_train_test_labels_keeps_the_official_split(tmp_path):
    pool = nuswide.nuswide(train_test_labels(tmp_path))
    assert pool.label_names == ("airport", "lake", "sky")
    assert pool.part.tolist() == [0, 0, 0, 0, 1]
    np.testing.assert_array_equal(pool.X, WORDS[:5])


def test_nuswide_known_slip_is_zero_with_a_warning_others_are_errors(tmp_path):
    train_test_labels(tmp_path, slip=-1130179)
    with pytest.warns(UserWarning, match="row 0 is -1130179 as published"):
        pool = nuswide.nuswide(tmp_path)
    assert pool.y[0].tolist() == [1, 0, 1]
    (tmp_path / "TrainTestLabels" / "Labels_sky_Train.txt").write_text(lines([1, 2, 0, 1]))
    with (
        pytest.raises(FileError, match=r"Labels_sky_Train\.txt has 2 in row 1"),
        pytest.warns(UserWarning, match="lake"),
    ):
        nuswide.nuswide(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        (
            "Low_Level_Features/BoW_int.dat",
            lines(WORDS) + "1 2 3\n",
            "columns changed from 500 to 3",
        ),
        ("Low_Level_Features/BoW_int.dat", lines(WORDS).replace(" \n", " x\n", 3), "no table of counts: .*'x'"),
        ("Low_Level_Features/BoW_int.dat", lines(-WORDS - 1), "no table of counts: .*'-"),
        ("Low_Level_Features/BoW_int.dat", "", "empty"),
        ("Low_Level_Features/BoW_int.dat", lines(WORDS[:4]), "4 rows of words but 6 rows of labels"),
        ("Groundtruth/AllLabels/Labels_sky.txt", lines([1, 0]), "has 2 rows, the first file has 6"),
        ("Groundtruth/AllLabels/Labels_sky.txt", "1\n0\nno\n", "no table of whole numbers: .*'no'"),
    ],
)
def test_nuswide_damage(tmp_path, file, text, says):
    all_labels(tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(FileError, match=says):
        nuswide.nuswide(tmp_path)


def test_nuswide_missing_names_both_layouts(tmp_path):
    (tmp_path / "BoW_int.dat").write_text(lines(WORDS))
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(DatasetMissing, match=r"BoW_int\.dat with AllLabels.*nus\.edu.*TrainTestLabels"):
            nuswide.nuswide(folder)


def instances(image_ids, found, categories=((1, "person"), (3, "car"), (90, "toothbrush"))):
    return {
        "info": {"year": 2014},
        "images": [{"id": image, "file_name": f"COCO_{image:012d}.jpg", "license": 1} for image in image_ids],
        "annotations": [
            {"id": n, "image_id": image, "category_id": category, "segmentation": [[1.0, 2.0]], "iscrowd": 0}
            for n, (image, category) in enumerate(found)
        ],
        "categories": [{"id": n, "name": name, "supercategory": "x"} for n, name in categories],
    }


def coco_folder(folder, as_zip=False):
    parts = {
        "instances_train2014.json": instances([9, 5, 7], [(5, 1), (5, 1), (9, 90), (5, 3)]),
        "instances_val2014.json": instances([2], [(2, 3)]),
    }
    if as_zip:
        with zipfile.ZipFile(folder / "annotations_trainval2014.zip", "w") as archive:
            for name, content in parts.items():
                archive.writestr(f"annotations/{name}", json.dumps(content))
    else:
        for name, content in parts.items():
            (folder / name).write_text(json.dumps(content))
    np.save(folder / "features.npy", np.arange(8, dtype=np.float32).reshape(4, 2))
    (folder / "image_ids.txt").write_text("COCO_val2014_000000000002.jpg\n7\n000000000009.jpg\n5\n")
    return folder


@pytest.mark.parametrize("as_zip", [False, True])
def test_coco_aligns_features_with_labels_by_image(tmp_path, as_zip):
    pool = coco.coco(coco_folder(tmp_path, as_zip))
    assert pool.label_names == ("person", "car", "toothbrush")
    assert pool.ids.tolist() == [2, 9, 5]  # image 7 has no object
    assert pool.y.tolist() == [[0, 1, 0], [0, 0, 1], [1, 1, 0]]
    assert pool.X.tolist() == [[0, 1], [4, 5], [6, 7]]
    assert pool.part.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda folder: (folder / "image_ids.txt").write_text("2\n7\n9\n6\n"), "image 6 is in no instances"),
        (lambda folder: (folder / "image_ids.txt").write_text("2\n7\n9\n"), "4 rows but .* 3 images"),
        (lambda folder: (folder / "image_ids.txt").write_text("2\n7\n9\nno\n"), "'no' in row 3"),
        (lambda folder: (folder / "instances_val2014.json").write_text('{"images": ['), "no JSON"),
        (lambda folder: (folder / "instances_val2014.json").write_text("{}"), "lacks images"),
        (lambda folder: (folder / "instances_val2017.json").write_text(json.dumps(instances([5], []))), "one year"),
        (
            lambda folder: (folder / "instances_val2014.json").write_text(json.dumps(instances([2], [(3, 1)]))),
            "not list",
        ),
        (
            lambda folder: (folder / "instances_val2014.json").write_text(json.dumps(instances([2], [(2, 4)]))),
            "known cat",
        ),
    ],
)
def test_coco_damage(tmp_path, change, says):
    change(coco_folder(tmp_path))
    with pytest.raises(FileError, match=says):
        coco.coco(tmp_path)


def test_coco_missing_parts(tmp_path):
    with pytest.raises(DatasetMissing, match=r"annotations_trainval2014.zip"):
        coco.coco(tmp_path)
    (coco_folder(tmp_path) / "features.npy").unlink()
    with pytest.raises(DatasetMissing, match=r"features.npy"):
        coco.coco(tmp_path)


def idx(array):
    return struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


IMAGES = np.random.default_rng(1).integers(0, 256, (5, 28, 28))


def mnist_folder(folder, zipped=True):
    for part, rows in (("train", slice(0, 3)), ("t10k", slice(3, 5))):
        for kind, array in (("images-idx3", IMAGES[rows]), ("labels-idx1", np.arange(5)[rows])):
            name = f"{part}-{kind}-ubyte"
            raw = idx(array)
            (folder / (name + ".gz" if zipped else name)).write_bytes(gzip.compress(raw) if zipped else raw)
    return folder


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_gzipped_or_plain(tmp_path, zipped):
    pool = mnist.mnist(mnist_folder(tmp_path, zipped))
    np.testing.assert_array_equal(pool.images[..., 0], IMAGES)
    assert pool.y.tolist() == [0, 1, 2, 3, 4]
    assert pool.part.tolist() == [0, 0, 0, 1, 1]


def test_mnist_damage_and_absence(tmp_path, monkeypatch):
    with pytest.raises(DatasetMissing, match=r"put train-images-idx3-ubyte\.gz"):
        mnist.mnist(tmp_path)
    mnist_folder(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array([1]))))
    with pytest.raises(FileError, match="no images with labels"):
        mnist.mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array([1, 10]))))
    with pytest.raises(FileError, match="label 10"):
        mnist.mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(b"no idx and no gzip")
    with pytest.raises(ValueError, match="damaged"):
        mnist.mnist(tmp_path)


def test_mnist_is_found_in_its_own_folder_only(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "fashion_mnist_there", lambda: False)
    mnist_folder(tmp_path)  # whose these files are nobody can say
    for name in ("mnist", "fashion-mnist"):
        with pytest.raises(DatasetMissing):
            data.load(name, tmp_path)
    (tmp_path / "fashion-mnist").mkdir()
    mnist_folder(tmp_path / "fashion-mnist")
    assert data.load("fashion-mnist", tmp_path).label_names[9] == "Ankle boot"


def test_plain_arrays(tmp_path):
    np.savez(tmp_path / "d.npz", X=np.eye(3), y=np.array(["b", "a", "b"]), Y=np.array([[1, 0], [0, 1], [1, 1]]))
    pool = data.arrays(f"{tmp_path}/d.npz:X", f"{tmp_path}/d.npz:y")
    assert pool.y.tolist() == [1, 0, 1]
    assert pool.label_names == ("a", "b")
    assert data.arrays(f"{tmp_path}/d.npz:X", f"{tmp_path}/d.npz:Y").multilabel
    np.save(tmp_path / "y.npy", np.zeros(2))
    with pytest.raises(FileError, match=r"3 rows, .* has 2"):
        data.arrays(f"{tmp_path}/d.npz:X", tmp_path / "y.npy")


def test_stand_ins(tmp_path):
    feat = np.array([[0, 255], [51, 0]], dtype=np.uint8)
    np.savez(
        tmp_path / "coco18_efflite0.npz",
        feat_q=feat,
        feat_scale=np.float32([2, 3]),
        Y=np.eye(2, dtype=np.int8),
        label_names=np.array(["person", "car"]),
    )
    np.testing.assert_allclose(data.load("coco18", tmp_path).X, [[0, 3], [0.08, 0]], rtol=1e-6)
    others = data.load("coco18-without-person", tmp_path)
    np.testing.assert_allclose(others.X, [[0.08, 0]], rtol=1e-6)
    assert others.y.tolist() == [[1]]
    assert others.label_names == ("car",)
    with pytest.raises(DatasetMissing, match=r"put corel16k001.npz there"):
        data.load("corel16k", tmp_path)
    X = np.ones((2, 512), dtype=np.float16)
    np.savez(tmp_path / "g.npz", X_train=X, y_train=[0, 1], X_test=X * 2, y_test=[1, 0], classes=["a", "b"])
    (tmp_path / "g.npz").rename(tmp_path / "cifar10_gist512.npz")
    pool = data.load("cifar10-gist", tmp_path)
    assert pool.X[:, 0].tolist() == [1, 1, 2, 2]
    assert pool.part.tolist() == [0, 0, 1, 1]


def test_a_pool_is_checked_and_read_only():
    with pytest.raises(ValueError, match="2 rows but 3 labels"):
        data.Pool("p", np.eye(2), np.zeros(3))
    with pytest.raises(ValueError, match="2 labels but 1 names"):
        data.Pool("p", np.eye(2), np.eye(2), ("a",))
    pool = data.Pool("p", np.eye(2), np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        pool.X[0] = 1
    with pytest.raises(ValueError, match="not images"):
        pool.images  # noqa: B018


def test_a_dataset_searches_its_training_rows_unless_told():
    X, y = np.eye(3, dtype=np.float32), np.arange(3)
    assert Dataset("d", X, y, X, y).database_is_train
    other = Dataset("d", X, y, X, y, X[:2], y[:2])
    assert not other.database_is_train
    assert len(other.database_y) == 2
    with pytest.raises(ValueError, match="go together"):
        Dataset("d", X, y, X, y, X)


def test_missing_names(tmp_path):
    with pytest.raises(ValueError, match=r"must be one of digits, .* Got 'nope'"):
        data.load("nope")
    with pytest.raises(DatasetMissing, match=r"put cifar10_gist512.npz there"):
        plain.cifar10_gist_file(tmp_path)
