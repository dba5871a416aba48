"""The examples run with this version: Dask for real, Ray by a stand-in, of Spark what it maps over batches."""

import runpy
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hashlearn as hl

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def shards(tmp_path):
    """Two files of rows and of labels, and the codes that a fit in memory gives them."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=600)
    X = (rng.normal(size=(4, 16))[y] * 3 + rng.normal(size=(600, 16))).astype(np.float32)
    for number, part in enumerate((slice(0, 350), slice(350, 600))):
        np.save(tmp_path / f"x{number}.npy", X[part])
        np.save(tmp_path / f"y{number}.npy", y[part])
    return tmp_path, X, hl.GSDHP(64, random_state=0).fit(X, y)


@pytest.mark.slow
def test_dask(shards):
    folder, X, expected = shards
    script = EXAMPLES / "cluster" / "fit_on_dask.py"
    command = [sys.executable, str(script), "x*.npy", "y*.npy", "--codes", "codes"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(hl.load(folder / "model.hl").encode(X), expected.encode(X))
    codes = [np.load(path) for path in sorted((folder / "codes").glob("*.npy"))]
    np.testing.assert_array_equal(np.concatenate(codes), expected.encode(X))


def test_ray(shards, monkeypatch):
    """Ray takes minutes to install and seconds to start; what the example needs of it are these names."""
    folder, X, expected = shards
    with ThreadPoolExecutor(2) as pool:
        task = types.SimpleNamespace(remote=None)

        def remote(max_retries):
            def decorate(function):
                task.remote = lambda *args: types.SimpleNamespace(future=lambda: pool.submit(function, *args))
                return task

            return decorate

        stand_in = types.ModuleType("ray")
        stand_in.init, stand_in.remote, stand_in.cluster_resources = (lambda: None), remote, (lambda: {"CPU": 2.0})
        monkeypatch.setitem(sys.modules, "ray", stand_in)
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["fit_on_ray.py", "x*.npy", "y*.npy", "model.hl"])
        runpy.run_path(str(EXAMPLES / "cluster" / "fit_on_ray.py"), run_name="__main__")
    np.testing.assert_array_equal(hl.load(folder / "model.hl").encode(X), expected.encode(X))


def test_spark(shards, monkeypatch):
    """The function that Spark maps over Arrow batches, without Spark."""
    folder, X, expected = shards
    hl.save(expected, folder / "model.hl")
    for name in ("pyspark", "pyspark.sql", "pyspark.sql.types"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["pyspark"].SparkFiles = types.SimpleNamespace(get=lambda name: str(folder / name))
    sys.modules["pyspark.sql"].SparkSession = None
    for name in ("BinaryType", "StructField", "StructType"):
        setattr(sys.modules["pyspark.sql.types"], name, None)
    encode = runpy.run_path(str(EXAMPLES / "cluster" / "encode_on_spark.py"))["encoder"]("model.hl", "vector")
    batch = pa.record_batch({"id": np.arange(600), "vector": list(X)})
    (coded,) = encode(iter([batch]))
    assert coded.schema.names == ["id", "vector", "code"]
    assert coded["code"].to_pylist() == [row.tobytes() for row in expected.encode(X)]
