"""The pairwise losses against plain loops over pairs, and what the papers and codes say of them."""

import math

import numpy as np
import pytest
import torch
from every_loss import CLASSES, SETS, batch, matrix

from hashlearn import deep
from hashlearn.deep.losses import similar_share

BOTH = pytest.mark.parametrize("labels", [CLASSES, SETS], ids=["classes", "sets"])


def pairs(Y):
    """(i, j, shared labels) for all pairs of different rows."""
    Y = Y.numpy()
    return [(i, j, float(Y[i] @ Y[j])) for i in range(len(Y)) for j in range(len(Y)) if i != j]


def log1pexp(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0)


def logistic(theta, similar):
    return log1pexp(theta) - similar * theta


@BOTH
@pytest.mark.parametrize("form", ["paper", "code"])
def test_dhn(labels, form):
    u, Y, idx = batch(labels)
    t = np.tanh(u.numpy())
    total = np.mean([logistic(1.7 * t[i] @ t[j], r > 0) for i, j, r in pairs(Y)])
    weight = 0.3 * (u.shape[1] if form == "code" else 1)
    total += weight * np.mean([math.log(math.cosh(abs(v) - 1)) for v in t.ravel()])
    loss = deep.DHN(4, form=form, alpha=1.7, quantization=0.3).make_loss(Y)
    assert float(loss(u, Y, 0, idx)) == pytest.approx(total, abs=1e-12)


@BOTH
def test_dhn_port(labels):
    u, Y, idx = batch(labels)
    t = np.tanh(u.numpy())
    every = pairs(Y)
    weight = len(every) / sum(r > 0 for *_, r in every)
    total = 0.0
    for i, j, r in every:
        cosine = t[i] @ t[j] / np.linalg.norm(t[i]) / np.linalg.norm(t[j])
        total += (weight if r > 0 else 1) * logistic(10 * cosine, r > 0) / len(every)
    total += 0.5 * np.mean((abs(t) - 1) ** 2)
    loss = deep.DHN(4, form="tensorflow", quantization=0.5).make_loss(Y)
    assert float(loss(u, Y, 0, idx)) == pytest.approx(total, abs=1e-12)


def test_dhn_at_zero():
    u, Y, idx = batch(CLASSES)
    value = deep.DHN(4, quantization=0.7).make_loss(Y)(0 * u, Y, 0, idx)
    assert float(value) == pytest.approx(math.log(2) + 0.7 * math.log(math.cosh(1)), abs=1e-12)


def test_dhn_scale_follows_the_bits_unless_given():
    u, Y, idx = batch(CLASSES, n_bits=40)
    value, scaled, plain = (deep.DHN(40, alpha=alpha).make_loss(Y)(u, Y, 0, idx) for alpha in (None, 0.25, 1))
    assert value == scaled
    assert value != plain


@BOTH
@pytest.mark.parametrize("form", ["code", "paper"])
@pytest.mark.parametrize("overlap", [False, True], ids=["binary", "overlap"])
@pytest.mark.parametrize("step", [0, 199, 200, 2000])
def test_hashnet(labels, form, overlap, step):
    u, Y, idx = batch(labels)
    share = np.mean([r > 0 for *_, r in pairs(Y)])
    beta = {0: 1, 199: 1, 200: math.sqrt(2), 2000: math.sqrt(11)}[step]
    t = np.tanh(beta * u.numpy())
    sizes = Y.sum(dim=1).numpy()
    total = weights = 0.0
    for i, j, r in pairs(Y):
        weight = 1 / share if r > 0 else 1 / (1 - share) if form == "paper" else 1.0
        if overlap and r > 0:
            union, product = sizes[i] + sizes[j] - r, sizes[i] * sizes[j]
            weight *= r / union if form == "paper" else 4 * r**2 / product
        total += weight * logistic(10 / 4 * t[i] @ t[j], r > 0)
        weights += weight
    loss = deep.HashNet(4, form=form, overlap=overlap).make_loss(Y)
    assert float(loss(u, Y, step, idx)) == pytest.approx(total / weights, abs=1e-12)


