"""The deep methods keep the promises of all hashers, on features and on images."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from parameter_checks import check_parameters_are_checked, small_data
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import (
    check_set_output_transform,
    check_transformer_get_feature_names_out,
    parametrize_with_checks,
)
from small_methods import small

import hashlearn as hl
from hashlearn.deep.network import torch_threads
from hashlearn.methods import DEEP_METHODS, find_method
from hashlearn.parameters import check_parameters

torch.set_num_threads(1)
X, Y = (part[:400] for part in load_digits(return_X_y=True))


@parametrize_with_checks([small("hashnet", batch_size=16), small("gsdhp-star", batch_size=16)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", DEEP_METHODS)
@pytest.mark.parametrize("check", [check_set_output_transform, check_transformer_get_feature_names_out])
def test_checks_that_scikit_learn_leaves_out(name, check):
    check(find_method(name).__name__, small(name))


@pytest.mark.parametrize("name", DEEP_METHODS)
def test_every_parameter_is_checked(name):
    check_parameters_are_checked(small(name), *small_data())


@pytest.mark.parametrize("name", DEEP_METHODS)
def test_outputs_agree_learn_and_survive_a_file(name, tmp_path):
    hasher = small(name, n_bits=12).set_params(
        n_epochs=8, batch_size=32, learning_rate=0.003, head="linear" if name == "dnnh" else "auto"
    )
    hasher.fit(X[:300], Y[:300])
    projections, bits, packed = hasher.decision_function(X), hasher.transform(X), hasher.encode(X)
    assert projections.dtype == np.float32
    np.testing.assert_array_equal(bits, projections >= 0)
    np.testing.assert_array_equal(hl.codes.unpack(packed, 12), bits)
    assert hasher.codes_.shape == (300, 2)
    assert hasher.confidence_ == pytest.approx(np.abs(hasher.expected_bits(X[:300])).mean(), abs=1e-4)
    assert len(hasher.losses_) == hasher.n_iter_ == 8
    assert hasher.losses_[-1] < hasher.losses_[0]
    assert hasher.score(X[300:], Y[300:]) > 0.6  # 0.1 by chance
    hl.save(hasher, tmp_path / "a.hl")
    again = hl.load(tmp_path / "a.hl")
    hl.save(again, tmp_path / "b.hl")
    assert (tmp_path / "a.hl").read_bytes() == (tmp_path / "b.hl").read_bytes()
    for copied in (again, pickle.loads(pickle.dumps(hasher))):
        np.testing.assert_array_equal(copied.decision_function(X), projections)
    assert again.get_params() == hasher.get_params()


@pytest.mark.parametrize("name", DEEP_METHODS)
def test_random_state_decides_everything(name):
    first = small(name).fit(X, Y)
    again = clone(first).set_params(n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(first.decision_function(X), again.decision_function(X))
    np.testing.assert_array_equal(first.codes_, again.codes_)
    other = clone(first).set_params(random_state=1).fit(X, Y)
    assert not np.array_equal(first.decision_function(X), other.decision_function(X))


def test_random_state_decides_a_backbone_that_starts_at_random():
    """And the user's own random numbers neither matter nor move."""
    pixels = np.random.default_rng(0).integers(0, 256, (16, 8, 8, 3), dtype=np.uint8)
    backbone = {"name": "small_cnn", "image_size": 8, "n_features": 8}

    def fitted(seed):
        hasher = hl.deep.DCH(8, backbone=backbone, n_epochs=1, random_state=seed, n_jobs=1)
        return hasher.fit(pixels, np.arange(16) % 2).decision_function(pixels)

    torch.manual_seed(1)
    first = fitted(0)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(3))
    torch.manual_seed(2)
    np.testing.assert_array_equal(first, fitted(0))
    assert not np.array_equal(first, fitted(1))


@pytest.mark.parametrize("name", DEEP_METHODS)
def test_metadata_is_complete(name):
    method = find_method(name)
    for fact in ("title", "reference", "kind", "supervision", "cost"):
        assert getattr(method.info, fact)
    assert method.info.name == name
    assert 2013 < method.info.year < 2022
    assert "Examples" in method.__doc__
    assert "backbone : object" in method.__doc__
    assert method.info.verified == (name not in ("cnnh", "dnnh", "gsdhp-star", "dlbhc", "dsch", "dsrh", "tdbe"))
    # The authors' settings are parameters of the method.
    check_parameters(method(8, **method.authors))


