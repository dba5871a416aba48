"""Images from folders, zips, lists and arrays, as batches for a network."""

import io
import struct
import sys
import threading
import time
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")

from deep.image_files import encoded, flat, noise, write, write_zip  # noqa: E402
from PIL import Image  # noqa: E402

from hashlearn.deep import images as deep_images  # noqa: E402
from hashlearn.deep.backbones import Recipe  # noqa: E402
from hashlearn.deep.images import ImageSource, folder_classes  # noqa: E402
from hashlearn.files import FileError  # noqa: E402
from hashlearn.files import images as decode  # noqa: E402
from hashlearn.progress import listening  # noqa: E402

TREE = {
    "b/deep/er/2.png": encoded(flat(20)),
    "a/Ünï çødé 猫.png": encoded(flat(10)),
    "b/3.JPEG": encoded(flat(30), "JPEG", quality=100),
    "1.bmp": encoded(flat(1), "BMP"),
    "b/readme.txt": b"no image",
}
ORDER = ["1.bmp", "a/Ünï çødé 猫.png", "b/3.JPEG", "b/deep/er/2.png"]
BROKEN = encoded(noise(0, 64, 64), "JPEG")[:600]


def first_pixels(source):
    return source.batch(np.arange(len(source)))[:, 0, 0, 0].tolist()


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "tree", TREE)


# Where images come from ---------------------------------------------------------------------------------------


def test_folder_zip_list_and_array_are_the_same_images(folder, tmp_path):
    write_zip(tmp_path / "tree.zip", TREE)
    paths = [folder / name for name in ORDER]
    array = np.stack([flat(value) for value in (1, 10, 30, 20)])
    for images in (folder, str(folder), tmp_path / "tree.zip", paths, array, torch.from_numpy(array)):
        with ImageSource(images, 8) as source:
            assert len(source) == 4
            batch = source.batch([0, 1, 2, 3])
            assert (batch.dtype, batch.shape) == (torch.uint8, (4, 3, 8, 8))
            assert batch.is_contiguous(memory_format=torch.channels_last)
            assert first_pixels(source) == [1, 10, 30, 20]
            assert source.batch([3, 1])[:, 2, 7, 7].tolist() == [20, 10]
    with ImageSource(folder, 8) as source:
        assert source.names == ORDER
        with pytest.raises(FileError, match=r"1\.bmp lies in no folder"):
            folder_classes(source.names)
        assert folder_classes(source.names[1:]) == ["a", "b", "er"]


def test_arrays_in_any_layout():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 6, 6, 3), dtype=np.uint8)
    expected = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    for array in (pixels, pixels.transpose(0, 3, 1, 2)):
        assert torch.equal(ImageSource(array, 6).batch([0, 1]), expected)
    grey = ImageSource(pixels[..., 0], 6).batch([0, 1])
    assert torch.equal(grey, expected[:, :1].expand(-1, 3, -1, -1))
    for wrong in (pixels.astype(np.float32), pixels[..., :2], pixels[0, 0], np.empty((0, 6, 6, 3), np.uint8)):
        with pytest.raises(ValueError, match="Arrays of images must"):
            ImageSource(wrong, 6)


