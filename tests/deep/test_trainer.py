"""The trainer: what it minimises, groups and schedules, resume after a kill, early stopping, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits

import hashlearn
import hashlearn as hl
from hashlearn.deep.hashers.pairwise import DCH
from hashlearn.deep.images import ImageSource
from hashlearn.deep.network import HashNetwork, build_head, moments, torch_threads
from hashlearn.deep.trainer import TrainingSettings, epoch_plan, make_optimizer, rate_factor
from hashlearn.models.format import ModelFileError
from hashlearn.progress import last_note, listening

torch.set_num_threads(1)
X, Y = (part[:300] for part in load_digits(return_X_y=True))
SMALL = {"n_bits": 8, "batch_size": 64, "random_state": 0, "n_jobs": 1}


def weights(hasher):
    return np.concatenate([array.ravel() for array in hasher.function_.tensors.values()])


def test_a_fit_is_the_plain_loop():
    """Linear head, Adam, GSDH_P* targets: the same weights as a loop written out, batch by batch."""
    hasher = hl.deep.GSDHPStar(n_epochs=2, **SMALL).fit(X, Y)
    targets = torch.from_numpy(hl.codes.unpack(hasher.codes_, 8)).float()
    seed = int(np.random.RandomState(0).randint(2**31))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layer = torch.nn.Linear(64, 8)
        torch.nn.init.normal_(layer.weight, std=0.01)
        torch.nn.init.zeros_(layer.bias)
    rows = torch.from_numpy((X - X.mean(axis=0)) / np.sqrt(X.var(axis=0).mean())).float()
    adam = torch.optim.Adam(
        [{"params": [layer.weight], "weight_decay": 1e-5}, {"params": [layer.bias]}],
        lr=1e-3,
    )
    for epoch in range(2):
        order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(300))
        for idx in order.tensor_split(5):
            adam.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(layer(rows[idx]), targets[idx]).backward()
            adam.step()
    np.testing.assert_allclose(hasher.function_.tensors["head.weight"], layer.weight.detach(), atol=1e-6)
    np.testing.assert_allclose(hasher.function_.tensors["head.bias"], layer.bias.detach(), atol=1e-6)


def test_groups_of_the_optimizer():
    network = HashNetwork(torch.nn.Linear(5, 4), build_head("linear", 4, 3))
    settings = TrainingSettings(
        optimizer="sgd",
        learning_rate=0.01,
        weight_decay=0.5,
        trunk_multiplier=1,
        bias_multiplier=2,
        head_multiplier=10,
        head_bias_multiplier=20,
    )
    groups = make_optimizer(network, settings).param_groups
    assert [round(group["lr"], 6) for group in groups] == [0.01, 0.02, 0.1, 0.2]
    assert [group["weight_decay"] for group in groups] == [0.5, 0, 0.5, 0]
    assert [group["params"][0].shape for group in groups] == [(4, 5), (4,), (3, 4), (3,)]
    frozen = make_optimizer(network, TrainingSettings(trunk_multiplier=0)).param_groups
    assert [group["params"][0].shape for group in frozen] == [(3, 4), (3,)]
    assert not network.trunk.weight.requires_grad


def test_schedules():
    assert [rate_factor(None, s) for s in (0, 0.9)] == [1, 1]
    assert rate_factor("cosine", 0) == 1
    assert rate_factor("cosine", 0.5) == pytest.approx(0.5)
    steps = [(0.5, 0.1), (0.75, 0.1)]
    assert [rate_factor(steps, s) for s in (0.49, 0.5, 0.8)] == pytest.approx([1, 0.1, 0.01])


def test_a_schedule_changes_what_is_learned_and_zero_stops_it():
    half = hl.deep.DCH(n_epochs=4, schedule=[(0.5, 0.0)], **SMALL).fit(X, Y)
    short = hl.deep.DCH(n_epochs=2, **SMALL).fit(X, Y)
    np.testing.assert_array_equal(weights(half), weights(short))
    assert not np.array_equal(weights(half), weights(hl.deep.DCH(n_epochs=4, **SMALL).fit(X, Y)))


@given(n_rows=st.integers(2, 600), batch_size=st.integers(2, 128), epoch=st.integers(0, 3))
def test_batches_are_even(n_rows, batch_size, epoch):
    """A rest of a few rows would move the network as far as a whole batch does, on the noise of its few pairs."""
    plan = epoch_plan(n_rows, TrainingSettings(batch_size=batch_size), epoch)
    sizes = [len(part) for part in plan]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 2
    # Three rows are one batch, whatever the size: a row alone has no pair. Else memory is what the user chose.
    assert max(sizes) <= max(batch_size, 3)
    np.testing.assert_array_equal(np.sort(np.concatenate(plan)), np.arange(n_rows))


def test_no_batch_of_a_training_is_a_small_rest(monkeypatch):
    """257 rows in batches of 64: five of 51 or 52, not four of 64 and one row."""
    sizes, original = [], DCH._loss

    def spy(hasher, kept, u, Y, step, idx):
        sizes.append(len(u))
        return original(hasher, kept, u, Y, step, idx)

    monkeypatch.setattr(DCH, "_loss", spy)
    hl.deep.DCH(n_epochs=1, **SMALL).fit(X[:257], Y[:257])
    assert sorted(sizes) == [51, 51, 51, 52, 52]


def test_many_labels_are_cut_from_the_sparse_matrix(monkeypatch):
    """Too many labels to hold as floats at once: the same training, batch by batch."""
    whole = hl.deep.DCH(n_epochs=2, **SMALL).fit(X, Y)
    monkeypatch.setattr("hashlearn.deep.trainer.MAX_DENSE_LABELS", 0)
    np.testing.assert_array_equal(weights(whole), weights(hl.deep.DCH(n_epochs=2, **SMALL).fit(X, Y)))


@pytest.mark.parametrize("name", ["DPSH", "DNNH", "OrthoHash", "DLBHC"])
@pytest.mark.parametrize("validation", [0.0, 0.2], ids=["all", "held-out"])
def test_resumed_is_the_same_as_never_stopped(name, validation, tmp_path):
    """Buffers of a loss, draws of triplets, batch statistics, the state of the optimizer: all of it goes on."""
    method = getattr(hl.deep, name)
    common = {**SMALL, "n_epochs": 4, "validation": validation, "patience": 10}
    whole = method(**common).fit(X, Y)
    path = tmp_path / "training.hl"

    def stop_in_the_third_epoch(phase, done, total):
        if done == total // 2 + 2:
            raise KeyboardInterrupt

    with listening(stop_in_the_third_epoch), pytest.raises(KeyboardInterrupt):
        method(checkpoint=path, **common).fit(X, Y)
    resumed = method(checkpoint=path, **common)
    steps_made = []
    with listening(lambda phase, done, total: steps_made.append((done, total))):
        resumed.fit(X, Y)
    assert steps_made[0][0] == steps_made[0][1] // 2 + 1
    np.testing.assert_array_equal(weights(whole), weights(resumed))
    np.testing.assert_array_equal(whole.losses_, resumed.losses_)
    np.testing.assert_array_equal(whole.scores_, resumed.scores_)
    # Once more: nothing is left to do.
    again = method(checkpoint=path, **common).fit(X, Y)
    np.testing.assert_array_equal(weights(again), weights(whole))


KILLED = """
import os, signal, sys
import torch
torch.set_num_threads(1)
import hashlearn as hl
from hashlearn.progress import listening
from sklearn.datasets import load_digits
X, y = (part[:300] for part in load_digits(return_X_y=True))
def kill(phase, done, total):
    if done == 13:
        os.kill(os.getpid(), signal.SIGKILL)
