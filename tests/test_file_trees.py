"""Folders and archives are read by one module, and image files are opened by one: what holds for all who use them."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hashlearn
from hashlearn import data
from hashlearn.files import FileError
from hashlearn.files.images import ImageError, Scaling, TooManyPixels, as_png, decode, opened_image
from hashlearn.files.tree import TooLarge, open_tree, tree_at

PACKAGE = Path(hashlearn.__file__).parent
FILES = {"a.txt": b"first", "deep/b.bin": bytes(1000)}


@pytest.fixture(params=["folder", "zip", "tar", "tar.gz"])
def place(request, tmp_path):
    """The same two files in a folder and in each kind of archive."""
    if request.param == "folder":
        for name, content in FILES.items():
            (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "folder" / name).write_bytes(content)
        return tmp_path / "folder"
    path = tmp_path / f"files.{request.param}"
    if request.param == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in FILES.items():
                archive.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_names_bytes_and_what_is_there(place):
    with open_tree(place) as tree:
        assert tree.names() == sorted(FILES)
        assert {name: tree.read(name) for name in tree.names()} == FILES
        assert all(map(tree.contains, FILES))
        for name in ("b.bin", "deep", "nothing", "", ".", "../a.txt", "a.txt\0", "/etc/passwd"):
            assert not tree.contains(name)


def test_no_more_is_read_than_allowed(place):
    with open_tree(place) as tree:
        assert tree.read("deep/b.bin", 1000) == bytes(1000)
        with pytest.raises(TooLarge, match=r"deep/b\.bin has more than the 999 bytes that may be read"):
            tree.read("deep/b.bin", 999)


def test_a_folder_is_looked_at_when_a_file_is_asked_for(tmp_path):
    (tmp_path / "folder").mkdir()
    tree = tree_at(tmp_path / "folder")
    assert not tree.contains("late.txt")
    (tmp_path / "folder" / "late.txt").write_bytes(b"here")
    assert tree.contains("late.txt")
    assert tree.read("late.txt") == b"here"


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links")
def test_links_that_lead_out_of_a_folder_are_no_files_of_it(tmp_path):
    (tmp_path / "secret.txt").write_bytes(b"secret")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "inside.txt").write_bytes(b"fine")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "in.txt").symlink_to(folder / "inside.txt")
    (folder / "up").symlink_to(tmp_path)
    tree = tree_at(folder)
    assert [name for name in ("inside.txt", "out.txt", "in.txt", "up/secret.txt") if tree.contains(name)] == [
        "inside.txt",
        "in.txt",
    ]


def test_only_one_module_opens_images_and_one_reads_archives():
    for call, home in (("Image.open(", "files/images.py"), ("zipfile.ZipFile(path)", "files/tree.py")):
        using = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if call in path.read_text()}
        # Headers of .npz files, whose arrays need no tree.
        assert using - {"files/arrays.py"} == {home}


# Image files

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def test_errors_say_what_kind_they_are():
    picture = as_png(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))
    with (
        pytest.raises(TooManyPixels, match="x claims 30×20 pixels, more than the 599"),
        opened_image(picture, "x", max_pixels=599),
    ):
        pass
    for damaged in (b"", b"no image", picture[: len(picture) // 2]):
        with pytest.raises(ImageError, match=r"^x is no image that can be read: "):
            decode(damaged, "x", Scaling(8))
    with pytest.raises(ImageError), opened_image(picture, "x", formats=("JPEG",)):
        pass
    assert issubclass(TooManyPixels, FileError)


def turned(pixels):
    """A JPEG that a camera held sideways has made: stored turned, with the way back in its header."""
    stream, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # stored so that it must be turned by 90 degrees clockwise
    Image.fromarray(np.ascontiguousarray(np.rot90(pixels))).save(stream, "PNG", exif=exif)
    return stream.getvalue()


def test_data_sets_get_images_as_people_see_them(tmp_path):
    """Orientation, 16 bits and transparency were lost in data sets of images, and only there."""
    upright = np.zeros((8, 8, 3), dtype=np.uint8)
    upright[:4] = 200
    wide = Image.fromarray(np.full((8, 8), 128 * 257, dtype=np.uint16))
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    (tmp_path / "things").mkdir()
    (tmp_path / "things" / "a.png").write_bytes(turned(upright))
    (tmp_path / "things" / "b.png").write_bytes(as_png(wide))
    (tmp_path / "things" / "c.png").write_bytes(as_png(clear))
    pool = data.image_folder(tmp_path)
    images = pool.X.reshape(3, 8, 8, 3)
    np.testing.assert_array_equal(images[0], upright)
    assert (images[1] == 128).all()
    assert (images[2] == 255).all()
