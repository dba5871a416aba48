"""What the tests of chunks share: a small data set, hashers for it, and what it means to be the same fit."""

import numpy as np

import hashlearn as hl
from hashlearn.rows.source import Part

N_ROWS, WIDTH = 7001, 16


def rows_and_classes(n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n_rows)
    centers = rng.normal(size=(10, WIDTH)).astype(np.float32)
    return centers[y] + rng.standard_normal((n_rows, WIDTH), dtype=np.float32), y


def label_sets(n_rows=N_ROWS, n_labels=9, seed=1):
    return (np.random.default_rng(seed).random((n_rows, n_labels)) < 0.2).astype(np.int8)


def hasher(method=hl.GSDHP, **changes):
    return method(**{"n_bits": 24, "n_landmarks": 60, "n_anchors": 120, "random_state": 3, **changes})


def assert_same(one, other):
    """Bit for bit the same fit."""
    for name in ("anchor_indices_", "objective_", "energy_", "codes_"):
        if hasattr(one, name):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    if hasattr(one, "coder_"):
        parts = [
            (coder.metric.scales_, coder.quantizer.books_, coder.labels.scores.weights_, coder.labels.words.words_)
            for coder in (one.coder_, other.coder_)
        ]
        for pair in zip(*parts, strict=True):
            np.testing.assert_array_equal(*pair)
        return
    if not hasattr(one, "function_"):  # made of other hashers
        inner = [getattr(model, "hashers_", None) or [model.hasher_] for model in (one, other)]
        for pair in zip(*inner, strict=True):
            assert_same(*pair)
        return
    np.testing.assert_array_equal(one.features_.center_, other.features_.center_)
    # A class code's linear part stands for its function.
    functions = [vars(getattr(model.function_, "scores_", model.function_)) for model in (one, other)]
    assert functions[0].keys() == functions[1].keys()
    for name, value in functions[0].items():
        np.testing.assert_array_equal(value, functions[1][name], err_msg=name)
    np.testing.assert_array_equal(one.calibration_.slopes_, other.calibration_.slopes_)
    if hasattr(one.features_, "landmarks_"):
        np.testing.assert_array_equal(one.features_.landmarks_, other.features_.landmarks_)
        assert one.features_.bandwidth_ == other.features_.bandwidth_


class Chunks:
    """A re-iterable of (rows, labels) in chunks of one size."""

    def __init__(self, X, y, size):
        self.X, self.y, self.size = X, y, size

    def __iter__(self):
        for start in range(0, self.X.shape[0], self.size):
            part = slice(start, start + self.size)
            yield (self.X[part], self.y[part]) if self.y is not None else self.X[part]


def shards(folder, X, y, cuts, label_cuts):
    """.npy shards of rows and of labels, cut at different places; the patterns that mean them."""
    for name, array, places in (("x", X, cuts), ("y", y, label_cuts)):
        for k, part in enumerate(np.split(array, places)):
            np.save(folder / f"{name}-{k:03d}.npy", part)
    return str(folder / "x-*.npy"), str(folder / "y-*.npy")


class MemoryPart(Part):
    """Rows in memory that are read as those of a file are; tests watch or break the reading."""

    name = "the rows in memory"

    def __init__(self, array):
        self.array, self.n_rows = array, len(array)

    def read(self, start, stop):
        return self.array[start:stop]

    def slice(self, start, stop):
        return type(self)(self.array[start:stop])
