"""The losses of DLBHC, DSCH and DSRH by loops, and the codes that TDBE learns first."""

import itertools
import math

import numpy as np
import pytest
import torch
from every_loss import CLASSES, SETS, batch
from sklearn.datasets import load_digits
from small_methods import small

from hashlearn import codes, deep
from hashlearn.deep.hashers.two_step import flip_down, quadratic_form, triplet_codes
from hashlearn.deep.trainer import TrainingSettings, make_optimizer

BOTH = pytest.mark.parametrize("labels", [CLASSES, SETS], ids=["classes", "sets"])


@BOTH
@pytest.mark.parametrize("name", ["dlbhc", "dsch"])
def test_a_classifier_reads_the_bits(name, labels):
    u, Y, idx = batch(labels)
    rng = np.random.RandomState(0)
    if name == "dlbhc":
        loss, bits = deep.DLBHC(4).make_loss(Y, rng), 1 / (1 + np.exp(-u.numpy()))
    else:
        loss, bits = deep.DSCH(4, quantization=0.3, balance=0.2).make_loss(Y, rng), np.tanh(u.numpy())
    with torch.no_grad():
        loss.intercept += torch.tensor([0.1, -0.2, 0.3])
    scores = bits @ loss.classifier.detach().double().numpy() + loss.intercept.detach().double().numpy()
    expected = 0.0
    for row, y in zip(scores, Y.numpy(), strict=True):
        expected -= (y / y.sum()) @ (row - math.log(np.exp(row).sum())) / len(u)
    if name == "dsch":
        expected += 0.3 * ((np.abs(bits) - 1) ** 2).mean() + 0.2 * (bits.mean(axis=0) ** 2).mean()
    assert float(loss(u, Y, 0, idx).detach()) == pytest.approx(expected, abs=1e-9)


def test_the_classifier_is_learned_with_the_network():
    loss = deep.DLBHC(4).make_loss(np.eye(3), np.random.RandomState(0)).to(torch.float64)
    assert [tensor.shape for tensor in loss.weights()] == [(4, 3), (3,)]
    assert all(tensor.is_leaf and tensor.requires_grad for tensor in loss.weights())
    u, Y, idx = batch(CLASSES)
    network = torch.nn.ModuleDict({"trunk": torch.nn.Identity(), "head": torch.nn.Linear(1, 1)})
    optimizer = make_optimizer(network, TrainingSettings(optimizer="sgd", learning_rate=1.0), loss.weights())
    before = float(loss(u, Y, 0, idx).detach())
    loss(u, Y, 0, idx).backward()
    optimizer.step()
    assert float(loss(u, Y, 0, idx).detach()) < before


@BOTH
def test_dsrh_by_loops(labels):
    u, Y, idx = batch(labels)
    b, Z = np.tanh(u.numpy()), Y.numpy()
    shared, total, count = Z @ Z.T, 0.0, 0
    for q in range(4):
        others = [i for i in range(6) if i != q]
        gains = sorted((2 ** shared[q, i] - 1 for i in others), reverse=True)
        ideal = max(sum(gain / math.log2(place + 2) for place, gain in enumerate(gains)), 1.0)
        distance = (4 - b @ b[q]) / 2
        for i, j in itertools.permutations(others, 2):
            if shared[q, i] > shared[q, j]:
                count += 1
                weight = (2 ** shared[q, i] - 2 ** shared[q, j]) / ideal
                total += weight * max(0.0, distance[i] - distance[j] + 1.5)
    expected = total / count + 0.2 * (b.mean(axis=0) ** 2).mean()
    loss = deep.DSRH(4, margin=1.5, balance=0.2, n_queries=4).make_loss(Y)
    assert float(loss(u, Y, 0, idx).detach()) == pytest.approx(expected, abs=1e-9)


def test_the_quadratic_form_is_the_loss_of_a_bit():
    rng = np.random.default_rng(0)
    triplets, rest = rng.integers(0, 4, (3, 12)), rng.normal(size=12)
    form = quadratic_form(triplets, rest, 4).toarray()
    i, j, k = triplets
    values = []
    for z in map(np.array, itertools.product([-1.0, 1.0], repeat=4)):
        direct = np.maximum(rest + z[i] * (z[k] - z[j]) / 2, 0).sum()
        values.append((z @ form @ z / 2, direct))
    by_form, direct = np.array(values).T
    np.testing.assert_allclose(by_form - by_form[0], direct - direct[0], atol=1e-12)
    z = np.ones(4)
    flip_down(z, quadratic_form(triplets, rest, 4))
    for item in range(4):
        flipped = np.where(np.arange(4) == item, -z, z)
        assert flipped @ form @ flipped >= z @ form @ z - 1e-9


def test_codes_fulfill_all_triplets_of_few_classes():
    """Four classes in 8 bits can be 4 bits apart: then no triplet costs anything."""
    triplets = np.array([(i, i, k) for i, k in itertools.permutations(range(4), 2)]).T
    found, objective = triplet_codes(triplets, 4, 8, 4.0, 10, np.random.RandomState(0))
    assert np.all(np.diff(objective) <= 1e-12)
    assert objective[-1] == 0
    packed = codes.pack(found > 0)
    assert codes.hamming_distances(packed, packed)[np.triu_indices(4, 1)].min() >= 4


def test_tdbe_keeps_one_code_for_each_label_set():
    X, y = (part[:300] for part in load_digits(return_X_y=True))
    hasher = small("tdbe", n_bits=16).fit(X, y)
    assert len(np.unique(np.c_[y, hasher.codes_], axis=0)) == len(np.unique(hasher.codes_, axis=0)) == 10
    assert not np.array_equal(hasher.codes_, hasher.encode(X))
    assert np.all(np.diff(hasher.objective_) <= 1e-12)