with listening(kill):
    hl.deep.CSQ(8, n_epochs=4, batch_size=64, random_state=0, n_jobs=1, checkpoint=sys.argv[1]).fit(X, y)
"""


@pytest.mark.slow
def test_resume_after_kill_9(tmp_path):
    path = tmp_path / "training.hl"
    environment = {**os.environ, "PYTHONPATH": str(Path(hashlearn.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", KILLED, path], env=environment, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["training.hl"]
    resumed = hl.deep.CSQ(n_epochs=4, checkpoint=path, **SMALL).fit(X, Y)
    np.testing.assert_array_equal(weights(resumed), weights(hl.deep.CSQ(n_epochs=4, **SMALL).fit(X, Y)))


def test_a_foreign_checkpoint_is_refused_and_kept(tmp_path):
    path = tmp_path / "training.hl"
    hl.deep.DCH(n_epochs=1, checkpoint=path, **SMALL).fit(X, Y)
    before = path.read_bytes()
    for changed, sentence in [
        (hl.deep.DCH(n_epochs=1, gamma=3.0, checkpoint=path, **SMALL), "gamma is 20.0 there and 3.0 here"),
        (hl.deep.DHN(n_epochs=1, checkpoint=path, **SMALL), "method is DCH there and DHN here"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            changed.fit(X, Y)
    with pytest.raises(ValueError, match="belongs to another training"):
        hl.deep.DCH(n_epochs=1, checkpoint=path, **SMALL).fit(X + 1.0, Y)
    assert path.read_bytes() == before
    with pytest.raises(ModelFileError, match="is the checkpoint of a training, no model"):
        hl.load(path)
    model = tmp_path / "model.hl"
    hl.save(hl.LSH(8).fit(X), model)
    with pytest.raises(ModelFileError, match="is a model and no checkpoint"):
        hl.deep.DCH(n_epochs=1, checkpoint=model, **SMALL).fit(X, Y)


def test_early_stopping_keeps_the_best_epoch():
    # A rate so high that later epochs are worse than the first.
    hasher = hl.deep.DCH(n_epochs=30, learning_rate=0.5, validation=0.3, patience=2, **SMALL).fit(X, Y)
    assert len(hasher.scores_) == hasher.n_iter_ == len(hasher.losses_) < 30
    assert hasher.best_epoch_ == int(np.argmax(hasher.scores_)) + 1 == hasher.n_iter_ - 2
    shorter = hl.deep.DCH(n_epochs=30, learning_rate=0.5, validation=0.3, patience=2, **SMALL)
    shorter.set_params(n_epochs=int(hasher.best_epoch_)).fit(X, Y)
    np.testing.assert_array_equal(weights(shorter), weights(hasher))


def test_too_little_to_hold_out():
    with pytest.raises(ValueError, match=r"validation=0\.005 holds out 2 of 300 labeled rows"):
        hl.deep.DCH(validation=0.005, **SMALL).fit(X, Y)


def test_ctrl_c_keeps_what_is_learned_where_that_is_asked_for():
    hasher = hl.deep.HashNet(n_epochs=10_000, **SMALL)

    def interrupt(phase, done, total):
        if done == 22:
            os.kill(os.getpid(), signal.SIGINT)

    with listening(interrupt), pytest.raises(KeyboardInterrupt):
        clone(hasher).fit(X, Y)
    with (
        listening(interrupt),
        pytest.warns(UserWarning, match=r"Stopped by Ctrl-C after 22 of 50000 steps \(training\)"),
        hl.keep_partial() as stops,
    ):
        hasher.fit(X, Y)
    assert stops == [("training", 22, 50000)]
    assert hasher.n_iter_ == 5
    assert hasher.encode(X).shape == (300, 1)


@pytest.mark.slow
def test_progress_tells_loss_and_time_left(capfd):
    notes = []
    with listening(lambda phase, done, total: notes.append((phase, done, total, last_note()))):
        hl.deep.DCH(n_epochs=2, validation=0.2, **SMALL).fit(X, Y)
    assert [note[:3] for note in notes] == [("training", k + 1, 8) for k in range(8)]
    assert notes[0][3].startswith("epoch 1/2, loss ")
    # Nobody listens: lines on standard error.
    hl.deep.DCH(n_epochs=1, verbose=1, backbone=Slow(), **SMALL).fit(X.astype(np.float32), Y)
    lines = capfd.readouterr().err
    assert "[hashlearn] training: 5/5, epoch 1/1, loss" in lines
    assert re.search(r"training: [234]/5, epoch 1/1, loss \S+, \d+ s left", lines)


class Slow(torch.nn.Module):
    """Rows as they are, after a while."""

    def forward(self, rows):
        time.sleep(0.3)
        return rows


def test_each_batch_of_images_has_its_own_random_numbers():
    """Batch k of a plan draws the same crops whatever comes before it."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 12, 12, 3), dtype=np.uint8)
    recipe = hl.deep.backbones.Recipe(resize=12)
    plan = [np.arange(4 * k, 4 * k + 4) for k in range(10)]
    with ImageSource(pixels, 8, recipe=recipe) as source:
        whole = [batch for _, batch in source.batches(plan, (7,))]
        changed = [np.arange(4)] * 9 + [plan[9]]
        assert torch.equal(whole[9], list(source.batches(changed, (7,)))[9][1])
        assert not torch.equal(whole[9], source.batch(plan[9], (7,)))
        assert not torch.equal(whole[0], source.batch(plan[0], (8,)))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_moments(kind):
    from scipy import sparse

    rows = sparse.csr_array(X) if kind == "sparse" else X
    mean, scale = moments(rows)
    np.testing.assert_allclose(mean, X.mean(axis=0), atol=1e-12)
    assert scale == pytest.approx(np.sqrt(((X - X.mean(axis=0)) ** 2).mean()))
    assert moments(np.full((5, 2), 0.1))[1] == 1.0


def test_a_loss_that_explodes_is_named():
    with pytest.raises(ValueError, match=r"The loss became (nan|inf) in epoch 1: lower learning_rate \(now 1e\+30\)"):
        hl.deep.DSH(optimizer="sgd", learning_rate=1e30, n_epochs=1, **SMALL).fit(X, Y)


def test_the_callers_random_numbers_and_threads_are_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with torch_threads(1):
        hl.deep.DCH(n_epochs=1, head="mlp", **SMALL).fit(X, Y)
        assert torch.get_num_threads() == 1
    assert torch.equal(torch.rand(3), expected)


def test_mixed_precision_runs_and_is_close():
    full = hl.deep.DCH(n_epochs=2, precision="full", **SMALL).fit(X, Y)
    mixed = hl.deep.DCH(n_epochs=2, precision="mixed", **SMALL).fit(X, Y)
    assert not np.array_equal(weights(full), weights(mixed))
    np.testing.assert_allclose(mixed.losses_, full.losses_, rtol=0.02)


def test_an_unknown_device_is_one_sentence():
    with pytest.raises(ValueError, match="The device 'warp' cannot be used here"):
        hl.deep.DCH(device="warp", **SMALL).fit(X, Y)
