"""Folders and zips of images."""

import io
import sys
import zipfile

import numpy as np
import pytest

from hashlearn import data
from hashlearn.data import cifar
from hashlearn.files import FileError
from hashlearn.service.images import ImageDecoder, ImageFeatures
from hashlearn.service.settings import Limits

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def picture(colour, size=(32, 32), kind="PNG", mode="RGB"):
    stream = io.BytesIO()
    Image.new(mode, size, colour).save(stream, kind)
    return stream.getvalue()


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def write_zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


PARTS = {
    "set/test/cat/1.png": picture((9, 9, 9)),
    "set/train/dog/2.png": picture((1, 2, 3)),
    "set/train/cat/3.png": picture((255, 0, 7)),
    "set/train/cat/notes.txt": b"no image",
}


@pytest.mark.parametrize("zipped", [False, True])
def test_parts_classes_and_order(tmp_path, zipped):
    place = write_zip(tmp_path / "set.zip", PARTS) if zipped else write(tmp_path / "folder", PARTS)
    pool = data.image_folder(place)
    assert pool.ids.tolist() == ["set/train/cat/3.png", "set/train/dog/2.png", "set/test/cat/1.png"]
    assert pool.part.tolist() == [0, 0, 1]
    assert pool.label_names == ("cat", "dog")
    assert pool.y.tolist() == [0, 1, 0]
    assert pool.image_shape == (32, 32, 3)
    assert pool.images[0, 5, 5].tolist() == [255, 0, 7]


def test_plain_classes_have_no_part_and_other_modes_become_colour(tmp_path):
    pool = data.image_folder(
        write(tmp_path, {"a/1.png": picture(7, mode="L"), "b/2.jpg": picture((0, 0, 0), kind="JPEG")})
    )
    assert pool.part is None
    assert pool.images[0, 0, 0].tolist() == [7, 7, 7]


def test_one_size_for_all(tmp_path):
    write(tmp_path, {"a/1.png": picture((1, 1, 1)), "a/2.png": picture((2, 2, 2), size=(40, 20))})
    with pytest.raises(FileError, match=r"a/2\.png is 40×20 pixels, a/1\.png is 32×32; give one size"):
        data.image_folder(tmp_path)
    assert data.image_folder(tmp_path, size=8).images.shape == (2, 8, 8, 3)


def test_a_large_jpeg_has_the_pixels_that_the_service_makes_of_it(tmp_path):
    stream = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype=np.uint8)
    Image.fromarray(noise).save(stream, "JPEG")
    pool = data.image_folder(write(tmp_path, {"a/1.jpg": stream.getvalue()}), size=16)
    row = ImageFeatures("pixels", 16).row(stream.getvalue(), ImageDecoder(Limits()))
    np.testing.assert_array_equal(pool.features(np.arange(1)), row)


def test_damage(tmp_path):
    write(tmp_path / "x", {"a/1.png": picture((1, 1, 1)), "a/2.png": b"no picture"})
    with pytest.raises(FileError, match=r"a/2\.png is no image"):
        data.image_folder(tmp_path / "x")
    write(tmp_path / "y", {"1.png": picture((1, 1, 1))})
    with pytest.raises(FileError, match="no images in folders of their classes"):
        data.image_folder(tmp_path / "y")


def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch):
    write(tmp_path, {"a/1.png": picture((1, 1, 1))})
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(FileError, match=r"needs Pillow: pip install '\.\[images\]'"):
        data.image_folder(tmp_path)


def test_cifar10_as_a_zip_of_images(tmp_path):
    files = {
        f"{part}/{name}/0000.jpg": picture((10 * n, 0, 0), kind="JPEG")
        for part in ("train", "test")
        for n, name in enumerate(cifar.CLASSES)
    }
    write_zip(tmp_path / "cifar10-images.zip", files)
    pool = data.load("cifar10", tmp_path)
    assert pool.y.tolist() == list(range(10)) * 2
    assert pool.part.tolist() == [0] * 10 + [1] * 10
    write_zip(tmp_path / "cifar10-images.zip", {name: files[name] for name in list(files)[:5]})
    with pytest.raises(FileError, match="is not CIFAR-10"):
        data.load("cifar10", tmp_path)
