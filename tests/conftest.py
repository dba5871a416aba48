"""All tests hear Ctrl-C, even in the background of a shell, where programs are started so that they ignore it."""

import signal
import sys

import pytest

if sys.platform == "win32":
    # These tests fork, kill processes with signals, read /proc, or start servers on Unix sockets.
    collect_ignore = [
        "bench/test_bench_run.py",
        "cli/test_cli_index.py",
        "cli/test_cli_interrupt.py",
        "collection",
        "deep/test_extract.py",
        "deep/test_table3.py",
        "deep/test_trainer.py",
        "fitting/test_cluster.py",
        "fitting/test_identity.py",
        "fitting/test_round_checkpoints.py",
        "primitives/test_steps.py",
        "service",
        "test_parallel.py",
    ]

SERVERS = {"milvus", "milvus_server", "milvus_uri", "postgres", "postgres_server", "postgres_uri"}
BROWSER = "explorer_folders"


def pytest_collection_modifyitems(items):
    """Tests that start a server or a browser are slow; whether they do shows in their fixtures and parameters."""
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        asked = {BROWSER, *SERVERS} & {*item.fixturenames, *(value for value in parameters if isinstance(value, str))}
        if asked:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def hear_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
