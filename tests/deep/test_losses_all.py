"""What every loss must bear: any gradient checked by finite differences, huge outputs, odd batches."""

import numpy as np
import pytest
import torch
from every_loss import CLASSES, LOSSES, SETS, batch, matrix

from hashlearn.deep.losses import logcosh, softplus


@pytest.mark.parametrize("labels", [CLASSES, SETS], ids=["classes", "sets"])
@pytest.mark.parametrize("name", LOSSES)
def test_gradient_by_finite_differences(name, labels):
    u, Y, idx = batch(labels)
    loss = LOSSES[name](u.shape[1], matrix(Y))
    if name == "dpsh":
        loss.to(torch.float64)(u, Y, 0, idx)
        loss.training = False  # the buffer stays as it is: only the batch's own side has a gradient
    assert torch.autograd.gradcheck(lambda u: loss(u, Y, 400, idx), u.requires_grad_(), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [0.0, 1e4])
@pytest.mark.parametrize("name", LOSSES)
def test_finite_at_zero_and_for_huge_outputs_in_single_precision(name, scale):
    u, Y, idx = batch(CLASSES, n_bits=64, dtype=torch.float32)
    u = (scale * u).requires_grad_()
    value = LOSSES[name](64, matrix(Y))(u, Y, 10_000, idx)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(u.grad).all()


@pytest.mark.parametrize(
    "labels",
    [
        [0, 0, 0, 0],  # one class: no dissimilar pair
        [0, 1, 2, 3],  # no similar pair
        [0, 1],
        [[1, 1], [1, 1], [0, 1]],
    ],
    ids=["one-class", "no-positive", "two-rows", "all-similar-sets"],
)
@pytest.mark.parametrize("copies", [False, True], ids=["different", "duplicates"])
@pytest.mark.parametrize("name", LOSSES)
def test_odd_batches_are_finite(name, labels, copies):
    u, Y, idx = batch(labels, dtype=torch.float32)
    if copies:
        u = u[:1].repeat(len(u), 1)
    u.requires_grad_()
    value = LOSSES[name](u.shape[1], matrix(Y))(u, Y, 0, idx)
    value.backward()
    assert torch.isfinite(value)
    assert value >= -1e-6
    assert torch.isfinite(u.grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_order_of_rows_does_not_matter(name):
    if name.startswith("dnnh") or name == "hashnet-halves":
        pytest.skip("draws triplets by place, or splits the batch by place")
    u, Y, idx = batch(SETS)
    loss = LOSSES[name](u.shape[1], matrix(Y)).to(torch.float64)
    order = torch.from_numpy(np.random.default_rng(1).permutation(len(u)))
    first = loss(u, Y, 7, idx)
    torch.testing.assert_close(loss(u[order], Y[order], 7, idx[order]), first)


def test_primitives_are_exact_where_naive_ones_overflow():
    x = torch.tensor([-800.0, -30.0, 0.0, 0.5, 21.0, 89.0, 800.0], dtype=torch.float64)
    np.testing.assert_allclose(softplus(x), np.logaddexp(0, x.numpy()), rtol=1e-15)
    np.testing.assert_allclose(logcosh(x[1:5]), np.log(np.cosh(x[1:5].numpy())), rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(logcosh(x[[0, -1]]), 800 - np.log(2), rtol=1e-15)
    zero = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (softplus(zero) + logcosh(zero)).sum().backward()
    assert zero.grad.item() == 0.5