def test_bad_places(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.tar").write_bytes(b"")
    (tmp_path / "x.zip").write_bytes(b"PK no zip")
    for place, message in (
        ("empty", "holds no images"),
        ("nowhere", "does not exist"),
        ("x.tar", "neither a folder nor a zip"),
        ("x.zip", "is damaged or cut short"),
    ):
        with pytest.raises(FileError, match=message):
            ImageSource(tmp_path / place, 8)
    with pytest.raises(FileError, match="list of image files is empty"):
        ImageSource([], 8)
    with pytest.raises(ValueError, match="Got a list with int in it"):
        ImageSource([1, 2], 8)
    with pytest.raises(FileError, match=r"gone\.png cannot be read: No such file"):
        ImageSource([tmp_path / "gone.png"], 8).batch([0])


def test_bad_settings():
    array = np.zeros((1, 8, 8, 3), np.uint8)
    with pytest.raises(ValueError, match=r"'on_error' must be one of stop, skip. Got 'ignore'"):
        ImageSource(array, 8, on_error="ignore")
    with pytest.raises(ValueError, match="Crops of 8 pixels cannot be taken of images scaled to 4 with 1"):
        ImageSource(array, 8, recipe=Recipe(resize=4, pad=1))
    with pytest.raises(ValueError, match="'fit' must be one of crop, squash"):
        ImageSource(array, 8, recipe=Recipe(fit="stretch"))


# Decoding -----------------------------------------------------------------------------------------------------


def decoded(data, side=8, **more):
    return decode.decode(data, "x", decode.Scaling(side, **more))


def test_every_mode_becomes_colour():
    grey = Image.fromarray(np.full((8, 8), 77, np.uint8))
    assert decoded(encoded(grey))[0, 0].tolist() == [77, 77, 77]
    deep = np.full((8, 8), 0x8080, np.uint16)
    assert decoded(encoded(Image.fromarray(deep)))[0, 0].tolist() == [128, 128, 128]
    assert decoded(encoded(Image.fromarray(deep), "TIFF"))[0, 0].tolist() == [128, 128, 128]
    assert decoded(encoded(Image.fromarray(np.full((8, 8), 65535, np.uint16))))[0, 0].tolist() == [255] * 3
    one_bit = Image.fromarray(np.full((8, 8), 255, np.uint8)).convert("1")
    assert decoded(encoded(one_bit))[0, 0].tolist() == [255] * 3
    palette = Image.fromarray(flat((200, 0, 0))).convert("P", palette=Image.Palette.ADAPTIVE)
    assert decoded(encoded(palette, "GIF"))[0, 0].tolist() == [200, 0, 0]
    cmyk = encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100)
    red = decoded(cmyk)[0, 0].astype(int)
    assert np.abs(red - [255, 0, 0]).max() <= 3


def test_transparent_pixels_lie_on_white():
    half = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    half.paste((10, 20, 30, 255), (0, 0, 4, 8))
    pixels = decoded(encoded(half))
    assert pixels[0, 0].tolist() == [10, 20, 30]
    assert pixels[0, 7].tolist() == [255, 255, 255]
    clear = decoded(encoded(Image.new("LA", (8, 8), (5, 0))))
    assert clear[0, 0].tolist() == [255, 255, 255]
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([9, 9, 9, 50, 60, 70])
    assert decoded(encoded(palette, "PNG", transparency=0))[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_cameras_orientation_is_applied(orientation):
    upright = np.zeros((8, 8, 3), np.uint8)
    upright[:4, :4] = (255, 0, 0)
    upright[:4, 4:] = (0, 255, 0)
    upright[4:, :4] = (0, 0, 255)
    # What a camera stores, so that the orientation brings it back.
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright),
        7: np.rot90(upright, 2).transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert np.array_equal(decoded(encoded(np.ascontiguousarray(stored), exif=exif)), upright)


def test_crop_and_squash():
    wide = np.zeros((8, 24, 3), np.uint8)
    wide[:, 8:16] = 200
    assert np.all(decoded(encoded(wide)) == 200)
    squashed = decoded(encoded(wide), fit="squash", resample="bilinear")
    assert squashed[0, 0, 0] == 0
    assert squashed[0, 4, 0] == 200


