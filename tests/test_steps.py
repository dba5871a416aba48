"""Long loops: progress told; Ctrl-C interrupts them, or keeps what is learned where that was asked for."""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from small_methods import small

import hashlearn as hl
from hashlearn.progress import listening, steps

LOOPS = {
    "adgh", "aibc", "bre", "cgh", "cosdish", "dgh", "dserh", "fasth", "fsdh-gui", "fssh", "hmoh", "ksdh", "ksh",
    "ldahash", "lin-lin", "lin-v", "mlh", "nsh", "oph", "rph", "rsh", "scdh", "sdh", "ssh", "top-rsbc", "trh", "tsh",
}  # fmt: skip


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300]


def test_all_steps_are_made_and_reported():
    heard = []
    with listening(lambda *report: heard.append(report)):
        assert list(steps(3, "rounds")) == [0, 1, 2]
    assert heard == [("rounds", 1, 3), ("rounds", 2, 3), ("rounds", 3, 3)]


def interrupted_in_the_third(made):
    for step in steps(10, "rounds"):
        if step == 2:
            ctrl_c()
        made.append(step)


def test_ctrl_c_interrupts_as_everywhere():
    made = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_in_the_third(made)
    assert made == [0, 1]


def test_ctrl_c_ends_the_loop_after_the_step_under_way_where_that_is_asked_for():
    before = signal.getsignal(signal.SIGINT)
    made = []
    with (
        pytest.warns(UserWarning, match=r"Stopped by Ctrl-C after 3 of 10 steps \(rounds\)"),
        hl.keep_partial() as stops,
    ):
        interrupted_in_the_third(made)
    assert signal.getsignal(signal.SIGINT) is before
    assert made == [0, 1, 2]
    assert stops == [("rounds", 3, 10)]
    with pytest.raises(KeyboardInterrupt):
        interrupted_in_the_third(made)


def test_a_second_ctrl_c_interrupts_at_once():
    with hl.keep_partial() as stops, pytest.raises(KeyboardInterrupt):
        for _ in steps(10, "rounds"):
            ctrl_c()
            ctrl_c()
    assert stops == []


def test_ctrl_c_outside_of_a_loop_interrupts():
    with pytest.raises(KeyboardInterrupt), hl.keep_partial():
        ctrl_c()


def test_who_ignores_ctrl_c_is_not_stopped():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        made = []
        with hl.keep_partial():
            for step in steps(3, "rounds"):
                ctrl_c()
                made.append(step)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert made == [0, 1, 2]


def test_only_the_main_thread_can_ask():
    with ThreadPoolExecutor(1) as pool, hl.keep_partial():
        with pytest.raises(RuntimeError, match="main thread only"):
            pool.submit(hl.keep_partial().__enter__).result()
        # A thread that was handed the context makes its steps; it could not hear Ctrl-C.
        assert pool.submit(copy_context().run, lambda: list(steps(3, "rounds"))).result() == [0, 1, 2]
    assert threading.current_thread() is threading.main_thread()


class StopAfterFirst:
    """Sends Ctrl-C after the first step of any loop, and notes which loops there were."""

    def __init__(self, monkeypatch):
        self.loops = []
        original = steps

        def noted(total, phase, *more):
            self.loops.append(phase)
            for step in original(total, phase, *more):
                yield step
                if step == 0 and total > 1:
                    ctrl_c()

        places = ("hashlearn.hashers.", "hashlearn.pairwise.", "hashlearn.zoo.")
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith(places) and hasattr(module, "steps"):
                monkeypatch.setattr(module, "steps", noted)


@pytest.mark.parametrize("name", hl.methods.METHODS)
def test_every_method_that_learns_in_steps(name, digits, monkeypatch):
    """Interrupted, or usable with what it had."""
    loops = StopAfterFirst(monkeypatch).loops
    hasher = small(name)
    try:
        clone(hasher).fit(*digits)
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    assert interrupted == (name in LOOPS)
    if not interrupted:
        assert loops == []
        return
    with pytest.warns(UserWarning, match="keeping what is learned"), hl.keep_partial() as stops:
        hasher.fit(*digits)
    assert [stop.done for stop in stops] == [1] * len(stops)
    assert np.isfinite(hasher.decision_function(digits[0])).all()
    assert len(np.unique(hasher.encode(digits[0]))) > 1
    assert hasher.codes_.shape == (300, 1)


def test_a_search_for_parameters_ends(digits):
    """The first Ctrl-C ends it, and no candidate is scored half trained."""
    fits = []

    def interrupt(phase, done, total):
        if done == 2:
            fits.append(1)
            ctrl_c()

    search = GridSearchCV(hl.KSH(8, n_samples=100, random_state=0), {"n_landmarks": [20, 30]}, cv=2)
    with listening(interrupt), pytest.raises(KeyboardInterrupt):
        search.fit(*digits)
    assert fits == [1]
    assert not hasattr(search, "best_params_")


def test_a_checkpoint_and_a_partial_fit_exclude_each_other(digits, tmp_path):
    with hl.keep_partial(), pytest.raises(ValueError, match=r"give checkpoint= or use keep_partial\(\), not both"):
        small("ksdh").fit_chunks(*digits, checkpoint=tmp_path / "point")
    assert not (tmp_path / "point").exists()