@pytest.mark.parametrize("name", DEEP_METHODS)
def test_label_sets_and_rows_without_labels(name):
    labels = np.stack([Y % 2, Y % 3 == 0, Y > 6], axis=1).astype(int)
    assert (labels.sum(axis=1) == 0).any()
    hasher = small(name).fit(sparse.csr_array(X), sparse.csr_array(labels))
    assert hasher.codes_.shape == (400, 1)
    hidden = np.where(np.arange(400) < 50, -1, Y)
    small(name, unlabeled=-1).fit(X, hidden)
    with pytest.raises(ValueError, match="No row has a label"):
        small(name).fit(X, np.full(400, None, dtype=object))
    with pytest.raises(ValueError, match="Only one row has a label"):
        small(name).fit(X, np.array([1] + [None] * 399, dtype=object))


def test_bad_rows_get_a_sentence():
    hasher = small("dch").fit(X, Y)
    with pytest.raises(ValueError, match=r"X has 63 features.*expecting 64"):
        hasher.encode(X[:, 1:])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small("dch").fit(X, Y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        small("dch").fit(np.where(X == 5, np.nan, X), Y)


def test_units_of_the_features_do_not_matter():
    plain = small("dch").fit(X, Y)
    scaled = small("dch").fit(1000.0 * X + 7.0, Y)
    np.testing.assert_allclose(scaled.decision_function(1000.0 * X + 7.0), plain.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("head", ["mlp", "three-layer", "batchnorm", [32, 16], []], ids=str)
def test_heads(head, tmp_path):
    hasher = small("dch", head=head).fit(X, Y)
    hl.save(hasher, tmp_path / "m.hl")
    np.testing.assert_array_equal(hl.load(tmp_path / "m.hl").decision_function(X), hasher.decision_function(X))
    linear_layers = [name for name, array in hasher.function_.tensors.items() if array.ndim == 2]
    assert len(linear_layers) == {"mlp": 2, "three-layer": 3, "batchnorm": 1, "[32, 16]": 3, "[]": 1}[str(head)]


def test_divide_and_encode_is_block_diagonal():
    from hashlearn.deep.network import BLOCK, DivideAndEncode

    head = DivideAndEncode(6, 3).double()
    rows = torch.randn(4, 6, dtype=torch.float64)
    hidden = torch.relu(head.channels(rows))
    for k in range(3):
        own = hidden[:, k * BLOCK : (k + 1) * BLOCK] @ head.weight[k] + head.bias[k]
        torch.testing.assert_close(head(rows)[:, k], own)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"head": "deep"}, "'head' parameter of DCH"),
        ({"head": [0]}, "hidden widths of a head must be at least 1"),
        ({"schedule": [0.5]}, "'schedule' parameter of DCH must be None, .* or a list of pairs"),
        ({"schedule": [(2.0, 0.1)]}, "'schedule' parameter of DCH must be None, .* or a list of pairs"),
        ({"batch_size": 1}, "'batch_size' parameter of DCH"),
        ({"form": "print"}, "'form' parameter of DCH"),
        ({"backbone": "resnet9000"}, "backbone must be one of"),
        ({"backbone": {"weights": "x"}}, "backbone given as a dict needs 'name'"),
    ],
    ids=str,
)
def test_bad_parameters_get_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        small("dch", **settings).fit(X, Y)


def test_unknown_keyword():
    with pytest.raises(TypeError, match="gama"):
        hl.deep.DCH(16, gama=3)


def test_gsdhp_star_keeps_the_learned_codes():
    hasher = small("gsdhp-star", n_bits=16).fit(X, Y)
    words = np.unique(np.c_[Y, hasher.codes_], axis=0)
    assert len(words) == 10
    assert not np.array_equal(hasher.codes_, hasher.encode(X))
    other = small("gsdhp-star", n_bits=16, hasher=hl.FSDH(n_landmarks=20)).fit(X, Y)
    assert len(np.unique(other.codes_, axis=0)) == 10
    assert isinstance(clone(other).hasher, hl.FSDH)


def test_cnnh_plus_has_outputs_for_labels():
    hasher = small("cnnh", classes=True).fit(X, Y)
    assert hasher.function_.tensors["head.weight"].shape == (8 + 10, 64)
    assert hasher.decision_function(X).shape == (400, 8)
    assert np.all(np.diff(hasher.objective_) < 0)


@pytest.mark.parametrize("function", ["network", hl.deep.Network(head=[16], n_epochs=3)], ids=["name", "object"])
def test_gsdhp_with_a_network(function, tmp_path):
    hasher = hl.GSDHP(16, n_anchors=60, function=function, n_jobs=1, random_state=0).fit(X[:300], Y[:300])
    assert hasher.score(X[300:], Y[300:]) > 0.3
    hl.save(hasher, tmp_path / "m.hl")
    again = hl.load(tmp_path / "m.hl")
    np.testing.assert_array_equal(again.decision_function(X), hasher.decision_function(X))
    np.testing.assert_array_equal(clone(hasher).fit(X[:300], Y[:300]).encode(X), hasher.encode(X))