def test_a_large_jpeg_is_unpacked_small_and_looks_the_same():
    down, across = np.mgrid[:512, :768]
    smooth = np.stack([down // 2, across // 3, (down + across) // 5], axis=2).astype(np.uint8)
    data = encoded(smooth, "JPEG", quality=95)
    with Image.open(io.BytesIO(data)) as image:
        middle = image.convert("RGB").crop((128, 0, 640, 512)).resize((32, 32), Image.Resampling.BICUBIC)
    assert np.abs(decoded(data, 32).astype(int) - np.asarray(middle)).max() <= 4


def test_damaged_images_are_named():
    for data in (BROKEN, b"", b"no image", encoded(flat(1))[:40], encoded(Image.new("F", (8, 8)), "TIFF")):
        with pytest.raises(FileError, match=r"x is no image that can be read: .*[^.]\.$"):
            decoded(data)


def test_huge_claims_are_refused_before_anything_is_unpacked():
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 12_000, 10_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    with pytest.warns(Image.DecompressionBombWarning), pytest.raises(FileError, match="claims 12000×10000 pixels"):
        decoded(bomb)


def test_a_zip_bomb_is_refused_by_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(deep_images, "MAX_BYTES", 100_000)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/bomb.png", bytes(1_000_000))
        archive.writestr("a/good.png", encoded(flat(3)))
    with ImageSource(tmp_path / "x.zip", 8, on_error="skip") as source:
        assert source.usable().tolist() == [1]
        assert "has 1,000,000 bytes, more than the 100,000" in source.damaged[0]


# Augmentation -------------------------------------------------------------------------------------------------


def naive(image, size, pad, top, left, mirrored):
    framed = np.pad(image, ((pad, pad), (pad, pad), (0, 0)))
    window = framed[top : top + size, left : left + size]
    return window[:, ::-1] if mirrored else window


@settings(max_examples=25, deadline=None)
@given(
    side=st.integers(3, 9), pad=st.integers(0, 3), cut=st.integers(0, 5), seed=st.integers(0, 99), mirror=st.booleans()
)
def test_windows_are_what_plain_padding_and_slicing_give(side, pad, cut, seed, mirror):
    size = max(1, side + 2 * pad - cut)
    images = np.random.default_rng(seed).integers(1, 256, (6, side, side, 3), dtype=np.uint8)
    with ImageSource(images, size, recipe=Recipe(resize=side, pad=pad, mirror=mirror)) as source:
        spare = side + 2 * pad - size
        middle = source.batch(np.arange(6)).permute(0, 2, 3, 1).numpy()
        for row in range(6):
            assert np.array_equal(middle[row], naive(images[row], size, pad, spare // 2, spare // 2, False))
        trained = source.batch(np.arange(6), seed=(seed,)).permute(0, 2, 3, 1).numpy()
        for row in range(6):
            assert any(
                np.array_equal(trained[row], naive(images[row], size, pad, top, left, turned))
                for top in range(spare + 1)
                for left in range(spare + 1)
                for turned in ({False, mirror})
            )


def test_crops_and_mirrors_are_uniform():
    ramp = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    with ImageSource(np.repeat(ramp, 2000, axis=0), 6, recipe=Recipe(resize=8)) as source:
        batch = source.batch(np.arange(2000), seed=(0,))[:, 0].numpy()
    mirrored = batch[:, 0, 0] > batch[:, 0, 5]
    assert 0.45 < mirrored.mean() < 0.55
    corners, counts = np.unique(np.where(mirrored, batch[:, 0, 5], batch[:, 0, 0]), return_counts=True)
    assert corners.tolist() == [0, 1, 2, 8, 9, 10, 16, 17, 18]
    assert counts.min() > 150


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_seed_gives_the_same_batches_whatever_the_threads(folder, n_jobs):
    write(folder, {f"n/{seed}.png": encoded(noise(seed, 20, 14)) for seed in range(9)})
    recipe = Recipe(resize=10, pad=1)

    def run(threads, memory):
        with ImageSource(folder, 8, recipe=recipe, n_jobs=threads, memory=memory) as source:
            order = np.random.default_rng(1).permutation(len(source))
            plan = np.split(order, [4, 8, 12])
            made = list(source.batches(plan, seed=(2,)))
            again = list(source.batches(plan, seed=(2,)))
        assert np.concatenate([rows for rows, _ in made]).tolist() == order.tolist()
        return [batch for _, batch in made], [batch for _, batch in again]

    expected, _ = run(2, 0)
    assert [len(batch) for batch in expected] == [4, 4, 4, 1]
    for memory in (0, 5 * 300, 1 << 20):
        for batches in run(n_jobs, memory):
            assert all(torch.equal(a, b) for a, b in zip(batches, expected, strict=True))


def test_decoded_images_are_kept_for_the_next_epoch(folder, monkeypatch):
    calls = []
    real = deep_images.decode
    monkeypatch.setattr(deep_images, "decode", lambda *arguments: (calls.append(arguments[1]), real(*arguments))[1])
    with ImageSource(folder, 8, memory=3 * 8 * 8 * 2) as source:
        for _ in range(3):
            source.batch(np.arange(4))
    assert len(calls) == 4 + 2 + 2


def test_reading_ahead_is_bounded_and_ends_with_the_reader(tmp_path):
    write(tmp_path, {f"{number:03}.png": encoded(flat(number)) for number in range(60)})
    before = set(threading.enumerate())
    with ImageSource(tmp_path, 8, n_jobs=2, memory=1 << 20) as source:
        stream = source.batches(np.arange(60).reshape(15, 4))
        next(stream)
        time.sleep(0.3)
        assert len(source._kept) <= 4 * 5
        stream.close()
    assert set(threading.enumerate()) <= before


# Damage -------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path):
    files = {f"a/{number}.png": encoded(flat(number)) for number in range(10)}
    return write(tmp_path / "damaged", files | {"a/3.png": BROKEN, "a/7.png": b"", "a/8.png": b"GIF89a"})


def test_stop(damaged):
    with ImageSource(damaged, 8) as source:
        with pytest.raises(FileError, match=r"a/3\.png is no image that can be read"):
            list(source.batches(np.arange(10).reshape(5, 2)))
        with pytest.raises(FileError, match=r"a/7\.png is no image"):
            source.batch([6, 7])
        assert source.batch([1, 2])[:, 0, 0, 0].tolist() == [1, 2]


def test_skip(damaged):
    with ImageSource(damaged, 8, on_error="skip") as source:
        made = list(source.batches([np.arange(4), np.arange(4, 8), np.arange(8, 10)]))
        assert [rows.tolist() for rows, _ in made] == [[0, 1, 2], [4, 5, 6], [9]]
        assert torch.cat([batch for _, batch in made])[:, 0, 0, 0].tolist() == [0, 1, 2, 4, 5, 6, 9]
        assert sorted(source.damaged) == [3, 7, 8]
        # Labels would no longer go with the images if a batch left some out.
        with pytest.raises(FileError, match=r"a/3\.png is no image"):
            source.batch([2, 3])


def test_usable_reads_all_once_and_says_how_far_it_is(damaged):
    heard = []
    with ImageSource(damaged, 8, on_error="skip") as source, listening(lambda *facts: heard.append(facts)):
        assert source.usable().tolist() == [0, 1, 2, 4, 5, 6, 9]
    assert heard[-1] == ("checking images", 10, 10)
    with ImageSource(damaged, 8) as source, pytest.raises(FileError, match=r"a/3\.png"):
        source.usable()
    with ImageSource(np.zeros((3, 8, 8, 3), np.uint8), 8) as source:
        assert source.usable().tolist() == [0, 1, 2]


def test_a_damaged_member_of_a_zip_is_named(tmp_path):
    path = write_zip(tmp_path / "x.zip", {"a.png": encoded(noise(1)), "b.png": encoded(noise(2))})
    content = bytearray(path.read_bytes())
    place = content.index(encoded(noise(1))[-30:])
    content[place] ^= 255
    path.write_bytes(content)
    with ImageSource(path, 8, on_error="skip") as source:
        assert source.usable().tolist() == [1]
        assert "a.png cannot be read: Bad CRC-32" in source.damaged[0]


def test_the_stamp_changes_with_the_images(folder, tmp_path):
    def stamp(images, size=8, **more):
        with ImageSource(images, size, **more) as source:
            return source.stamp()

    before = stamp(folder)
    assert before == stamp(folder)
    assert before != stamp(folder, 9)
    write(folder, {"b/4.png": encoded(flat(4))})
    assert before != stamp(folder)
    array = np.zeros((2, 8, 8, 3), np.uint8)
    other = array.copy()
    other[1, 1, 1, 1] = 1
    assert stamp(array) != stamp(other)


def test_without_pillow_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with ImageSource(folder, 8) as source, pytest.raises(FileError, match=r"pip install '\.\[images\]'"):
        source.batch([0])
    ready = ImageSource(np.zeros((1, 8, 8, 3), np.uint8), 8)
    assert ready.batch([0]).shape == (1, 3, 8, 8)
