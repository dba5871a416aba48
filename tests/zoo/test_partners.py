"""Partners of rows: distinct, limited, by shared label; pair losses as sums over signs."""

import numpy as np
import pytest
from zoo_data import label_sets

from hashlearn.labels import label_matrix
from hashlearn.zoo.bases.pairs import draw_partners, loss_table


def exact_loss(loss, d, similar, r):
    if loss == "ksh":
        return ((1 if similar else -1) - (1 - 2 * d / r)) ** 2
    if loss == "bre":
        return ((not similar) - d / r) ** 2
    return (d / r) ** 2 if similar else max(0.5 - d / r, 0) ** 2


@pytest.mark.parametrize(("loss", "scale"), [("ksh", 1), ("bre", 1), ("hinge", 4)])
def test_tables_are_the_losses_in_whole_numbers(loss, scale):
    for similar in (True, False):
        expected = [scale * 49 * exact_loss(loss, d, similar, 7) for d in range(8)]
        np.testing.assert_allclose(loss_table(loss, similar, 7), expected)
        steps = -np.diff(loss_table(loss, similar, 7))
        assert (steps <= 0).all() if similar else (steps >= 0).all()


@pytest.mark.parametrize("loss", ["ksh", "bre", "hinge"])
def test_energy_differences_are_loss_differences(loss):
    rng = np.random.RandomState(0)
    pairs = draw_partners(label_matrix(np.arange(12) % 3), 4, rng)
    earlier = rng.choice([-1, 1], size=(12, 4))
    distance = (earlier[pairs.left] != earlier[pairs.right]).sum(axis=1)
    gain = pairs.gain(loss, distance, 5)
    tables = {similar: loss_table(loss, similar, 5) for similar in (True, False)}

    def total(z):
        d = distance + (z[pairs.left] != z[pairs.right])
        return sum(int(tables[bool(s)][k]) for s, k in zip(pairs.similar, d, strict=True))

    def energy(z):
        return int((gain * z[pairs.left] * z[pairs.right]).sum())

    z1, z2 = rng.choice([-1, 1], size=(2, 12))
    assert energy(z1) != energy(z2)
    assert 2 * (total(z1) - total(z2)) == energy(z1) - energy(z2)


def test_partners_are_distinct_limited_and_by_shared_label():
    Y = label_sets()
    pairs = draw_partners(label_matrix(Y), 5, np.random.RandomState(0))
    assert (pairs.left < pairs.right).all()
    assert len({*zip(pairs.left, pairs.right, strict=True)}) == len(pairs.left)
    np.testing.assert_array_equal((Y @ Y.T)[pairs.left, pairs.right] > 0, pairs.similar)
    assert len(pairs.left) <= 80 * 10
    assert pairs.row_sums(np.ones(len(pairs.left))).min() >= 8  # close to 5 + 5 for every row