def test_hashnet_beta_of_the_authors():
    assert [round(deep.HashNet.beta(k), 2) for k in (0, 200, 2000, 10_000)] == [1.0, 1.41, 3.32, 7.14]


def test_hashnet_is_dhn_on_the_block_between_halves():
    u, Y, idx = batch(CLASSES)
    hashnet = deep.HashNet(4, class_num=1.0, alpha=1.0, pairs="halves").make_loss(Y)
    t, s = np.tanh(u.numpy()), (Y @ Y.T).numpy() > 0
    block = np.mean([logistic(t[i] @ t[j], s[i, j]) for i in range(3) for j in range(3, 6)])
    assert float(hashnet(u, Y, 0, idx)) == pytest.approx(block, abs=1e-12)


def test_hashnet_paper_weights_balance_the_training_set():
    _, Y, _ = batch(CLASSES)
    loss = deep.HashNet(4, form="paper").make_loss(Y)
    similar = np.array([r > 0 for *_, r in pairs(Y)])
    assert loss.similar_weight * similar.sum() == pytest.approx(loss.other_weight * (~similar).sum())
    assert deep.HashNet(4).make_loss(Y).similar_weight == pytest.approx(len(similar) / similar.sum())


@BOTH
def test_share_of_similar_pairs(labels):
    _, Y, _ = batch(labels)
    assert similar_share(matrix(Y)) == pytest.approx(np.mean([r > 0 for *_, r in pairs(Y)]))


def test_share_of_similar_pairs_of_a_sample():
    Y = matrix(batch(np.arange(3000) % 10)[1])
    assert similar_share(Y, most_rows=1000) == pytest.approx(0.1, abs=0.02)


@BOTH
def test_dch_code(labels):
    u, Y, idx = batch(labels)
    t, gamma = np.tanh(u.numpy()), 5.0
    similar = (Y @ Y.T).numpy() > 0
    weight = similar.size / similar.sum()  # each row with itself is counted here, and nowhere else
    costs = []
    for i, j, r in pairs(Y):
        d = ((t[i] - t[j]) ** 2).sum() + 1e-3
        probability = gamma / (gamma + d)
        costs.append(-weight * math.log(probability) if r > 0 else -math.log(1 - probability))
    total = np.mean(costs) + 0.3 * np.mean((abs(t) - 1) ** 2)
    loss = deep.DCH(4, gamma=gamma, quantization=0.3).make_loss(Y)
    assert float(loss(u, Y, 0, idx)) == pytest.approx(total, abs=1e-12)


