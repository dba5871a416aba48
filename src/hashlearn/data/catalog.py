"""The catalog of data sets: what each one is, which official files it consists of, and which function reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hashlearn.data import cifar, coco, mnist, nuswide, plain, synthetic, texts
from hashlearn.data.fetch import RemoteFile, check_file, data_folder, fetch
from hashlearn.data.gist import gist_pool
from hashlearn.data.mnist import fashion_mnist_there
from hashlearn.data.pool import DatasetMissing, Pool
from hashlearn.files.tree import is_archive, unpack

_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
_COCO = "http://images.cocodataset.org/annotations/"
_BANKING = "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/master/banking_data/"
_CLINC = "https://raw.githubusercontent.com/clinc/oos-eval/master/data/"
_NO_LICENSE = "The authors state no license; they ask for a citation of Krizhevsky (2009)."


@dataclass(frozen=True)
class CatalogEntry:
    """The description of one data set.

    Parameters
    ----------
    name, title, labels, license, homepage, layout : str
        Facts that ``hashlearn data info`` prints. ``layout`` names the files that a user may put into the folder.
    rows : int or None
    read : callable
        Reads the data set from its folder and returns a ``Pool``.
    files : tuple of RemoteFile
        Official files, which ``prepare`` downloads.
    instead : tuple of RemoteFile
        Other files, each of which can replace ``files``.
    unpacked : tuple of str
        Names that exist in the folder after the files are unpacked; they replace ``files`` too.
    gist : bool
        Whether ``prepare`` also computes GIST features.
    gist_of : str or None
        The data set whose GIST features this one is; they are computed where its own files are absent.
    own_folder : bool
        Whether files are looked for only in the folder of this data set, because another data set has files with the
        same names.
    """

    name: str
    title: str
    rows: int | None
    labels: str
    license: str
    homepage: str
    layout: str
    read: Callable[[Path], Pool]
    files: tuple[RemoteFile, ...] = ()
    instead: tuple[RemoteFile, ...] = ()
    unpacked: tuple[str, ...] = ()
    gist: bool = False
    gist_of: str | None = None
    own_folder: bool = False


def _idx_files(base: str, facts: dict[str, tuple[int, str]]) -> tuple[RemoteFile, ...]:
    return tuple(RemoteFile(name, size, f"md5:{md5}", base + name) for name, (size, md5) in facts.items())


def _digits(path: Path) -> Pool:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Pool("digits", (X / 16).astype(np.float32), y.astype(np.int64), mnist.DIGITS)


_SETS = (
    CatalogEntry(
        "digits",
        "Handwritten digits of scikit-learn, 8×8 pixels",
        1797,
        "10 classes",
        "CC BY 4.0 (UCI, Alpaydin and Kaynak).",
        "https://archive.ics.uci.edu/dataset/80/",
        "comes with scikit-learn",
        _digits,
    ),
    CatalogEntry(
        "mnist",
        "MNIST, 28×28 gray digits",
        70_000,
        "10 classes",
        "CC BY-SA 3.0 as commonly stated (LeCun and Cortes).",
        "http://yann.lecun.com/exdb/mnist/",
        "train- and t10k-images-idx3-ubyte, -labels-idx1-ubyte, .gz or plain",
        mnist.mnist,
        _idx_files(
            _MNIST,
            {
                "train-images-idx3-ubyte.gz": (9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                "train-labels-idx1-ubyte.gz": (28881, "d53e105ee54ea40749a09fcbcd1e9432"),
                "t10k-images-idx3-ubyte.gz": (1648877, "9fb629c4189551a2d022fa330f9573f3"),
                "t10k-labels-idx1-ubyte.gz": (4542, "ec29112dd5afa0611ce80d1b7f02629c"),
            },
        ),
        own_folder=True,
    ),
    CatalogEntry(
        "fashion-mnist",
        "Fashion-MNIST, 28×28 gray garments",
        70_000,
        "10 classes",
        "MIT (Zalando SE).",
        "https://github.com/zalandoresearch/fashion-mnist",
        "as MNIST; Debian's package dataset-fashion-mnist is found automatically",
        mnist.fashion_mnist_pool,
        _idx_files(
            _FASHION,
            {
                "train-images-idx3-ubyte.gz": (26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                "train-labels-idx1-ubyte.gz": (29515, "25c81989df183df01b3e8a0aad5dffbe"),
                "t10k-images-idx3-ubyte.gz": (4422102, "bef4ecab320f06d8554ea6380940ec79"),
                "t10k-labels-idx1-ubyte.gz": (5148, "bb300cfdad3c16e7a12a480ee83cd310"),
            },
        ),
        own_folder=True,
    ),
    CatalogEntry(
        "cifar10",
        "CIFAR-10, 32×32 color images",
        60_000,
        "10 classes",
        _NO_LICENSE,
        _CIFAR + "cifar.html",
        "an official archive, unpacked or not, or a zip or folder train/<class>/*.jpg, test/<class>/*.jpg",
        cifar.cifar10,
        (
            RemoteFile(
                "cifar-10-python.tar.gz",
                170498071,
                "md5:c58f30108f718f92721af3b95e74349a",
                _CIFAR + "cifar-10-python.tar.gz",
            ),
        ),
        (
            RemoteFile(
                "cifar-10-binary.tar.gz",
                170052171,
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
                _CIFAR + "cifar-10-binary.tar.gz",
            ),
            RemoteFile("cifar10-images.zip", note="any zip train/<class>/*.jpg and test/<class>/*.jpg"),
        ),
        unpacked=("cifar-10-batches-py", "cifar-10-batches-bin", "train"),
        gist=True,
    ),
    CatalogEntry(
        "cifar10-gist",
        "CIFAR-10 as 512-d GIST",
        60_000,
        "10 classes",
        _NO_LICENSE,
        _CIFAR + "cifar.html",
        "cifar10_gist512.npz, or made from cifar10 (its files, in its folder)",
        plain.cifar10_gist_file,
        instead=(RemoteFile("cifar10_gist512.npz", note="hashlearn data prepare cifar10, which makes the same"),),
        gist_of="cifar10",
    ),
    CatalogEntry(
        "cifar100",
        "CIFAR-100, 32×32 color images",
        60_000,
        "100 fine and 20 coarse classes, as label sets",
        _NO_LICENSE,
        _CIFAR + "cifar.html",
        "an official archive, unpacked or not",
        cifar.cifar100,
        (
            RemoteFile(
                "cifar-100-python.tar.gz",
                169001437,
                "md5:eb9058c3a382ffc7106e4002c42a8d85",
                _CIFAR + "cifar-100-python.tar.gz",
            ),
        ),
        (
            RemoteFile(
                "cifar-100-binary.tar.gz",
                None,
                "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                _CIFAR + "cifar-100-binary.tar.gz",
            ),
        ),
        unpacked=("cifar-100-python", "cifar-100-binary"),
        gist=True,
    ),
    CatalogEntry(
        "nuswide",
        "NUS-WIDE, 500-d bag of visual words",
        269_648,
        "label sets of the 21 most frequent of 81 concepts",
        "For research; the images belong to their Flickr authors.",
        nuswide.HOMEPAGE,
        "BoW_int.dat and AllLabels/, or BoW_Train_int.dat, BoW_Test_int.dat and TrainTestLabels/",
        nuswide.nuswide,
        (
            RemoteFile("BoW_int.dat", note=f"NUS_WID_Low_Level_Features.rar ({nuswide.HOMEPAGE})"),
            RemoteFile("AllLabels", note=f"Groundtruth.zip ({nuswide.HOMEPAGE})"),
        ),
        unpacked=("Groundtruth", "Low_Level_Features", "TrainTestLabels", "BoW_Train_int.dat"),
    ),
    CatalogEntry(
        "coco",
        "MS-COCO 2014, features of your choice",
        123_287,
        "label sets of 80 categories",
        "Annotations CC BY 4.0; the images belong to their Flickr authors.",
        "https://cocodataset.org/",
        "annotations_trainval2014.zip or its instances_*.json, features.npy, image_ids.txt",
        coco.coco,
        (
            RemoteFile(
                "annotations_trainval2014.zip",
                252872794,
                "md5:0a379cfc70b0e71301e0f377548639bd",
                _COCO + "annotations_trainval2014.zip",
            ),
            RemoteFile(coco.FEATURES, note="any network, one row per image; image_ids.txt beside it names the images"),
        ),
        unpacked=("annotations", "instances_train2014.json", "instances_val2014.json"),
    ),
    CatalogEntry(
        "cifar10-lite2",
        "CIFAR-10, 1280-d EfficientNet-Lite2 features of 160-pixel images",
        60_000,
        "10 classes",
        "As CIFAR-10.",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "cifar10_lite2_X.npy, cifar10_lite2_y.npy",
        plain.cifar10_lite2,
        (
            RemoteFile(
                "cifar10_lite2_X.npy",
                note="hashlearn data features cifar10-images.zip --backbone efficientnet_lite2 --size 160 "
                "--dtype float16 -o cifar10_lite2_X.npy --labels-out cifar10_lite2_y.npy",
            ),
            RemoteFile("cifar10_lite2_y.npy", note="the same command"),
        ),
    ),
    CatalogEntry(
        "coco18",
        "COCO-18, a cut of MS-COCO: 1280-d EfficientNet-Lite0 features",
        30_000,
        "label sets of 18 categories",
        "As MS-COCO.",
        "https://cocodataset.org/",
        "coco18_efflite0.npz",
        plain.coco18,
        (RemoteFile("coco18_efflite0.npz", note="the project's shared data"),),
    ),
    CatalogEntry(
        "coco18-without-person",
        "COCO-18 without its most common label, which three of four rows have",
        15_925,
        "label sets of 17 categories",
        "As MS-COCO.",
        "https://cocodataset.org/",
        "coco18_efflite0.npz",
        plain.coco18_without_person,
        (RemoteFile("coco18_efflite0.npz", note="the project's shared data"),),
    ),
    CatalogEntry(
        "corel16k",
        "Corel16k, 500 binary visual words",
        13_766,
        "label sets of 153 labels",
        "For research (Barnard et al. 2003).",
        "https://mulan.sourceforge.net/datasets-mlc.html",
        "corel16k001.npz",
        plain.corel16k,
        (RemoteFile("corel16k001.npz", note="the project's shared data"),),
    ),
    CatalogEntry(
        "banking77",
        "BANKING77, questions of bank customers, embedded when they are loaded first (extra text)",
        13_083,
        "77 classes",
        "CC BY 4.0 (PolyAI).",
        "https://github.com/PolyAI-LDN/task-specific-datasets",
        "train.csv and test.csv, with the columns text and category",
        texts.banking77,
        (
            RemoteFile("train.csv", url=_BANKING + "train.csv"),
            RemoteFile("test.csv", url=_BANKING + "test.csv"),
        ),
        own_folder=True,
    ),
    CatalogEntry(
        "banking77-minilm",
        "BANKING77 as 384-d embeddings of all-MiniLM-L6-v2",
        13_083,
        "77 classes",
        "CC BY 4.0 (PolyAI).",
        "https://github.com/PolyAI-LDN/task-specific-datasets",
        "banking77_minilm.npz",
        texts.banking77_minilm,
        (RemoteFile("banking77_minilm.npz", note="the project's shared data, or load banking77"),),
    ),
    CatalogEntry(
        "clinc150",
        "CLINC150, requests to an assistant, embedded when they are loaded first (extra text)",
        22_500,
        "150 classes",
        "CC BY 3.0 (Clinc).",
        "https://github.com/clinc/oos-eval",
        "data_full.json",
        texts.clinc150,
        (RemoteFile("data_full.json", url=_CLINC + "data_full.json"),),
    ),
    CatalogEntry(
        "clinc150-minilm",
        "CLINC150 as 384-d embeddings of all-MiniLM-L6-v2",
        22_500,
        "150 classes",
        "CC BY 3.0 (Clinc).",
        "https://github.com/clinc/oos-eval",
        "clinc150_minilm.npz",
        texts.clinc150_minilm,
        (RemoteFile("clinc150_minilm.npz", note="the project's shared data, or load clinc150"),),
    ),
    CatalogEntry(
        "gaussian",
        "Gaussian classes with a known best accuracy",
        2000,
        "10 classes",
        "Generated by hashlearn.",
        "",
        "generated when it is loaded",
        lambda path: synthetic.gaussian_classes().pool,
    ),
    CatalogEntry(
        "factors",
        "Label sets from hidden factors, linearly recoverable",
        2000,
        "label sets of 12 labels",
        "Generated by hashlearn.",
        "",
        "generated when it is loaded",
        lambda path: synthetic.factor_labels().pool,
    ),
    CatalogEntry(
        "circle",
        "Arcs of the unit circle, whose ideal code is known",
        2000,
        "8 classes",
        "Generated by hashlearn.",
        "",
        "generated when it is loaded",
        lambda path: synthetic.circle_classes().pool,
    ),
)
DATA_SETS: dict[str, CatalogEntry] = {spec.name: spec for spec in _SETS}


def data_set(name: str) -> CatalogEntry:
    """Return the catalog entry with that name; ValueError if there is none."""
    if name not in DATA_SETS:
        raise ValueError(f"The data set must be one of {', '.join(DATA_SETS)}. Got {name!r} instead.")
    return DATA_SETS[name]


def home(spec: CatalogEntry, data_dir: str | Path | None = None) -> Path:
    """Return the folder of a data set: its own, or the common folder if its files are directly in that one."""
    folder = data_folder(data_dir)
    own = folder / spec.name
    # Without any files yet, the answer is the own folder, because that is where downloads go.
    return folder if not spec.own_folder and not _names_in(own, spec) and _names_in(folder, spec) else own


def here(spec: CatalogEntry, data_dir: str | Path | None = None) -> bool:
    """Return whether the files of a data set exist. They are not read, because that may take minutes."""
    if spec.gist_of is not None and here(data_set(spec.gist_of), data_dir):
        return True
    needed = {file.name for file in spec.files}
    found = _names_in(home(spec, data_dir), spec)
    others = (found - needed) if spec.files or spec.instead else {""}
    return (
        (bool(needed) and needed <= found) or bool(others) or (spec.name == "fashion-mnist" and fashion_mnist_there())
    )


def _names_in(folder: Path, spec: CatalogEntry) -> set[str]:
    names = [file.name for file in (*spec.files, *spec.instead)] + list(spec.unpacked)
    return {name for name in names if (folder / name).exists()}


def load(name: str, data_dir: str | Path | None = None) -> Pool:
    """Load all rows of a data set.

    Parameters
    ----------
    name : str
        A name from ``DATA_SETS``.
    data_dir : str or Path, optional
        The folder of all data sets, as in ``data_folder``.

    Returns
    -------
    Pool

    Raises
    ------
    DatasetMissing
        If files are missing; the message says how to get them.

    Examples
    --------
    >>> load("digits").X.shape
    (1797, 64)
    """
    spec = data_set(name)
    if spec.gist_of is not None and not _names_in(home(spec, data_dir), spec):
        base = data_set(spec.gist_of)
        return gist_pool(load(base.name, data_dir), home(base, data_dir))
    return spec.read(home(spec, data_dir))


def prepare(name: str, data_dir: str | Path | None = None, *, features: bool = True) -> Pool:
    """Download, check and unpack the files of a data set, compute its features, and load it.

    Parameters
    ----------
    name, data_dir
        As in ``load``.
    features : bool
        Whether to compute GIST features of the data sets that have them.

    Returns
    -------
    Pool

    Raises
    ------
    DatasetMissing
        If a file is missing and cannot be downloaded.
    FileError
        If a file does not have its published size and checksum.
    """
    spec = data_set(name)
    folder = home(spec, data_dir)
    if spec.gist_of is not None and not _names_in(folder, spec):
        return prepare(spec.gist_of, data_dir)
    for file in (*spec.files, *spec.instead):
        if (folder / file.name).is_file():
            check_file(folder / file.name, file)
    try:
        pool = spec.read(folder)
    except DatasetMissing:
        if not any(file.url for file in spec.files):
            raise
        _fetch_all(spec, folder)
        pool = spec.read(folder)
    return gist_pool(pool, folder) if features and spec.gist else pool


def _fetch_all(spec: CatalogEntry, folder: Path) -> None:
    unpacked = any((folder / name).exists() for name in spec.unpacked)
    for file in spec.files:
        if is_archive(Path(file.name)) and unpacked:
            continue
        path = fetch(file, folder)
        # A zip can be read in place. A compressed tar would have to be unpacked each time it is read.
        if path.name.endswith(".tar.gz"):
            unpack(path, folder)
