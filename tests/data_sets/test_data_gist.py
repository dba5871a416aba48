"""GIST against LMgist written plainly, against stored rows of real images, and against numbers kept here."""

import io
import zipfile

import numpy as np
import pytest

from hashlearn.data import DATA_SETS, Pool, catalog
from hashlearn.data.gist import gist, gist_file, gist_pool
from hashlearn.files import FileError


def plain_gist(image):
    """LMgist for one grey image in float64, step by step with full transforms."""
    image = image - image.min()
    image = np.log(255 * image / image.max() + 1)
    side = len(image)
    image = np.pad(image, ((5, 5 + side % 2), (5, 5 + side % 2)), mode="symmetric")
    cycles = np.fft.fftfreq(len(image), 1 / len(image))
    smooth = np.exp(-(cycles[:, None] ** 2 + cycles**2) / (4 / np.sqrt(np.log(2))) ** 2)
    white = image - np.fft.ifft2(np.fft.fft2(image) * smooth).real
    local = np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(white**2) * smooth)))
    image = (white / (0.2 + local))[5 : 5 + side, 5 : 5 + side]
    spectrum = np.fft.fft2(np.pad(image, 32, mode="symmetric"))
    frequency = np.fft.fftfreq(side + 64)
    across, down = np.meshgrid(frequency, frequency)
    # The highest frequency of an even length counts as negative, which fftfreq does as well.
    radius, angle = np.hypot(across, down), np.angle(across + 1j * down)
    borders = np.linspace(0, side, 5).astype(int)
    result = []
    for scale in range(4):
        for orientation in range(8):
            turned = angle + np.pi / 8 * orientation
            turned += 2 * np.pi * (turned < -np.pi) - 2 * np.pi * (turned > np.pi)
            gain = np.exp(-3.5 * (radius / (0.3 / 1.85**scale) - 1) ** 2 - 2 * np.pi * turned**2)
            amplitude = np.abs(np.fft.ifft2(spectrum * gain))[32 : 32 + side, 32 : 32 + side]
            for x in range(4):
                for y in range(4):
                    cell = amplitude[borders[y] : borders[y + 1], borders[x] : borders[x + 1]]
                    result.append(cell.mean())
    return np.array(result)


@pytest.mark.parametrize("side", [8, 30, 32, 33, 64])
def test_equal_to_the_plain_version(side):
    images = np.random.default_rng(side).integers(0, 256, (3, side, side))
    images[1] = np.arange(side)[:, None] * 3  # smooth, and the same in every column
    expected = [plain_gist(image.astype(float)) for image in images]
    np.testing.assert_allclose(gist(images), expected, atol=3e-6)


def synthetic_images():
    row, column = np.mgrid[:32, :32]
    stripes = (row * 7 + column * 3) % 32 * 8
    disc = np.where((row - 12) ** 2 + (column - 20) ** 2 < 64, 220, 40) + column
    return np.stack([stripes, disc])


PLACES = [0, 1, 4, 70, 150, 255, 300, 400, 511]
GOLDEN = [
    [0.0890092, 0.07588371, 0.08464965, 0.1169752, 0.01344495, 0.05313756, 0.008520169, 0.001616916, 0.0004228096],
    [0.08394532, 0.0826915, 0.03241365, 0.03526194, 0.09448111, 0.008451264, 0.08667084, 0.02571061, 0.03108731],
]


def test_golden_values():
    result = gist(synthetic_images())
    np.testing.assert_allclose(result[:, PLACES], GOLDEN, atol=2e-6)
    np.testing.assert_allclose(result.sum(axis=1), [27.06089, 20.81025], rtol=1e-5)


def test_twenty_stored_rows_of_real_images(shared_data):
    """Within rounding to float16, half a unit in the last place, and what float32 sums may differ."""
    Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    rows = np.linspace(0, 49_999, 20).astype(int)
    with zipfile.ZipFile(shared_data / "cifar10-images.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.startswith("train/") and name.endswith(".jpg"))
        images = [np.asarray(Image.open(io.BytesIO(archive.read(names[row]))).convert("RGB")) for row in rows]
    with np.load(shared_data / "cifar10_gist512.npz") as archive:
        stored = archive["X_train"][rows]
    difference = np.abs(gist(np.stack(images)) - stored.astype(np.float32))
    assert np.all(difference <= np.spacing(stored).astype(np.float32) / 2 + 2e-6)


def test_colours_are_averaged_and_brightness_does_not_matter():
    grey = synthetic_images()
    colour = np.stack([grey + 30, grey, grey - 30], axis=-1)
    np.testing.assert_allclose(gist(colour), gist(grey), atol=3e-6)
    np.testing.assert_allclose(gist(grey[..., None] * 0.5 + 7), gist(grey), atol=3e-6)


def test_threads_and_batches_change_nothing():
    images = np.random.default_rng(0).integers(0, 256, (150, 16, 16), dtype=np.uint8)
    result = gist(images, n_jobs=1)
    np.testing.assert_array_equal(gist(images, n_jobs=3), result)
    np.testing.assert_allclose(gist(images[70:75]), result[70:75], atol=1e-6)


def test_one_colour_is_nothing_and_bad_shapes_are_said():
    assert not gist(np.full((1, 32, 32), 9)).any()
    assert gist(np.zeros((0, 32, 32))).shape == (0, 512)
    for shape, says in (((2, 32, 30), "square"), ((32, 32), "square"), ((1, 3, 3), "at least 4 pixels")):
        with pytest.raises(ValueError, match=says):
            gist(np.zeros(shape))


def pool_of_images(seed=0):
    X = np.random.default_rng(seed).integers(0, 256, (6, 8 * 8 * 3), dtype=np.uint8)
    return Pool("tiny", X, np.arange(6), image_shape=(8, 8, 3))


def test_features_are_computed_once(tmp_path, monkeypatch):
    first = gist_pool(pool_of_images(), tmp_path / "new")
    monkeypatch.setattr("hashlearn.data.gist.gist", None)
    again = gist_pool(pool_of_images(), tmp_path / "new")
    np.testing.assert_array_equal(again.X, first.X)
    assert again.name == "tiny GIST"
    assert again.image_shape is None
    with pytest.raises(TypeError):  # other pixels are not found there
        gist_pool(pool_of_images(1), tmp_path / "new")
    np.save(gist_file(pool_of_images(), tmp_path / "new"), np.zeros((2, 2)))
    with pytest.raises(FileError, match="delete it"):
        gist_pool(pool_of_images(), tmp_path / "new")


def test_a_read_only_folder_is_left_alone(tmp_path):
    folder = tmp_path / "fixed"
    folder.mkdir(mode=0o555)
    path = gist_file(pool_of_images(), folder)
    assert folder not in path.parents
    assert tmp_path / "cache" in path.parents


def test_gist_of_cifar_is_made_where_the_images_are(tmp_path):
    assert DATA_SETS["cifar10-gist"].gist_of == "cifar10"
    assert not catalog.here(DATA_SETS["cifar10-gist"], tmp_path)
