"""A file of another kind is called by its name; only what is really of the right kind can be damaged."""

import pickle
import sqlite3
import zipfile

import numpy as np
import pytest

import hashlearn as hl
from hashlearn import files
from hashlearn.collection import CollectionError
from hashlearn.messages import kind_of_bytes, kind_of_file


@pytest.fixture
def folder(tmp_path):
    """A file of every kind that is known."""
    X = np.random.default_rng(0).normal(size=(40, 5))
    hl.save(hl.ITQ(4, random_state=0).fit(X), tmp_path / "hashlearn model")
    hl.Index(8).save(tmp_path / "hashlearn index")
    np.save(tmp_path / "NumPy array.npy", X)
    with zipfile.ZipFile(tmp_path / "zip archive", "w") as archive:
        archive.writestr("a", "b")
    with sqlite3.connect(tmp_path / "SQLite database") as database:
        database.execute("CREATE TABLE a (b)")
    database.close()
    (tmp_path / "gzip file").write_bytes(b"\x1f\x8b\x08" + bytes(40))
    (tmp_path / "PNG image").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (tmp_path / "PDF document").write_bytes(b"%PDF-1.7\n" + bytes(40))
    (tmp_path / "pickle").write_bytes(pickle.dumps(list(range(50))))
    (tmp_path / "text file").write_text("hashlearn and its friends\n" * 500, encoding="utf-8")
    return tmp_path


def test_every_kind_is_known(folder):
    for path in folder.iterdir():
        assert path.stem in kind_of_file(path)
    assert kind_of_bytes(b"") is None
    assert kind_of_bytes(bytes(range(256))) is None
    # A character may end behind the bytes that are looked at.
    assert kind_of_bytes(b"a" + "é".encode() * 3000) == "a text file"
    assert kind_of_bytes(b"a" * 100 + b"\xff") is None


def test_models_indexes_and_collections_say_what_they_got(folder):
    for path in folder.iterdir():
        kind = kind_of_file(path)
        if "model" not in kind:
            with pytest.raises(hl.ModelFileError, match="is not a hashlearn model file: it is") as raised:
                hl.load(path)
            assert kind in str(raised.value)
        if "index" not in kind:
            with pytest.raises(ValueError, match="is not a hashlearn index file: it is") as raised:
                hl.Index.load(path)
            assert kind in str(raised.value)
        place = folder.parent / f"{folder.name} {path.stem}"
        place.mkdir()
        (place / "collection.sqlite").write_bytes(path.read_bytes())
        expected = "another SQLite database" if "SQLite" in kind else kind
        with pytest.raises(CollectionError, match="is not a collection of hashlearn: it is") as raised:
            hl.Collection.open(place)
        assert expected in str(raised.value)
        assert "damaged" not in str(raised.value)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".h5", ".fvecs"])
def test_feature_files_say_what_they_got(folder, suffix):
    pytest.importorskip("pyarrow")
    pytest.importorskip("h5py")
    for path in [path for path in folder.iterdir() if path.suffix != suffix]:
        kind = kind_of_file(path)
        if (suffix, "zip archive" in kind) == (".npz", True):
            continue
        wrong = folder.parent / f"wrong{suffix}"
        wrong.write_bytes(path.read_bytes())
        with pytest.raises(files.FileError, match="is not a") as raised:
            files.read_features(wrong)
        assert kind in str(raised.value)
        assert "damaged" not in str(raised.value)


def test_a_cut_model_is_damaged_and_a_cut_zip_is_cut(folder):
    for name, cut in (("hashlearn model", 200), ("zip archive", 20)):
        path = folder / name
        path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(hl.ModelFileError, match="is damaged"):
        hl.load(folder / "hashlearn model")
    (folder / "zip archive").rename(folder / "z.npz")
    with pytest.raises(files.FileError, match=r"or it is cut short: it is no zip archive\.$"):
        files.read_features(folder / "z.npz")
