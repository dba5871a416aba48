"""Damaged images with a deep method: fatal by default, or left out by choice."""

import numpy as np
import pytest
import torch
from image_files import encoded, noise, write

import hashlearn as hl
from hashlearn.deep.images import ImageSource
from hashlearn.files.arrays import FileError

torch.set_num_threads(1)
SMALL = {"name": "small_cnn", "image_size": 8, "n_features": 8}
DAMAGED = [2, 5]


def files():
    content = {f"{'ab'[number % 2]}/{number}.png": encoded(noise(number)) for number in range(8)}
    names = sorted(content)
    for row in DAMAGED:
        content[names[row]] = content[names[row]][:40]
    return content


@pytest.fixture(scope="module")
def hasher():
    pixels = np.stack([noise(seed) for seed in range(16)])
    return hl.deep.DCH(8, backbone=SMALL, n_epochs=1, random_state=0, n_jobs=1).fit(pixels, np.arange(16) % 2)


def test_codes_of_the_readable_images_only(hasher, tmp_path):
    folder = write(tmp_path, files())
    with ImageSource(folder, 8, on_error="skip") as source:
        with pytest.warns(UserWarning, match=r"2 of 8 images are left out .all in .damaged.; row 2: .*a.4\.png"):
            codes = hasher.encode(source)
        rows = source.usable()
        assert rows.tolist() == [0, 1, 3, 4, 6, 7]
        assert sorted(source.damaged) == DAMAGED
        paths = [folder / source.names[row] for row in rows]
        with pytest.warns(UserWarning, match="left out"):
            projections = hasher.decision_function(source)
    np.testing.assert_array_equal(codes, hasher.encode(paths))
    assert np.isfinite(projections).all()
    np.testing.assert_array_equal(codes, hl.codes.pack(projections >= 0))


def test_fatal_by_default(hasher, tmp_path):
    folder = write(tmp_path, files())
    with pytest.raises(FileError, match=r"a.4\.png"):
        hasher.encode(folder)


def test_training_leaves_them_out(tmp_path):
    """Labels are given for every image; those of damaged ones are not used, and codes_ keeps a row for each."""
    folder = write(tmp_path, files())
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    options = {"backbone": SMALL, "n_epochs": 2, "random_state": 0, "n_jobs": 1}
    with ImageSource(folder, 8, on_error="skip", recipe=hl.deep.backbones.build("small_cnn", image_size=8).recipe) as s:
        with pytest.warns(UserWarning, match="left out"):
            fitted = hl.deep.DCH(8, **options).fit(s, y)
        changed = y.copy()
        changed[DAMAGED] = 1 - changed[DAMAGED]
        with pytest.warns(UserWarning, match="left out"):
            same = hl.deep.DCH(8, **options).fit(s, changed)
        with pytest.warns(UserWarning, match="left out"):
            codes = fitted.encode(s)
    assert fitted.codes_.shape == (8, 1)
    kept = np.setdiff1d(np.arange(8), DAMAGED)
    np.testing.assert_array_equal(fitted.codes_[kept], codes)
    np.testing.assert_array_equal(fitted.codes_, same.codes_)
