"""Blocks over threads: order kept, nothing lost, errors passed on."""

import subprocess
import sys
import threading
from contextlib import ExitStack
from queue import SimpleQueue

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from hashlearn import parallel
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks, thread_count


@pytest.mark.parametrize("n_rows", [0, 1, 2047, 2048, 2049, 10_000])
def test_blocks_cover_every_row_once(n_rows):
    covered = np.concatenate([np.arange(n_rows)[block] for block in row_blocks(n_rows)] or [np.arange(0)])
    np.testing.assert_array_equal(covered, np.arange(n_rows))


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_come_in_order(n_jobs):
    assert list(ordered_map(lambda k: k * k, list(range(40)), n_jobs)) == [k * k for k in range(40)]


def test_an_error_reaches_the_caller():
    def fail(k: int) -> int:
        if k == 7:
            raise KeyError("seven")
        return k

    with pytest.raises(KeyError, match="seven"):
        list(ordered_map(fail, list(range(20)), 2))


def test_thread_count():
    cores = thread_count(None)
    assert cores >= 1
    assert thread_count(3) == 3
    assert thread_count(-1) == cores
    with pytest.raises(ValueError, match="n_jobs"):
        thread_count(0)


def test_blas_is_held_to_one_thread():
    with one_blas_thread():
        assert blas_threads() == {1}


def has_limits_of_threads(library):
    return library["internal_api"] == "mkl" or library.get("threading_layer") == "openmp"


def blas_threads():
    """Of the libraries that have one limit for the whole process."""
    libraries = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    return {lib["num_threads"] for lib in libraries if not has_limits_of_threads(lib)}


def own_threads():
    """Of those that have one for every thread; those that come with faiss do."""
    libraries = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    return [lib["num_threads"] for lib in libraries if has_limits_of_threads(lib)]


class Holder(threading.Thread):
    """A thread that holds BLAS, and goes on living when it has let go."""

    def __init__(self):
        super().__init__(daemon=True)
        self.orders, self.answers = SimpleQueue(), SimpleQueue()
        self.start()

    def run(self):
        with ExitStack() as stack:
            for order in iter(self.orders.get, "end"):
                if order == "hold":
                    stack.enter_context(one_blas_thread())
                elif order == "leave":
                    stack.close()
                self.answers.put(own_threads() if order == "look" else blas_threads())

    def __call__(self, order):
        self.orders.put(order)
        return self.answers.get(timeout=20)


@pytest.fixture
def holders():
    both = [Holder(), Holder()]
    yield both
    for holder in both:
        holder.orders.put("end")
        holder.join(timeout=20)


@pytest.mark.parametrize("last", [0, 1], ids=["the first is the last to leave", "the first leaves first"])
def test_the_hold_ends_with_the_last_of_all_threads(holders, last):
    with threadpool_limits(2, user_api="blas"):
        assert [holder("hold") for holder in holders] == [{1}, {1}]
        assert holders[1 - last]("leave") == {1}
        assert holders[last]("leave") == {2}
        assert holders[0]("hold") == {1}
        assert holders[0]("leave") == {2}


@pytest.mark.parametrize("last", [0, 1], ids=["the first is the last to leave", "the first leaves first"])
def test_limits_of_threads_are_theirs_again(holders, last):
    import faiss  # noqa: F401

    before = [holder("look") for holder in holders]
    for holder in holders:
        holder("hold")
        assert set(holder("look")) <= {1}
    for holder in (holders[1 - last], holders[last]):
        holder("leave")
    assert [holder("look") for holder in holders] == before


def test_limits_of_others_hold_again_afterwards(holders):
    before = blas_threads()
    with threadpool_limits(3, user_api="blas"):
        assert holders[0]("hold") == {1}
        assert holders[0]("leave") == {3}
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {3}
    assert blas_threads() == before


class OwnLimits(threading.local):
    """A library like MKL: every thread has a limit of its own."""

    threads = 4

    def get_num_threads(self):
        return self.threads

    def set_num_threads(self, threads):
        self.threads = threads


def test_every_thread_limits_libraries_whose_limit_is_its_own(monkeypatch):
    library = OwnLimits()
    monkeypatch.setattr(parallel, "_libraries_with_thread_limits", lambda controller: [library])
    assert set(ordered_map(lambda _: library.threads, range(50), 3)) == {1}
    with one_blas_thread(), one_blas_thread():
        assert library.threads == 1
    assert library.threads == 4


def test_the_blas_of_faiss_is_held_in_every_thread():
    """Its wheels bring one of those; where they do not, the others are asked."""
    import faiss  # noqa: F401

    def seen(_):
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    assert {count for counts in ordered_map(seen, range(10), 3) for count in counts} == {1}


def test_a_blas_that_was_loaded_later_is_held_too():
    code = """
import sys
import numpy
from hashlearn.parallel import one_blas_thread
with one_blas_thread():
    pass
assert "scipy.linalg" not in sys.modules
import scipy.linalg  # brings a BLAS of its own
from threadpoolctl import threadpool_info
with one_blas_thread():
    print({lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"})
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "{1}\n"
