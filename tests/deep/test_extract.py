"""Features of images, computed once: kept, resumed after a kill, never mixed up."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")

from deep.image_files import encoded, flat, noise, write, write_zip  # noqa: E402
from torch import nn  # noqa: E402

from hashlearn.cli import main  # noqa: E402
from hashlearn.deep import backbones  # noqa: E402
from hashlearn.deep.extract import extract, network_hash  # noqa: E402
from hashlearn.files import FileError, read_features, read_labels  # noqa: E402
from hashlearn.progress import listening  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Corners(nn.Module):
    """Features that can be computed by hand: four pixels, divided by a weight."""

    def __init__(self, weight=2.0):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))
        self.stop_at = None
        self.seen = 0

    def forward(self, x):
        if self.stop_at is not None and self.seen >= self.stop_at:
            raise KeyboardInterrupt
        self.seen += len(x)
        return (
            torch.stack([x[:, 0, 0, 0], x[:, 1, 0, -1], x[:, 2, -1, 0], x[:, 0, -1, -1]], dim=1).float() / self.weight
        )


def by_hand(pixels, weight=2.0):
    corners = [pixels[:, 0, 0, 0], pixels[:, 0, -1, 1], pixels[:, -1, 0, 2], pixels[:, -1, -1, 0]]
    return np.stack(corners, axis=1).astype(np.float32) / np.float32(weight)


PIXELS = np.stack([noise(seed) for seed in range(23)])


def build(stop_at=None, **more):
    made = backbones.build(Corners(**more), image_size=8)
    # Set here, because building sends one image through to count its features.
    made.module.stop_at, made.module.seen = stop_at, 0
    return made


def test_in_memory():
    made = extract(PIXELS, build(), batch_size=5)
    assert made.X.dtype == np.float32
    assert np.array_equal(made.X, by_hand(PIXELS))
    assert made.names == [str(row) for row in range(23)]
    assert extract(PIXELS, build(), dtype="float16").X.dtype == np.float16


def test_in_a_file_and_read_again(tmp_path):
    path = tmp_path / "X.npy"
    heard = []
    with listening(lambda *facts: heard.append(facts)):
        made = extract(PIXELS, build(), path, batch_size=4)
    assert np.array_equal(made.X, by_hand(PIXELS))
    assert np.array_equal(np.load(path), by_hand(PIXELS))
    assert (heard[0], heard[-1]) == (("features", 0, 23), ("features", 23, 23))
    assert sorted(os.listdir(tmp_path)) == ["X.npy", "X.npy.json"]
    assert np.array_equal(read_features(path), by_hand(PIXELS))
    # The second time nothing is computed.
    assert np.array_equal(extract(PIXELS, build(stop_at=0), path).X, by_hand(PIXELS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": PIXELS[::-1]}, "other images, or images that have changed"),
        ({"backbone": build(weight=3.0)}, "other weights"),
        ({"dtype": "float16"}, "another dtype"),
        ({"on_error": "skip"}, "another choice of on_error"),
        ({"backbone": backbones.build(Corners(), image_size=9)}, "another image size"),
    ],
    ids=["images", "weights", "dtype", "on_error", "size"],
)
def test_a_file_of_something_else_is_not_taken_for_it(tmp_path, change, message):
    usual = {"images": PIXELS, "backbone": build(), "path": tmp_path / "X.npy"}
    extract(**usual)
    with pytest.raises(FileError, match=f"X.npy was made with {message}: choose another name, or restart"):
        extract(**usual | change)
    assert np.array_equal(np.load(tmp_path / "X.npy"), by_hand(PIXELS))
    with pytest.raises(KeyboardInterrupt):
        extract(PIXELS[:9], build(stop_at=8), tmp_path / "Y.npy", batch_size=4)
    with pytest.raises(FileError, match=r"Y\.npy\.part was made with"):
        extract(**usual | change | {"path": tmp_path / "Y.npy"})


def test_restart_replaces(tmp_path):
    path = tmp_path / "X.npy"
    extract(PIXELS, build(), path)
    made = extract(PIXELS[:5], build(weight=4.0), path, restart=True)
    assert np.array_equal(made.X, by_hand(PIXELS[:5], 4.0))
    # An interrupted restart leaves the old file as it was, and goes on when asked again.
    with pytest.raises(KeyboardInterrupt):
        extract(PIXELS, build(stop_at=8), path, batch_size=4, restart=True)
    assert np.array_equal(np.load(path), by_hand(PIXELS[:5], 4.0))
    assert np.array_equal(extract(PIXELS, build(), path).X, by_hand(PIXELS))


def test_a_foreign_file_is_left_alone(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros(3))
    with pytest.raises(FileError, match="does not say what it holds"):
        extract(PIXELS, build(), tmp_path / "X.npy")
    assert np.load(tmp_path / "X.npy").shape == (3,)
    for name, message in (("X.csv", "must end in .npy"), ("no/X.npy", "does not exist")):
        with pytest.raises(FileError, match=message):
            extract(PIXELS, build(), tmp_path / name)


def test_interrupted_work_goes_on_where_it_was(tmp_path):
    path = tmp_path / "X.npy"
    with pytest.raises(KeyboardInterrupt):
        extract(PIXELS, build(stop_at=12), path, batch_size=4)
    assert not path.exists()
    state = json.loads((tmp_path / "X.npy.part.json").read_text())
    assert (state["rows"], state["done"]) == (12, 12)
    # Only the eleven others are computed; rows behind those that the state vouches for are not believed.
    with (tmp_path / "X.npy.part").open("ab") as stream:
        stream.write(b"half a row")
    rest = build()
    made = extract(PIXELS, rest, path, batch_size=3)
    assert rest.module.seen == 11
    assert np.array_equal(made.X, by_hand(PIXELS))
    assert sorted(os.listdir(tmp_path)) == ["X.npy", "X.npy.json"]


def test_a_part_that_lost_rows_is_not_believed(tmp_path):
    path = tmp_path / "X.npy"
    with pytest.raises(KeyboardInterrupt):
        extract(PIXELS, build(stop_at=12), path, batch_size=4)
    os.truncate(tmp_path / "X.npy.part", 200)
    with pytest.raises(FileError, match="is cut short; restart"):
        extract(PIXELS, build(), path)
    (tmp_path / "X.npy.part.json").write_text("{")
    with pytest.raises(FileError, match="is damaged"):
        extract(PIXELS, build(), path)
    assert np.array_equal(extract(PIXELS, build(), path, restart=True).X, by_hand(PIXELS))


KILLED = """
import sys, time
import numpy as np
sys.path[:0] = [{root!r}, {tests!r}]
from deep.test_extract import PIXELS, Corners, backbones, extract
from hashlearn.files import feature_file
feature_file._SAVE_SECONDS = 0.0
class Slow(Corners):
    def forward(self, x):
        time.sleep(0.2)
        return super().forward(x)
