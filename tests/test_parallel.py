"""Blocks over threads: order kept, nothing lost, errors passed on."""

import os
import platform
import resource
import subprocess
import sys

import numpy as np
import pytest

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
    from threadpoolctl import threadpool_info

    with one_blas_thread():
        assert {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"} == {1}


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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how glibc keeps memory")
def test_memory_of_a_block_serves_the_next_one():
    code = """
import resource
import numpy as np
from hashlearn.parallel import ordered_map

def work(_):
    arrays = [np.ones(3 * 2**17) for _ in range(8)]  # 24 MiB

for _ in ordered_map(work, range(4), 2): pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in ordered_map(work, range(40), 2): pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 40)
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=clean)
    pages = 24 * 2**20 / resource.getpagesize()
    assert float(done.stdout) < pages / 50
