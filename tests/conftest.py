"""All tests hear Ctrl-C, even in the background of a shell, where programs are started so that they ignore it."""

import signal
import sys

import pytest

if sys.platform == "win32":
    # These tests fork, kill processes with signals, read /proc, or start servers on Unix sockets. Single tests of other
    # files are skipped where they stand, and those of stores on servers are skipped with HASHLEARN_NO_SERVERS=1.
    collect_ignore = [
        "bench/test_bench_run.py",
        "cli/test_cli_index.py",
        "cli/test_cli_interrupt.py",
        "collection/crash_child.py",
        "collection/milvus_box.py",
        "collection/test_embedded_crash.py",
        "collection/test_memory.py",
        "collection/test_milvus.py",
        "collection/test_postgres.py",
        "deep/test_extract.py",
        "deep/test_table3.py",
        "deep/test_trainer.py",
        "rows/test_cluster.py",
        "rows/test_identity.py",
        "rows/test_round_checkpoints.py",
        "test_steps.py",
        "service",
        "test_parallel.py",
    ]

SERVERS = {"milvus", "milvus_server", "milvus_uri", "postgres", "postgres_server", "postgres_uri"}
BROWSER = "explorer_folders"


def pytest_collection_modifyitems(items):
    """Mark tests that start a server or a browser as slow: it shows in their fixtures and parameters."""
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        asked = {*item.fixturenames, *(value for value in parameters if isinstance(value, str))}
        if asked & {BROWSER, *SERVERS}:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def hear_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
