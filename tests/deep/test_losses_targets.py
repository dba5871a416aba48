"""Losses with targets: codes, centres, triplets; stage 1 of CNNH."""

import math

import numpy as np
import pytest
import torch
from every_loss import CLASSES, SETS, batch, matrix, target_codes
from scipy import sparse

from hashlearn import codes, deep
from hashlearn.deep.hashers.classes import hash_centers
from hashlearn.deep.hashers.two_step import Stage1, similarity_codes
from hashlearn.deep.losses import CodeLoss

BOTH = pytest.mark.parametrize("labels", [CLASSES, SETS], ids=["classes", "sets"])


def cross_entropy(u, bit):
    return math.log1p(math.exp(-u)) if bit else math.log1p(math.exp(u))


def test_codes_as_targets_are_indexed_by_training_row():
    u, Y, _ = batch(CLASSES)
    targets = target_codes(20, 4)
    idx = torch.tensor([3, 19, 0, 7, 7, 12])
    expected = np.mean([cross_entropy(float(u[a, k]), targets[i, k] > 0) for a, i in enumerate(idx) for k in range(4)])
    assert float(CodeLoss(targets)(u, Y, 0, idx)) == pytest.approx(expected, abs=1e-12)
    assert float(CodeLoss((targets + 1) // 2)(u, Y, 0, idx)) == pytest.approx(expected, abs=1e-12)


@BOTH
def test_cnnh_plus_adds_the_labels(labels):
    u, Y, idx = batch(labels, n_bits=4 + 3)
    targets = target_codes(6, 4)
    bits = float(CodeLoss(targets)(u[:, :4], Y, 0, idx))
    total = 0.0
    for row, y in zip(u[:, 4:].numpy(), Y.numpy(), strict=True):
        log_share = row - math.log(np.exp(row).sum())
        total -= (y / y.sum()) @ log_share / len(u)
    assert float(CodeLoss(targets, classes=True)(u, Y, 0, idx)) == pytest.approx(bits + total, abs=1e-12)


def whole_L(stage):
    S = stage.table[np.ix_(stage.group, stage.group)]
    return stage.H @ stage.H.T - stage.n_bits * S


@BOTH
def test_stage_1_keeps_its_sums_and_never_raises_the_objective(labels):
    _, Y, _ = batch(labels * 4)
    rng = np.random.RandomState(0)
    stage = Stage1(matrix(Y), 5, rng)
    before = (whole_L(stage) ** 2).sum()
    assert stage.objective() == pytest.approx(before, rel=1e-12)
    for _ in range(300):
        stage.update(rng.randint(24), rng.randint(5))
        after = (whole_L(stage) ** 2).sum()
        assert stage.objective() == pytest.approx(after, rel=1e-10)
        assert after <= before * (1 + 1e-12)
        before = after
    np.testing.assert_allclose(stage.gram, stage.H.T @ stage.H, atol=1e-12)
    assert abs(stage.H).max() <= 1


def test_stage_1_steps_are_newton_steps():
    """Slope and curvature of |H H' - m S|^2 by finite differences in one entry."""
    _, Y, _ = batch(SETS)
    stage = Stage1(matrix(Y), 5, np.random.RandomState(0))
    stage.H *= 0.3
    stage._renew()
    i, j, eps = 2, 3, 1e-4

    def objective(shift):
        moved = stage.H.copy()
        moved[i, j] += shift
        return ((moved @ moved.T - whole_L_target) ** 2).sum()

    whole_L_target = stage.H @ stage.H.T - whole_L(stage)
    slope = (objective(eps) - objective(-eps)) / (2 * eps)
    curvature = (objective(eps) - 2 * objective(0) + objective(-eps)) / eps**2
    if curvature > 0:
        step = np.clip(-slope / curvature, -1 - stage.H[i, j], 1 - stage.H[i, j])
        assert stage.update(i, j) == pytest.approx(step, abs=1e-5)
    else:
        assert stage.update(i, j) == 0


def test_stage_1_gives_a_codeword_a_class_near_the_plotkin_bound():
    classes = np.repeat(np.arange(4), 10)
    labels = sparse.csr_matrix(np.eye(4)[classes])
    found, objective = similarity_codes(labels, 12, np.random.RandomState(0), max_iter=10)
    assert np.all(np.diff(objective) < 0)
    words = np.unique(np.c_[classes, found], axis=0)
    assert len(words) == 4
    packed = codes.pack(words[:, 1:])
    mean = codes.hamming_distances(packed, packed)[np.triu_indices(4, 1)].mean()
    assert 0.9 * 12 * 4 / 6 < mean <= 12 * 4 / 6


@BOTH
def test_csq(labels):
    u, Y, idx = batch(labels)
    loss = deep.CSQ(4).make_loss(Y, np.random.RandomState(1))
    t = np.tanh(u.numpy())
    centers = hash_centers(3, 4, np.random.RandomState(1))
    total = 0.0
    for i in range(6):
        votes = Y[i].numpy() @ centers
        for k in range(4):
            target = bool(loss.targets[i, k]) if votes[k] == 0 else votes[k] > 0
            share = (t[i, k] + 1) / 2
            total -= math.log(share if target else 1 - share) / 24
    total += 0.05 * np.mean((abs(t) - 1) ** 2)
    assert float(loss(u, Y, 0, idx)) == pytest.approx(total, abs=1e-12)


def test_csq_ties_are_decided_by_one_vector():
    labels = sparse.csr_matrix(np.ones((5, 2)))
    loss = deep.CSQ(16).make_loss(labels, np.random.RandomState(0))
    assert torch.equal(loss.targets, loss.targets[:1].repeat(5, 1))
    assert 0 < loss.targets[0].sum() < 16


@pytest.mark.parametrize(("n_labels", "n_bits"), [(10, 16), (16, 16), (64, 64), (3, 2)])
def test_hadamard_centres(n_labels, n_bits):
    centers = hash_centers(n_labels, n_bits, np.random.RandomState(0)).astype(int)
    gram = centers @ centers.T
    if n_labels <= n_bits:
        np.testing.assert_array_equal(gram, n_bits * np.eye(n_labels))
    else:
        assert np.max(gram - n_bits * np.eye(n_labels)) <= 0


def test_no_column_of_many_hadamard_centres_is_constant_but_one():
    """Flips and shuffles move the constant column to a random place with a random sign."""
    places = set()
    for seed in range(8):
        centers = hash_centers(16, 16, np.random.RandomState(seed)).astype(int)
        (place,) = np.flatnonzero(abs(centers.sum(axis=0)) == 16)
        places.add((place, centers[0, place]))
    assert len(places) > 4


@pytest.mark.parametrize(("n_labels", "n_bits"), [(10, 48), (40, 16), (1, 12), (100, 6)])
def test_random_centres(n_labels, n_bits):
    centers = hash_centers(n_labels, n_bits, np.random.RandomState(0)).astype(int)
    assert centers.shape == (n_labels, n_bits)
    assert set(np.unique(centers)) == {-1, 1}
    if (n_labels, n_bits) == (10, 48):
        distances = ((48 - centers @ centers.T) / 2)[np.triu_indices(10, 1)]
        assert distances.min() > 12
        assert distances.mean() >= 24


@BOTH
def test_orthohash(labels):
    u, Y, idx = batch(labels)
    loss = deep.OrthoHash(4, scale=5.0, margin=0.3).make_loss(Y, np.random.RandomState(0))
    centers = np.sign(loss.centers.double().numpy())
    total = 0.0
    for row, y in zip(u.numpy(), Y.numpy(), strict=True):
        logits = [5 * (row @ c / np.linalg.norm(row) / 2 - 0.3 * own) for c, own in zip(centers, y, strict=True)]
        total -= (y / y.sum()) @ (logits - np.log(np.exp(logits).sum())) / 6
    assert float(loss(u, Y, 0, idx)) == pytest.approx(total, abs=1e-6)
    torch.testing.assert_close(loss(7 * u, Y, 0, idx), loss(u, Y, 0, idx))


@BOTH
@pytest.mark.parametrize("band", [None, 0.1])
def test_dnnh(labels, band):
    u, Y, idx = batch(labels, n_bits=3)
    hasher = deep.DNNH(3, margin=0.5, per_anchor=4, band=band, random_state=0)
    loss = hasher.make_loss(Y)
    f = 1 / (1 + np.exp(-u.numpy()))
    if band is not None:
        f = np.where(f < 0.5 - band, 0, np.where(f > 0.5 + band, 1, f))
    costs = [
        max(0, 0.5 + ((f[a] - f[p]) ** 2).sum() - ((f[a] - f[n]) ** 2).sum())
        for a, p, n in zip(*hasher.triplets(Y, loss.seed, 9), strict=True)
    ]
    assert float(loss(u, Y, 9, idx)) == pytest.approx(np.mean(costs), abs=1e-12)


@BOTH
def test_dnnh_triplets_are_valid_and_all_turn_up(labels):
    _, Y, _ = batch(labels)
    hasher = deep.DNNH(4, per_anchor=50, random_state=0)
    shared = (Y @ Y.T).numpy()
    n = len(Y)
    drawn = {
        tuple(map(int, triplet)) for step in range(10) for triplet in zip(*hasher.triplets(Y, 0, step), strict=True)
    }
    valid = {
        (a, p, q)
        for a in range(n)
        for p in range(n)
        for q in range(n)
        if p != a and shared[a, p] > 0 and shared[a, q] < shared[a, p]
    }
    assert drawn == {t for t in valid if t[2] != t[0]}


def test_dnnh_draws_by_step_alone():
    _, Y, _ = batch(CLASSES)
    hasher, seed = deep.DNNH(4, random_state=0), deep.DNNH(4, random_state=0).make_loss(Y).seed
    assert seed == hasher.make_loss(Y).seed
    first, again = (hasher.triplets(Y, seed, 3) for _ in range(2))
    other = hasher.triplets(Y, seed, 4)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_dnnh_margin_in_bits():
    """All codes equal: the margin. Negatives at least the margin farther: nothing."""
    _, Y, idx = batch([0, 0, 1])
    equal = torch.full((3, 8), 3.0, dtype=torch.float64)
    assert float(deep.DNNH(8).make_loss(Y)(equal, Y, 0, idx)) == 2.0
    far = 1e3 * torch.ones(3, 8, dtype=torch.float64)
    far[2, :2] = -1e3
    assert float(deep.DNNH(8).make_loss(Y)(far, Y, 0, idx)) == 0.0
    far[2, 1] = 1e3
    assert float(deep.DNNH(8).make_loss(Y)(far, Y, 0, idx)) == 1.0
