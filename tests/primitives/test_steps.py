"""Long loops: progress told, and Ctrl-C between two steps keeps what is learned."""

import os
import signal

import pytest

from hashlearn.primitives import steps
from hashlearn.progress import listening


def test_all_steps_are_made_and_reported():
    heard = []
    with listening(lambda *report: heard.append(report)):
        assert list(steps(3, "rounds")) == [0, 1, 2]
    assert heard == [("rounds", 1, 3), ("rounds", 2, 3), ("rounds", 3, 3)]


def test_ctrl_c_ends_the_loop_after_the_step_under_way():
    def interrupted_in_the_third() -> list[int]:
        made = []
        for step in steps(10, "rounds"):
            if step == 2:
                os.kill(os.getpid(), signal.SIGINT)
            made.append(step)
        return made

    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(UserWarning, match=r"Stopped by Ctrl-C after 3 of 10 steps \(rounds\)"):
        made = interrupted_in_the_third()
    assert made == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_interrupts_at_once():
    with pytest.raises(KeyboardInterrupt):
        for _ in steps(10, "rounds"):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)


def test_who_ignores_ctrl_c_is_not_stopped():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        made = []
        for step in steps(3, "rounds"):
            os.kill(os.getpid(), signal.SIGINT)
            made.append(step)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert made == [0, 1, 2]


def test_a_stopped_fit_is_usable():
    """Ctrl-C while MLH learns: the hasher is fitted with what it had."""
    import numpy as np
    from sklearn.datasets import load_digits

    from hashlearn import MLH

    X, y = load_digits(return_X_y=True)
    hasher = MLH(n_bits=8, n_epochs=10_000, epoch_pairs=1000, random_state=0)

    def interrupt(phase: str, done: int, total: int) -> None:
        if done == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with listening(interrupt), pytest.warns(UserWarning, match="keeping what is learned"):
        hasher.fit(X, y)
    assert hasher.encode(X).shape == (len(X), 1)
    assert len(np.unique(hasher.codes_)) > 1