@BOTH
def test_dch_paper(labels):
    u, Y, idx = batch(labels)
    v, gamma = u.numpy(), 5.0
    every = pairs(Y)
    n_similar = sum(r > 0 for *_, r in every)

    def distance(a, b):
        return 2 * (1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    costs = []
    for i, j, r in every:
        d = distance(v[i], v[j])
        # As printed: s log(d / gamma) + log(1 + gamma / d).
        printed = (r > 0) * math.log(d / gamma) + math.log(1 + gamma / d)
        costs.append(len(every) / (n_similar if r > 0 else len(every) - n_similar) * printed)
    total = np.mean(costs) + 0.3 * np.mean([math.log(1 + distance(abs(row), np.ones(4)) / gamma) for row in v])
    loss = deep.DCH(4, form="paper", gamma=gamma, quantization=0.3).make_loss(Y)
    assert float(loss(u, Y, 0, idx)) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("classes", [[0, 0], [0, 1]], ids=["similar", "dissimilar"])
def test_dch_costs_log_2_where_the_distance_is_gamma(classes):
    _, Y, idx = batch(classes)
    u = torch.tensor([[1.0, 1, 1, 1], [1, 1, -1, -1]], dtype=torch.float64)  # cosine 0: distance m / 2
    loss = deep.DCH(4, form="paper", gamma=2.0, quantization=0).make_loss(Y)
    assert float(loss(u, Y, 0, idx)) == pytest.approx(math.log(2), abs=1e-12)


@BOTH
def test_dpsh_with_the_batch_as_buffer(labels):
    u, Y, idx = batch(labels)
    v, n = u.numpy(), len(u)
    s = (Y @ Y.T).numpy() > 0
    total = np.mean([logistic(v[i] @ v[j] / 2, s[i, j]) for i in range(n) for j in range(n)])
    total += 50 * ((v - np.where(v >= 0, 1, -1)) ** 2).sum() / n**2
    loss = deep.DPSH(4).make_loss(Y).to(torch.float64)
    assert float(loss(u, Y, 0, idx)) == pytest.approx(total, abs=1e-12)


def test_dpsh_pairs_a_batch_with_all_rows_seen():
    u, Y, idx = batch(CLASSES)
    loss = deep.DPSH(4, quantization=0).make_loss(Y).to(torch.float64)
    loss(u[:4], Y[:4], 0, idx[:4])
    # Rows 4 and 5 have not been seen: they count as zeros and pull at nothing.
    later = u[[0, 4]].clone().requires_grad_()
    value = loss(later, Y[[0, 4]], 1, idx[[0, 4]])
    buffer = np.vstack([u[:5].numpy(), np.zeros((1, 4))])
    expected = np.mean(
        [logistic(u[i].numpy() @ buffer[j] / 2, CLASSES[i] == CLASSES[j]) for i in (0, 4) for j in range(6)]
    )
    assert value.item() == pytest.approx(expected, abs=1e-12)
    assert torch.equal(loss.outputs[5], torch.zeros(4, dtype=torch.float64))
    assert "outputs" in loss.state_dict()


def test_dpsh_takes_no_gradient_through_the_sign():
    u = torch.full((2, 4), 0.25, dtype=torch.float64, requires_grad=True)
    _, Y, idx = batch([0, 1])
    loss = deep.DPSH(4, quantization=1.0).make_loss(Y).to(torch.float64)
    loss.training = False
    loss(u, Y, 0, idx).backward()
    np.testing.assert_allclose(u.grad, 2 * (0.25 - 1) / 4)


@BOTH
def test_dsh(labels):
    u, Y, idx = batch(labels)
    v = u.numpy()
    costs = []
    for i, j, r in pairs(Y):
        if i < j:
            d = ((v[i] - v[j]) ** 2).sum()
            costs.append(d / 2 if r > 0 else max(0, 8 - d) / 2)
    total = np.mean(costs) + 0.01 * np.mean(abs(abs(v) - 1).sum(axis=1))
    assert float(deep.DSH(4).make_loss(Y)(u, Y, 0, idx)) == pytest.approx(total, abs=1e-12)


def test_dsh_of_equal_codes_of_a_class_is_zero():
    code = torch.tensor([[1.0, -1, 1, 1]], dtype=torch.float64).repeat(2, 1)
    _, Y, idx = batch([0, 0])
    assert float(deep.DSH(4).make_loss(Y)(code, Y, 0, idx)) == 0


def test_dsh_margin_is_half_the_bits():
    """Dissimilar codes cost nothing from m / 2 differing bits on."""
    ones = torch.ones(8, dtype=torch.float64)
    for differing in range(9):
        other = ones.clone()
        other[:differing] = -1
        _, Y, idx = batch([0, 1])
        value = deep.DSH(8).make_loss(Y)(torch.stack([ones, other]), Y, 0, idx)
        assert (float(value) == 0) == (differing >= 4)


@pytest.mark.parametrize("name", ["DHN", "DCH", "HashNet"])
def test_unknown_form(name):
    with pytest.raises(ValueError, match=f"The 'form' parameter of {name} must be a str among"):
        getattr(deep, name)(4, form="print").make_loss(np.eye(2))
