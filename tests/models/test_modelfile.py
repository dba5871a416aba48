"""The bytes of model files: damage, foreign and forged files get one sentence; kill -9 leaves a whole file."""

import contextlib
import functools
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from sklearn.datasets import load_digits

from hashlearn import LSH
from hashlearn.messages import kind_of_bytes
from hashlearn.models import ModelFileError, load, loads, save
from hashlearn.models.format import to_bytes

X = load_digits().data[:300]


def refused(data, folder):
    path = folder / "bad.hl"
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.endswith(".")
    assert "\n" not in message
    return message.removeprefix(f"{path} ")


@functools.cache
def tiny(seed=0):
    return LSH(n_bits=4, random_state=seed).fit(X[:6, 20:24])


def tiny_bytes(folder):
    save(tiny(), folder / "tiny.hl")
    return (folder / "tiny.hl").read_bytes()


def described(folder, extra=(), **changes):
    """Valid bytes, checksum and all, of the tiny model with its description changed."""
    data = tiny_bytes(folder)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    document = json.loads(header["__metadata__"]["hashlearn"])
    arrays = load_arrays(data) | dict(extra)
    return to_bytes(document | changes, arrays), document


@pytest.mark.slow
def test_every_flipped_bit_is_noticed(tmp_path):
    data = tiny_bytes(tmp_path)
    assert len(data) < 2000
    for place in range(8 * len(data)):
        broken = bytearray(data)
        broken[place // 8] ^= 1 << place % 8
        with pytest.raises(ModelFileError, match=r"^bad.hl is damaged[^\n]*\.$"):
            loads(bytes(broken), "bad.hl")


def test_every_truncation_and_extension_is_noticed(tmp_path):
    data = tiny_bytes(tmp_path)
    for length in range(len(data)):
        assert refused(data[:length], tmp_path).startswith(("is damaged", "is not a hashlearn model file"))
    assert "damaged" in refused(data + b"\0", tmp_path)
    assert "damaged" in refused(data[: len(data) // 2], tmp_path)


def test_foreign_files(tmp_path):
    no_model = "is not a hashlearn model file"
    assert refused(b"", tmp_path) == f"{no_model}: it is empty."
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for data in (
        b"some text\n" * 50,
        pickle.dumps(tiny())[:100].replace(b"hashlearn", b"elsewhere"),
        pickle.dumps({"a": 1}),
        save_arrays({"x": np.ones(3)}),
        save_arrays({"x": np.ones(3)}, metadata={"format": "pt"}),
        b"\xff" * 64,
        (100).to_bytes(8, "little") + b"{",
        (2**63).to_bytes(8, "little") + b"{}",
        len(deep).to_bytes(8, "little") + deep,
    ):
        kind = kind_of_bytes(data)
        assert refused(data, tmp_path) == (f"{no_model}." if kind is None else f"{no_model}: it is {kind}.")
    with pytest.raises(ModelFileError, match="it is a directory"):
        load(tmp_path)
    with pytest.raises(ModelFileError, match="no regular file"):
        load("/dev/null")
    with pytest.raises(FileNotFoundError, match=r"^There is no model file .*nowhere.hl\.$"):
        load(tmp_path / "nowhere.hl")


def test_a_pickle_is_never_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    refused(pickle.dumps(Bomb()), tmp_path)
    assert not (tmp_path / "ran").exists()


def test_well_formed_but_wrong(tmp_path):
    data, document = described(tmp_path)
    assert data == tiny_bytes(tmp_path)
    model = document["model"]
    newer = refused(described(tmp_path, version=7)[0], tmp_path)
    assert newer == "was written by a newer hashlearn (format 7; this one reads up to 1)."
    assert refused(described(tmp_path, version=0)[0], tmp_path).startswith("has format 0, which hashlearn does not")
    assert refused(described(tmp_path, format="x")[0], tmp_path) == "is not a hashlearn model file."

    def changed(part, **entries):
        return refused(described(tmp_path, model=model | {part: model[part] | entries})[0], tmp_path)

    for name in ("Popen", "BaseHasher", "EstimatorFunction", "os.system"):
        unknown = refused(described(tmp_path, model=model | {"object": name})[0], tmp_path)
        assert unknown == f"asks for the class {name!r}, which hashlearn does not know."
    assert changed("parameters", bits=3) == "sets the parameter 'bits', which LSH does not have."
    for name in ("encode", "_n_features_out", "n_bits", "__class__", "__dict__", "a b"):
        assert f"it sets {name!r}, which is no attribute of a LSH" in changed("state", **{name: 1})
    assert "'x' is missing" in changed("state", codes_={"array": "x"})
    assert "'codes_' is missing" in changed("state", twice_={"array": "codes_"})
    assert "arrays that its description does not name" in changed("state", codes_=None)
    for node in ({"no": 1}, {"float": "x"}, {"array": [], "text": 1}, {"dict": [[[], 1]]}):
        assert changed("state", odd_=node) == "is damaged: its description makes no sense."
    parts = {"data": np.ones(1), "indices": np.array([7]), "indptr": np.array([0, 1])}
    outside = {"sparse": "csr_matrix", "shape": [1, 2]} | {part: {"array": part} for part in parts}
    forged = model | {"state": model["state"] | {"odd_": outside}}
    assert "makes no sense" in refused(described(tmp_path, parts, model=forged)[0], tmp_path)
    (tmp_path / "inside.hl").write_bytes(described(tmp_path, parts | {"indices": np.array([1])}, model=forged)[0])
    assert load(tmp_path / "inside.hl").odd_.toarray().tolist() == [[0, 1]]
    part = refused(described(tmp_path, model=model["state"]["function_"])[0], tmp_path)
    assert part == "is damaged: it holds a LinearFunction, not a hasher."


def test_text_takes_no_more_memory_than_a_file_can_mean(tmp_path):
    """20 text arrays of a gigabyte each, in a file of some kilobytes: the limit is over all of them."""
    _, document = described(tmp_path)
    model = document["model"]

    def texts(count, width):
        odd = {"dict": [[f"t{i}", {"text": ["a"], "dtype": f"U{width}", "shape": [1]}] for i in range(count)]}
        return described(tmp_path, model=model | {"state": model["state"] | {"odd_": odd}})[0]

    for count, width in ((20, 250_000_000), (20, 500_000), (1, 2**50)):
        data = texts(count, width)
        assert len(data) < 5000
        tracemalloc.start()
        try:
            said = refused(data, tmp_path)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert said.startswith("is damaged")
        assert most < 32 * 2**20
    (tmp_path / "good.hl").write_bytes(texts(20, 100_000))
    assert load(tmp_path / "good.hl").odd_["t19"].tolist() == ["a"]


def test_an_array_without_elements_cannot_be_long(tmp_path):
    _, document = described(tmp_path)
    state = document["model"]["state"] | {"odd_": {"array": "odd"}}
    for shape in ((10**10, 0), (0, 10**10)):
        data, _ = described(tmp_path, {"odd": np.empty(shape)}, model=document["model"] | {"state": state})
        assert refused(data, tmp_path) == "is damaged: a side of the array 'odd' is longer than the whole file."
    data, _ = described(tmp_path, {"odd": np.empty((0, 40))}, model=document["model"] | {"state": state})
    (tmp_path / "good.hl").write_bytes(data)
    assert load(tmp_path / "good.hl").odd_.shape == (0, 40)


def test_a_description_too_deep_for_python(tmp_path):
    _, document = described(tmp_path)
    document["model"]["state"]["odd_"] = functools.reduce(lambda node, _: [node], range(700), [])
    data, _ = described(tmp_path, **document)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(500)
    try:
        assert refused(data, tmp_path).startswith("is damaged")
    finally:
        sys.setrecursionlimit(limit)


def test_a_parameter_younger_than_the_file_takes_its_default(tmp_path):
    _, document = described(tmp_path)
    del document["model"]["parameters"]["n_jobs"]
    (tmp_path / "old.hl").write_bytes(described(tmp_path, **document)[0])
    assert load(tmp_path / "old.hl").n_jobs is None


def test_where_a_model_cannot_go(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*nowhere"):
        save(tiny(), tmp_path / "nowhere" / "model.hl")
    (tmp_path / "real.hl").touch()
    with pytest.raises(NotADirectoryError, match=r"Cannot save the model to .*: Not a directory\."):
        save(tiny(), tmp_path / "real.hl" / "model.hl")
    with pytest.raises(ModelFileError, match="something that is not a file is in its place"):
        save(tiny(), tmp_path)
    save(tiny(), tmp_path / "real.hl")
    (tmp_path / "link.hl").symlink_to("real.hl")
    save(tiny(1), tmp_path / "link.hl")
    assert (tmp_path / "link.hl").is_symlink()
    assert load(tmp_path / "real.hl").random_state == 1

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"^Cannot save the model to .*real.hl: No space left on device\.$"):
        save(tiny(), tmp_path / "real.hl")
    assert sorted(os.listdir(tmp_path)) == ["link.hl", "real.hl"]
    assert load(tmp_path / "real.hl").random_state == 1


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX users")
def test_a_directory_that_may_not_be_written():
    model, user = tiny(), os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        try:
            if user == 0:
                os.seteuid(65534)  # the superuser may write everywhere
            with pytest.raises(PermissionError, match=r"^Cannot save the model to .*: Permission denied\.$"):
                save(model, os.path.join(folder, "model.hl"))
        finally:
            os.seteuid(user)
            os.chmod(folder, 0o755)


SAVER = """
import itertools, os, signal, sys
from hashlearn.models import load, save
models = [load(name) for name in sys.argv[1:3]]
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        for model in itertools.cycle(models):
            save(model, sys.argv[3])
    print(child, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_killed_while_saving(tmp_path):
    models, target = [], tmp_path / "there" / "model.hl"
    target.parent.mkdir()
    for seed in (1, 2):
        model = LSH(n_bits=64, random_state=seed).fit(X)
        model.ballast_ = np.random.default_rng(seed).integers(0, 256, 3_000_000, dtype=np.uint8)
        save(model, tmp_path / f"{seed}.hl")
        models.append((tmp_path / f"{seed}.hl").read_bytes())
    target.write_bytes(models[0])
    command = [sys.executable, "-c", SAVER, str(tmp_path / "1.hl"), str(tmp_path / "2.hl"), str(target)]
    kills, strays, delays = 0, set(), random.Random(0)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as helper:
        assert helper.stdout.readline() == "ready\n"
        while kills < 20 or (not strays and kills < 300):
            helper.stdin.write("\n")
            helper.stdin.flush()
            child = int(helper.stdout.readline())
            time.sleep(delays.uniform(0.001, 0.06))
            os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                while os.kill(child, 0) is None:  # until it is gone
                    time.sleep(0.001)
            kills += 1
            assert target.read_bytes() in models
            strays = {name for name in os.listdir(target.parent) if name != "model.hl"}
        helper.stdin.close()
    assert strays, "no kill came in the middle of a save"
    assert all(name.startswith(".hashlearn-") and name.endswith(".tmp") for name in strays)
    assert load(target).n_bits_ == 64