Slow.__name__ = Slow.__qualname__ = "Corners"
extract(PIXELS, backbones.build(Slow(), image_size=8), {path!r}, batch_size=2)
"""


@pytest.mark.slow
def test_killed_without_warning(tmp_path):
    path = tmp_path / "X.npy"
    code = KILLED.format(root=ROOT, tests=os.path.join(ROOT, "tests"), path=str(path))
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        state, deadline = tmp_path / "X.npy.part.json", time.monotonic() + 120
        while not (state.exists() and json.loads(state.read_text())["rows"] >= 4):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        # Two processes must not write one file.
        with pytest.raises(FileError, match="is being written by another process"):
            extract(PIXELS, build(), path)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    done = json.loads(state.read_text())["rows"]
    assert 4 <= done < 23
    rest = build()
    made = extract(PIXELS, rest, path)
    assert rest.module.seen == 23 - done
    assert np.array_equal(made.X, by_hand(PIXELS))


FILES = {f"{'cat' if number % 2 else 'dog'}/{number:02}.png": encoded(noise(number)) for number in range(12)}
DAMAGED = FILES | {"dog/04.png": b"no image", "cat/07.png": encoded(noise(7))[:60], "cat/11.png": b""}


def test_damaged_images_stop_or_are_skipped(tmp_path):
    folder = write(tmp_path / "images", DAMAGED)
    path = tmp_path / "X.npy"
    with pytest.raises(FileError, match=r"cat/07\.png is no image"):
        extract(folder, build(), path, batch_size=3)
    with pytest.raises(FileError, match="another choice of on_error"):
        extract(folder, build(), path, on_error="skip")
    made = extract(folder, build(), path, on_error="skip", batch_size=3, restart=True)
    good = [name for name in sorted(FILES) if name not in ("dog/04.png", "cat/07.png", "cat/11.png")]
    assert made.names == good
    assert list(made.skipped) == ["cat/07.png", "cat/11.png", "dog/04.png"]
    numbers = [int(name[-6:-4]) for name in good]
    assert np.array_equal(made.X, by_hand(PIXELS[numbers]))
    facts = json.loads((tmp_path / "X.npy.json").read_text())
    assert facts["names"] == good
    again = extract(folder, build(stop_at=0), path, on_error="skip")
    assert (again.names, again.skipped) == (good, made.skipped)


def test_skipped_images_are_remembered_over_an_interruption(tmp_path):
    folder = write(tmp_path / "images", DAMAGED)
    usual = {"images": folder, "path": tmp_path / "X.npy", "on_error": "skip", "batch_size": 2}
    with pytest.raises(KeyboardInterrupt):
        extract(backbone=build(stop_at=6), **usual)
    made = extract(backbone=build(), **usual)
    assert list(made.skipped) == ["cat/07.png", "cat/11.png", "dog/04.png"]
    assert made.X.shape == (9, 4)


def test_nothing_but_damage(tmp_path):
    folder = write(tmp_path / "images", {"a/1.png": b"", "a/2.png": b""})
    made = extract(folder, build(), tmp_path / "X.npy", on_error="skip")
    assert made.X.shape == (0, 4)
    assert extract(folder, build(), on_error="skip").X.shape == (0, 4)


def test_features_that_are_no_numbers():
    with pytest.raises(FileError, match="The features of 0 are NaN, infinite, or too large for float32"):
        extract(PIXELS, build(weight=0.0))
    with pytest.raises(FileError, match="too large for float16"):
        extract(np.full((1, 8, 8, 3), 255, np.uint8), build(weight=1e-3), dtype="float16")


def test_bad_settings():
    for settings, message in (
        ({"dtype": "int8"}, "'dtype' must be one of float32, float16"),
        ({"batch_size": 0}, "'batch_size' must be a positive number"),
        ({"backbone": "small_cnn"}, "has learned nothing yet"),
        ({"backbone": backbones.build("none", n_features=3)}, "takes rows of features, not images"),
        ({"device": "cuda:99"}, "cuda:99"),
    ):
        with pytest.raises(ValueError, match=message):
            extract(**{"images": PIXELS, "backbone": build()} | settings)


@pytest.mark.slow
def test_threads_change_no_number():
    before = torch.get_num_threads()
    one, three = (extract(PIXELS, "efficientnet_lite2", image_size=32, batch_size=4, n_jobs=jobs).X for jobs in (1, 3))
    assert np.array_equal(one, three)
    assert np.ptp(one) > 0.1
    assert torch.get_num_threads() == before


def test_the_hash_of_a_network_knows_layers_and_weights():
    same = network_hash(Corners())
    assert network_hash(Corners()) == same
    assert network_hash(Corners(weight=2.5)) != same
    assert network_hash(nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU())) != same


# The command --------------------------------------------------------------------------------------------------


def call(capsys, *arguments):
    code = main(["data", "features", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.slow
def test_command(tmp_path, capsys):
    folder = write(tmp_path / "images", DAMAGED)
    out, labels = tmp_path / "X.npy", tmp_path / "y.npy"
    arguments = [folder, "--backbone", "efficientnet_lite2", "--size", 32, "-o", out]
    code, printed, told = call(capsys, *arguments)
    assert (code, printed) == (1, "")
    assert told.count("\n") == 1
    assert "cat/07.png is no image that can be read" in told
    code, printed, told = call(capsys, *arguments, "--on-error", "skip", "--restart", "--labels-out", labels, "--json")
    assert code == 0
    assert told.count("hashlearn: skipped: ") == 3
    facts = json.loads(printed)
    assert (facts["images"], facts["rows"], facts["features"], len(facts["skipped"])) == (12, 9, 1280, 3)
    assert read_labels(labels).tolist() == ["cat"] * 4 + ["dog"] * 5
    X = np.load(out)
    # The same by hand: the images of the rows through the network itself.
    made = backbones.build("efficientnet_lite2", image_size=32)
    sidecar = json.loads((tmp_path / "X.npy.json").read_text())
    numbers = [int(name[-6:-4]) for name in sidecar["names"]]
    assert sidecar["weights"] == "efficientnet-lite2-9656183e.pth"
    direct = extract(PIXELS[numbers], made).X
    np.testing.assert_allclose(X, direct, atol=1e-4)
    code, printed, _ = call(capsys, *arguments, "--on-error", "skip")
    assert code == 0
    assert "skipped   3" in printed


def test_command_on_a_zip_with_weights_from_a_file(tmp_path, capsys):
    write_zip(tmp_path / "images.zip", {"a/Ünï.png": encoded(flat(9)), "b c/2.png": encoded(flat(200))})
    made = backbones.build("efficientnet_lite0", weights=None)
    torch.save(made.module.network.state_dict(), tmp_path / "w.pth")
    code, printed, told = call(
        capsys,
        tmp_path / "images.zip",
        *("--backbone", "efficientnet_lite0", "--size", 32, "--weights", tmp_path / "w.pth"),
        *("-o", tmp_path / "X.npy", "--labels-out", tmp_path / "y.npy", "--dtype", "float16"),
    )
    assert (code, told) == (0, "")
    assert "rows      2" in printed
    assert np.load(tmp_path / "X.npy").dtype == np.float16
    assert np.load(tmp_path / "y.npy").tolist() == ["a", "b c"]


@pytest.mark.slow
def test_command_used_badly(tmp_path, capsys):
    folder = write(tmp_path / "images", {"1.png": encoded(flat(1))})
    for arguments, expected, message in (
        ([folder, "-o", tmp_path / "X.npy", "--backbone", "vgg"], 2, "--backbone must be one of alexnet, small_cnn"),
        ([folder, "-o", tmp_path / "X.csv"], 1, "X.csv must end in .npy"),
        ([folder], 2, "Missing option"),
        ([folder, "-o", tmp_path / "X.npy", "--backbone", "small_cnn"], 1, "has learned nothing yet"),
        ([folder, "-o", tmp_path / "X.npy", "--backbone", "efficientnet_lite3"], 1, "pip install efficientnet_lite3"),
        ([tmp_path / "no", "-o", tmp_path / "X.npy"], 1, "There is no folder or zip"),
        ([folder, "-o", tmp_path / "X.npy", "--size", 32, "--labels-out", tmp_path / "y.npy"], 1, "lies in no folder"),
    ):
        code, printed, told = call(capsys, *arguments)
        assert (code, printed) == (expected, ""), told
        assert message in told
        assert told.count("\n") == 1
    # The features were made before their labels could not be; they are kept.
    assert np.load(tmp_path / "X.npy").shape == (1, 1280)
