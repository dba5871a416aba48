"""All tests hear Ctrl-C, even in the background of a shell, where programs are started so that they ignore it."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def hear_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