@pytest.mark.parametrize("of", ["encode", "encode_chunks", "deep encode_chunks"])
def test_float64_rows_copy_the_network_once(of, tmp_path, monkeypatch):
    """Not once for each of the five blocks, nor for each of the two threads."""
    deep = of.startswith("deep")
    hasher = (small("dch") if deep else hl.GSDHP(8, n_anchors=60, function="network", random_state=0)).fit(X, Y)
    # A copy is as a loaded model: the calibration at the end of the fit has made the network's copy already.
    hasher = pickle.loads(pickle.dumps(hasher)).set_params(n_jobs=2)
    copied, original = [], torch.nn.Module.double
    monkeypatch.setattr(torch.nn.Module, "double", lambda module: copied.append(1) or original(module))
    rows = np.tile(X, (21, 1))
    assert rows.dtype == np.float64
    if of == "encode":
        hasher.encode(rows)
    else:
        hasher.encode_chunks(rows, tmp_path / "codes", shard_rows=2048)
    assert len(copied) == 1
    assert hasher.encode(X[:5]).shape == (5, 1)
    assert len(pickle.dumps(hasher.function_)) < 1.5 * sum(array.nbytes for array in hasher.function_.tensors.values())


def test_threads_that_hold_torch_at_once_leave_its_limit_as_it_was():
    torch.set_num_threads(2)
    try:
        inside, leave = threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)

        def hold(late):
            if late:
                inside.wait()
            with torch_threads(1):
                if not late:
                    inside.wait()
                assert torch.get_num_threads() == 1
                leave.wait()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(hold, [False, True]))
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 2
        with torch_threads(1):
            with torch_threads(2):
                assert torch.get_num_threads() == 2
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_in_a_joined_hasher():
    joined = hl.JoinedHasher([small("dch"), hl.LSH(8, random_state=0)]).fit(X, Y)
    assert joined.transform(X).shape == (400, 16)
    np.testing.assert_array_equal(joined.transform(X)[:, :8], small("dch").fit(X, Y).transform(X))


class Pixels(torch.nn.Module):
    """A user's own network on 8 x 8 images."""

    def __init__(self, channels=4):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, channels, 3, stride=2),
            torch.nn.BatchNorm2d(channels),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
        )

    def forward(self, images):
        return self.layers(images.float())


IMAGES = np.repeat(X.reshape(400, 1, 8, 8), 3, axis=1).astype(np.float32)


def test_a_module_of_the_users_own(tmp_path):
    module = Pixels()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    hasher = small("csq", backbone=module, n_bits=16, trunk_rate=1.0).set_params(n_epochs=6).fit(IMAGES[:300], Y[:300])
    assert hasher.score(IMAGES[300:], Y[300:]) > 0.3
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    hl.save(hasher, tmp_path / "m.hl")
    again = hl.load(tmp_path / "m.hl")
    with pytest.raises(ValueError, match=r"your own module Pixels.*give a Pixels again with set_params\(backbone="):
        again.encode(IMAGES)
    with pytest.raises(ValueError, match="saved weights do not fit"):
        hl.load(tmp_path / "m.hl").set_params(backbone=Pixels(5)).encode(IMAGES)
    again.set_params(backbone=Pixels())
    np.testing.assert_array_equal(again.decision_function(IMAGES), hasher.decision_function(IMAGES))
    copied = pickle.loads(pickle.dumps(hasher))
    np.testing.assert_array_equal(copied.decision_function(IMAGES), hasher.decision_function(IMAGES))


def test_a_frozen_module_is_left_as_it_is():
    module = Pixels()
    hasher = small("csq", backbone=module, trunk_rate=0.0).fit(IMAGES, Y)
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(hasher.function_.tensors[f"trunk.{name}"], tensor)


def test_a_backbone_by_name_on_images(tmp_path):
    bytes_of = (IMAGES * 15).astype(np.uint8)
    settings = {"name": "small_cnn", "image_size": 8, "n_features": 32}
    hasher = small("hashnet", backbone=settings).fit(bytes_of, Y)
    assert hasher.codes_.shape == (400, 1)
    hl.save(hasher, tmp_path / "m.hl")
    again = hl.load(tmp_path / "m.hl")
    np.testing.assert_array_equal(again.decision_function(bytes_of[:50]), hasher.decision_function(bytes_of[:50]))
    assert again.backbone == settings
